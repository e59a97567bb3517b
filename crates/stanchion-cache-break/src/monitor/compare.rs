//! One reply against the one before it.

use std::{cmp::Ordering, time::Duration};

use stanchion_core::{CacheBreakReason, PromptCacheBreak, RequestClass, Usage};

use super::Session;
use crate::{
    CacheLifetime,
    fingerprint::{Fingerprint, Section, Tool},
};

/// Less than this is not worth a word: shorter prompts are not cached at all (1,024 tokens is the least at OpenAI and
/// Anthropic).
const MIN_PREVIOUS_READ: u64 = 1_000;
/// A drop is one from so many tokens on, or from a tenth of what was read before, whichever is more ...
const MIN_DROP: u64 = 512;
/// ... but never asks for more than this.
const MAX_REQUIRED_DROP: u64 = 2_000;

/// Whether the cache broke, and why; the candidate and whether the prefix is volatile are for the caller to add.
pub(super) fn broken(previous: &Session, current: &Session, usage: &Usage) -> Option<PromptCacheBreak> {
    let token_drop = drop_between(previous.cache_read, current.cache_read)?;
    let (before, after) = (&previous.fingerprint, &current.fingerprint);
    let model_changed = previous.model != current.model;
    let system_prompt_changed = before.system != after.system;
    let tools_changed = before.all_tools != after.all_tools;
    let request_policy_changed =
        before.policy != after.policy || previous.policy != current.policy || lifetime_changed(previous, current);
    let unchanged = !(model_changed || system_prompt_changed || tools_changed || request_policy_changed);
    if unchanged && has_shrunk(previous.prompt, current.prompt) {
        return None;
    }
    let tools = compare_tools(&before.tools, &after.tools);
    let breakpoints = compare_breakpoints(before, after);
    let first_changed_message = first_changed_message(before, after);
    let elapsed = current.at.saturating_duration_since(previous.at);
    let reason = [
        (model_changed, CacheBreakReason::ModelChanged),
        (system_prompt_changed, CacheBreakReason::SystemPromptChanged),
        (tools_changed, CacheBreakReason::ToolsChanged),
        (request_policy_changed, CacheBreakReason::RequestPolicyChanged),
        (elapsed >= previous.lifetime.duration(), CacheBreakReason::TtlExpired),
        (tools.reordered, CacheBreakReason::ToolOrderChanged),
        (first_changed_message.is_some(), CacheBreakReason::MessagesChanged),
        (breakpoints.lost > 0 || breakpoints.moved, CacheBreakReason::BreakpointsChanged),
    ];
    let reason = reason.iter().find(|(holds, _)| *holds).map_or(CacheBreakReason::ServerSide, |(_, reason)| *reason);
    let unread = current.prompt.map(|prompt| prompt.saturating_sub(current.cache_read));
    Some(PromptCacheBreak {
        reason,
        candidate: None,
        model: None,
        request_class: RequestClass::default(),
        previous_cache_read_tokens: previous.cache_read,
        cache_read_tokens: current.cache_read,
        cache_write_tokens: usage.cache_write,
        token_drop,
        lost_tokens: unread.map_or(token_drop, |unread| unread.min(token_drop)),
        lost_nanodollars: None,
        elapsed: whole_milliseconds(elapsed),
        call_number: current.calls,
        system_prompt_changed,
        system_char_delta: delta(before.system_chars, after.system_chars),
        tools_changed,
        added_tool_count: tools.added,
        removed_tool_count: tools.removed,
        changed_tool_count: tools.changed,
        tool_order_changed: tools.reordered,
        model_changed,
        request_policy_changed,
        first_changed_message,
        previous_message_count: before.message_count,
        message_count: after.message_count,
        previous_breakpoint_count: before.breakpoint_count(),
        breakpoint_count: after.breakpoint_count(),
        tool_breakpoint_count: after.breakpoints_in(Section::Tools).count() as u64,
        system_breakpoint_count: after.breakpoints_in(Section::System).count() as u64,
        lost_breakpoint_count: breakpoints.lost,
        breakpoints_moved: breakpoints.moved,
        volatile_prefix: false,
    })
}

/// Whether another lifetime is asked for. A request without breakpoints asks for none: that one is gone is told as such.
fn lifetime_changed(previous: &Session, current: &Session) -> bool {
    let is_asked = |session: &Session| {
        session.fingerprint.breakpoint_count() > 0
            || session.lifetime == CacheLifetime::Day
            || session.lifetime != session.fingerprint.lifetime
    };
    previous.lifetime != current.lifetime && is_asked(previous) && is_asked(current)
}

/// By how much less was read, if that is enough to be told.
fn drop_between(previous: u64, current: u64) -> Option<u64> {
    if previous < MIN_PREVIOUS_READ {
        return None;
    }
    let drop = previous.checked_sub(current)?;
    let tenths = u128::from(previous).max(u128::from(MIN_DROP) * 10).min(u128::from(MAX_REQUIRED_DROP) * 10);
    let large = u128::from(drop) * 10 >= tenths;
    // Nineteen twentieths of what was read before are as good as all of it.
    let low = u128::from(current) * 20 < u128::from(previous) * 19;
    (large && low).then_some(drop)
}

/// Whether the prompt is shorter than nine tenths of the one before: then less is read because there is less to read.
fn has_shrunk(previous: Option<u64>, current: Option<u64>) -> bool {
    match (previous, current) {
        (Some(previous), Some(current)) => u128::from(current) * 10 < u128::from(previous) * 9,
        _ => false,
    }
}

#[derive(Default)]
struct Tools {
    added: u64,
    removed: u64,
    changed: u64,
    reordered: bool,
}

fn compare_tools(before: &[Tool], after: &[Tool]) -> Tools {
    let (mut old, mut new) = (before.to_vec(), after.to_vec());
    old.sort_unstable();
    new.sort_unstable();
    let mut tools = Tools::default();
    let (mut old, mut new) = (old.as_slice(), new.as_slice());
    while let (Some(a), Some(b)) = (old.first(), new.first()) {
        match a.identity.cmp(&b.identity) {
            Ordering::Less => (tools.removed, old) = (tools.removed + 1, &old[1..]),
            Ordering::Greater => (tools.added, new) = (tools.added + 1, &new[1..]),
            Ordering::Equal => {
                tools.changed += u64::from(a.contract != b.contract);
                (old, new) = (&old[1..], &new[1..]);
            }
        }
    }
    tools.removed += old.len() as u64;
    tools.added += new.len() as u64;
    tools.reordered = stayed(before, after).ne(stayed(after, before));
    tools
}

/// The tools of `list` that are in `other`, too, in their order.
fn stayed<'a>(list: &'a [Tool], other: &[Tool]) -> impl Iterator<Item = [u8; 16]> + use<'a> {
    let mut other: Vec<_> = other.iter().map(|tool| tool.identity).collect();
    other.sort_unstable();
    list.iter().map(|tool| tool.identity).filter(move |identity| other.binary_search(identity).is_ok())
}

struct Breakpoints {
    lost: u64,
    moved: bool,
}

fn compare_breakpoints(before: &Fingerprint, after: &Fingerprint) -> Breakpoints {
    let count = |fingerprint: &Fingerprint, section| fingerprint.breakpoints_in(section).count() as u64;
    let lost = [Section::Tools, Section::System, Section::Messages]
        .iter()
        .map(|section| count(before, *section).saturating_sub(count(after, *section)))
        .sum();
    // Those in the messages go on with the conversation; only the way back is a loss.
    let last = |fingerprint: &Fingerprint| fingerprint.breakpoints_in(Section::Messages).max();
    let back = match (last(before), last(after)) {
        (Some(before), Some(after)) => after < before,
        _ => false,
    };
    Breakpoints { lost, moved: back || gone(before, after, Section::System) || gone(before, after, Section::Tools) }
}

/// Whether a breakpoint stood where there is none any more. One at the last tool stays there although others were added.
fn gone(before: &Fingerprint, after: &Fingerprint, section: Section) -> bool {
    let end = |fingerprint: &Fingerprint| match section {
        Section::Tools => u32::try_from(fingerprint.tool_count).unwrap_or(u32::MAX),
        Section::System | Section::Messages => 0,
    };
    let (old_end, new_end) = (end(before), end(after));
    before.breakpoints_in(section).any(|old| {
        !after.breakpoints_in(section).any(|new| new == old || (old_end > 0 && old_end - old == new_end - new))
    })
}

/// The number of the first message that was sent before and is another now.
fn first_changed_message(before: &Fingerprint, after: &Fingerprint) -> Option<u64> {
    if before.continues || after.continues {
        return None;
    }
    let parted = before.messages.iter().zip(&after.messages).position(|(a, b)| a != b)?;
    Some(parted as u64 + 1)
}

pub(super) fn delta(before: u64, after: u64) -> i64 {
    let by = i64::try_from(before.abs_diff(after)).unwrap_or(i64::MAX);
    if after < before { -by } else { by }
}

fn whole_milliseconds(time: Duration) -> Duration {
    Duration::from_millis(u64::try_from(time.as_millis()).unwrap_or(u64::MAX))
}
