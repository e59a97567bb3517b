//! Reading scenario files.

use std::collections::HashMap;
use std::path::Path;
use std::{fs, io};

use super::check::check;
use super::error::Problem;
use super::{Scenario, ScenarioError};

impl Scenario {
    /// Reads a scenario from text.
    pub fn parse(id: &str, text: &str) -> Result<Self, ScenarioError> {
        read(id, id, text)
    }

    /// Reads a scenario from its file, and takes its id from the file's name.
    pub fn load(path: impl AsRef<Path>) -> Result<Self, ScenarioError> {
        let path = path.as_ref();
        let file = path.file_name().unwrap_or_default().to_string_lossy();
        let text = fs::read_to_string(path).map_err(|error| ScenarioError::new(file.clone(), Problem::Read(error)))?;
        read(id_of(&stem_of(path)), &file, &text)
    }
}

fn read(id: &str, file: &str, text: &str) -> Result<Scenario, ScenarioError> {
    let mut scenario: Scenario =
        toml::from_str(text).map_err(|error| ScenarioError::new(file, Problem::Parse(Box::new(error))))?;
    id.clone_into(&mut scenario.id);
    file.clone_into(&mut scenario.file);
    check(&scenario).map_err(|problem| ScenarioError::new(file, problem))?;
    Ok(scenario)
}

fn stem_of(path: &Path) -> String {
    path.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}

/// `s07` of `s07-cut-after-role`; other names are taken whole.
fn id_of(stem: &str) -> &str {
    let numbered =
        matches!(stem.as_bytes(), [b's' | b'h', tens, ones, ..] if tens.is_ascii_digit() && ones.is_ascii_digit());
    if numbered { stem.split('-').next().unwrap_or(stem) } else { stem }
}

/// Reads every scenario of a folder, in the order of the files' names.
pub fn load_folder(path: impl AsRef<Path>) -> Result<Vec<Scenario>, ScenarioError> {
    load_matching(path, "")
}

/// Reads those scenarios of a folder whose files' names, without `.toml`, contain `part`.
pub fn load_matching(path: impl AsRef<Path>, part: &str) -> Result<Vec<Scenario>, ScenarioError> {
    let folder = path.as_ref();
    let unreadable = |error: io::Error| ScenarioError::new(folder.to_string_lossy(), Problem::Read(error));
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).map_err(unreadable)? {
        let file = entry.map_err(unreadable)?.path();
        if file.extension().is_some_and(|extension| extension == "toml") && stem_of(&file).contains(part) {
            files.push(file);
        }
    }
    files.sort_unstable();
    let mut known = HashMap::new();
    let mut scenarios = Vec::new();
    for file in files {
        let scenario = Scenario::load(file)?;
        if let Some(other) = known.insert(scenario.id.clone(), scenario.file.clone()) {
            return Err(ScenarioError::new(scenario.file, Problem::SameId { id: scenario.id, other }));
        }
        scenarios.push(scenario);
    }
    Ok(scenarios)
}

#[cfg(test)]
mod tests {
    use super::id_of;

    #[test]
    fn numbered_files_have_short_ids() {
        for (stem, id) in [
            ("s07-cut-after-role", "s07"),
            ("h12-hidden-one", "h12"),
            ("s123-many", "s123"),
            ("s07", "s07"),
            ("s7-short", "s7-short"),
            ("t07-other", "t07-other"),
            ("shut-down", "shut-down"),
            ("demo", "demo"),
        ] {
            assert_eq!(id_of(stem), id);
        }
    }
}
