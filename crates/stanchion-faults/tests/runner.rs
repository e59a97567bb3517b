//! Scenarios through a gateway: here one that only passes bytes on.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use stanchion_faults::Outcome;
use stanchion_faults::runner::{Report, Target, gateway_config, play, run_all, run_direct};
use stanchion_faults::scenario::{Scenario, load_folder};
use stanchion_faults::upstream::Upstream;
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy};
use tokio::net::{TcpListener, TcpStream};

/// A gateway that knows each model by the first candidate of its configuration, and passes bytes on.
async fn relay(config: &str) -> SocketAddr {
    let config: Arc<toml::Table> = Arc::new(config.parse().unwrap());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            tokio::spawn(pass(client, Arc::clone(&config)));
        }
    });
    address
}

async fn pass(mut client: TcpStream, config: Arc<toml::Table>) -> Option<()> {
    let mut request = vec![0; 64 << 10];
    let length = client.read(&mut request).await.ok()?;
    let request = String::from_utf8_lossy(&request[..length]).into_owned();
    assert!(request.contains("authorization: Bearer sk-x\r\n"), "{request}");
    let body: serde_json::Value = serde_json::from_str(request.split("\r\n\r\n").nth(1)?).ok()?;
    let candidate = &config["models"][body["model"].as_str()?]["candidates"][0];
    let base = config["providers"][candidate["provider"].as_str()?]["base_url"].as_str()?;
    let (host, prefix) = base.strip_prefix("http://")?.split_once('/')?;
    let mut provider = TcpStream::connect(host).await.ok()?;
    let prefix = prefix.trim_end_matches("/v1");
    provider.write_all(request.replacen("POST /", &format!("POST /{prefix}/"), 1).as_bytes()).await.ok()?;
    copy(&mut provider, &mut client).await.ok()?;
    Some(())
}

#[tokio::test]
async fn verdicts_tell_what_holds_and_what_does_not() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/scenarios");
    let mut scenarios = load_folder(folder).unwrap();
    scenarios.retain(|scenario| ["s01", "s02", "s08", "s13", "s15", "s32", "s40"].contains(&scenario.id.as_str()));
    let upstream = Upstream::start(&scenarios).await.unwrap();
    let config = gateway_config(&scenarios, &upstream, ([127, 0, 0, 1], 1).into());
    let verdicts = run_all(&scenarios, &upstream, relay(&config).await, 2).await;

    let told: Vec<_> = verdicts.iter().map(|verdict| (verdict.id.as_str(), verdict.passed())).collect();
    let (holds, fails) = (Some(true), Some(false));
    let wanted = [
        ("s01", holds),
        ("s02", fails),
        ("s08", holds),
        ("s13", holds),
        ("s15", fails),
        ("s32", holds),
        ("s40", holds),
    ];
    assert_eq!(told, wanted);
    assert_eq!(verdicts[0].verbatim, Some(true));
    assert_eq!((verdicts[2].outcome, verdicts[2].preferred), (Some(Outcome::Cut), Some(false)));
    assert!(verdicts[1].complaints.contains(&"1 requests reached a, wanted 2".to_owned()), "{verdicts:?}");
    let text = Report(&verdicts).to_string();
    assert!(
        text.ends_with(
            "5 of 7 hold (0 not offered); a broken stream ends in a told reason in 0 of 1; bytes unchanged in 2 of 2"
        ),
        "{text}"
    );
}

#[tokio::test]
async fn without_a_gateway_needs_are_passed_over() {
    let text = "name = 's'\nupstream.a = [{ body = [{ sse = '[DONE]' }] }]";
    let scenarios = [
        Scenario::parse("one", text).unwrap(),
        Scenario::parse("two", &format!("needs = ['fallback']\n{text}")).unwrap(),
    ];
    let upstream = Upstream::start(&scenarios).await.unwrap();
    let verdicts = run_direct(&scenarios, &upstream, 0).await;
    assert_eq!(verdicts.iter().map(stanchion_faults::runner::Verdict::passed).collect::<Vec<_>>(), [Some(true), None]);
    assert!(upstream.requests("two", "a").is_empty());
}

#[tokio::test]
async fn later_clients_may_come_together_and_stay_where_the_first_ones_left() {
    let text = "name = 's'\n\
        upstream.a = [{ before = 'hang' }, { delay = '200ms', body = [{ sse = '[DONE]' }], repeat = true }]\n\
        [request]\nleave_after = '30ms'\nthen = [{ clients = 3, leave_after = '0s' }, { leave_after = '10ms' }]";
    let scenario = Scenario::parse("s", text).unwrap();
    let upstream = Upstream::start(std::slice::from_ref(&scenario)).await.unwrap();
    let replies = play(&scenario, Target::Direct(upstream.address())).await;
    let outcomes: Vec<_> = replies.iter().map(stanchion_faults::client::Reply::outcome).collect();
    let (gone, whole) = (Outcome::GaveUp, Outcome::Complete);
    assert_eq!(outcomes, [gone, whole, whole, whole, gone]);
    assert_eq!(upstream.peak_in_flight("s"), 3);
}

#[tokio::test]
async fn a_later_client_may_come_beside_the_one_before() {
    let text = "name = 's'\n\
        upstream.a = [{ delay = '600ms', body = [{ sse = '[DONE]' }] }, { status = 501 }, { status = 502 }]\n\
        [request]\nthen = [{ beside = true, wait = '200ms' }, {}]";
    let scenario = Scenario::parse("s", text).unwrap();
    let upstream = Upstream::start(std::slice::from_ref(&scenario)).await.unwrap();
    let replies = play(&scenario, Target::Direct(upstream.address())).await;
    assert_eq!(replies.iter().filter_map(|reply| reply.status).collect::<Vec<_>>(), [200, 501, 502]);
    // The second did not wait for the first, and the third waited for both.
    assert!(replies[1].ended_at < replies[0].ended_at);
    assert_eq!(upstream.peak_in_flight("s"), 2);
}

#[tokio::test]
async fn many_clients_come_first_and_later_ones_after_them() {
    let text = "name = 's'\n\
        upstream.a = [{ status = 500, repeat = false }, { status = 501 }, { status = 502 }, { status = 200 }]\n\
        [request]\nclients = 2\nstagger = '20ms'\nheaders = { x-first = '1' }\njudge = 'last'\n\
        then = [{ wait = '5ms', headers = { x-then = '1' } }, { body = { model = 'other' } }]";
    let scenario = Scenario::parse("s", text).unwrap();
    let upstream = Upstream::start(std::slice::from_ref(&scenario)).await.unwrap();
    let replies = play(&scenario, Target::Direct(upstream.address())).await;
    let statuses: Vec<_> = replies.iter().filter_map(|reply| reply.status).collect();
    assert_eq!(statuses, [200, 500, 501, 502]);
    let requests = upstream.requests("s", "a");
    let seen: Vec<_> =
        requests.iter().map(|request| (request.headers.get("x-first"), request.headers.get("x-then"))).collect();
    assert_eq!(seen, [(Some("1"), None), (Some("1"), None), (None, Some("1")), (None, None)]);
    assert!(requests[3].body.windows(7).any(|window| window == b"\"other\""));
}
