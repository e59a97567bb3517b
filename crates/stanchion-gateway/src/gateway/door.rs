//! How many are connected, and how many were turned away before a model was asked, by why.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use stanchion::{edge::Refused, telemetry::metrics::Pulled};

macro_rules! refusals {
    ($($(#[$documentation:meta])* $name:ident: $text:literal,)+) => {
        /// Why somebody is turned away at the door: nobody else is told of the request, and no other metric knows of it.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Refusal { $($(#[$documentation])* $name,)+ }

        impl Refusal {
            /// All of them, in their order.
            pub const ALL: &[Self] = &[$(Self::$name,)+];

            /// The name used in metrics.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$name => $text,)+ }
            }
        }
    };
}

refusals! {
    /// As many are connected as may be: whoever comes next waits.
    Connections: "connections",
    /// The TLS handshake failed, or took too long.
    Tls: "tls",
    /// The head did not come in time.
    HeadTimeout: "head_timeout",
    /// The head is too large, or has too many headers (431).
    HeadTooLarge: "head_too_large",
    /// The head is no HTTP (400).
    HeadMalformed: "head_malformed",
    /// The client's key is missing or unknown (401).
    UnknownKey: "unknown_key",
    /// A web page of another site asks (403).
    ForeignPage: "foreign_page",
    /// The client has made its requests of this minute (429).
    Rate: "rate",
    /// As many of the client's requests run as may (429).
    Concurrency: "concurrency",
    /// Nothing is served at the path (404).
    UnknownPath: "unknown_path",
    /// The method is not POST (405).
    WrongMethod: "wrong_method",
    /// The body is too large (413).
    BodyTooLarge: "body_too_large",
    /// The body paused for too long, or took too long (408).
    BodyTimeout: "body_timeout",
    /// The body broke off (400, if anybody still listens).
    BodyBroken: "body_broken",
    /// The body is no request of its dialect (400).
    BodyInvalid: "body_invalid",
    /// The TLS handshake with the admin listener failed, or took too long.
    AdminTls: "admin_tls",
    /// The key of the admin listener is missing or wrong (401).
    AdminKey: "admin_key",
    /// A web page of another site asks the admin listener, or somebody by a name that is not its own, or without the header of an
    /// action (403, 421).
    AdminForeign: "admin_foreign",
}

impl Refusal {
    /// What the edge says of it; `None` for what this version does not know.
    pub(crate) const fn of_edge(refused: Refused) -> Option<Self> {
        Some(match refused {
            Refused::UnknownPath => Self::UnknownPath,
            Refused::WrongMethod => Self::WrongMethod,
            Refused::BodyTooLarge => Self::BodyTooLarge,
            Refused::BodyTimeout => Self::BodyTimeout,
            Refused::BodyBroken => Self::BodyBroken,
            Refused::InvalidBody => Self::BodyInvalid,
            _ => return None,
        })
    }
}

/// Who stands at the door: how many are connected, and how many were turned away since the start. Clones are the same.
#[derive(Debug, Clone, Default)]
pub struct Door(Arc<Counts>);

#[derive(Debug, Default)]
struct Counts {
    refusals: [AtomicU64; Refusal::ALL.len()],
    connections: AtomicU64,
    limit: AtomicU64,
}

impl Door {
    /// One more is turned away.
    pub fn count(&self, refusal: Refusal) {
        self.0.refusals[refusal as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// So many are connected, of so many that may be.
    pub fn connected(&self, connections: usize, limit: usize) {
        self.0.connections.store(connections as u64, Ordering::Relaxed);
        self.0.limit.store(limit as u64, Ordering::Relaxed);
    }

    /// Tells metrics of all, those reasons too for which there was none: a first one is seen as an increase.
    pub(super) fn pull(&self, pulled: &mut Pulled) {
        for refusal in Refusal::ALL {
            pulled.refusals(refusal.as_str(), self.0.refusals[*refusal as usize].load(Ordering::Relaxed));
        }
        let Counts { connections, limit, .. } = &*self.0;
        pulled.connections(connections.load(Ordering::Relaxed), limit.load(Ordering::Relaxed));
    }
}
