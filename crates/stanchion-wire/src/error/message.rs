//! What an error's prose says, where no code does.
//!
//! Sources: wire §1.8; cp §5.2 for quota and billing; os §3.3 and §6.2 for overflow and what excludes it.

use std::time::Duration;

use http::StatusCode;
use stanchion_core::hint::parse;

/// How much of a message is looked at.
const LIMIT: usize = 16 * 1024;
/// How far apart the parts of a pattern may stand.
const GAP: usize = 96;

/// Phrases of a prompt that does not fit. Sources: the providers' own words, as every client that compacts long
/// conversations lists them.
///
/// `*` stands for a short gap, `#` for a number, `^` for the beginning.
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

/// The words of an error, in the form in which they are compared: lower case, single spaces, no addresses.
#[derive(Debug)]
pub(super) struct Words(String);

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
        Self(words)
    }

    fn say(&self, patterns: &[&str]) -> bool {
        patterns.iter().any(|pattern| find(self.0.as_bytes(), pattern.as_bytes()).is_some())
    }

    /// Whether the prompt does not fit.
    pub(super) fn overflow(&self, status: StatusCode) -> bool {
        if self.say(NO_OVERFLOW) {
            return false;
        }
        let rate_excluded = status.is_client_error() && status != StatusCode::TOO_MANY_REQUESTS;
        self.say(OVERFLOW) || rate_excluded && self.say(OVERFLOW_OR_RATE)
    }

    /// Whether the account is out of quota or money, beyond doubt.
    pub(super) fn quota(&self) -> bool {
        self.say(QUOTA)
    }

    /// Whether the account seems to be out of quota, for want of a better reading.
    pub(super) fn perhaps_quota(&self, status: StatusCode) -> bool {
        let about_account = matches!(status.as_u16(), 402 | 403 | 429) || status.is_success();
        !self.say(RATE)
            && (about_account && self.say(&["billing"])
                || (about_account || status.is_server_error()) && self.say(PERHAPS_QUOTA))
    }

    /// Google's word for an account that has no share at all.
    pub(super) fn limit_is_zero(&self) -> bool {
        let text = self.0.as_bytes();
        let needle = b"limit: 0";
        memchr::memmem::find_iter(text, needle)
            .any(|at| !matches!(text.get(at + needle.len()), Some(b'0'..=b'9' | b'.' | b',')))
    }

    /// Google's wording of both a rate and a quota.
    pub(super) fn names_google_quota(&self) -> bool {
        self.say(&["quota exceeded for"])
    }

    pub(super) fn per_day(&self) -> bool {
        self.say(&["per_day", "perday"])
    }

    pub(super) fn per_minute(&self) -> bool {
        self.say(&["per_minute", "perminute"])
    }

    pub(super) fn overloaded(&self) -> bool {
        self.say(OVERLOADED)
    }

    pub(super) fn rate_limited(&self) -> bool {
        self.say(RATE)
    }

    pub(super) fn timed_out(&self) -> bool {
        self.say(TIMEOUT)
    }

    pub(super) fn unauthorized(&self) -> bool {
        self.say(AUTH)
    }

    pub(super) fn model_not_found(&self) -> bool {
        self.say(NOT_FOUND)
    }

    /// The status of an error that is told in prose: at its beginning, or after "status", "status code", "error code"
    /// or "HTTP".
    pub(super) fn status(&self) -> Option<StatusCode> {
        let text = self.0.as_bytes();
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
        parse::text(&self.0)
    }
}

/// Where the first match of `pattern` ends.
fn find(text: &[u8], pattern: &[u8]) -> Option<usize> {
    if let Some(anchored) = pattern.strip_prefix(b"^") {
        return matches(text, 0, anchored);
    }
    let literal = pattern.iter().position(|byte| matches!(byte, b'*' | b'#')).unwrap_or(pattern.len());
    memchr::memmem::find_iter(text, &pattern[..literal]).find_map(|at| matches(text, at + literal, &pattern[literal..]))
}

/// Where a match of `pattern` at `at` ends.
fn matches(text: &[u8], at: usize, pattern: &[u8]) -> Option<usize> {
    let Some((&first, rest)) = pattern.split_first() else {
        return Some(at);
    };
    match first {
        b'*' => (at..=text.len().min(at + GAP)).find_map(|from| matches(text, from, rest)),
        b'#' => {
            let digits = text[at..].iter().take_while(|byte| is_number(**byte)).count();
            (digits > 0).then(|| matches(text, at + digits, rest)).flatten()
        }
        literal => (text.get(at) == Some(&literal)).then(|| matches(text, at + 1, rest)).flatten(),
    }
}

fn is_error(status: StatusCode) -> bool {
    status.is_client_error() || status.is_server_error()
}

fn is_number(byte: u8) -> bool {
    byte.is_ascii_digit() || byte == b','
}
