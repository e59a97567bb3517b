//! What a prompt cache brings, in numbers.

use stanchion_core::{CacheBreakReason, PromptCacheBreak, Usage};

/// What is shown where a number is not known.
const UNKNOWN: &str = "—";

/// Sums over many replies. What no reply has told stays unknown.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CacheCounters {
    /// Input tokens in all, of the replies that told what the cache did.
    pub total: u64,
    /// Those read from the cache; `None` if no reply has told.
    pub read: Option<u64>,
    /// Those written to it; `None` if no reply has told.
    pub write: Option<u64>,
}

impl CacheCounters {
    /// Adds a reply. One that does not tell what was read from the cache, or not its input, changes nothing: its input
    /// would count as missed although nobody knows.
    pub fn add(&mut self, usage: &Usage) {
        let (Some(total), Some(_)) = (usage.input_total(), usage.cache_read) else { return };
        let add = |sum: &mut Option<u64>, more: Option<u64>| {
            if let Some(more) = more {
                *sum = Some(sum.unwrap_or(0).saturating_add(more));
            }
        };
        self.total = self.total.saturating_add(total);
        add(&mut self.read, usage.cache_read);
        add(&mut self.write, usage.cache_write);
    }

    /// What they come to.
    pub fn metrics(&self) -> CacheMetrics {
        CacheMetrics::new(self.total, self.read, self.write)
    }
}

/// What counters of a prompt cache come to, once they agree with each other.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CacheMetrics {
    /// Input tokens in all.
    pub total: u64,
    /// Those read from the cache, at most all.
    pub read: Option<u64>,
    /// Those written to it, at most what was not read.
    pub write: Option<u64>,
    /// The rest.
    pub uncached: u64,
    /// The share that was read, from 0 to 1. `None` where there was no input, or nobody has told what was read: that is
    /// not the same as nothing.
    pub hit_rate: Option<f64>,
}

impl CacheMetrics {
    /// Clamps what a provider reports: no more can be read than there is, nor more be written than was not read.
    ///
    /// ```
    /// use stanchion_cache_break::CacheMetrics;
    ///
    /// assert_eq!(CacheMetrics::new(1_000, Some(600), Some(200)).hit_rate, Some(0.6));
    /// assert_eq!(CacheMetrics::new(1_000, Some(0), Some(0)).hit_rate, Some(0.0));
    /// assert_eq!(CacheMetrics::new(1_000, None, None).hit_rate, None);
    /// ```
    pub fn new(total: u64, read: Option<u64>, write: Option<u64>) -> Self {
        let read = read.map(|read| read.min(total));
        let unread = total - read.unwrap_or(0);
        let write = write.map(|write| write.min(unread));
        let uncached = unread - write.unwrap_or(0);
        let hit_rate = read.filter(|_| total > 0).map(|read| read as f64 / total as f64);
        Self { total, read, write, uncached, hit_rate }
    }

    /// The same of one reply; `None` if it does not tell its input.
    pub fn of(usage: &Usage) -> Option<Self> {
        Some(Self::new(usage.input_total()?, usage.cache_read, usage.cache_write))
    }
}

/// A count out of a number that somebody else has written: what is no number, or below zero, is 0.
pub fn tokens(count: f64) -> u64 {
    // Below zero the cast itself comes to 0.
    if count.is_finite() { count as u64 } else { 0 }
}

/// A hit rate as people read it: `73 %`, and a dash where it is not known.
pub fn percent(rate: Option<f64>) -> String {
    match rate {
        Some(rate) if !rate.is_nan() => format!("{:.0} %", (rate.clamp(0.0, 1.0) * 100.0).round()),
        _ => UNKNOWN.to_owned(),
    }
}

/// A reason as people read it.
pub const fn reason_words(reason: CacheBreakReason) -> &'static str {
    match reason {
        CacheBreakReason::ModelChanged => "model changed",
        CacheBreakReason::SystemPromptChanged => "system prompt changed",
        CacheBreakReason::ToolsChanged => "tool definitions changed",
        CacheBreakReason::RequestPolicyChanged => "request policy changed",
        CacheBreakReason::ToolOrderChanged => "tool order changed",
        CacheBreakReason::BreakpointsChanged => "cache breakpoints changed",
        CacheBreakReason::MessagesChanged => "earlier messages changed",
        CacheBreakReason::TtlExpired => "cache TTL expired",
        CacheBreakReason::ServerSide => "likely provider routing or eviction",
        _ => "unknown",
    }
}

/// What a caller can do about a break for this reason.
pub const fn advice(reason: CacheBreakReason) -> &'static str {
    match reason {
        CacheBreakReason::ModelChanged => "each model has a cache of its own: change models between conversations",
        CacheBreakReason::SystemPromptChanged => {
            "put what changes, such as a time or a name, into a message instead of the system prompt"
        }
        CacheBreakReason::ToolsChanged => "settle the tools when a conversation begins, and keep their descriptions",
        CacheBreakReason::RequestPolicyChanged => {
            "keep effort, tool choice and limits for as long as a conversation lasts"
        }
        CacheBreakReason::ToolOrderChanged => "send the tools in one order: sort them, or keep them in a list",
        CacheBreakReason::BreakpointsChanged => {
            "leave earlier breakpoints where they were, and add new ones behind them"
        }
        CacheBreakReason::MessagesChanged => "only append: what is edited or left out is paid for anew from there on",
        CacheBreakReason::TtlExpired => "where pauses are usual, have the prompt kept for longer",
        CacheBreakReason::ServerSide => {
            "nothing that is compared has changed; if it recurs, write the JSON with its keys in one order, and ask the provider"
        }
        _ => "no advice",
    }
}

/// A break in one line: `system prompt changed: 6,000 → 500`.
pub fn describe(broken: &PromptCacheBreak) -> String {
    let (before, then) = (grouped(broken.previous_cache_read_tokens), grouped(broken.cache_read_tokens));
    let which = match broken.first_changed_message {
        Some(number) if broken.reason == CacheBreakReason::MessagesChanged => {
            format!(" (message {} of {})", grouped(number), grouped(broken.previous_message_count))
        }
        _ => String::new(),
    };
    format!("{}{which}: {before} → {then}", reason_words(broken.reason))
}

/// A count as people read it: `1,234,567`.
pub fn grouped(count: u64) -> String {
    let digits = count.to_string();
    let mut grouped = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_clamped_and_unknown_stays_unknown() {
        let metrics = |total, read, write| {
            let CacheMetrics { read, write, uncached, hit_rate, .. } = CacheMetrics::new(total, read, write);
            (read, write, uncached, hit_rate)
        };
        assert_eq!(metrics(1000, Some(600), Some(200)), (Some(600), Some(200), 200, Some(0.6)));
        assert_eq!(metrics(500, Some(0), Some(300)), (Some(0), Some(300), 200, Some(0.0)));
        assert_eq!(metrics(100, Some(140), Some(20)), (Some(100), Some(0), 0, Some(1.0)));
        assert_eq!(metrics(500, None, None), (None, None, 500, None));
        assert_eq!(metrics(500, None, Some(300)), (None, Some(300), 200, None));
        assert_eq!(metrics(0, Some(0), Some(0)), (Some(0), Some(0), 0, None));
        // Told as zero it is zero.
        assert_eq!(metrics(500, Some(0), Some(0)), (Some(0), Some(0), 500, Some(0.0)));
        assert_eq!(CacheMetrics::of(&Usage::default()), None);
    }

    #[test]
    fn sums_leave_out_what_tells_nothing() {
        let mut counters = CacheCounters::default();
        counters.add(&Usage { input: Some(1000), ..Usage::default() });
        counters.add(&Usage { cache_read: Some(1000), ..Usage::default() });
        // What was written says nothing of what was read.
        counters.add(&Usage { input: Some(1000), cache_write: Some(1000), ..Usage::default() });
        assert_eq!((counters, counters.metrics().hit_rate), (CacheCounters::default(), None));
        counters.add(&Usage { input: Some(400), cache_read: Some(600), ..Usage::default() });
        counters.add(&Usage { input: Some(1000), cache_read: Some(0), cache_write: Some(0), ..Usage::default() });
        assert_eq!(counters, CacheCounters { total: 2000, read: Some(600), write: Some(0) });
        assert_eq!(counters.metrics().hit_rate, Some(0.3));
    }

    #[test]
    fn numbers_are_shown_to_people() {
        for (rate, shown) in
            [(Some(0.726), "73 %"), (Some(2.0), "100 %"), (Some(-1.0), "0 %"), (Some(f64::NAN), "—"), (None, "—")]
        {
            assert_eq!(percent(rate), shown);
        }
        for (count, clamped) in [(f64::NAN, 0), (f64::INFINITY, 0), (-1.0, 0), (12.9, 12)] {
            assert_eq!(tokens(count), clamped);
        }
        for (count, shown) in [(0, "0"), (999, "999"), (1_000, "1,000"), (1_234_567, "1,234,567")] {
            assert_eq!(grouped(count), shown);
        }
    }
}
