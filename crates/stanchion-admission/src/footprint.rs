use std::{collections::HashSet, fmt, sync::Arc};

use http::Request;
use serde::{
    Serialize, Serializer,
    ser::{self, SerializeMap as _, SerializeSeq as _},
};

use crate::{InvalidAdmission, policy::must};

/// About how many bytes a request keeps in memory while it waits, by the structure of what it holds.
///
/// For applications that hold parsed messages: compute it once for the logical request, over messages, context, tools and
/// options together, and leave it in the request's [`Context`](stanchion_core::Context); retries and other candidates
/// take it from there. Without it, the layer takes the bytes of head and body.
///
/// | value | bytes |
/// |---|---|
/// | null, boolean, unit | 4 |
/// | number | 8 |
/// | text | its length in UTF-8 |
/// | sequence, tuple | 16, and its elements |
/// | structure, map | 32, and for each member 8, the key's length and the value |
/// | bytes | 32, and their length |
///
/// Variants with content count as a structure of one member, those without as their name. Nothing is copied or
/// serialised for it: it follows the value's [`Serialize`], so fields that are skipped count nothing. It stops where the
/// value outgrows its limits, and then is one more than the limit.
///
/// ```
/// use serde_json::json;
/// use stanchion_admission::Footprint;
/// use stanchion_core::Context;
///
/// let messages = json!([{ "role": "user", "content": "Hello?" }]);
/// let tools = json!([]);
/// let context = Context::default();
/// let bytes = context.footprint_or_init(|| Footprint::of(&(&messages, &tools)));
/// assert_eq!(bytes, 16 + (16 + 32 + (8 + 4 + 4) + (8 + 7 + 6)) + 16);
/// ```
pub struct Footprint {
    tally: Tally,
    /// Addresses of what is shared.
    seen: HashSet<usize>,
}

/// What was counted so far.
struct Tally {
    max_bytes: u64,
    max_nodes: u64,
    bytes: u64,
    nodes: u64,
}

impl Footprint {
    /// How many bytes are counted unless another limit is set: 128 MiB.
    pub const MAX_BYTES: u64 = 128 << 20;
    /// How many values are looked at unless another limit is set: 100,000.
    pub const MAX_NODES: u64 = 100_000;
    /// What has outgrown the limit.
    pub const SATURATED: u64 = Self::MAX_BYTES + 1;

    /// Nothing yet.
    pub fn new() -> Self {
        let tally = Tally { max_bytes: Self::MAX_BYTES, max_nodes: Self::MAX_NODES, bytes: 0, nodes: 0 };
        Self { tally, seen: HashSet::new() }
    }

    /// Nothing yet, with other limits. Neither may be 0.
    pub fn with_limits(max_bytes: u64, max_nodes: u64) -> Result<Self, InvalidAdmission> {
        must((1..u64::MAX).contains(&max_bytes), "max_bytes", "1 or more")?;
        must((1..u64::MAX).contains(&max_nodes), "max_nodes", "1 or more")?;
        Ok(Self { tally: Tally { max_bytes, max_nodes, bytes: 0, nodes: 0 }, seen: HashSet::new() })
    }

    /// The footprint of one value.
    pub fn of<T: Serialize + ?Sized>(value: &T) -> u64 {
        let mut footprint = Self::new();
        footprint.add(value);
        footprint.bytes()
    }

    /// Adds a value. One that cannot be serialised counts as far as it could be.
    pub fn add<T: Serialize + ?Sized>(&mut self, value: &T) -> &mut Self {
        // The only error is that there is nothing more to count.
        let _ = value.serialize(&mut self.tally);
        self
    }

    /// Adds a value that others share, the first time that it comes. Keep it alive meanwhile: it is known by its address.
    pub fn add_shared<T: Serialize + ?Sized>(&mut self, value: &Arc<T>) -> &mut Self {
        if self.seen.insert(Arc::as_ptr(value).addr()) {
            self.add(&**value);
        }
        self
    }

    /// What was counted; one more than the limit if it was outgrown.
    pub fn bytes(&self) -> u64 {
        if self.is_saturated() { self.tally.max_bytes + 1 } else { self.tally.bytes }
    }

    /// Whether a limit was outgrown.
    pub fn is_saturated(&self) -> bool {
        self.tally.is_saturated()
    }

    /// What the head of a request keeps: target, and names and values of headers.
    pub(crate) fn of_head<B>(request: &Request<B>) -> u64 {
        let uri = request.uri();
        let target =
            uri.path().len() + uri.query().map_or(0, str::len) + uri.authority().map_or(0, |name| name.as_str().len());
        let headers = request.headers().iter().map(|(name, value)| 8 + name.as_str().len() + value.len());
        (32 + target + headers.sum::<usize>()) as u64
    }
}

impl Tally {
    fn is_saturated(&self) -> bool {
        self.bytes > self.max_bytes || self.nodes > self.max_nodes
    }

    fn node(&mut self, bytes: u64) -> Result<(), Stop> {
        self.nodes += 1;
        self.charge(bytes)
    }

    fn charge(&mut self, bytes: u64) -> Result<(), Stop> {
        self.bytes = self.bytes.saturating_add(bytes);
        if self.is_saturated() { Err(Stop) } else { Ok(()) }
    }

    /// A structure of one member, whose value follows.
    fn variant(&mut self, name: &str) -> Result<(), Stop> {
        self.node(32 + 8 + name.len() as u64)
    }
}

impl Default for Footprint {
    fn default() -> Self {
        Self::new()
    }
}

/// There is nothing more to count.
#[derive(Debug)]
struct Stop;

impl fmt::Display for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the footprint has reached its limit")
    }
}

impl std::error::Error for Stop {}

impl ser::Error for Stop {
    fn custom<T: fmt::Display>(_: T) -> Self {
        Self
    }
}

macro_rules! numbers {
    ($($name:ident: $kind:ty),*) => {
        $(fn $name(self, _: $kind) -> Result<(), Stop> {
            self.node(8)
        })*
    };
}

impl Serializer for &mut Tally {
    type Ok = ();
    type Error = Stop;
    type SerializeSeq = Self;
    type SerializeTuple = Self;
    type SerializeTupleStruct = Self;
    type SerializeTupleVariant = Self;
    type SerializeMap = Self;
    type SerializeStruct = Self;
    type SerializeStructVariant = Self;

    numbers! {
        serialize_i8: i8, serialize_i16: i16, serialize_i32: i32, serialize_i64: i64, serialize_i128: i128,
        serialize_u8: u8, serialize_u16: u16, serialize_u32: u32, serialize_u64: u64, serialize_u128: u128,
        serialize_f32: f32, serialize_f64: f64
    }

    fn serialize_bool(self, _: bool) -> Result<(), Stop> {
        self.node(4)
    }

    fn serialize_char(self, value: char) -> Result<(), Stop> {
        self.node(value.len_utf8() as u64)
    }

    fn serialize_str(self, value: &str) -> Result<(), Stop> {
        self.node(value.len() as u64)
    }

    fn serialize_bytes(self, value: &[u8]) -> Result<(), Stop> {
        self.node(32 + value.len() as u64)
    }

    fn serialize_none(self) -> Result<(), Stop> {
        self.node(4)
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<(), Stop> {
        value.serialize(self)
    }

    fn serialize_unit(self) -> Result<(), Stop> {
        self.node(4)
    }

    fn serialize_unit_struct(self, _: &'static str) -> Result<(), Stop> {
        self.node(4)
    }

    fn serialize_unit_variant(self, _: &'static str, _: u32, variant: &'static str) -> Result<(), Stop> {
        self.serialize_str(variant)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(self, _: &'static str, value: &T) -> Result<(), Stop> {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        value: &T,
    ) -> Result<(), Stop> {
        self.variant(variant)?;
        value.serialize(self)
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<Self, Stop> {
        self.node(16)?;
        Ok(self)
    }

    fn serialize_tuple(self, length: usize) -> Result<Self, Stop> {
        self.serialize_seq(Some(length))
    }

    fn serialize_tuple_struct(self, _: &'static str, length: usize) -> Result<Self, Stop> {
        self.serialize_seq(Some(length))
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        length: usize,
    ) -> Result<Self, Stop> {
        self.variant(variant)?;
        self.serialize_seq(Some(length))
    }

    fn serialize_map(self, _: Option<usize>) -> Result<Self, Stop> {
        self.node(32)?;
        Ok(self)
    }

    fn serialize_struct(self, _: &'static str, length: usize) -> Result<Self, Stop> {
        self.serialize_map(Some(length))
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        length: usize,
    ) -> Result<Self, Stop> {
        self.variant(variant)?;
        self.serialize_map(Some(length))
    }

    fn collect_str<T: fmt::Display + ?Sized>(self, value: &T) -> Result<(), Stop> {
        // Counted as it is written, without a copy.
        struct Length(u64);
        impl fmt::Write for Length {
            fn write_str(&mut self, text: &str) -> fmt::Result {
                self.0 += text.len() as u64;
                Ok(())
            }
        }
        let mut length = Length(0);
        fmt::write(&mut length, format_args!("{value}")).map_err(|_| Stop)?;
        self.node(length.0)
    }
}

impl ser::SerializeSeq for &mut Tally {
    type Ok = ();
    type Error = Stop;

    fn serialize_element<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Stop> {
        value.serialize(&mut **self)
    }

    fn end(self) -> Result<(), Stop> {
        Ok(())
    }
}

impl ser::SerializeTuple for &mut Tally {
    type Ok = ();
    type Error = Stop;

    fn serialize_element<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Stop> {
        value.serialize(&mut **self)
    }

    fn end(self) -> Result<(), Stop> {
        Ok(())
    }
}

impl ser::SerializeTupleStruct for &mut Tally {
    type Ok = ();
    type Error = Stop;

    fn serialize_field<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Stop> {
        self.serialize_element(value)
    }

    fn end(self) -> Result<(), Stop> {
        Ok(())
    }
}

impl ser::SerializeTupleVariant for &mut Tally {
    type Ok = ();
    type Error = Stop;

    fn serialize_field<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Stop> {
        self.serialize_element(value)
    }

    fn end(self) -> Result<(), Stop> {
        Ok(())
    }
}

impl ser::SerializeMap for &mut Tally {
    type Ok = ();
    type Error = Stop;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), Stop> {
        // A key is no value of its own.
        let nodes = self.nodes;
        self.charge(8)?;
        key.serialize(&mut **self)?;
        self.nodes = nodes;
        Ok(())
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Stop> {
        value.serialize(&mut **self)
    }

    fn end(self) -> Result<(), Stop> {
        Ok(())
    }
}

impl ser::SerializeStruct for &mut Tally {
    type Ok = ();
    type Error = Stop;

    fn serialize_field<T: Serialize + ?Sized>(&mut self, key: &'static str, value: &T) -> Result<(), Stop> {
        self.serialize_key(key)?;
        self.serialize_value(value)
    }

    fn end(self) -> Result<(), Stop> {
        Ok(())
    }
}

impl ser::SerializeStructVariant for &mut Tally {
    type Ok = ();
    type Error = Stop;

    fn serialize_field<T: Serialize + ?Sized>(&mut self, key: &'static str, value: &T) -> Result<(), Stop> {
        self.serialize_key(key)?;
        self.serialize_value(value)
    }

    fn end(self) -> Result<(), Stop> {
        Ok(())
    }
}

impl fmt::Debug for Footprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Footprint").field("is_saturated", &self.is_saturated()).finish_non_exhaustive()
    }
}
