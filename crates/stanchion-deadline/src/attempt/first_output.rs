use std::time::Duration;

/// How long a reply may take to its first real output, from the start of the attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FirstOutput {
    /// The same for every request.
    Fixed(Duration),
    /// More for a longer prompt, which takes longer to read.
    Scaled {
        /// For a prompt of no size.
        base: Duration,
        /// For each thousand tokens of the prompt, in proportion.
        per_1k: Duration,
        /// The most in any case.
        cap: Duration,
    },
}

impl FirstOutput {
    /// The limit for a prompt of about so many tokens.
    pub fn of(self, tokens: usize) -> Duration {
        match self {
            Self::Fixed(limit) => limit,
            Self::Scaled { base, per_1k, cap } => {
                let share = per_1k.as_nanos().saturating_mul(tokens as u128) / 1000;
                let share = u64::try_from(share).map_or(Duration::MAX, Duration::from_nanos);
                base.saturating_add(share).min(cap)
            }
        }
    }

    /// The limit for the longest prompt.
    pub const fn longest(self) -> Duration {
        match self {
            Self::Fixed(limit) => limit,
            Self::Scaled { cap, .. } => cap,
        }
    }

    /// The same, at most so long.
    pub(super) fn within(self, bound: Duration) -> Self {
        match self {
            Self::Fixed(limit) => Self::Fixed(limit.min(bound)),
            Self::Scaled { base, per_1k, cap } => Self::Scaled { base, per_1k, cap: cap.min(bound) },
        }
    }

    /// Whether it limits nothing: a time of zero, or one that begins with zero, is none.
    pub(super) const fn is_off(self) -> bool {
        match self {
            Self::Fixed(limit) => limit.is_zero(),
            Self::Scaled { base, cap, .. } => base.is_zero() || cap.is_zero(),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn a_longer_prompt_has_more_time_up_to_the_cap() {
        let octos = FirstOutput::Scaled { base: s(30), per_1k: s(1), cap: s(180) };
        for (tokens, limit) in [
            (0, s(30)),
            (1, Duration::from_millis(30_001)),
            (20_000, s(50)),
            (150_000, s(180)),
            (1_000_000, s(180)),
            (usize::MAX, s(180)),
        ] {
            assert_eq!(octos.of(tokens), limit, "{tokens}");
        }
        assert_eq!(FirstOutput::Fixed(s(7)).of(usize::MAX), s(7));
        assert_eq!(FirstOutput::Scaled { base: s(9), per_1k: s(1), cap: s(5) }.of(0), s(5));
        let endless = FirstOutput::Scaled { base: s(1), per_1k: Duration::MAX, cap: Duration::MAX };
        assert_eq!(endless.of(usize::MAX), Duration::MAX);
    }

    proptest! {
        #[test]
        fn more_tokens_never_have_less_time(
            (base, per_1k, cap) in (1_u64..100, 0_u64..100, 1_u64..1000),
            (tokens, more) in (0_usize..1_000_000, 0_usize..1_000_000),
        ) {
            let rule = FirstOutput::Scaled { base: s(base), per_1k: s(per_1k), cap: s(cap) };
            prop_assert!(rule.of(tokens) <= rule.of(tokens + more));
            prop_assert!(rule.of(tokens + more) <= rule.longest());
        }
    }
}
