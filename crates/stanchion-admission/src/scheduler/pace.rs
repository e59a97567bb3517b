/// How fast a queue empties: the mean time between two grants out of it, of late.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pace {
    since: u64,
    /// In nanoseconds; `u64::MAX` while nothing is known.
    interval: u64,
}

impl Default for Pace {
    fn default() -> Self {
        Self { since: 0, interval: u64::MAX }
    }
}

impl Pace {
    /// Each interval counts for an eighth, as in the round-trip times of RFC 6298.
    const SHARE: u64 = 8;

    /// Somebody waits from now on. Times in which nobody did say nothing.
    pub(crate) fn begin(&mut self, now: u64) {
        self.since = now;
    }

    /// One was granted.
    pub(crate) fn note(&mut self, now: u64) {
        let interval = now.saturating_sub(self.since);
        self.since = now;
        self.interval = match self.interval {
            u64::MAX => interval,
            mean => mean - mean / Self::SHARE + interval / Self::SHARE,
        };
    }

    /// How long so many will take. Where nothing has been granted for longer than usual, that is the pace.
    pub(crate) fn time_for(&self, waiting: u32, now: u64) -> Option<u64> {
        let interval = Some(self.interval).filter(|known| *known != u64::MAX)?;
        Some(interval.max(now.saturating_sub(self.since)).saturating_mul(waiting.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_follows_the_grants_and_does_not_forget_a_silence() {
        let mut pace = Pace::default();
        pace.begin(1_000);
        assert_eq!(pace.time_for(3, 9_000), None);
        for grant in 1..=50 {
            pace.note(1_000 + grant * 100);
        }
        assert_eq!(pace.time_for(3, 6_000), Some(300));
        assert_eq!(pace.time_for(3, 7_000), Some(3_000));
        for grant in 1..=50 {
            pace.note(6_000 + grant * 400);
        }
        let slower = pace.time_for(1, 26_000).unwrap();
        assert!((390..=400).contains(&slower), "{slower}");
    }
}
