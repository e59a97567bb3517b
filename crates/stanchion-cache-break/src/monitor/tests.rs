use std::time::Duration;

use serde_json::{Value, json};
use stanchion_core::{CacheBreakReason as Reason, Dialect};

use super::*;
use crate::{FingerprintBounds, fingerprint::Tool};

const DIALECT: Dialect = Dialect::AnthropicMessages;

fn request() -> Value {
    json!({
        "model": "claude-x",
        "max_tokens": 1000,
        "system": "You are a careful secretary.",
        "tools": [
            {"name": "read_diary", "description": "Reads the diary.", "input_schema": {"type": "object"}},
            {"name": "write_letter", "description": "Writes a letter.", "input_schema": {"type": "object"}},
            {"name": "send_letter", "description": "Sends it.", "input_schema": {"type": "object"}},
        ],
        "messages": [
            {"role": "user", "content": "What is in my diary?"},
            {"role": "assistant", "content": "Nothing."},
            {"role": "user", "content": "Look again."},
        ],
    })
}

fn with(change: impl FnOnce(&mut Value)) -> Value {
    let mut request = request();
    change(&mut request);
    request
}

fn read(body: &Value) -> Fingerprint {
    Fingerprint::read(DIALECT, body.to_string().as_bytes(), FingerprintBounds::default()).unwrap()
}

fn usage(prompt: u64, cache_read: u64) -> Usage {
    Usage { input: Some(prompt - cache_read), cache_read: Some(cache_read), ..Usage::default() }
}

/// One session, seen again and again.
struct One {
    monitor: Monitor,
    now: Instant,
}

impl One {
    fn new() -> Self {
        Self { monitor: Monitor::new(CacheBreakPolicy::default()), now: Instant::now() }
    }

    fn sees(&mut self, after: u64, seen: Observation) -> Findings {
        self.now += Duration::from_millis(after);
        self.monitor.observe(SessionKey::new(None, "s"), seen, self.now)
    }

    fn reads(&mut self, body: &Value, cache_read: u64) -> Option<PromptCacheBreak> {
        self.sees(1_000, Observation::new(read(body), usage(50_000, cache_read))).broken
    }
}

/// What becomes of 6,000 tokens that were read for `before` when 500 are for `after`.
fn broken(before: &Value, after: &Value) -> PromptCacheBreak {
    let mut one = One::new();
    assert_eq!(one.reads(before, 6_000), None);
    one.reads(after, 500).expect("it broke")
}

#[test]
fn a_drop_is_told_from_its_boundaries_on() {
    for (previous, current, told) in [
        (1_000, 488, true),
        (1_000, 489, false),
        (999, 0, false),
        (5_120, 4_608, true),
        (5_121, 4_608, true),
        (5_121, 4_609, false),
        (20_000, 18_000, true),
        (20_000, 18_001, false),
        (40_000, 38_000, false),
        (40_000, 37_999, true),
        (6_000, 5_800, false),
        (6_000, 7_000, false),
        (6_000, 0, true),
        (u64::MAX / 2, 0, true),
    ] {
        let mut one = One::new();
        let seen = |cache_read| Observation::new(read(&request()), usage(u64::MAX / 2, cache_read));
        one.sees(0, seen(previous));
        let found = one.sees(1_000, seen(current)).broken;
        assert_eq!(found.is_some(), told, "{previous} to {current}");
        if let Some(found) = found {
            assert_eq!((found.token_drop, found.reason), (previous - current, Reason::ServerSide));
        }
        // The low value is what the next one is compared with.
        assert_eq!(one.sees(1_000, seen(current)).broken, None);
    }
}

#[test]
fn a_shorter_prompt_reads_less() {
    for (previous, current, told) in
        [(10_000, 5_000, false), (10_000, 8_999, false), (10_000, 9_000, true), (10_000, 20_000, true)]
    {
        let mut one = One::new();
        one.sees(0, Observation::new(read(&request()), usage(previous, 5_000)));
        let found = one.sees(1_000, Observation::new(read(&request()), usage(current, 100)));
        assert_eq!(found.broken.is_some(), told, "{previous} to {current}");
    }
    // Unless something changed.
    let mut one = One::new();
    one.sees(0, Observation::new(read(&request()), usage(10_000, 5_000)));
    let changed = read(&with(|request| request["system"] = "Be brief.".into()));
    assert!(one.sees(0, Observation::new(changed, usage(5_000, 100))).broken.is_some());
    // Or nobody knows how long they are.
    let mut one = One::new();
    one.sees(0, Observation::new(read(&request()), Usage { cache_read: Some(5_000), ..Usage::default() }));
    let found = one.sees(0, Observation::new(read(&request()), usage(10, 0))).broken.unwrap();
    assert_eq!((found.token_drop, found.lost_tokens), (5_000, 10));
}

#[test]
fn another_system_prompt_breaks_the_cache() {
    let longer = with(|request| request["system"] = "You are a careful secretary. \u{1f980}".into());
    let found = broken(&request(), &longer);
    assert_eq!((found.reason, found.token_drop, found.call_number), (Reason::SystemPromptChanged, 5_500, 2));
    assert_eq!((found.previous_cache_read_tokens, found.cache_read_tokens), (6_000, 500));
    // A blank and two units.
    assert_eq!((found.system_prompt_changed, found.system_char_delta), (true, 3));
    assert_eq!(broken(&longer, &request()).system_char_delta, -3);
    assert!(!found.tools_changed && !found.model_changed && !found.request_policy_changed);
    assert_eq!((found.elapsed, found.cache_write_tokens, found.lost_tokens), (Duration::from_secs(1), None, 5_500));

    let mut one = One::new();
    one.reads(&request(), 5_156);
    assert_eq!(one.reads(&longer, 3_840).unwrap().token_drop, 1_316);
}

#[test]
fn tools_are_counted_and_come_before_policy() {
    let changed = with(|request| {
        request["tools"][0]["description"] = "Reads the diary aloud.".into();
        request["tools"].as_array_mut().unwrap().push(json!({"name": "burn_letter"}));
        request["temperature"] = 1.into();
    });
    let counts =
        |found: &PromptCacheBreak| (found.added_tool_count, found.removed_tool_count, found.changed_tool_count);
    let found = broken(&request(), &changed);
    assert_eq!((found.reason, counts(&found)), (Reason::ToolsChanged, (1, 0, 1)));
    assert!(found.request_policy_changed && found.tools_changed && !found.tool_order_changed);
    assert_eq!(counts(&broken(&changed, &request())), (0, 1, 1));

    // The order alone is told apart from what tools are.
    let turned = with(|request| request["tools"].as_array_mut().unwrap().swap(0, 2));
    let found = broken(&request(), &turned);
    assert_eq!((found.reason, found.tools_changed, found.tool_order_changed), (Reason::ToolOrderChanged, false, true));
    // One that was put in between turned nothing.
    let added = with(|request| request["tools"].as_array_mut().unwrap().insert(1, json!({"name": "burn_letter"})));
    let found = broken(&request(), &added);
    assert_eq!((found.tools_changed, found.tool_order_changed, counts(&found)), (true, false, (1, 0, 0)));
}

#[test]
fn tools_beyond_the_bound_are_still_seen_to_change() {
    let bounds = FingerprintBounds { tools: 2, messages: 0 };
    let read = |body: &Value| Fingerprint::read(DIALECT, body.to_string().as_bytes(), bounds).unwrap();
    let mut one = One::new();
    one.sees(0, Observation::new(read(&request()), usage(9_000, 6_000)));
    let changed = with(|request| request["tools"][2]["description"] = "Sends it at once.".into());
    let found = one.sees(0, Observation::new(read(&changed), usage(9_000, 0))).broken.unwrap();
    assert_eq!((found.reason, found.changed_tool_count), (Reason::ToolsChanged, 0));
}

#[test]
fn causes_have_an_order() {
    let mut all = with(|request| {
        request["system"] = "Be brief.".into();
        request["tools"] = json!([]);
        request["temperature"] = 1.into();
    });
    let mut one = One::new();
    let seen = |body: &Value, model, read_tokens| {
        Observation::new(read(body), usage(50_000, read_tokens)).with_model(&["p", "anthropic-messages", model])
    };
    one.sees(0, seen(&request(), "a", 6_000));
    let found = one.sees(400_000, seen(&all, "b", 0)).broken.unwrap();
    assert_eq!(found.reason, Reason::ModelChanged);
    assert!(found.system_prompt_changed && found.tools_changed && found.request_policy_changed);
    let expect = |reason, body: &Value| assert_eq!(broken(&request(), body).reason, reason);
    expect(Reason::SystemPromptChanged, &all);
    all["system"] = request()["system"].clone();
    expect(Reason::ToolsChanged, &all);
    all["tools"] = request()["tools"].clone();
    expect(Reason::RequestPolicyChanged, &all);
    expect(Reason::ModelChanged, &with(|request| request["model"] = "claude-y".into()));

    let policy = |url| Observation::new(read(&request()), usage(50_000, 6_000)).with_policy(&[url]);
    let mut one = One::new();
    one.sees(0, policy("https://a.example"));
    let found = one.sees(0, policy("https://b.example").with_usage(usage(50_000, 0))).broken.unwrap();
    assert_eq!((found.reason, found.model_changed), (Reason::RequestPolicyChanged, false));
}

#[test]
fn a_cache_that_was_left_alone_expires() {
    let short = request();
    let long = with(|request| {
        request["system"] = json!([
            {"type": "text", "text": "You are a careful secretary.", "cache_control": {"type": "ephemeral", "ttl": "1h"}},
        ]);
    });
    for (body, after, reason) in [
        (&short, 1_000, Reason::ServerSide),
        (&short, 299_999, Reason::ServerSide),
        (&short, 300_000, Reason::TtlExpired),
        (&short, 300_001, Reason::TtlExpired),
        (&long, 300_001, Reason::ServerSide),
        (&long, 3_599_999, Reason::ServerSide),
        (&long, 3_600_000, Reason::TtlExpired),
    ] {
        let mut one = One::new();
        one.sees(0, Observation::new(read(body), usage(9_000, 6_000)));
        let found = one.sees(after, Observation::new(read(body), usage(9_000, 0))).broken.unwrap();
        assert_eq!((found.reason, found.elapsed), (reason, Duration::from_millis(after)), "after {after} ms");
    }
    // How long it was to be kept is part of the policy, where both say so.
    let marked = with(|request| {
        request["system"] = json!([
            {"type": "text", "text": "You are a careful secretary.", "cache_control": {"type": "ephemeral"}},
        ]);
    });
    assert_eq!(broken(&marked, &long).reason, Reason::RequestPolicyChanged);
    assert_eq!(broken(&long, &marked).reason, Reason::RequestPolicyChanged);
    // One that has gone is told as that.
    let found = broken(&long, &short);
    assert_eq!((found.reason, found.request_policy_changed), (Reason::BreakpointsChanged, false));
    let mut one = One::new();
    let seen = |lifetime| Observation::new(read(&short), usage(9_000, 6_000)).with_lifetime(lifetime);
    one.sees(0, seen(CacheLifetime::Long));
    let found = one.sees(0, seen(CacheLifetime::Day).with_usage(usage(9_000, 0))).broken.unwrap();
    assert_eq!(found.reason, Reason::RequestPolicyChanged);
}

#[test]
fn an_expiry_comes_before_causes_of_our_own_and_messages_before_breakpoints() {
    let block = |text: &str, marked: bool| {
        let mut block = json!({"type": "text", "text": text});
        if marked {
            block["cache_control"] = json!({"type": "ephemeral"});
        }
        block
    };
    let marked = |first: &str, at: usize| {
        with(|request| {
            request["messages"] = (0..3)
                .map(|index| json!({"role": "user", "content": [block(if index == 0 { first } else { "Hi." }, index == at)]}))
                .collect();
        })
    };
    let (before, moved, edited) = (marked("Hello.", 2), marked("Hello.", 1), marked("Good morning.", 1));
    let mut turned = moved.clone();
    turned["tools"].as_array_mut().unwrap().swap(0, 2);
    for (after, wait, reason) in [
        (&moved, 0, Reason::BreakpointsChanged),
        (&edited, 0, Reason::MessagesChanged),
        (&turned, 0, Reason::ToolOrderChanged),
        (&moved, 300_000, Reason::TtlExpired),
        (&edited, 300_000, Reason::TtlExpired),
        (&turned, 300_000, Reason::TtlExpired),
    ] {
        let mut one = One::new();
        one.sees(0, Observation::new(read(&before), usage(9_000, 6_000)));
        let found = one.sees(wait, Observation::new(read(after), usage(9_000, 0))).broken.unwrap();
        assert_eq!(found.reason, reason, "after {wait} ms");
        // The flags tell all.
        assert!(found.breakpoints_moved, "after {wait} ms");
        assert_eq!(found.first_changed_message, (after == &edited).then_some(1));
    }
}

#[test]
fn a_compaction_begins_anew() {
    let mut one = One::new();
    let seen =
        |epoch, read_tokens| Observation::new(read(&request()), usage(50_000, read_tokens)).with_context_epoch(epoch);
    one.sees(0, seen(None, 6_000));
    assert_eq!(one.sees(0, seen(Some("e1"), 0)), Findings::default());
    assert_eq!(one.sees(0, seen(Some("e1"), 4_000)), Findings::default());
    let found = one.sees(0, seen(Some("e1"), 1_000)).broken.unwrap();
    assert_eq!((found.previous_cache_read_tokens, found.call_number), (4_000, 4));
}

#[test]
fn the_first_message_that_changed_is_told() {
    let conversation = |length: usize, changed: Option<usize>| {
        let message = |index: usize| {
            let text = if Some(index) == changed { "something else".to_owned() } else { format!("message {index}") };
            json!({"role": if index.is_multiple_of(2) { "user" } else { "assistant" }, "content": text})
        };
        with(|request| request["messages"] = (0..length).map(message).collect())
    };
    let found = broken(&conversation(40, None), &conversation(42, Some(13)));
    assert_eq!((found.reason, found.first_changed_message), (Reason::MessagesChanged, Some(14)));
    assert_eq!((found.previous_message_count, found.message_count), (40, 42));
    assert_eq!(crate::describe(&found), "earlier messages changed (message 14 of 40): 6,000 → 500");

    // It goes on, or was cut at its end: what is left is as it was.
    for length in [38, 40, 44] {
        let found = broken(&conversation(40, None), &conversation(length, None));
        assert_eq!((found.reason, found.first_changed_message), (Reason::ServerSide, None));
    }
    // Beyond the bound nobody knows.
    let found = broken(&conversation(1_100, None), &conversation(1_100, Some(1_050)));
    assert_eq!((found.reason, found.first_changed_message), (Reason::ServerSide, None));
    let found = broken(&conversation(1_100, None), &conversation(1_100, Some(1_023)));
    assert_eq!(found.first_changed_message, Some(1_024));
}

#[test]
fn what_the_request_continues_is_not_compared() {
    let seen = |body: Value, read_tokens| {
        let body = body.to_string();
        let read = Fingerprint::read(Dialect::OpenAiResponses, body.as_bytes(), FingerprintBounds::default());
        Observation::new(read.unwrap(), usage(50_000, read_tokens))
    };
    let mut one = One::new();
    one.sees(0, seen(json!({"previous_response_id": "r1", "input": "a"}), 6_000));
    let found = one.sees(0, seen(json!({"previous_response_id": "r2", "input": "b"}), 0)).broken.unwrap();
    assert_eq!((found.reason, found.first_changed_message), (Reason::ServerSide, None));
}

#[test]
fn breakpoints_that_are_lost_or_moved_are_told() {
    let mark = json!({"type": "ephemeral"});
    let block = |text: &str, marked: bool| {
        let mut block = json!({"type": "text", "text": text});
        if marked {
            block["cache_control"] = mark.clone();
        }
        block
    };
    // At the last tool, a block of the system, and one message.
    let marked = |system: usize, message: Option<usize>| {
        with(|request| {
            request["tools"][2]["cache_control"] = mark.clone();
            request["system"] = (0..3).map(|index| block("Be careful.", index == system)).collect();
            for index in 0..3 {
                request["messages"][index]["content"] = json!([block("Hello.", message == Some(index))]);
            }
        })
    };
    let counts = |found: &PromptCacheBreak| {
        (
            found.previous_breakpoint_count,
            found.breakpoint_count,
            found.tool_breakpoint_count,
            found.system_breakpoint_count,
            found.lost_breakpoint_count,
            found.breakpoints_moved,
        )
    };
    let found = broken(&marked(2, Some(1)), &marked(2, Some(2)));
    assert_eq!((found.reason, counts(&found)), (Reason::ServerSide, (3, 3, 1, 1, 0, false)));
    let found = broken(&marked(2, Some(2)), &marked(2, None));
    assert_eq!((found.reason, counts(&found)), (Reason::BreakpointsChanged, (3, 2, 1, 1, 1, false)));
    for (before, after) in [(marked(2, Some(2)), marked(2, Some(1))), (marked(2, None), marked(0, None))] {
        let found = broken(&before, &after);
        assert_eq!(
            (found.reason, found.lost_breakpoint_count, found.breakpoints_moved),
            (Reason::BreakpointsChanged, 0, true)
        );
        assert!(!found.system_prompt_changed && found.first_changed_message.is_none());
    }
    // The last tool is the last one still.
    let mut more = marked(2, None);
    let tools = more["tools"].as_array_mut().unwrap();
    tools.insert(0, json!({"name": "burn_letter"}));
    let found = broken(&marked(2, None), &more);
    assert_eq!((found.reason, found.breakpoints_moved), (Reason::ToolsChanged, false));
    more["tools"][3].as_object_mut().unwrap().remove("cache_control");
    more["tools"][0]["cache_control"] = mark.clone();
    assert!(broken(&marked(2, None), &more).breakpoints_moved);
}

#[test]
fn a_prompt_that_is_another_each_time_is_volatile() {
    let at = |minute: u32| with(|request| request["system"] = format!("It is 9:0{minute}.").into());
    let mut one = One::new();
    let mut sees =
        |minute, read_tokens| one.sees(1_000, Observation::new(read(&at(minute)), usage(50_000, read_tokens)));
    assert_eq!(sees(0, 0), Findings::default());
    assert_eq!(sees(1, 0), Findings::default());
    let told = sees(2, 0).volatile.unwrap();
    assert_eq!((told.call_number, told.change_count, told.system_char_delta), (3, 2, 0));
    // Once, and then as a flag of a break.
    assert_eq!(sees(3, 6_000), Findings::default());
    assert!(sees(4, 0).broken.unwrap().volatile_prefix);
    // One that stays is not.
    assert_eq!(sees(4, 6_000), Findings::default());
    assert!(!sees(5, 0).broken.unwrap().volatile_prefix);
}

#[test]
fn unknown_is_not_zero() {
    let mut one = One::new();
    let unknown = Usage { input: Some(9_000), output: Some(10), ..Usage::default() };
    one.reads(&request(), 6_000);
    for usage in [unknown, Usage::default(), Usage { cache_write: Some(9_000), ..unknown }] {
        assert_eq!(one.sees(1_000, Observation::new(read(&request()), usage)), Findings::default());
    }
    // What was seen before stands, and zero is zero.
    let found = one.reads(&request(), 0).unwrap();
    assert_eq!((found.previous_cache_read_tokens, found.call_number), (6_000, 2));
}

#[test]
fn as_many_sessions_are_kept_as_may_be() {
    let mut monitor = Monitor::new(CacheBreakPolicy::default());
    let now = Instant::now();
    let key = |number: usize| SessionKey::new(None, &number.to_string());
    let sees = |monitor: &mut Monitor, number, read_tokens| {
        monitor
            .observe(key(number), Observation::new(read(&request()), usage(9_000, read_tokens)), now)
            .broken
            .is_some()
    };
    for number in 0..40 {
        sees(&mut monitor, number, 6_000);
        // The first one is seen again and again.
        sees(&mut monitor, 0, 6_000);
    }
    assert_eq!(monitor.len(), 32);
    assert!(!sees(&mut monitor, 8, 0), "seen longest ago");
    assert!(sees(&mut monitor, 0, 0) && sees(&mut monitor, 39, 0));
    monitor.clear(key(39), now);
    assert_eq!(monitor.len(), 31);
    monitor.clear_all();
    assert!(monitor.is_empty());
}

#[test]
fn sessions_are_told_apart_by_name_and_owner() {
    let keys = [
        SessionKey::new(None, "ab"),
        SessionKey::new(Some("a"), "b"),
        SessionKey::new(Some("b"), "a"),
        SessionKey::derived(None, &read(&request())).unwrap(),
        SessionKey::derived(Some("a"), &read(&request())).unwrap(),
        SessionKey::derived(None, &read(&with(|request| request["messages"][0]["content"] = "Hi.".into()))).unwrap(),
        SessionKey::new(None, "ab").of_tenant(Some(&Tenant::new("a"))),
        SessionKey::new(None, "ab").of_tenant(Some(&Tenant::new("b"))),
        SessionKey::new(Some("a"), "b").of_tenant(Some(&Tenant::new("a"))),
        SessionKey::derived(None, &read(&request())).unwrap().of_tenant(Some(&Tenant::new("a"))),
        SessionKey::derived(None, &read(&request())).unwrap().of_tenant(Some(&Tenant::new("b"))),
    ];
    assert_eq!(keys[0].of_tenant(None), keys[0]);
    for (index, key) in keys.iter().enumerate() {
        assert_eq!(keys.iter().position(|other| other == key), Some(index));
    }
    let later = with(|request| request["messages"][2]["content"] = "Never mind.".into());
    assert_eq!(SessionKey::derived(None, &read(&later)), Some(keys[3]));
    assert_eq!(SessionKey::derived(None, &read(&with(|request| request["messages"] = json!([])))), None);
    // What the provider keeps of a conversation stands before what is sent, which is another on each call.
    for (member, derived) in [("previous_response_id", false), ("conversation", false), ("prompt_cache_key", true)] {
        let body = json!({"input": [{"role": "user", "content": "Hi."}], member: "r1"}).to_string();
        let read = Fingerprint::read(Dialect::OpenAiResponses, body.as_bytes(), FingerprintBounds::default()).unwrap();
        assert_eq!(SessionKey::derived(None, &read).is_some(), derived, "{member}");
    }
}

#[test]
fn replies_are_compared_in_the_order_in_which_they_began() {
    let mut monitor = Monitor::new(CacheBreakPolicy::default());
    let (key, began) = (SessionKey::new(None, "s"), Instant::now());
    let mut sees = |after: u64, read_tokens| {
        let seen = Observation::new(read(&request()), usage(50_000, read_tokens));
        monitor.observe(key, seen, began + Duration::from_secs(after)).broken
    };
    assert_eq!(sees(0, 6_000), None);
    assert_eq!(sees(3, 20_000), None);
    // It began before that one and ended after it: not judged, and no measure for the next one.
    assert_eq!(sees(2, 6_000), None);
    let broken = sees(4, 6_000).unwrap();
    assert_eq!((broken.previous_cache_read_tokens, broken.call_number), (20_000, 3));
    // At the same moment is not before.
    assert!(sees(4, 500).is_some());
}

#[test]
fn a_reply_that_was_running_does_not_bring_a_session_back() {
    let mut monitor = Monitor::new(CacheBreakPolicy::builder().max_sessions(2).build().unwrap());
    let (key, began) = (SessionKey::new(None, "s"), Instant::now());
    let at = |seconds: u64| began + Duration::from_secs(seconds);
    let seen = || Observation::new(read(&request()), usage(50_000, 6_000));
    monitor.observe(key, seen(), at(0));
    monitor.clear(key, at(2));
    monitor.observe(key, seen(), at(1));
    assert!(monitor.is_empty());
    monitor.observe(key, seen(), at(2));
    assert_eq!(monitor.len(), 1);
    // What was forgotten is bounded, too.
    for number in 0..9 {
        monitor.clear(SessionKey::new(None, &number.to_string()), at(3));
    }
    assert_eq!(monitor.forgotten.len(), 2);
    monitor.clear(key, at(4));
    monitor.clear_all();
    monitor.observe(key, seen(), at(0));
    assert_eq!(monitor.len(), 1);
}

#[test]
fn what_gemini_leaves_out_is_zero_once_it_has_told_it() {
    let gemini = |model: &str, usage| {
        let body = json!({"contents": [{"role": "user", "parts": [{"text": "Hi."}]}]}).to_string();
        let read = Fingerprint::read(Dialect::GeminiGenerateContent, body.as_bytes(), FingerprintBounds::default());
        Observation::new(read.unwrap(), usage).with_model(&["google", "gemini", model])
    };
    let silent = Usage { input: Some(9_000), ..Usage::default() };
    let mut one = One::new();
    // Before it has told it, nobody knows.
    assert_eq!(one.sees(0, gemini("a", silent)), Findings::default());
    assert!(one.monitor.is_empty());
    one.sees(1, gemini("a", usage(9_000, 6_000)));
    // Nor of another model, or of a reply that reports nothing.
    assert_eq!(one.sees(1, gemini("b", silent)), Findings::default());
    assert_eq!(one.sees(1, gemini("a", Usage::default())), Findings::default());
    let broken = one.sees(1, gemini("a", silent)).broken.unwrap();
    assert_eq!((broken.cache_read_tokens, broken.token_drop, broken.call_number), (0, 6_000, 2));
    // Others say zero where it is zero.
    let mut one = One::new();
    one.reads(&request(), 6_000);
    assert_eq!(one.sees(1, Observation::new(read(&request()), silent)), Findings::default());
}

/// Every byte that a monitor keeps. Takes each struct apart by name, so that a field that is added has to be added here.
fn memory(monitor: &Monitor) -> Vec<u8> {
    let mut bytes = Vec::new();
    let Monitor { policy, sessions, forgotten } = monitor;
    // Numbers and flags.
    let _: &CacheBreakPolicy = policy;
    bytes.extend(forgotten.iter().flat_map(|(SessionKey(key), _): (_, &Instant)| key));
    for (SessionKey(key), session) in sessions.iter() {
        let Session {
            fingerprint,
            model,
            policy,
            epoch,
            lifetime,
            prompt,
            cache_read,
            at,
            calls,
            system_changes,
            told_volatile,
        } = session;
        let _: (&CacheLifetime, &Option<u64>, &u64, &Instant) = (lifetime, prompt, cache_read, at);
        let _: (&u64, &u64, &bool) = (calls, system_changes, told_volatile);
        bytes.extend(key);
        for digest in [model, policy, epoch] {
            bytes.extend(digest.iter().flatten());
        }
        let Fingerprint {
            model,
            system,
            system_chars,
            policy,
            tools,
            tool_count,
            all_tools,
            messages,
            message_count,
            breakpoints,
            lifetime,
            first_user,
            continues,
            omits_zero,
        } = fingerprint;
        let _: (&u64, &u64, &u64, &CacheLifetime) = (system_chars, tool_count, message_count, lifetime);
        let _: [&bool; 2] = [continues, omits_zero];
        for digest in [model.as_ref(), Some(system), Some(policy), Some(all_tools), first_user.as_ref()] {
            bytes.extend(digest.into_iter().flatten());
        }
        for Tool { identity, contract } in tools {
            bytes.extend(identity.iter().chain(contract));
        }
        bytes.extend(messages.iter().flat_map(|message| message.to_le_bytes()));
        for crate::fingerprint::Breakpoint { section, index } in breakpoints {
            bytes.push(*section as u8);
            bytes.extend(index.to_le_bytes());
        }
    }
    bytes
}

#[test]
fn nothing_of_what_was_said_is_kept() {
    let mut monitor = Monitor::new(CacheBreakPolicy::default());
    let mut body = request();
    body["metadata"] = json!({"user_id": "user-of-mine"});
    body["stop_sequences"] = json!(["a-stop-word"]);
    body["messages"][0]["content"] =
        json!([{"type": "text", "text": "What is in my diary?", "cache_control": {"type": "ephemeral"}}]);
    let seen = || {
        Observation::new(read(&body), usage(9_000, 6_000))
            .with_candidate(Some("primary/claude-x".into()))
            .with_model(&["primary-provider", "anthropic-messages", "claude-x"])
            .with_policy(&["https://provider.example/v1", "x-route:left"])
            .with_context_epoch(Some("epoch-of-mine"))
    };
    let key = SessionKey::new(Some("owner-of-mine"), "session-of-mine");
    monitor.observe(key, seen(), Instant::now());
    let broken = monitor.observe(key, seen().with_usage(usage(9_000, 0)), Instant::now());
    let memory = memory(&monitor);
    assert!(memory.len() > 32 * 9);

    let event = serde_json::to_string(broken.broken.as_ref().unwrap()).unwrap();
    let shown = format!("{monitor:?} {key:?} {:?} {:?} {broken:?}", seen(), read(&body));
    // Every word of the request and of who sent it, and every four letters of each.
    let said = format!("{body} owner-of-mine session-of-mine epoch-of-mine primary-provider provider.example x-route");
    let words = said.split(|letter: char| !letter.is_alphanumeric()).filter(|word| word.len() >= 4);
    for word in words.flat_map(|word| word.as_bytes().windows(4)) {
        assert!(!memory.windows(word.len()).any(|part| part == word), "{:?} is kept", str::from_utf8(word));
    }
    for word in ["diary", "letter", "secretary", "Reads", "stop-word", "of-mine", "example", "x-route"] {
        assert!(!event.contains(word) && !shown.contains(word), "{word} is shown: {event} {shown}");
    }
    // And nothing grows with what is said.
    let mut long = body.clone();
    long["system"] = "x".repeat(1_000_000).into();
    let kept = memory.len();
    monitor.observe(key, Observation::new(read(&long), usage(9_000, 0)), Instant::now());
    assert!(super::tests::memory(&monitor).len() <= kept);
}
