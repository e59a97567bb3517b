//! Credentials around a mock that answers as told, on a paused clock.

mod bodies;
mod by_hand;
mod concurrency;
mod drops;
mod laws;
mod outcomes;
mod restart;
mod settings;
mod stack;

use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::Full;
use stanchion_core::{CredentialStrategy, Failure, FailureKind, HintSource, Phase, RetryHint, Secret, Selected};
use stanchion_credentials::{
    CredentialPool, CredentialPoolBuilder, CredentialPools, CredentialState, Credentials, CredentialsBody,
    CredentialsLayer,
};
use stanchion_testkit::{Events, ScriptedBody, request_in};
use tokio_test::{assert_pending, task};
use tower::{Layer, Service};
use tower_test::mock::{self, Handle, Mock};

type Req = Request<Full<Bytes>>;
type Res = Response<ScriptedBody>;
type Call = tokio::task::JoinHandle<Result<Response<CredentialsBody<ScriptedBody>>, Failure>>;

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

async fn pass(time: Duration) {
    tokio::time::advance(time).await;
}

/// A pool of `primary` whose credentials are called `a`, `b` and `c`, and are `key-a` and so on.
fn builder<'a>(ids: impl IntoIterator<Item = &'a str>) -> CredentialPoolBuilder {
    let add = |pool: CredentialPoolBuilder, id: &str| pool.credential(id, Secret::new(format!("key-{id}")));
    ids.into_iter().fold(CredentialPool::builder("primary"), add).strategy(CredentialStrategy::FillFirst)
}

fn pools(builder: CredentialPoolBuilder) -> CredentialPools {
    CredentialPools::new([builder.build().unwrap()]).unwrap()
}

fn failure(kind: FailureKind, status: u16) -> Failure {
    Failure::new(kind).with_phase(Phase::BeforeOutput).with_status(StatusCode::from_u16(status).unwrap())
}

fn limited(hint: Option<u64>) -> Failure {
    let hint = hint.map(|hint| RetryHint::new(seconds(hint), HintSource::RetryAfter));
    failure(FailureKind::RateLimited, 429).with_hint(hint)
}

fn refused() -> Failure {
    failure(FailureKind::Authentication, 401)
}

fn exhausted() -> Failure {
    failure(FailureKind::QuotaExhausted, 429)
}

fn hello() -> Res {
    Response::new(ScriptedBody::frames(["Hello."]))
}

/// The layer around a mock, and who listens.
struct Stage {
    pools: CredentialPools,
    service: Credentials<Mock<Req, Res>>,
    provider: Handle<Req, Res>,
    events: Events,
}

impl Stage {
    fn new(builder: CredentialPoolBuilder) -> Self {
        Self::of(pools(builder))
    }

    fn of(pools: CredentialPools) -> Self {
        let (mock, provider) = mock::pair();
        let service = CredentialsLayer::new(pools.clone()).layer(mock);
        Self { pools, service, provider, events: Events::new() }
    }

    fn request(&self) -> Req {
        request_in(self.events.context())
    }

    /// Begins a call.
    fn begin(&self) -> Call {
        let (mut service, request) = (self.service.clone(), self.request());
        tokio::spawn(async move {
            std::future::poll_fn(|cx| Service::<Req>::poll_ready(&mut service, cx)).await?;
            service.call(request).await
        })
    }

    /// The key that the next request comes with, and how it is answered.
    async fn next(&mut self) -> (String, mock::SendResponse<Res>) {
        let (request, answer) = self.provider.next_request().await.expect("a request");
        let selected = request.extensions().get::<Selected>().unwrap();
        assert_eq!(&**selected.candidate.name(), "primary/gpt-x");
        (selected.candidate.credential().expect("a key").expose().to_owned(), answer)
    }

    /// One call, which the provider answers. Gives the last letter of its key.
    async fn call(&mut self, reply: Result<Res, Failure>) -> (char, Result<(), Failure>) {
        let call = self.begin();
        let (key, answer) = self.next().await;
        match reply {
            Ok(response) => answer.send_response(response),
            Err(failure) => answer.send_error(failure),
        }
        (key.chars().last().unwrap(), call.await.unwrap().map(drop))
    }

    async fn serve(&mut self) -> char {
        let (key, result) = self.call(Ok(hello())).await;
        result.unwrap();
        key
    }

    async fn fail(&mut self, failure: Failure) -> (char, Failure) {
        let (key, result) = self.call(Err(failure)).await;
        (key, result.unwrap_err())
    }

    /// One call that the provider never hears of.
    async fn refused(&mut self) -> Failure {
        let failure = self.begin().await.unwrap().map(drop).unwrap_err();
        let mut next = task::spawn(self.provider.next_request());
        assert_pending!(next.poll());
        failure
    }

    fn states(&self) -> Vec<CredentialState> {
        self.pools.status()[0].credentials.iter().map(|credential| credential.state).collect()
    }

    fn in_flight(&self) -> Vec<u32> {
        self.pools.status()[0].credentials.iter().map(|credential| credential.in_flight).collect()
    }

    fn usage(&self) -> Vec<u64> {
        self.pools.status()[0].credentials.iter().map(|credential| credential.usage_count).collect()
    }
}

fn hint(failure: &Failure) -> Option<(Duration, HintSource)> {
    failure.hint().map(|hint| (hint.delay(), hint.source()))
}
