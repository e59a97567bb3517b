//! Header fields as they arrived.

/// Header fields in the order in which they arrived; names are lower-case, values are read as Latin-1.
///
/// Not `http::HeaderMap`: a value that no proper client would send must still be visible here.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Headers(Vec<(String, String)>);

impl Headers {
    /// The last value of `name`, in any case of letters.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().rev().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    /// Every value of `name`, in order.
    pub fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.iter().filter(move |(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    /// Every field, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    pub(crate) fn push(&mut self, name: &str, value: &str) {
        self.0.push((name.trim().to_ascii_lowercase(), value.trim().to_owned()));
    }

    /// Replaces every value of `name`.
    pub(crate) fn set(&mut self, name: &str, value: &str) {
        self.0.retain(|(known, _)| !known.eq_ignore_ascii_case(name));
        self.push(name, value);
    }

    /// Whether the body comes in chunks.
    pub(crate) fn chunked(&self) -> bool {
        self.get("transfer-encoding").is_some_and(|coding| coding.eq_ignore_ascii_case("chunked"))
    }
}

#[cfg(test)]
mod tests {
    use super::Headers;

    #[test]
    fn names_have_no_case_and_the_last_value_counts() {
        let mut headers = Headers::default();
        headers.push("X-One", " a ");
        headers.push("x-one", "b");
        assert_eq!(headers.get("X-ONE"), Some("b"));
        assert_eq!(headers.all("x-One").collect::<Vec<_>>(), ["a", "b"]);
        headers.set("x-ONE", "c");
        assert_eq!(headers.iter().collect::<Vec<_>>(), [("x-one", "c")]);
        assert_eq!(headers.get("x-two"), None);
    }
}
