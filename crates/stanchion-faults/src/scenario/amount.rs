//! Values that may be written in more than one way: a number or a range, one or several.

use std::fmt;
use std::marker::PhantomData;

use serde::de::value::SeqAccessDeserializer;
use serde::de::{Deserialize, Deserializer, Error, IntoDeserializer, SeqAccess, Visitor};

/// How many: a number, or `[least, most]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Count {
    /// The fewest that will do.
    pub least: usize,
    /// The most that will do.
    pub most: usize,
}

impl Count {
    /// Whether so many will do.
    pub fn allows(self, number: usize) -> bool {
        (self.least..=self.most).contains(&number)
    }
}

impl fmt::Display for Count {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.least == self.most {
            write!(formatter, "{}", self.least)
        } else {
            write!(formatter, "[{}, {}]", self.least, self.most)
        }
    }
}

struct CountVisitor;

impl<'de> Visitor<'de> for CountVisitor {
    type Value = Count;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a number or [least, most]")
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Count, E> {
        let number =
            usize::try_from(number).map_err(|_| E::invalid_value(serde::de::Unexpected::Signed(number), &self))?;
        Ok(Count { least: number, most: number })
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Count, E> {
        self.visit_i64(i64::try_from(number).unwrap_or(i64::MAX))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, sequence: A) -> Result<Count, A::Error> {
        let ends = Vec::<usize>::deserialize(SeqAccessDeserializer::new(sequence))?;
        let &[least, most] = ends.as_slice() else {
            return Err(A::Error::invalid_length(ends.len(), &self));
        };
        if least > most {
            return Err(A::Error::custom(format_args!("[{least}, {most}] allows nothing")));
        }
        Ok(Count { least, most })
    }
}

impl<'de> Deserialize<'de> for Count {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(CountVisitor)
    }
}

struct OneOrMore<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for OneOrMore<T> {
    type Value = Vec<T>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("one value or a list")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Vec<T>, E> {
        T::deserialize(text.into_deserializer()).map(|one| vec![one])
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Vec<T>, E> {
        T::deserialize(number.into_deserializer()).map(|one| vec![one])
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Vec<T>, E> {
        T::deserialize(number.into_deserializer()).map(|one| vec![one])
    }

    fn visit_seq<A: SeqAccess<'de>>(self, sequence: A) -> Result<Vec<T>, A::Error> {
        Vec::deserialize(SeqAccessDeserializer::new(sequence))
    }
}

pub(super) fn one_or_more<'de, T: Deserialize<'de>, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<T>, D::Error> {
    deserializer.deserialize_any(OneOrMore(PhantomData))
}

#[cfg(test)]
mod tests {
    use super::Count;

    #[test]
    fn both_ends_of_a_range_are_allowed() {
        let count = Count { least: 1, most: 3 };
        assert_eq!((0..5).map(|number| count.allows(number)).collect::<Vec<_>>(), [false, true, true, true, false]);
        assert_eq!(count.to_string(), "[1, 3]");
        assert_eq!(Count { least: 2, most: 2 }.to_string(), "2");
    }
}
