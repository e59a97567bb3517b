//! Money and prices as whole numbers: no sum drifts, and what is added in another order is the same.

use std::{
    fmt,
    iter::Sum,
    ops::{Add, AddAssign},
};

use serde::{Deserialize, Deserializer, de};

/// Femtodollars in a dollar.
const DOLLAR: u128 = 1_000_000_000_000_000;
/// Femtodollars in a nano-dollar.
const NANODOLLAR: u128 = 1_000_000;

/// An amount of US dollars, exact to 10⁻¹⁵ of one.
///
/// That is fine enough for every price with up to seven decimals times every multiplier with two, so that nothing is
/// ever rounded but where [`nanodollars`](Self::nanodollars) does it. Sums stop at the largest amount, which nobody
/// has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Money(u128);

impl Money {
    /// Nothing.
    pub const ZERO: Self = Self(0);

    /// So many femtodollars: 10⁻¹⁵ dollars each.
    pub const fn from_femtodollars(amount: u128) -> Self {
        Self(amount)
    }

    /// In femtodollars, exactly.
    pub const fn femtodollars(self) -> u128 {
        self.0
    }

    /// In billionths of a dollar, rounded, a half upwards; [`u64::MAX`] if it is more than that.
    pub const fn nanodollars(self) -> u64 {
        let rounded = self.0 / NANODOLLAR + (self.0 % NANODOLLAR >= NANODOLLAR / 2) as u128;
        if rounded > u64::MAX as u128 { u64::MAX } else { rounded as u64 }
    }
}

impl Add for Money {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Money {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sum for Money {
    fn sum<I: Iterator<Item = Self>>(amounts: I) -> Self {
        amounts.fold(Self::ZERO, Add::add)
    }
}

/// In dollars, with as many decimals as there are, and without a sign of the currency: `0.9075`.
impl fmt::Display for Money {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_decimal(f, self.0, DOLLAR, 15)
    }
}

fn write_decimal(f: &mut fmt::Formatter<'_>, amount: u128, one: u128, width: usize) -> fmt::Result {
    let decimals = format!("{:0width$}", amount % one);
    let decimals = decimals.trim_end_matches('0');
    if decimals.is_empty() { write!(f, "{}", amount / one) } else { write!(f, "{}.{decimals}", amount / one) }
}

/// A price: US dollars for a million tokens, from 0 to 1,000,000, with up to seven decimals.
///
/// In a file it is a number or a string that holds one: `0.30`, `3`, `"0.0375"`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Price(u64);

/// What of a price is a dollar for a million tokens: femtodollars for one token.
const PER_MILLION: u64 = 1_000_000_000;

impl Price {
    /// The highest price there is.
    pub const MAX: Self = Self(1_000_000 * PER_MILLION);

    /// Reads a price: digits, and up to seven decimals behind a point.
    pub fn parse(text: &str) -> Result<Self, BadPrice> {
        let (whole, decimals) = text.split_once('.').unwrap_or((text, "0"));
        let digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        if !digits(whole) || !digits(decimals) {
            return Err(BadPrice::NoNumber);
        }
        let decimals = decimals.trim_end_matches('0');
        if decimals.len() > 7 {
            return Err(BadPrice::TooFine);
        }
        let whole: u64 = whole.parse().ok().filter(|whole| *whole <= 1_000_000).ok_or(BadPrice::TooHigh)?;
        let parts: u64 = format!("{decimals:0<9}").parse().map_err(|_| BadPrice::NoNumber)?;
        let price = Self(whole * PER_MILLION + parts);
        if price > Self::MAX { Err(BadPrice::TooHigh) } else { Ok(price) }
    }

    /// What so many tokens cost.
    pub const fn of(self, tokens: u64) -> Money {
        Money(self.0 as u128 * tokens as u128)
    }

    /// The price times `hundredths` / 100, exactly.
    pub(crate) const fn times(self, hundredths: u64) -> Self {
        // Seven decimals of the nine that there is room for leave two for the multiplier.
        Self(self.0 / 100 * hundredths)
    }
}

/// In dollars for a million tokens: `0.0375`.
impl fmt::Display for Price {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_decimal(f, self.0.into(), PER_MILLION.into(), 9)
    }
}

/// Why something is no price.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum BadPrice {
    /// It is no number, or a negative one.
    NoNumber,
    /// It has more than seven decimals.
    TooFine,
    /// It is above a million dollars.
    TooHigh,
}

impl fmt::Display for BadPrice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoNumber => "a price is a number of dollars for a million tokens, such as 0.30",
            Self::TooFine => "a price has at most seven decimals",
            Self::TooHigh => "a price is at most 1000000 dollars for a million tokens",
        })
    }
}

impl std::error::Error for BadPrice {}

impl<'de> Deserialize<'de> for Price {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;

        impl de::Visitor<'_> for Visitor {
            type Value = Price;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number of dollars for a million tokens")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Price, E> {
                Price::parse(text.trim()).map_err(E::custom)
            }

            fn visit_i64<E: de::Error>(self, number: i64) -> Result<Price, E> {
                self.visit_str(&number.to_string())
            }

            fn visit_u64<E: de::Error>(self, number: u64) -> Result<Price, E> {
                self.visit_str(&number.to_string())
            }

            // The shortest decimal that is this number is the one that was written.
            fn visit_f64<E: de::Error>(self, number: f64) -> Result<Price, E> {
                self.visit_str(&number.to_string())
            }
        }

        deserializer.deserialize_any(Visitor)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn prices_are_read_to_the_seventh_decimal() {
        for (text, femtodollars, shown) in [
            ("0", 0, "0"),
            ("3", 3_000_000_000, "3"),
            ("0.30", 300_000_000, "0.3"),
            ("0.0375", 37_500_000, "0.0375"),
            ("0.0000001", 100, "0.0000001"),
            ("2.1900000000", 2_190_000_000, "2.19"),
            ("1000000", 1_000_000_000_000_000, "1000000"),
        ] {
            let price = Price::parse(text).unwrap();
            assert_eq!((price.of(1).femtodollars(), price.to_string().as_str()), (femtodollars, shown));
        }
        for (text, problem) in [
            ("", BadPrice::NoNumber),
            (".5", BadPrice::NoNumber),
            ("5.", BadPrice::NoNumber),
            ("-1", BadPrice::NoNumber),
            ("+1", BadPrice::NoNumber),
            ("1e3", BadPrice::NoNumber),
            ("NaN", BadPrice::NoNumber),
            ("1_000", BadPrice::NoNumber),
            ("0.00000001", BadPrice::TooFine),
            ("1000001", BadPrice::TooHigh),
            ("1000000.1", BadPrice::TooHigh),
            ("99999999999999999999999", BadPrice::TooHigh),
        ] {
            assert_eq!(Price::parse(text), Err(problem), "{text}");
        }
    }

    #[test]
    fn money_is_rounded_once_and_shown_exactly() {
        for (femtodollars, nanodollars, shown) in [
            (0, 0, "0"),
            (907_500_000_000_000, 907_500_000, "0.9075"),
            (499_999, 0, "0.000000000499999"),
            (500_000, 1, "0.0000000005"),
            (12_000_000_000_000_000, 12_000_000_000, "12"),
            (u128::MAX, u64::MAX, "340282366920938463463374.607431768211455"),
        ] {
            let money = Money::from_femtodollars(femtodollars);
            assert_eq!((money.nanodollars(), money.to_string().as_str()), (nanodollars, shown));
        }
        assert_eq!(Money(u128::MAX) + Money(1), Money(u128::MAX));
        assert_eq!([Money(1), Money(2)].into_iter().sum::<Money>(), Money(3));
    }

    proptest! {
        #[test]
        fn what_is_shown_is_read_again(whole in 0..1_000_000_u64, parts in 0..10_000_000_u64) {
            let price = Price::parse(&format!("{whole}.{parts:07}")).unwrap();
            prop_assert_eq!(Price::parse(&price.to_string()), Ok(price));
            // Times a hundredth, and a hundred of those again.
            prop_assert_eq!(Price(price.times(1).0 * 100), price);
        }

        #[test]
        fn a_number_in_a_file_is_the_price_that_was_written(cents in 0..1_000_000_u64) {
            let text = format!("{}.{:04}", cents / 10_000, cents % 10_000);
            let number: f64 = text.parse().unwrap();
            prop_assert_eq!(Price::parse(&number.to_string()), Price::parse(&text));
        }
    }
}
