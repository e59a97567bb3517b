//! What an error's prose says, where no code does.
//!
//! Sources: wire §1.8; cp §5.2 for quota and billing; os §3.3 and §6.2 for overflow and what excludes it.

use std::{cell::OnceCell, time::Duration};

use http::StatusCode;
use stanchion_core::hint::parse;

use super::phrases::{Phrases, find, is_number};

/// How much of a message is looked at.
const LIMIT: usize = 16 * 1024;

/// Phrases of a prompt that does not fit. Sources: the providers' own words, as every client that compacts long
/// conversations lists them.
const OVERFLOW: &[&str] = &[
    "prompt is too long",
    "prompt too long",
    "prompt_too_long",
    "input is too long for requested model",
    "exceed*context window",
    "exceed*context length",
    "exceed context limit",
    "input token count*exceeds the maximum",
    "maximum prompt length is #",
    "reduce the length of the messages",
    "reduce the length of the prompt",
    "reduce the length of the input",
    "maximum context length",
    "maximum allowed input length of #",
    // A file or an image, too, may exceed a limit.
    "token*exceeds the limit of #",
    "prompt*exceeds the limit of #",
    "context*exceeds the limit of #",
    "exceeds the available context size",
    "context size has been exceeded",
    "greater than the context length",
    "context window exceeds limit",
    "context window exceeded",
    "contextwindowexceeded",
    "exceeded model token limit",
    "too large for model with # maximum context",
    "longer than the model's context length",
    "range of input length should be",
    "context length exceeded",
    "context_length_exceeded",
    "model_context_window_exceeded",
    "prompt has # tokens*context size is #",
    "prompt tokens (#) exceed model maximum (#)",
    "prompt exceeds max length",
];

/// Phrases of a prompt that does not fit, or of a rate: the status says which.
const OVERFLOW_OR_RATE: &[&str] = &["too many tokens", "token limit exceeded"];

/// Phrases that make an error a rate limit or an outage, whatever it says of tokens.
const NO_OVERFLOW: &[&str] = &[
    "rate limit",
    "rate-limit",
    "rate_limit",
    "too many requests",
    "tokens per min",
    "throttlingexception",
    "^throttling error:",
    "^service unavailable:",
];

/// Phrases of an account without quota or money, whatever the status.
const QUOTA: &[&str] = &[
    "insufficient_quota",
    "exceeded your current quota",
    "check your plan and billing",
    "credit balance is too low",
    "insufficient balance",
    "insufficient account balance",
    "insufficient credit",
    "insufficient funds",
    "out of credit",
    "not enough credit",
    "requires more credits",
    "out of budget",
    "available balance",
    "payment required",
    "billing hard limit",
    "monthly usage limit",
    "api usage limits",
    "spend limit",
    "spending limit",
    "overdue payment",
    "no_active_*_package",
    "gousagelimiterror",
    "freeusagelimiterror",
];

/// Words that mean a quota only where nothing says that it is a rate: no code, no short wait, no wording of a rate.
const PERHAPS_QUOTA: &[&str] = &["quota exceeded", "exceeded quota", "exceeded your quota", "usage limit"];

/// Wordings of a rate (Azure's among them), which take the word "quota" its meaning.
const RATE: &[&str] =
    &["rate limit", "rate-limit", "rate_limit", "too many requests", "throttl", "per min", "pricing tier"];

const OVERLOADED: &[&str] = &[
    "overloaded",
    "at capacity",
    "over capacity",
    "no capacity",
    "capacity exceeded",
    "high demand",
    "server busy",
    "too busy",
    "maximum pending requests",
    "service unavailable",
    "temporarily unavailable",
    "loading model",
];

const TIMEOUT: &[&str] = &["timed out", "timeout", "deadline exceeded"];
const AUTH: &[&str] = &["invalid api key", "incorrect api key", "api key not valid", "unauthorized"];
const NOT_FOUND: &[&str] = &["model*not found", "model*does not exist", "unknown model"];

/// The places where prose tells a status.
const STATUS: &[&str] =
    &["^#", "^error: #", "error code: #", "status code: #", "status code #", "status: #", "status #", "http #"];

/// What words may say.
#[derive(Clone, Copy)]
enum Saying {
    Overflow,
    OverflowOrRate,
    NoOverflow,
    Quota,
    PerhapsQuota,
    Billing,
    GoogleQuota,
    PerDay,
    PerMinute,
    Rate,
    Overloaded,
    Timeout,
    Auth,
    NotFound,
    Status,
}

/// In which phrases it is said, in the order of [`Saying`].
static SAYINGS: Phrases = Phrases::new(&[
    OVERFLOW,
    OVERFLOW_OR_RATE,
    NO_OVERFLOW,
    QUOTA,
    PERHAPS_QUOTA,
    &["billing"],
    &["quota exceeded for"],
    &["per_day", "perday"],
    &["per_minute", "perminute"],
    RATE,
    OVERLOADED,
    TIMEOUT,
    AUTH,
    NOT_FOUND,
    STATUS,
]);

/// The words of an error, in the form in which they are compared: lower case, single spaces, no addresses.
#[derive(Debug)]
pub(super) struct Words {
    text: String,
    /// A bit for each [`Saying`]; looked for once anybody wants to know, since a code often decides alone.
    said: OnceCell<u32>,
}

impl Words {
    pub(super) fn new(message: &str) -> Self {
        let mut end = message.len().min(LIMIT);
        while !message.is_char_boundary(end) {
            end -= 1;
        }
        let mut words = String::with_capacity(end);
        for word in message[..end].split_whitespace() {
            // "…/account/billing" says nothing about the account.
            if word.contains("://") {
                continue;
            }
            if !words.is_empty() {
                words.push(' ');
            }
            words.extend(word.chars().map(|c| if c == '\u{2019}' { '\'' } else { c.to_ascii_lowercase() }));
        }
        Self { text: words, said: OnceCell::new() }
    }

    fn say(&self, saying: Saying) -> bool {
        self.said.get_or_init(|| SAYINGS.said(self.text.as_bytes())) & 1 << saying as u32 != 0
    }

    /// Whether the prompt does not fit.
    pub(super) fn overflow(&self, status: StatusCode) -> bool {
        if self.say(Saying::NoOverflow) {
            return false;
        }
        let rate_excluded = status.is_client_error() && status != StatusCode::TOO_MANY_REQUESTS;
        self.say(Saying::Overflow) || rate_excluded && self.say(Saying::OverflowOrRate)
    }

    /// Whether the account is out of quota or money, beyond doubt.
    pub(super) fn quota(&self) -> bool {
        self.say(Saying::Quota)
    }

    /// Whether the account seems to be out of quota, for want of a better reading.
    pub(super) fn perhaps_quota(&self, status: StatusCode) -> bool {
        let about_account = matches!(status.as_u16(), 402 | 403 | 429) || status.is_success();
        !self.say(Saying::Rate)
            && (about_account && self.say(Saying::Billing)
                || (about_account || status.is_server_error()) && self.say(Saying::PerhapsQuota))
    }

    /// Google's word for an account that has no share at all.
    pub(super) fn limit_is_zero(&self) -> bool {
        let text = self.text.as_bytes();
        let needle = b"limit: 0";
        memchr::memmem::find_iter(text, needle)
            .any(|at| !matches!(text.get(at + needle.len()), Some(b'0'..=b'9' | b'.' | b',')))
    }

    /// Google's wording of both a rate and a quota.
    pub(super) fn names_google_quota(&self) -> bool {
        self.say(Saying::GoogleQuota)
    }

    pub(super) fn per_day(&self) -> bool {
        self.say(Saying::PerDay)
    }

    pub(super) fn per_minute(&self) -> bool {
        self.say(Saying::PerMinute)
    }

    pub(super) fn overloaded(&self) -> bool {
        self.say(Saying::Overloaded)
    }

    pub(super) fn rate_limited(&self) -> bool {
        self.say(Saying::Rate)
    }

    pub(super) fn timed_out(&self) -> bool {
        self.say(Saying::Timeout)
    }

    pub(super) fn unauthorized(&self) -> bool {
        self.say(Saying::Auth)
    }

    pub(super) fn model_not_found(&self) -> bool {
        self.say(Saying::NotFound)
    }

    /// The status of an error that is told in prose: at its beginning, or after "status", "status code", "error code"
    /// or "HTTP".
    pub(super) fn status(&self) -> Option<StatusCode> {
        if !self.say(Saying::Status) {
            return None;
        }
        let text = self.text.as_bytes();
        STATUS.iter().find_map(|pattern| {
            let end = find(text, pattern.as_bytes())?;
            let begin = text[..end].iter().rposition(|byte| !is_number(*byte)).map_or(0, |at| at + 1);
            let number = text[begin..end].strip_suffix(b",").unwrap_or(&text[begin..end]);
            let alone = !text.get(end).is_some_and(u8::is_ascii_alphanumeric);
            StatusCode::from_bytes(number).ok().filter(|status| alone && is_error(*status))
        })
    }

    /// How long the words ask to wait: "Please retry in 10h17m5.72s", "retry after 26 seconds".
    pub(super) fn wait(&self) -> Option<Duration> {
        parse::text(&self.text)
    }
}

fn is_error(status: StatusCode) -> bool {
    status.is_client_error() || status.is_server_error()
}
