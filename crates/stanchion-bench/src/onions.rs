//! Each layer alone, and all of them, as the gateway stacks them.

use std::convert::Infallible;

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use http_body_util::Full;
use stanchion::{
    Onion,
    admission::{AdmissionLayer, AdmissionPolicy, AdmissionScheduler},
    cache_break::CacheBreakLayer,
    circuit::CircuitLayer,
    core::Candidates,
    credentials::{CredentialPools, CredentialsLayer},
    deadline::{AttemptLayer, RecoveryLayer},
    edge::EdgeLayer,
    fallback::FallbackLayer,
    retry::RetryLayer,
    stream::{CommitLayer, ObserveLayer},
    upstream::Upstream,
    usage::{Catalogue, UsageLayer},
};
use tower_service::Service;

use crate::ready::{self, Provider};

/// The one candidate of every onion here.
pub fn candidates() -> Candidates {
    Candidates::new([ready::candidate()])
}

/// A queue with so large a limit that nobody ever waits.
///
/// # Panics
///
/// Never: the limit is within its range.
pub fn admission() -> AdmissionLayer {
    let policy = AdmissionPolicy::builder().concurrency(10_000).build().expect("within the range");
    AdmissionLayer::new(AdmissionScheduler::new(), policy)
}

/// Circuits that know their candidate.
pub fn circuit() -> CircuitLayer {
    CircuitLayer::default().with_candidates(candidates())
}

/// Prices, as they come with the usage layer.
pub fn usage() -> UsageLayer {
    UsageLayer::new().catalogue(Catalogue::built_in().clone())
}

/// All layers, as the gateway stacks them.
pub fn whole(
    provider: Provider,
) -> impl Service<Request<Full<Bytes>>, Response = Response<impl Body<Data = Bytes>>, Error = Infallible> + Clone {
    Onion::new()
        .edge(EdgeLayer::new())
        .cache_break(CacheBreakLayer::default())
        .usage(usage())
        .recovery(RecoveryLayer::default())
        .fallback(FallbackLayer::new(candidates()))
        .retry(RetryLayer::default())
        .credentials(CredentialsLayer::new(CredentialPools::default()))
        .circuit(circuit())
        .admission(admission())
        .commit(CommitLayer::new())
        .attempt(AttemptLayer::default())
        .observe(ObserveLayer::new())
        .service(Upstream::new(provider))
}
