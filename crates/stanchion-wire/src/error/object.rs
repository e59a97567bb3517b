//! A JSON object whose values stay the bytes that were sent.

use std::fmt;

use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, Visitor},
};
use serde_json::value::RawValue;

/// The members of a JSON object, in the order in which they were sent. Of a key that comes twice, the last counts.
pub(crate) struct Object<'a>(Vec<(String, &'a RawValue)>);

impl<'a> Object<'a> {
    pub(crate) fn parse(text: &'a str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }

    pub(crate) fn from_raw(raw: &'a RawValue) -> Option<Self> {
        Self::parse(raw.get())
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &'a RawValue)> {
        self.0.iter().map(|(key, value)| (key.as_str(), *value))
    }

    /// A member that is there and not null.
    pub(crate) fn get(&self, key: &str) -> Option<&'a RawValue> {
        let (_, value) = self.0.iter().rev().find(|(name, _)| name == key)?;
        (value.get() != "null").then_some(*value)
    }

    /// A member that is a string.
    pub(crate) fn text(&self, key: &str) -> Option<String> {
        serde_json::from_str(self.get(key)?.get()).ok()
    }

    /// A member that is an object.
    pub(crate) fn object(&self, key: &str) -> Option<Self> {
        Self::from_raw(self.get(key)?)
    }

    /// The elements of a member that is an array.
    pub(crate) fn array(&self, key: &str) -> Option<Vec<&'a RawValue>> {
        serde_json::from_str(self.get(key)?.get()).ok()
    }

    /// A member that is a string or a number, as text: codes come as both.
    pub(crate) fn scalar(&self, key: &str) -> Option<String> {
        scalar(self.get(key)?)
    }
}

/// A string or a number, as text.
pub(crate) fn scalar(raw: &RawValue) -> Option<String> {
    match raw.get().as_bytes().first()? {
        b'"' => serde_json::from_str(raw.get()).ok(),
        b'-' | b'0'..=b'9' => Some(raw.get().to_owned()),
        _ => None,
    }
}

/// JSON that no client takes for several lines: httpx, among others, ends a line at these three, which JSON allows in
/// strings.
pub(crate) fn one_line(json: String) -> String {
    if !json.contains(['\u{85}', '\u{2028}', '\u{2029}']) {
        return json;
    }
    json.replace('\u{85}', "\\u0085").replace('\u{2028}', "\\u2028").replace('\u{2029}', "\\u2029")
}

impl<'de: 'a, 'a> Deserialize<'de> for Object<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members;

        impl<'de> Visitor<'de> for Members {
            type Value = Object<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Object(members))
            }
        }

        deserializer.deserialize_map(Members)
    }
}

#[cfg(test)]
mod tests {
    use super::Object;

    #[test]
    fn the_last_of_two_members_counts_and_null_is_none() {
        let object = Object::parse(r#"{"a":1,"b":null,"a":"two","c":{"d":[1,"x"]}}"#).unwrap();
        assert_eq!(object.text("a").as_deref(), Some("two"));
        assert!(object.get("b").is_none());
        assert_eq!(object.object("c").unwrap().array("d").unwrap().len(), 2);
        assert!(Object::parse("[]").is_none());
        assert!(Object::parse("{").is_none());
    }

    #[test]
    fn a_scalar_is_a_string_or_a_number() {
        let object = Object::parse(r#"{"s":"1302","n":503,"o":{},"b":true}"#).unwrap();
        let all: Vec<_> = ["s", "n", "o", "b"].iter().map(|key| object.scalar(key)).collect();
        assert_eq!(all, [Some("1302".into()), Some("503".into()), None, None]);
    }
}
