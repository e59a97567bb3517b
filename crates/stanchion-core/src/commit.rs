use serde::{Deserialize, Serialize};

/// When a reply leaves the commit layer.
///
/// In a request's extensions it is that request's own choice, over what the layer is set to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CommitPolicy {
    /// With its first real output: the least delay. What fails after that is told to the client.
    #[default]
    FirstOutput,
    /// After a window of output: a stream that dies early can still be replayed.
    Window,
    /// Once it is whole: half an answer is never seen. For agents that nobody watches.
    Complete,
}

impl CommitPolicy {
    /// Reads `first_output`, `window` or `complete`, in any case.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        [Self::FirstOutput, Self::Window, Self::Complete]
            .into_iter()
            .find(|policy| policy.as_str().eq_ignore_ascii_case(text))
    }

    /// The name used in headers and configuration.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::FirstOutput => "first_output",
            Self::Window => "window",
            Self::Complete => "complete",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::CommitPolicy;

    #[test]
    fn names_are_read_in_any_case() {
        assert_eq!(CommitPolicy::parse(" Complete "), Some(CommitPolicy::Complete));
        assert_eq!(CommitPolicy::parse("first_output"), Some(CommitPolicy::FirstOutput));
        assert_eq!(CommitPolicy::parse("never"), None);
    }
}
