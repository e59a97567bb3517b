use http::Response;

/// Why [`Edge`](crate::Edge) turned a request away itself, without asking the service within. It is in the extensions of
/// such an answer, and of no other, for whoever counts them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Refused {
    /// Nothing is served at its path: a 404.
    UnknownPath,
    /// Its method is not POST: a 405.
    WrongMethod,
    /// Its body is too large: a 413.
    BodyTooLarge,
    /// Its body paused for too long, or took too long: a 408.
    BodyTimeout,
    /// Its body broke off: a 400.
    BodyBroken,
    /// Its body is no request of its dialect: a 400.
    InvalidBody,
}

impl Refused {
    /// The answer, with this among its extensions.
    pub(crate) fn mark<B>(self, mut response: Response<B>) -> Response<B> {
        response.extensions_mut().insert(self);
        response
    }
}
