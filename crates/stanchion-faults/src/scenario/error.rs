//! Why a scenario could not be read.

use std::{error, fmt, io};

/// Why a scenario could not be read; names the file and the key.
#[derive(Debug)]
pub struct ScenarioError {
    pub(super) file: String,
    pub(super) problem: Problem,
}

#[derive(Debug)]
pub(super) enum Problem {
    Read(io::Error),
    Parse(Box<toml::de::Error>),
    Key { key: String, problem: &'static str },
    SameId { id: String, other: String },
}

impl ScenarioError {
    pub(super) fn new(file: impl Into<String>, problem: Problem) -> Self {
        Self { file: file.into(), problem }
    }

    /// The file's name, or the id of a scenario that came from no file.
    pub fn file(&self) -> &str {
        &self.file
    }
}

impl fmt::Display for ScenarioError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: ", self.file)?;
        match &self.problem {
            Problem::Read(error) => write!(formatter, "cannot be read: {error}"),
            // The parser's text shows the line with the key.
            Problem::Parse(error) => write!(formatter, "{error}"),
            Problem::Key { key, problem } => write!(formatter, "`{key}` {problem}"),
            Problem::SameId { id, other } => write!(formatter, "has the same id, {id}, as {other}"),
        }
    }
}

impl error::Error for ScenarioError {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        match &self.problem {
            Problem::Read(error) => Some(error),
            Problem::Parse(error) => Some(error),
            Problem::Key { .. } | Problem::SameId { .. } => None,
        }
    }
}
