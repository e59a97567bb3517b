use std::ops::Range;

use bytes::Bytes;
use stanchion_core::{CacheRetention, Dialect};

use super::members::{Elements, Member, Members};

const BREAKPOINT: &str = "cache_control";
const LONG: &[u8] = br#""1h""#;
/// Of blocks within blocks. Anthropic has three: a message, a tool's result, a search result, and its texts.
const DEEPEST: usize = 8;

/// Says in a request's body for how long its prompt is to be kept in the provider's cache.
///
/// On Anthropic's messages `none` takes every `cache_control` out, and `long` gives each the `"ttl": "1h"`: of the request
/// itself, of tools, of the blocks of system and messages, and of the blocks within those: in the results of tools, in
/// search results, in the sources of documents. Nothing is set where there is none, and what a tool's schema or its input calls `cache_control` is left alone. Every other byte stays as it
/// is. For other dialects, and for [`CacheRetention::Default`], nothing changes.
///
/// Where nothing changes, the result shares the body's memory.
///
/// ```
/// use bytes::Bytes;
/// use stanchion_core::{CacheRetention, Dialect};
/// use stanchion_wire::request::with_cache_retention;
///
/// let body = Bytes::from_static(br#"{"system": [{"type": "text", "text": "Be kind.", "cache_control": {"type": "ephemeral"}}]}"#);
/// let long = with_cache_retention(Dialect::AnthropicMessages, &body, CacheRetention::Long);
/// assert!(long.ends_with(br#""cache_control": {"type": "ephemeral","ttl":"1h"}}]}"#));
/// let none = with_cache_retention(Dialect::AnthropicMessages, &body, CacheRetention::None);
/// assert_eq!(none, br#"{"system": [{"type": "text", "text": "Be kind."}]}"#[..]);
/// ```
#[must_use]
pub fn with_cache_retention(dialect: Dialect, body: &Bytes, retention: CacheRetention) -> Bytes {
    if dialect != Dialect::AnthropicMessages || retention == CacheRetention::Default {
        return body.clone();
    }
    let mut edits = Edits { body, retention, found: Vec::new() };
    edits.request();
    edits.apply()
}

struct Edits<'a> {
    body: &'a Bytes,
    retention: CacheRetention,
    /// What stands there instead. None overlaps another; they need not be in order.
    found: Vec<(Range<usize>, &'static [u8])>,
}

impl Edits<'_> {
    /// The members of the object that stands there, as they stand in the body.
    fn members(&self, object: &Range<usize>) -> Vec<Member> {
        let within = |range: Range<usize>| range.start + object.start..range.end + object.start;
        let members = Members::of(&self.body[object.clone()]);
        members.map(|member| Member { key: within(member.key), value: within(member.value) }).collect()
    }

    fn elements(&self, array: &Range<usize>) -> Vec<Range<usize>> {
        let within = |range: Range<usize>| range.start + array.start..range.end + array.start;
        Elements::of(&self.body[array.clone()]).map(within).collect()
    }

    fn request(&mut self) {
        let members = self.members(&(0..self.body.len()));
        self.breakpoints(&members);
        for member in &members {
            let is = |name| member.is_called(self.body, name);
            if is("system") || is("tools") {
                self.blocks(&member.value, 0);
            } else if is("messages") {
                self.blocks(&member.value, DEEPEST);
            }
        }
    }

    /// Each block of an array, and so many levels of blocks within it.
    fn blocks(&mut self, array: &Range<usize>, levels: usize) {
        for block in self.elements(array) {
            let members = self.members(&block);
            self.breakpoints(&members);
            if levels == 0 {
                continue;
            }
            let called = |members: &[Member], name: &str| -> Vec<_> {
                let named = members.iter().filter(|member| member.is_called(self.body, name));
                named.map(|member| member.value.clone()).collect()
            };
            let mut inner = called(&members, "content");
            for source in called(&members, "source") {
                inner.extend(called(&self.members(&source), "content"));
            }
            for content in inner {
                self.blocks(&content, levels - 1);
            }
        }
    }

    /// The breakpoints among the members of one object.
    fn breakpoints(&mut self, members: &[Member]) {
        let is_one: Vec<_> = members.iter().map(|member| member.is_called(self.body, BREAKPOINT)).collect();
        if self.retention == CacheRetention::Long {
            let ones = members.iter().zip(&is_one).filter(|(_, is_one)| **is_one);
            for value in ones.map(|(member, _)| member.value.clone()).collect::<Vec<_>>() {
                self.lengthen(&value);
            }
            return;
        }
        // Each goes with the comma before it, those that stand first with the one behind them.
        let first_kept = is_one.iter().position(|is_one| !is_one).unwrap_or(members.len());
        if first_kept > 0 {
            let end = members.get(first_kept).map_or(members[first_kept - 1].value.end, |member| member.key.start);
            self.found.push((members[0].key.start..end, b""));
        }
        for index in first_kept..members.len() {
            if is_one[index] {
                self.found.push((members[index - 1].value.end..members[index].value.end, b""));
            }
        }
    }

    fn lengthen(&mut self, breakpoint: &Range<usize>) {
        if self.body.get(breakpoint.start) != Some(&b'{') {
            return;
        }
        let members = self.members(breakpoint);
        let ttl: Vec<_> = members.iter().filter(|member| member.is_called(self.body, "ttl")).collect();
        match (ttl.as_slice(), members.last()) {
            ([], Some(last)) => self.found.push((last.value.end..last.value.end, br#","ttl":"1h""#)),
            ([], None) => self.found.push((breakpoint.start + 1..breakpoint.start + 1, br#""ttl":"1h""#)),
            (ttl, _) => {
                for member in ttl {
                    if &self.body[member.value.clone()] != LONG {
                        self.found.push((member.value.clone(), LONG));
                    }
                }
            }
        }
    }

    fn apply(mut self) -> Bytes {
        if self.found.is_empty() {
            return self.body.clone();
        }
        self.found.sort_by_key(|(range, _)| range.start);
        let added: usize = self.found.iter().map(|(_, text)| text.len()).sum();
        let mut edited = Vec::with_capacity(self.body.len() + added);
        let mut at = 0;
        for (range, text) in &self.found {
            edited.extend_from_slice(&self.body[at..range.start]);
            edited.extend_from_slice(text);
            at = range.end;
        }
        edited.extend_from_slice(&self.body[at..]);
        edited.into()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    fn with(retention: CacheRetention, body: &str) -> String {
        let body = Bytes::copy_from_slice(body.as_bytes());
        String::from_utf8(with_cache_retention(Dialect::AnthropicMessages, &body, retention).to_vec()).unwrap()
    }

    #[test]
    fn none_takes_breakpoints_out_wherever_they_stand() {
        for (body, expected) in [
            (r#"{"cache_control":{"type":"ephemeral"}}"#, "{}"),
            (r#"{"cache_control":{"type":"ephemeral"}, "model":"m"}"#, r#"{"model":"m"}"#),
            (r#"{"model":"m" , "cache_control":{}}"#, r#"{"model":"m"}"#),
            (
                r#"{"tools":[{"name":"a","cache_control":null},{"cache_control":{},"cache_control":{},"name":"b","x":1}]}"#,
                r#"{"tools":[{"name":"a"},{"name":"b","x":1}]}"#,
            ),
            (
                r#"{"messages":[{"role":"user","content":[{"type":"tool_result","content":[{"text":"x","cache\u005fcontrol":{}}],"cache_control":{"ttl":"5m"}}]}]}"#,
                r#"{"messages":[{"role":"user","content":[{"type":"tool_result","content":[{"text":"x"}]}]}]}"#,
            ),
            (r#"{"system":[{"cache_control":{},"text":"x"}]}"#, r#"{"system":[{"text":"x"}]}"#),
            (
                r#"{"messages":[{"content":[{"type":"tool_result","content":[{"type":"search_result","content":[{"text":"x","cache_control":{}}],"cache_control":{}}]}]}]}"#,
                r#"{"messages":[{"content":[{"type":"tool_result","content":[{"type":"search_result","content":[{"text":"x"}]}]}]}]}"#,
            ),
            (
                r#"{"messages":[{"content":[{"type":"document","source":{"type":"content","content":[{"text":"x","cache_control":{}}]}}]}]}"#,
                r#"{"messages":[{"content":[{"type":"document","source":{"type":"content","content":[{"text":"x"}]}}]}]}"#,
            ),
        ] {
            assert_eq!(with(CacheRetention::None, body), expected);
        }
    }

    #[test]
    fn long_makes_breakpoints_last() {
        for (body, expected) in [
            (r#"{"system":[{"cache_control":{ }}]}"#, r#"{"system":[{"cache_control":{"ttl":"1h" }}]}"#),
            (
                r#"{"system":[{"cache_control":{"type":"ephemeral"}}]}"#,
                r#"{"system":[{"cache_control":{"type":"ephemeral","ttl":"1h"}}]}"#,
            ),
            (
                r#"{"tools":[{"cache_control":{"ttl": "5m", "type":"ephemeral"}}],"cache_control":{"type":"ephemeral"}}"#,
                r#"{"tools":[{"cache_control":{"ttl": "1h", "type":"ephemeral"}}],"cache_control":{"type":"ephemeral","ttl":"1h"}}"#,
            ),
        ] {
            assert_eq!(with(CacheRetention::Long, body), expected);
        }
    }

    #[test]
    fn what_only_looks_like_a_breakpoint_is_left_alone() {
        for body in [
            r#"{"tools":[{"name":"a","input_schema":{"properties":{"cache_control":{"type":"object"}}}}]}"#,
            r#"{"messages":[{"role":"assistant","content":[{"type":"tool_use","input":{"cache_control":{}}}]}]}"#,
            r#"{"messages":[{"role":"user","content":"cache_control"}],"system":"cache_control"}"#,
            r#"{"metadata":{"cache_control":{}}}"#,
            "{}",
            "[]",
            "",
            "{",
            r#"{"messages":[{"#,
            r#"{"system":[{"cache_control""#,
        ] {
            let body = Bytes::copy_from_slice(body.as_bytes());
            for retention in [CacheRetention::None, CacheRetention::Long] {
                let same = with_cache_retention(Dialect::AnthropicMessages, &body, retention);
                assert_eq!((same.as_ptr(), same.len()), (body.as_ptr(), body.len()), "{body:?}");
            }
        }
        let null = r#"{"system":[{"cache_control":null}]}"#;
        assert_eq!(with(CacheRetention::Long, null), null);
    }

    #[test]
    fn elsewhere_and_by_default_nothing_changes() {
        let body = Bytes::from_static(br#"{"cache_control":{"type":"ephemeral"}}"#);
        for (dialect, retention) in [
            (Dialect::OpenAiChat, CacheRetention::None),
            (Dialect::GeminiGenerateContent, CacheRetention::Long),
            (Dialect::AnthropicMessages, CacheRetention::Default),
        ] {
            assert_eq!(with_cache_retention(dialect, &body, retention).as_ptr(), body.as_ptr());
        }
    }

    fn block() -> impl Strategy<Value = Value> {
        let mark = prop::option::of(prop::sample::select(vec![
            json!({}),
            json!({"type": "ephemeral"}),
            json!({"type": "ephemeral", "ttl": "5m"}),
            json!({"ttl": "1h"}),
        ]));
        let leaf = (mark.clone(), any::<bool>()).prop_map(|(mark, text)| {
            let mut block = if text { json!({"type": "text", "text": "cache_control"}) } else { json!({}) };
            if let Some(mark) = mark {
                block["cache_control"] = mark;
            }
            block
        });
        leaf.prop_recursive(3, 12, 3, |inner| {
            (inner.clone(), prop::collection::vec(inner, 0..3), 0..3).prop_map(|(mut block, inner, nested)| {
                match nested {
                    1 => block["content"] = inner.into(),
                    2 => block["source"] = json!({"type": "content", "content": inner}),
                    _ => {}
                }
                block
            })
        })
    }

    fn expected(value: &mut Value, retention: CacheRetention) {
        match value {
            Value::Array(items) => items.iter_mut().for_each(|item| expected(item, retention)),
            Value::Object(members) => {
                if retention == CacheRetention::None {
                    members.remove(BREAKPOINT);
                } else if let Some(mark) = members.get_mut(BREAKPOINT) {
                    mark["ttl"] = "1h".into();
                }
                members.values_mut().for_each(|member| expected(member, retention));
            }
            _ => {}
        }
    }

    proptest! {
        #[test]
        fn the_result_is_what_a_parser_would_make_of_it(
            system in prop::collection::vec(block(), 0..3),
            messages in prop::collection::vec(prop::collection::vec(block(), 0..3), 0..3),
            pretty in any::<bool>(),
            retention in prop::sample::select(vec![CacheRetention::None, CacheRetention::Long]),
        ) {
            // A system block has nothing within.
            let system: Vec<_> = system
                .into_iter()
                .map(|mut block| {
                    let members = block.as_object_mut().unwrap();
                    members.remove("content");
                    members.remove("source");
                    block
                })
                .collect();
            let messages: Vec<_> = messages.iter().map(|blocks| json!({"role": "user", "content": blocks})).collect();
            let mut value = json!({"system": system, "messages": messages});
            let text = if pretty { serde_json::to_string_pretty(&value) } else { serde_json::to_string(&value) };
            let found: Value = serde_json::from_str(&with(retention, &text.unwrap())).unwrap();
            expected(&mut value, retention);
            prop_assert_eq!(found, value);
        }

        #[test]
        fn nothing_panics(text in r#"[\[\]{}:,"\\ 0-9]{0,24}("cache_control":|"content":\[|"messages":\[)?[\[\]{}:,"\\ 0-9]{0,24}"#) {
            for retention in [CacheRetention::None, CacheRetention::Long] {
                let _ = with(retention, &text);
            }
        }
    }
}
