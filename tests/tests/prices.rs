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

const OWN_PRICES: &str = r#"
[[models]]
id = "house-model"
provider = "house"
price = { input = 1, output = 2, cache_read = 0.25, date = "2026-09-01", source = "us" }
"#;

/// The scenario of this id, and the model that its candidate is asked for.
fn scenario(id: &str, model: &str, expect: &str) -> (Scenario, String) {
    let text = TWO_REQUESTS.replace("ID", id).replace("EXPECT", expect);
    (Scenario::parse(id, &text).expect("a scenario"), model.to_owned())
}

#[tokio::test]
async fn a_break_costs_what_the_catalogue_says_of_who_answered() {
    let reason = r#"reason = "system_prompt_changed", lost_tokens = 6000"#;
    let scenarios = [
        // 7,000 at 2.50 and 2 at 10; lost are 6,000 at 2.50 less 1.25.
        scenario(
            "listed",
            "gpt-4o",
            &format!(
                "{{ told = [{{ usage = {{ cost_nanodollars = 17520000 }} }}, \
                 {{ prompt_cache_break = {{ {reason}, model = \"gpt-4o\", lost_nanodollars = 7500000 }} }}] }}"
            ),
        ),
        // A price of the operator's own, with what is taken off.
        scenario(
            "own",
            "house-model",
            &format!(
                "{{ told = [{{ usage = {{ cost_nanodollars = 7004000 }} }}, \
                 {{ prompt_cache_break = {{ {reason}, lost_nanodollars = 4500000 }} }}] }}"
            ),
        ),
        // It is known what the reply costs, but not what a read would have cost.
        scenario(
            "half-known",
            "llama-4-scout",
            &format!(
                "{{ told = [{{ usage = {{ cost_nanodollars = 2102400 }} }}, {{ prompt_cache_break = {{ {reason} }} }}], \
                 body_lacks = \"lost_nanodollars\" }}"
            ),
        ),
        scenario(
            "unknown",
            "unheard-of",
            &format!("{{ told = [{{ prompt_cache_break = {{ {reason} }} }}], body_lacks = \"_nanodollars\" }}"),
        ),
    ];
    let (scenarios, models): (Vec<_>, Vec<_>) = scenarios.into_iter().unzip();
    let upstream = Upstream::start(&scenarios).await.expect("a scripted provider");
    let prices = Path::new(env!("CARGO_TARGET_TMPDIR")).join("prices.toml");
    std::fs::write(&prices, OWN_PRICES).expect("a file");
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
