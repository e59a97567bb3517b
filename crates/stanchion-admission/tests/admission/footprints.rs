//! The weights of values, line by line.

use std::{collections::BTreeMap, sync::Arc};

use serde::Serialize;
use serde_json::json;
use stanchion_admission::Footprint;

struct Raw(usize);

impl Serialize for Raw {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(&vec![0; self.0])
    }
}

#[derive(Clone)]
struct Endless;
impl Serialize for Endless {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(std::iter::repeat(Self))
    }
}

#[derive(Serialize)]
enum Kind {
    Unit,
    One(u8),
    Two(u8, u8),
    Named { a: u8 },
}

#[derive(Serialize)]
struct Options {
    a: u8,
    #[serde(skip_serializing_if = "Option::is_none")]
    absent: Option<u8>,
    null: Option<u8>,
}

#[test]
fn values_weigh_what_the_table_says() {
    let of = |value: serde_json::Value| Footprint::of(&value);
    assert_eq!(of(json!([])), 16);
    assert_eq!(of(json!({})), 32);
    assert_eq!(of(json!("é🙂")), 6);
    assert_eq!(Footprint::of(&Raw(17)), 49);
    assert_eq!(of(json!({ "a": 1 })), 49);
    assert_eq!(of(json!({ "a": { "b": "c" } })), 83);
    assert_eq!(of(json!([1, "a", null, true])), 33);
    assert_eq!(of(json!([{ "a": 1 }, { "a": 1 }])), 114);
    assert_eq!((of(json!(1.5)), of(json!(null)), of(json!(false))), (8, 4, 4));
    assert_eq!(Footprint::of(&BTreeMap::from([("k", "v")])), 32 + 8 + 1 + 1);
    assert_eq!((Footprint::of(&'é'), Footprint::of(&()), Footprint::of(&(1, "a"))), (2, 4, 16 + 8 + 1));
    assert_eq!((Footprint::of(&1_u128), Footprint::of(&format_args!("{}-{}", 1, 22))), (8, 4));
}

#[test]
fn structures_weigh_as_objects_and_variants_as_objects_of_one() {
    assert_eq!(Footprint::of(&Options { a: 1, absent: None, null: None }), 32 + (8 + 1 + 8) + (8 + 4 + 4));
    assert_eq!(Footprint::of(&Options { a: 1, absent: Some(1), null: None }), 65 + (8 + 6 + 8));
    assert_eq!(Footprint::of(&Kind::Unit), 4);
    assert_eq!(Footprint::of(&Kind::One(1)), 32 + 8 + 3 + 8);
    assert_eq!(Footprint::of(&Kind::Two(1, 2)), 32 + 8 + 3 + 16 + 16);
    assert_eq!(Footprint::of(&Kind::Named { a: 1 }), 32 + 8 + 5 + 32 + 8 + 1 + 8);
}

#[test]
fn what_is_shared_is_counted_once_by_identity() {
    let shared = Arc::new(json!({ "a": 1 }));
    let mut footprint = Footprint::new();
    footprint.add_shared(&shared).add_shared(&shared.clone());
    assert_eq!(footprint.bytes(), 49);
    footprint.add_shared(&Arc::new(json!({ "a": 1 })));
    assert_eq!(footprint.bytes(), 98, "equal is not the same");
}

#[test]
fn it_stops_where_a_limit_is_outgrown() {
    let of = |bytes, nodes, value: &serde_json::Value| {
        let mut footprint = Footprint::with_limits(bytes, nodes).unwrap();
        footprint.add(value).bytes()
    };
    let text = json!("0123456789");
    assert_eq!((of(10, 9, &text), of(9, 9, &text)), (10, 10));
    assert_eq!(of(5, 9, &text), 6);
    let list = json!([1, 2, 3]);
    assert_eq!((of(1_000, 4, &list), of(1_000, 3, &list)), (40, 1_001));
    let long = json!(vec![0; 100_000]);
    assert_eq!((Footprint::of(&long), Footprint::SATURATED), ((128 << 20) + 1, (128 << 20) + 1));
    assert_eq!(Footprint::of(&json!(vec![0; 99_999])), 16 + 8 * 99_999);
    // What is infinite ends, too.
    let mut footprint = Footprint::with_limits(1 << 40, 500).unwrap();
    assert!(footprint.add(&Endless).is_saturated());
    assert!(format!("{footprint:?}").contains("true"));
}

#[test]
fn limits_of_nothing_are_refused_by_name() {
    assert_eq!(Footprint::with_limits(0, 1).unwrap_err().setting(), "max_bytes");
    assert_eq!(Footprint::with_limits(1, 0).unwrap_err().to_string(), "`max_nodes` must be 1 or more");
}

#[test]
fn a_usual_request_weighs_more_than_its_text_and_less_than_16_kibibytes() {
    let text = "Please have a look at this function, and say what is wrong with it. ".repeat(20);
    let request = json!({
        "messages": [{ "role": "system", "content": "You are helpful." }, { "role": "user", "content": text }],
        "tools": [{ "name": "read", "description": "Reads a file.", "parameters": { "path": { "type": "string" } } }],
        "options": { "temperature": 0.2, "stream": true },
    });
    let footprint = Footprint::of(&request) as usize;
    assert!((text.len()..16 << 10).contains(&footprint), "{footprint}");
}
