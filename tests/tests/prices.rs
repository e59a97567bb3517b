//! What the real binary says that a reply costs and that a broken prompt cache has cost.

use std::path::Path;

use stanchion_faults::{
    runner::{gateway_config, run_all},
    scenario::Scenario,
    upstream::Upstream,
};
use stanchion_tests::gateway::Gateway;

/// Two requests of one session; the second one's system prompt is another, and nothing is read from the cache.
const TWO_REQUESTS: &str = r#"
name = "a break is told with what it cost"

[[upstream.a]]
body = [
  { sse = '{"choices":[{"index":0,"delta":{"content":"ok"},"finish_reason":"stop"}]}' },
  { sse = '{"choices":[],"usage":{"prompt_tokens":7000,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":6000}}}' },
  { sse = "[DONE]" },
]

[[upstream.a]]
body = [
  { sse = '{"choices":[{"index":0,"delta":{"content":"ok"},"finish_reason":"stop"}]}' },
  { sse = '{"choices":[],"usage":{"prompt_tokens":7000,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":0}}}' },
  { sse = "[DONE]" },
]

[request]
headers = { x-stanchion-session = "ID", x-stanchion-events = "sse" }
body.messages = [{ role = "system", content = "It is 9:00." }, { role = "user", content = "Hello?" }]

[[request.then]]
headers = { x-stanchion-session = "ID", x-stanchion-events = "sse" }
body.messages = [{ role = "system", content = "It is 9:01." }, { role = "user", content = "Hello?" }]
expect = EXPECT
"#;

/// The same of a provider that speaks as Anthropic does.
const TWO_OF_ANTHROPIC: &str = r#"
name = "a break is told with what it cost"
dialect = "anthropic"

[[upstream.a]]
body = [
  { event = "message_start", data = '{"type":"message_start","message":{"content":[],"usage":{"input_tokens":1000,"cache_read_input_tokens":6000}}}' },
  { event = "content_block_delta", data = '{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"ok"}}' },
  { event = "message_delta", data = '{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":2}}' },
  { event = "message_stop", data = '{"type":"message_stop"}' },
]

[[upstream.a]]
body = [
  { event = "message_start", data = '{"type":"message_start","message":{"content":[],"usage":{"input_tokens":7000,"cache_read_input_tokens":0}}}' },
  { event = "content_block_delta", data = '{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"ok"}}' },
  { event = "message_delta", data = '{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":2}}' },
  { event = "message_stop", data = '{"type":"message_stop"}' },
]

[request]
headers = { x-stanchion-session = "ID", x-stanchion-events = "sse" }
body.system = "It is 9:00."

[[request.then]]
headers = { x-stanchion-session = "ID", x-stanchion-events = "sse" }
body.system = "It is 9:01."
expect = EXPECT
"#;

/// The same of Gemini.
const TWO_OF_GEMINI: &str = r#"
name = "a break is told with what it cost"
dialect = "gemini"

[[upstream.a]]
body = [
  { sse = '{"candidates":[{"content":{"role":"model","parts":[{"text":"ok"}]},"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":7000,"cachedContentTokenCount":6000,"candidatesTokenCount":2}}' },
]

[[upstream.a]]
body = [
  { sse = '{"candidates":[{"content":{"role":"model","parts":[{"text":"ok"}]},"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":7000,"cachedContentTokenCount":0,"candidatesTokenCount":2}}' },
]

[request]
headers = { x-stanchion-session = "ID", x-stanchion-events = "sse" }
body.systemInstruction = { parts = [{ text = "It is 9:00." }] }

[[request.then]]
headers = { x-stanchion-session = "ID", x-stanchion-events = "sse" }
body.systemInstruction = { parts = [{ text = "It is 9:01." }] }
expect = EXPECT
"#;

/// Each provider's own price, which is not what whoever speaks so takes for a read of the cache.
const OWN_PRICE: &str = r#"
[[models]]
id = "house-model"
provider = "PROVIDER"
price = { input = 1, output = 2, cache_read = 0.20, date = "2026-09-01", source = "us" }
"#;

/// The scenario of this id, and the model that its candidate is asked for.
fn scenario(id: &str, requests: &str, model: &str, expect: &str) -> (Scenario, String) {
    let text = requests.replace("ID", id).replace("EXPECT", expect);
    (Scenario::parse(id, &text).expect("a scenario"), model.to_owned())
}

#[tokio::test]
async fn a_break_costs_what_the_catalogue_says_of_who_answered() {
    let reason = r#"reason = "system_prompt_changed", lost_tokens = 6000"#;
    let own = format!(
        "{{ told = [{{ usage = {{ cost_nanodollars = 7004000 }} }}, \
         {{ prompt_cache_break = {{ {reason}, lost_nanodollars = 4800000 }} }}] }}"
    );
    let scenarios = [
        // 7,000 at 2.50 and 2 at 10. What OpenAI takes off for a read is not known of whoever this is.
        scenario(
            "listed",
            TWO_REQUESTS,
            "gpt-4o",
            &format!(
                "{{ told = [{{ usage = {{ cost_nanodollars = 17520000 }} }}, \
                 {{ prompt_cache_break = {{ {reason}, model = \"gpt-4o\" }} }}], body_lacks = \"lost_nanodollars\" }}"
            ),
        ),
        // A price of the operator's own, with what is taken off: lost are 6,000 at 1 less 0.20, whatever is spoken.
        scenario("own", TWO_REQUESTS, "house-model", &own),
        scenario("own-anthropic", TWO_OF_ANTHROPIC, "house-model", &own),
        scenario("own-gemini", TWO_OF_GEMINI, "house-model", &own),
        // It is known what the reply costs, but not what a read would have cost.
        scenario(
            "half-known",
            TWO_REQUESTS,
            "llama-4-scout",
            &format!(
                "{{ told = [{{ usage = {{ cost_nanodollars = 2102400 }} }}, {{ prompt_cache_break = {{ {reason} }} }}], \
                 body_lacks = \"lost_nanodollars\" }}"
            ),
        ),
        scenario(
            "unknown",
            TWO_REQUESTS,
            "unheard-of",
            &format!("{{ told = [{{ prompt_cache_break = {{ {reason} }} }}], body_lacks = \"_nanodollars\" }}"),
        ),
    ];
    let (scenarios, models): (Vec<_>, Vec<_>) = scenarios.into_iter().unzip();
    let upstream = Upstream::start(&scenarios).await.expect("a scripted provider");
    let prices = Path::new(env!("CARGO_TARGET_TMPDIR")).join("prices.toml");
    let own: String =
        ["own-a", "own-anthropic-a", "own-gemini-a"].map(|provider| OWN_PRICE.replace("PROVIDER", provider)).concat();
    std::fs::write(&prices, own).expect("a file");
    let gateway = Gateway::start(|listen| {
        let mut config = gateway_config(&scenarios, &upstream, listen);
        for (scenario, model) in scenarios.iter().zip(&models) {
            let candidate = |model: &str| format!("{{ provider = \"{}-a\", model = \"{model}\" }}", scenario.id);
            config = config.replace(&candidate("m"), &candidate(model));
        }
        format!("{config}[usage]\nprices = {:?}\n", prices.display().to_string())
    });
    let gateway = gateway.await.expect("a gateway");
    let verdicts = run_all(&scenarios, &upstream, gateway.address(), 4).await;
    for verdict in &verdicts {
        assert_eq!(verdict.complaints, [""; 0], "{}", verdict.id);
    }
    assert_eq!(verdicts.len(), scenarios.len());
}
