//! A control event that a client must have been told.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::{Deserializer, Error};
use serde_json::{Map, Value};

/// A control event that a client must have been told: `{ NAME = { MEMBER = VALUE } }`, without the `stanchion.` before
/// its name. Members that are not named do not matter, in tables within neither.
///
/// ```
/// use stanchion_faults::scenario::Scenario;
///
/// let text = r#"
/// name = "another tool breaks the cache"
/// [expect]
/// told = [{ prompt_cache_break = { reason = "tools_changed", added_tool_count = 1 } }]
/// "#;
/// let told = &Scenario::parse("s", text)?.expect.told[0];
/// assert_eq!((told.name.as_str(), told.members["added_tool_count"].as_u64()), ("prompt_cache_break", Some(1)));
/// # Ok::<(), stanchion_faults::scenario::ScenarioError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Told {
    /// The name of the event.
    pub name: String,
    /// Members that it has.
    pub members: Map<String, Value>,
}

impl<'de> Deserialize<'de> for Told {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut events = BTreeMap::<String, Map<String, Value>>::deserialize(deserializer)?;
        match (events.pop_first(), events.is_empty()) {
            (Some((name, members)), true) => Ok(Self { name, members }),
            _ => Err(Error::custom("an event is one name and its members: { NAME = { MEMBER = VALUE } }")),
        }
    }
}
