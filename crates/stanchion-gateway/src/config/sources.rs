//! What a configuration is read from: so that changes are seen, and one configuration is told from another.

use std::{
    io,
    path::{Path, PathBuf},
};

use sha2::{Digest, Sha256};

use super::Overrides;

#[derive(Debug)]
pub(super) struct Sources {
    digest: Sha256,
    /// Where the configuration itself is.
    folder: PathBuf,
    pub(super) files: Vec<PathBuf>,
}

impl Sources {
    pub(super) fn new(folder: &Path, text: &str, overrides: &Overrides) -> Self {
        let mut sources = Self { digest: Sha256::new(), folder: folder.to_owned(), files: Vec::new() };
        sources.add(text);
        for (name, value) in overrides.iter() {
            sources.add(name);
            sources.add(value);
        }
        sources
    }

    fn add(&mut self, part: &str) {
        // With its length, so that no two lists of parts are one text.
        self.digest.update((part.len() as u64).to_be_bytes());
        self.digest.update(part);
    }

    /// What a path in the configuration means: one that is relative begins where the configuration is.
    pub(super) fn path(&self, path: &str) -> PathBuf {
        self.folder.join(path)
    }

    /// Reads a file that the configuration names.
    pub(super) fn read(&mut self, path: &str) -> io::Result<String> {
        let path = self.path(path);
        let read = std::fs::read_to_string(&path);
        if !self.files.contains(&path) {
            self.add(read.as_deref().unwrap_or_default());
            self.files.push(path);
        }
        read
    }

    /// The first 12 hexadecimal digits.
    pub(super) fn hash(&self) -> String {
        let digest = self.digest.clone().finalize();
        let first = digest.iter().take(6).fold(0, |number, byte| number << 8 | u64::from(*byte));
        format!("{first:012x}")
    }
}
