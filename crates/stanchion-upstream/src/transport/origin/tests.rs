use http_body_util::BodyExt;
use tokio::io::AsyncWriteExt;

use super::*;
use crate::transport::{
    connect::ConnectTimeout,
    peer::{begun, connection, is_closed, settle},
};

const KEEP: Keep = Keep { timeout: Duration::from_secs(90), max: 2 };

fn origin(keep: Keep) -> Arc<Origin> {
    Arc::new(Origin::new(Uri::from_static("http://provider:8080/"), keep))
}

fn waiting(origin: &Arc<Origin>, all_share_one: bool) -> Waiting {
    let Err(waiting) = origin.take_or_wait(all_share_one) else { panic!("something is kept") };
    waiting
}

#[tokio::test(start_paused = true)]
async fn what_is_given_back_last_is_taken_first() {
    let origin = origin(KEEP);
    let ((first, _first_server), (second, _second_server)) = (connection().await, connection().await);
    let histories = [first.history().clone(), second.history().clone()];
    origin.put(first);
    origin.put(second);
    assert!(origin.take().unwrap().history().is(&histories[1]));
    assert!(origin.take().unwrap().history().is(&histories[0]));
    assert!(origin.take().is_none());
}

#[tokio::test(start_paused = true)]
async fn no_more_are_kept_than_may_be() {
    let origin = origin(KEEP);
    let mut servers = Vec::new();
    for _ in 0..3 {
        let (connection, server) = connection().await;
        origin.put(connection);
        servers.push(server);
    }
    let mut closed = Vec::new();
    for server in servers {
        closed.push(is_closed(server).await);
    }
    assert_eq!(closed, [false, false, true]);
}

#[tokio::test(start_paused = true)]
async fn one_that_has_died_makes_room() {
    let origin = origin(KEEP);
    let mut servers = Vec::new();
    for _ in 0..2 {
        let (connection, server) = connection().await;
        origin.put(connection);
        servers.push(server);
    }
    servers.clear();
    settle().await;
    let (connection, _server) = connection().await;
    let history = connection.history().clone();
    origin.put(connection);
    assert!(origin.take().unwrap().history().is(&history));
    assert!(origin.take().is_none() && origin.is_empty());
}

#[tokio::test(start_paused = true)]
async fn what_is_kept_for_too_long_is_closed_and_not_taken() {
    let origin = origin(KEEP);
    let (old, old_server) = connection().await;
    origin.put(old);
    tokio::time::advance(KEEP.timeout / 2).await;
    let (young, young_server) = connection().await;
    origin.put(young);
    tokio::time::advance(KEEP.timeout / 2).await;
    assert!(is_closed(old_server).await);
    assert!(origin.take().is_some_and(|taken| !taken.is_closed()));
    assert!(origin.is_empty());
    // It is swept again when something is kept again.
    tokio::time::advance(KEEP.timeout).await;
    let (again, again_server) = connection().await;
    origin.put(again);
    tokio::time::sleep(KEEP.timeout * 2).await;
    assert!(is_closed(again_server).await);
    drop(young_server);
}

/// As after the end of a runtime whose transport goes on in another, or where a body is dropped outside of any.
#[test]
fn it_is_swept_again_where_the_sweeper_or_the_runtime_is_gone() {
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    let (origin, other) = (origin(KEEP), runtime());
    runtime().block_on(async {
        let (connection, _server) = connection().await;
        origin.put(connection);
    });
    let (outside, outside_server) = other.block_on(connection());
    origin.put(outside);
    other.block_on(async {
        let (inside, inside_server) = connection().await;
        origin.put(inside);
        tokio::time::sleep(KEEP.timeout * 2).await;
        assert!(origin.is_empty() && is_closed(outside_server).await && is_closed(inside_server).await);
    });
}

#[tokio::test(start_paused = true)]
async fn one_that_is_given_back_before_its_reply_has_ended_is_taken_only_after() {
    let origin = origin(KEEP);
    let (mut connection, mut server) = connection().await;
    let response = begun(&mut connection, &mut server, &origin).await;
    origin.put(connection);
    assert!(origin.take().is_none() && !origin.is_empty());
    server.write_all(b"}").await.unwrap();
    assert_eq!(response.into_body().collect().await.unwrap().to_bytes(), "{}");
    settle().await;
    assert!(origin.take().is_some());
}

#[tokio::test(start_paused = true)]
async fn one_whose_reply_is_dropped_is_never_taken() {
    let origin = origin(KEEP);
    let (mut connection, mut server) = connection().await;
    let response = begun(&mut connection, &mut server, &origin).await;
    drop(response);
    origin.put(connection);
    settle().await;
    assert!(origin.take().is_none() && origin.is_empty());
    assert!(is_closed(server).await);
}

#[tokio::test(start_paused = true)]
async fn who_waits_first_is_served_first_and_who_has_gone_is_passed_over() {
    let origin = origin(KEEP);
    let [gone, mut first, mut second] = [(); 3].map(|()| waiting(&origin, false));
    assert!(matches!(first.part, Part::OpensItsOwn) && matches!(second.part, Part::OpensItsOwn));
    drop(gone);
    let (connection, _server) = connection().await;
    origin.put(connection);
    assert!(second.arrival.try_recv().is_err());
    assert!(first.arrival.try_recv().unwrap().is_ok());
    assert!(origin.is_empty());
}

#[tokio::test(start_paused = true)]
async fn who_waits_is_given_one_that_is_given_back_early_as_soon_as_it_is_ready() {
    for waits_first in [true, false] {
        let origin = origin(KEEP);
        let early = waits_first.then(|| waiting(&origin, false));
        let (mut connection, mut server) = connection().await;
        let response = begun(&mut connection, &mut server, &origin).await;
        origin.put(connection);
        let mut waiting = early.unwrap_or_else(|| waiting(&origin, false));
        settle().await;
        assert!(waiting.arrival.try_recv().is_err(), "it is given while its reply is read");
        server.write_all(b"}").await.unwrap();
        assert_eq!(response.into_body().collect().await.unwrap().to_bytes(), "{}");
        settle().await;
        assert!(waiting.arrival.try_recv().unwrap().is_ok_and(|connection| !connection.is_fresh()));
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_is_kept_or_shared_where_nothing_may_be() {
    let origin = origin(Keep { max: 0, ..KEEP });
    let mut waiting = [(); 2].map(|()| waiting(&origin, true));
    let (connection, server) = connection().await;
    origin.put(connection);
    for waiting in &mut waiting {
        assert!(matches!(waiting.part, Part::OpensItsOwn) && waiting.arrival.try_recv().is_err());
    }
    assert!(origin.is_empty() && is_closed(server).await);
}

#[tokio::test(start_paused = true)]
async fn they_who_have_gone_do_not_pile_up() {
    let origin = origin(KEEP);
    for _ in 0..1000 {
        drop(waiting(&origin, false));
    }
    assert!(origin.state().waiting.len() <= 1);
}

#[tokio::test(start_paused = true)]
async fn only_the_first_opens_what_all_share_and_the_next_does_when_it_is_dropped() {
    let origin = origin(KEEP);
    let first = waiting(&origin, true);
    let second = waiting(&origin, true);
    assert!(matches!((&first.part, &second.part), (Part::OpensForAll(_), Part::Waits)));
    drop(first);
    assert!(second.arrival.await.is_err(), "it is to ask again");
    let again = waiting(&origin, true);
    assert!(matches!(again.part, Part::OpensForAll(_)));
    let also = waiting(&origin, true);

    let error = ConnectError::Timeout(ConnectTimeout { limit: Duration::from_secs(1) });
    origin.refuse(&error);
    assert!(also.arrival.await.unwrap().is_err());
}

#[test]
fn the_host_has_its_port_unless_it_is_the_schemes_own() {
    for (uri, host) in [
        ("http://provider/", "provider"),
        ("http://provider:80/", "provider"),
        ("http://provider:443/", "provider:443"),
        ("https://provider:443/", "provider"),
        ("https://provider:80/", "provider:80"),
        ("https://[::1]:8443/", "[::1]:8443"),
        ("https://somebody:secret@provider/", "provider"),
    ] {
        assert_eq!(Origin::new(Uri::from_static(uri), KEEP).host(), host, "{uri}");
    }
}
