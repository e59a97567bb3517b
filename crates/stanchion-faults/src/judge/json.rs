//! JSON as scenario files quote it: a space after each comma and colon.

use std::io;

use serde::Serialize;
use serde_json::Value;
use serde_json::ser::{Formatter, Serializer};

struct Spaced;

impl Formatter for Spaced {
    fn begin_array_value<W: ?Sized + io::Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        if first { Ok(()) } else { writer.write_all(b", ") }
    }

    fn begin_object_key<W: ?Sized + io::Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        if first { Ok(()) } else { writer.write_all(b", ") }
    }

    fn begin_object_value<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        writer.write_all(b": ")
    }
}

/// The text of a value; `null` for none.
pub(super) fn spaced(value: Option<&Value>) -> String {
    let mut text = Vec::new();
    // Writing to memory cannot fail, and a value has no keys but strings.
    let _ = value.serialize(&mut Serializer::with_formatter(&mut text, Spaced));
    String::from_utf8_lossy(&text).into_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::spaced;

    #[test]
    fn commas_and_colons_have_a_space_after_them() {
        assert_eq!(spaced(Some(&json!({ "a": [1, "b,c"], "d": {} }))), r#"{"a": [1, "b,c"], "d": {}}"#);
        assert_eq!(spaced(None), "null");
    }
}
