use std::{sync::Arc, time::Duration};

use serde::{Deserialize, Serialize};

use crate::{RequestClass, event::milliseconds};

/// For how long the provider is to keep a request's prompt in its cache. In a request's extensions it is that request's
/// own choice.
///
/// It matters where the request itself says so, which is Anthropic's `cache_control`; elsewhere it has no effect on what
/// is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CacheRetention {
    /// Not at all: nobody will read it again, and writing costs extra. All breakpoints are taken out.
    None,
    /// As the client has written it.
    #[default]
    Default,
    /// For an hour instead of five minutes: every breakpoint gets `"ttl": "1h"`.
    Long,
}

impl CacheRetention {
    /// Reads `none`, `default` or `long`, in any case.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        [Self::None, Self::Default, Self::Long]
            .into_iter()
            .find(|retention| retention.as_str().eq_ignore_ascii_case(text))
    }

    /// The name used in headers and configuration.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Default => "default",
            Self::Long => "long",
        }
    }
}

/// What most likely broke a session's prompt cache. See [`PromptCacheBreak::reason`].
///
/// In the order in which causes are looked for: the first that holds is the reason, and the flags of the event tell all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum CacheBreakReason {
    /// Another model answered, or the same one of another provider.
    ModelChanged,
    /// The system prompt is another.
    SystemPromptChanged,
    /// Tools were added, removed or changed.
    ToolsChanged,
    /// Something else of the request is another: effort, tool choice, limits, address, retention.
    RequestPolicyChanged,
    /// The tools are the same in another order.
    ToolOrderChanged,
    /// Breakpoints (`cache_control`) were lost, or stand where they did not.
    BreakpointsChanged,
    /// A message that was sent before is another now.
    MessagesChanged,
    /// Nothing changed, and the cache was left alone for longer than it lives.
    TtlExpired,
    /// Nothing changed, and in time: most likely the provider evicted it, or routed the request elsewhere.
    ServerSide,
}

impl CacheBreakReason {
    /// The name used in events.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ModelChanged => "model_changed",
            Self::SystemPromptChanged => "system_prompt_changed",
            Self::ToolsChanged => "tools_changed",
            Self::RequestPolicyChanged => "request_policy_changed",
            Self::ToolOrderChanged => "tool_order_changed",
            Self::BreakpointsChanged => "breakpoints_changed",
            Self::MessagesChanged => "messages_changed",
            Self::TtlExpired => "ttl_expired",
            Self::ServerSide => "server_side",
        }
    }
}

/// See [`Event::PromptCacheBreak`](crate::Event::PromptCacheBreak). Compares a reply with the one before it in its
/// session. Counts and reasons only.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PromptCacheBreak {
    /// What most likely broke it.
    pub reason: CacheBreakReason,
    /// Who answered, as `provider/model`, where a candidate is selected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub candidate: Option<Arc<str>>,
    /// The model that the provider was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<Arc<str>>,
    /// Who waited.
    pub request_class: RequestClass,
    /// What the reply before read from the cache.
    pub previous_cache_read_tokens: u64,
    /// What this one read.
    pub cache_read_tokens: u64,
    /// What this one wrote; `None` if the provider does not say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_write_tokens: Option<u64>,
    /// By how much less was read.
    pub token_drop: u64,
    /// How many tokens were paid for anew: the drop, or all that was not read if that is less.
    pub lost_tokens: u64,
    /// What they cost above the price of a read, in billionths of a US dollar; `None` if no price is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lost_nanodollars: Option<u64>,
    /// Time between the two replies' beginnings.
    #[serde(rename = "elapsed_ms", serialize_with = "milliseconds")]
    pub elapsed: Duration,
    /// The number of the reply among those of its session that told of the cache, from 1.
    pub call_number: u64,
    /// Whether the system prompt is another.
    pub system_prompt_changed: bool,
    /// By how much it is longer, in UTF-16 units.
    pub system_char_delta: i64,
    /// Whether tools were added, removed or changed. Their order does not matter here.
    pub tools_changed: bool,
    /// Tools that were not there before.
    pub added_tool_count: u64,
    /// Tools that are gone.
    pub removed_tool_count: u64,
    /// Tools of the same name whose contract is another.
    pub changed_tool_count: u64,
    /// Whether tools that stayed are in another order.
    pub tool_order_changed: bool,
    /// Whether another model answered.
    pub model_changed: bool,
    /// Whether something else of the request is another.
    pub request_policy_changed: bool,
    /// The number, from 1, of the first message that was sent before and is another now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_changed_message: Option<u64>,
    /// How many messages the request before had, leading system messages not counted.
    pub previous_message_count: u64,
    /// How many this one has.
    pub message_count: u64,
    /// How many breakpoints the request before had.
    pub previous_breakpoint_count: u64,
    /// How many this one has.
    pub breakpoint_count: u64,
    /// Those of them that stand at tools.
    pub tool_breakpoint_count: u64,
    /// Those that stand at the system prompt.
    pub system_breakpoint_count: u64,
    /// How many are gone from tools, system prompt or messages.
    pub lost_breakpoint_count: u64,
    /// Whether one stands elsewhere in tools or system prompt, or the last one in the messages stands further ahead.
    pub breakpoints_moved: bool,
    /// Whether the system prompt was another on each of the last calls: most likely it holds a time or an id.
    pub volatile_prefix: bool,
}

/// See [`Event::PromptCacheVolatile`](crate::Event::PromptCacheVolatile).
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PromptCacheVolatile {
    /// Who answered, as `provider/model`, where a candidate is selected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub candidate: Option<Arc<str>>,
    /// The model that the provider was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<Arc<str>>,
    /// Who waited.
    pub request_class: RequestClass,
    /// The number of the reply among those of its session that told of the cache, from 1.
    pub call_number: u64,
    /// How often in a row the system prompt was another.
    pub change_count: u64,
    /// By how much it is longer than the one before, in UTF-16 units: 0 speaks for a time or an id.
    pub system_char_delta: i64,
    /// What this reply read from the cache.
    pub cache_read_tokens: u64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Event;

    #[test]
    fn a_break_is_told_flat_and_in_numbers() {
        let broken = PromptCacheBreak {
            reason: CacheBreakReason::MessagesChanged,
            candidate: Some("a/x".into()),
            model: Some("x".into()),
            request_class: RequestClass::Background,
            previous_cache_read_tokens: 6000,
            cache_read_tokens: 500,
            cache_write_tokens: Some(5600),
            token_drop: 5500,
            lost_tokens: 5500,
            lost_nanodollars: None,
            elapsed: Duration::from_millis(1500),
            call_number: 2,
            system_prompt_changed: false,
            system_char_delta: -3,
            tools_changed: false,
            added_tool_count: 0,
            removed_tool_count: 0,
            changed_tool_count: 0,
            tool_order_changed: false,
            model_changed: false,
            request_policy_changed: false,
            first_changed_message: Some(14),
            previous_message_count: 40,
            message_count: 42,
            previous_breakpoint_count: 3,
            breakpoint_count: 3,
            tool_breakpoint_count: 1,
            system_breakpoint_count: 1,
            lost_breakpoint_count: 0,
            breakpoints_moved: false,
            volatile_prefix: false,
        };
        let event = Event::PromptCacheBreak(Box::new(broken));
        assert_eq!(
            serde_json::to_string(&event).unwrap(),
            r#"{"type":"prompt_cache_break","reason":"messages_changed","candidate":"a/x","model":"x","request_class":"background","previous_cache_read_tokens":6000,"cache_read_tokens":500,"cache_write_tokens":5600,"token_drop":5500,"lost_tokens":5500,"elapsed_ms":1500,"call_number":2,"system_prompt_changed":false,"system_char_delta":-3,"tools_changed":false,"added_tool_count":0,"removed_tool_count":0,"changed_tool_count":0,"tool_order_changed":false,"model_changed":false,"request_policy_changed":false,"first_changed_message":14,"previous_message_count":40,"message_count":42,"previous_breakpoint_count":3,"breakpoint_count":3,"tool_breakpoint_count":1,"system_breakpoint_count":1,"lost_breakpoint_count":0,"breakpoints_moved":false,"volatile_prefix":false}"#
        );
        assert_eq!(event.name(), "prompt_cache_break");
        let event = Event::PromptCacheVolatile(PromptCacheVolatile {
            candidate: None,
            model: None,
            request_class: RequestClass::Foreground,
            call_number: 3,
            change_count: 2,
            system_char_delta: 0,
            cache_read_tokens: 0,
        });
        assert_eq!(
            serde_json::to_string(&event).unwrap(),
            r#"{"type":"prompt_cache_volatile","request_class":"foreground","call_number":3,"change_count":2,"system_char_delta":0,"cache_read_tokens":0}"#
        );
        assert_eq!(event.name(), "prompt_cache_volatile");
    }

    #[test]
    fn reasons_are_named_as_they_are_serialised() {
        for reason in [
            CacheBreakReason::ModelChanged,
            CacheBreakReason::SystemPromptChanged,
            CacheBreakReason::ToolsChanged,
            CacheBreakReason::RequestPolicyChanged,
            CacheBreakReason::ToolOrderChanged,
            CacheBreakReason::BreakpointsChanged,
            CacheBreakReason::MessagesChanged,
            CacheBreakReason::TtlExpired,
            CacheBreakReason::ServerSide,
        ] {
            assert_eq!(serde_json::to_value(reason).unwrap(), reason.as_str());
        }
    }

    #[test]
    fn names_are_read_in_any_case() {
        assert_eq!(CacheRetention::parse(" Long "), Some(CacheRetention::Long));
        assert_eq!(CacheRetention::parse("none"), Some(CacheRetention::None));
        assert_eq!(CacheRetention::parse("default"), Some(CacheRetention::default()));
        assert_eq!(CacheRetention::parse("1h"), None);
    }
}
