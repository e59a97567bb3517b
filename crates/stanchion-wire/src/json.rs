//! JSON that is read once and looked at: it borrows from its text, and keeps the members of an object as they come, since there
//! are few of them and each is asked for once or twice. What [`serde_json`] takes and refuses is taken and refused here.

use std::{borrow::Cow, collections::HashMap, fmt};

use serde::{
    Deserialize, Deserializer,
    de::{Error, MapAccess, SeqAccess, Visitor},
};

/// How many members most objects of a reply have at most.
const USUAL_MEMBERS: usize = 8;
/// How many members are looked through for another of the same name.
const MANY_MEMBERS: usize = 32;
/// What `serde_json` makes of a number, an object of this one member, where somebody in the same program has its feature
/// `arbitrary_precision` on.
const EXACT_NUMBER: &str = "$serde_json::private::Number";

/// A JSON value.
#[derive(Clone, PartialEq)]
pub(crate) enum Value<'a> {
    Null,
    Bool(bool),
    Number(Number),
    String(Cow<'a, str>),
    Array(Vec<Value<'a>>),
    Object(Object<'a>),
}

/// A number, as it is written.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Number {
    Natural(u64),
    Negative(i64),
    Float(f64),
}

/// The members of an object, in their order.
#[derive(Clone, PartialEq)]
pub(crate) struct Object<'a>(Vec<(Cow<'a, str>, Value<'a>)>);

/// Where the members of an object with many are.
type Places<'a> = HashMap<Cow<'a, str>, usize>;

impl<'a> Value<'a> {
    /// A JSON text.
    pub(crate) fn parse(text: &'a str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }

    /// The member of this name.
    pub(crate) fn get(&self, key: &str) -> Option<&Self> {
        self.as_object()?.0.iter().find(|(name, _)| name == key).map(|(_, value)| value)
    }

    pub(crate) fn as_object(&self) -> Option<&Object<'a>> {
        if let Self::Object(members) = self { Some(members) } else { None }
    }

    pub(crate) fn as_array(&self) -> Option<&Vec<Self>> {
        if let Self::Array(items) = self { Some(items) } else { None }
    }

    pub(crate) fn as_str(&self) -> Option<&str> {
        if let Self::String(text) = self { Some(text) } else { None }
    }

    pub(crate) fn as_bool(&self) -> Option<bool> {
        if let Self::Bool(is) = self { Some(*is) } else { None }
    }

    pub(crate) fn as_u64(&self) -> Option<u64> {
        if let Self::Number(Number::Natural(number)) = self { Some(*number) } else { None }
    }

    pub(crate) fn as_f64(&self) -> Option<f64> {
        match self {
            Self::Number(Number::Natural(number)) => Some(*number as f64),
            Self::Number(Number::Negative(number)) => Some(*number as f64),
            Self::Number(Number::Float(number)) => Some(*number),
            _ => None,
        }
    }

    pub(crate) fn is_null(&self) -> bool {
        matches!(self, Self::Null)
    }
}

impl<'a> Object<'a> {
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &Value<'a>)> {
        self.0.iter().map(|(key, value)| (&**key, value))
    }

    pub(crate) fn values(&self) -> impl Iterator<Item = &Value<'a>> {
        self.0.iter().map(|(_, value)| value)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds a member, or replaces the one of its name: of several the last counts, as for most readers.
    fn insert(&mut self, places: &mut Option<Places<'a>>, key: Cow<'a, str>, value: Value<'a>) {
        let members = &mut self.0;
        // Nobody looks through many for each of many.
        if members.len() == MANY_MEMBERS && places.is_none() {
            *places = Some(members.iter().enumerate().map(|(place, (name, _))| (name.clone(), place)).collect());
        }
        let place = match places {
            None => members.iter().position(|(name, _)| *name == key),
            Some(places) => places.get(&key).copied(),
        };
        match (place, places) {
            (Some(place), _) => members[place].1 = value,
            (None, places) => {
                if let Some(places) = places {
                    places.insert(key.clone(), members.len());
                } else if members.is_empty() {
                    members.reserve(USUAL_MEMBERS);
                }
                members.push((key, value));
            }
        }
    }
}

impl Number {
    fn parse(digits: &str) -> Option<Self> {
        let natural = digits.parse().map(Self::Natural);
        let whole = natural.or_else(|_| digits.parse().map(Self::Negative));
        whole.ok().or_else(|| digits.parse().ok().filter(|number: &f64| number.is_finite()).map(Self::Float))
    }

    /// How many bytes it takes as text.
    pub(crate) fn length(self) -> usize {
        let text = match self {
            Self::Natural(number) => serde_json::to_string(&number),
            Self::Negative(number) => serde_json::to_string(&number),
            Self::Float(number) => serde_json::to_string(&number),
        };
        text.map_or(0, |text| text.len())
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Value<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ValueVisitor)
    }
}

struct ValueVisitor;

impl<'de> Visitor<'de> for ValueVisitor {
    type Value = Value<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value<'de>, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, is: bool) -> Result<Value<'de>, E> {
        Ok(Value::Bool(is))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Value<'de>, E> {
        Ok(Value::Number(Number::Natural(number)))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Value<'de>, E> {
        Ok(Value::Number(Number::Negative(number)))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Value<'de>, E> {
        Ok(Value::Number(Number::Float(number)))
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Value<'de>, E> {
        Ok(Value::String(Cow::Borrowed(text)))
    }

    fn visit_str<E>(self, text: &str) -> Result<Value<'de>, E> {
        Ok(Value::String(Cow::Owned(text.to_owned())))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value<'de>, A::Error> {
        let mut array = Vec::new();
        while let Some(item) = items.next_element()? {
            array.push(item);
        }
        Ok(Value::Array(array))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value<'de>, A::Error> {
        let (mut object, mut places) = (Object(Vec::new()), None);
        while let Some(Key(key)) = members.next_key()? {
            object.insert(&mut places, key, members.next_value()?);
        }
        match &object.0[..] {
            [(name, Value::String(digits))] if name == EXACT_NUMBER => {
                Number::parse(digits).map(Value::Number).ok_or_else(|| A::Error::custom("no number"))
            }
            _ => Ok(Value::Object(object)),
        }
    }
}

/// The name of a member. A plain `Cow` would always be a copy.
struct Key<'a>(Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for Key<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(KeyVisitor)
    }
}

struct KeyVisitor;

impl<'de> Visitor<'de> for KeyVisitor {
    type Value = Key<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a member")
    }

    fn visit_borrowed_str<E>(self, name: &'de str) -> Result<Key<'de>, E> {
        Ok(Key(Cow::Borrowed(name)))
    }

    fn visit_str<E>(self, name: &str) -> Result<Key<'de>, E> {
        Ok(Key(Cow::Owned(name.to_owned())))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value as Tree, json};

    use super::*;

    /// The same as `serde_json` reads it.
    fn tree(value: &Value<'_>) -> Tree {
        match value {
            Value::Null => Tree::Null,
            Value::Bool(is) => json!(is),
            Value::Number(Number::Natural(number)) => json!(number),
            Value::Number(Number::Negative(number)) => json!(number),
            Value::Number(Number::Float(number)) => json!(number),
            Value::String(text) => json!(text),
            Value::Array(items) => items.iter().map(tree).collect(),
            Value::Object(members) => members.iter().map(|(key, value)| (key.to_owned(), tree(value))).collect(),
        }
    }

    #[test]
    fn text_is_read_as_serde_json_reads_it() {
        let deep = "[".repeat(127) + &"]".repeat(127);
        let too_deep = format!("[{deep}]");
        for text in [
            r#"{"a":[1,-2,3.5,1e3,18446744073709551615,18446744073709551616,-0],"b":{"c":null,"d":true,"e":"f\n\u00e9g"}}"#,
            r#" {"a\u0062":1,"ab":2} "#,
            r#"{"a":1,"b":2,"a":3}"#,
            "[]",
            "{}",
            "null",
            "\"\"",
            "",
            "{",
            r#"{"a" 1}"#,
            "{1:2}",
            "[1,]",
            "1e999",
            "01",
            "nul",
            "\"\\ud800\"",
            "1 2",
            &deep,
            &too_deep,
        ] {
            assert_eq!(Value::parse(text).as_ref().map(tree), serde_json::from_str::<Tree>(text).ok(), "{text}");
        }
    }

    #[test]
    fn plain_strings_and_names_are_not_copied() {
        let Some(Value::Object(members)) = Value::parse(r#"{"a":"b"}"#) else { panic!("an object") };
        assert!(matches!(&members.0[..], [(Cow::Borrowed("a"), Value::String(Cow::Borrowed("b")))]));
    }

    #[test]
    fn of_equal_names_the_last_counts_and_no_other_is_seen() {
        for members in [2, MANY_MEMBERS, 4 * MANY_MEMBERS] {
            let all: Vec<_> = (0..members).map(|number| format!(r#""{number}":1"#)).collect();
            let text = format!(r#"{{{},"0":2,"\u0030":3,"{}":4}}"#, all.join(","), members - 1);
            let value = Value::parse(&text).unwrap();
            let read: Vec<_> = value.as_object().unwrap().iter().collect();
            assert_eq!(read.len(), members);
            for (name, expected) in [("0", 3), (&*(members - 1).to_string(), 4)] {
                assert_eq!(value.get(name).and_then(Value::as_u64), Some(expected), "{name} of {members}");
            }
        }
    }

    #[test]
    fn a_number_that_is_told_exactly_is_one() {
        for (digits, number) in
            [("12", Some(12.0)), ("-3", Some(-3.0)), ("-1.5e1", Some(-15.0)), ("true", None), ("inf", None)]
        {
            let text = format!(r#"{{"{EXACT_NUMBER}":"{digits}"}}"#);
            assert_eq!(Value::parse(&text).and_then(|value| value.as_f64()), number, "{digits}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_as_serde_json_reads_it(text in r#"[\[\]{}:,"\\abtrue null0-9.eE+-]{0,24}"#) {
            prop_assert_eq!(Value::parse(&text).as_ref().map(tree), serde_json::from_str::<Tree>(&text).ok());
        }
    }
}
