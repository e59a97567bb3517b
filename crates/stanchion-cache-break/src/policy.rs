use std::{error::Error, fmt};

use crate::FingerprintBounds;

/// How much is kept of how many sessions. The table of settings is on the [crate's page](crate#settings).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CacheBreakPolicy {
    max_sessions: usize,
    bounds: FingerprintBounds,
    max_body_bytes: usize,
    derive_sessions: bool,
}

/// Builds a [`CacheBreakPolicy`].
#[derive(Debug, Clone, Copy)]
#[must_use]
pub struct CacheBreakPolicyBuilder(CacheBreakPolicy);

/// A setting of a [`CacheBreakPolicy`] is outside its range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InvalidCacheBreak {
    setting: &'static str,
    rule: &'static str,
}

impl CacheBreakPolicy {
    /// Starts from the default policy.
    pub fn builder() -> CacheBreakPolicyBuilder {
        CacheBreakPolicyBuilder(Self::default())
    }

    /// How many sessions are kept.
    pub fn max_sessions(&self) -> usize {
        self.max_sessions
    }

    /// How much of one request is kept apart.
    pub fn bounds(&self) -> FingerprintBounds {
        self.bounds
    }

    /// The largest request body that is read, in bytes.
    pub fn max_body_bytes(&self) -> usize {
        self.max_body_bytes
    }

    /// Whether a request that names no session is known by its first message.
    pub fn derives_sessions(&self) -> bool {
        self.derive_sessions
    }
}

impl Default for CacheBreakPolicy {
    fn default() -> Self {
        Self {
            max_sessions: 32,
            bounds: FingerprintBounds::default(),
            max_body_bytes: 8 * 1024 * 1024,
            derive_sessions: false,
        }
    }
}

impl CacheBreakPolicyBuilder {
    /// How many sessions are kept; the one seen longest ago makes room. Each takes up to 25 KiB with the default bounds,
    /// and a conversation of 40 messages and 20 tools 1.5 KiB. Default 32, from 1 to 65,536.
    pub fn max_sessions(mut self, sessions: usize) -> Self {
        self.0.max_sessions = sessions;
        self
    }

    /// How many messages of a conversation are kept apart, from the first: 8 bytes each. A change beyond them is not
    /// found. Default 1,024, from 0 to 65,536.
    pub fn max_messages(mut self, messages: usize) -> Self {
        self.0.bounds.messages = messages;
        self
    }

    /// How many tools are kept apart, from the first: 32 bytes each. Of those beyond them it is known that something
    /// changed, their order included, but not how many. Default 512, from 0 to 65,536.
    pub fn max_tools(mut self, tools: usize) -> Self {
        self.0.bounds.tools = tools;
        self
    }

    /// The largest request body that is read, in bytes: about 3 ms of work for a MiB of conversation, 5 ms for one of
    /// nothing but schemas. Larger ones are not observed. Default 8 MiB; any number.
    pub fn max_body_bytes(mut self, bytes: usize) -> Self {
        self.0.max_body_bytes = bytes;
        self
    }

    /// Whether a request that names no session is known by its owner and its conversation's first user message. Default
    /// no: it reads every request, and two conversations that begin alike are taken for one.
    pub fn derive_sessions(mut self, derive: bool) -> Self {
        self.0.derive_sessions = derive;
        self
    }

    /// The policy, if every setting is within its range.
    pub fn build(self) -> Result<CacheBreakPolicy, InvalidCacheBreak> {
        const MOST: usize = 65_536;
        let invalid = |setting, rule| Err(InvalidCacheBreak { setting, rule });
        let Self(policy) = self;
        if !(1..=MOST).contains(&policy.max_sessions) {
            return invalid("max_sessions", "must be from 1 to 65536");
        }
        if policy.bounds.messages > MOST {
            return invalid("max_messages", "must be at most 65536");
        }
        if policy.bounds.tools > MOST {
            return invalid("max_tools", "must be at most 65536");
        }
        Ok(policy)
    }
}

impl InvalidCacheBreak {
    /// The name of the setting.
    pub fn setting(&self) -> &'static str {
        self.setting
    }
}

impl fmt::Display for InvalidCacheBreak {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.setting, self.rule)
    }
}

impl Error for InvalidCacheBreak {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_held_to_their_ranges() {
        let refused = |builder: CacheBreakPolicyBuilder| builder.build().unwrap_err().to_string();
        let new = CacheBreakPolicy::builder;
        assert_eq!(refused(new().max_sessions(0)), "max_sessions must be from 1 to 65536");
        assert_eq!(refused(new().max_sessions(65_537)), "max_sessions must be from 1 to 65536");
        assert_eq!(refused(new().max_messages(65_537)), "max_messages must be at most 65536");
        assert_eq!(new().max_tools(65_537).build().unwrap_err().setting(), "max_tools");
        let policy = new().max_sessions(1).max_messages(0).max_tools(65_536).max_body_bytes(0).derive_sessions(true);
        let policy = policy.build().unwrap();
        assert_eq!((policy.max_sessions(), policy.max_body_bytes(), policy.derives_sessions()), (1, 0, true));
        assert_eq!(policy.bounds(), FingerprintBounds { messages: 0, tools: 65_536 });
    }
}
