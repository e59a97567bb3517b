//! What the shape of a file alone does not tell.

use super::Scenario;
use super::error::Problem;

fn complaint(key: String, problem: &'static str) -> Result<(), Problem> {
    Err(Problem::Key { key, problem })
}

fn fits_a_path(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
}

/// Complains of the first key that cannot be played.
pub(super) fn check(scenario: &Scenario) -> Result<(), Problem> {
    if !fits_a_path(&scenario.id) {
        return complaint("id".to_owned(), "wants letters, digits, dots and dashes");
    }
    for name in scenario.candidates() {
        if !fits_a_path(name) {
            return complaint(format!("upstream.{name}"), "wants letters, digits, dots and dashes");
        }
    }
    for (name, scripts) in &scenario.upstream {
        if scripts.is_empty() {
            return complaint(format!("upstream.{name}"), "wants at least one script");
        }
        for (index, script) in scripts.iter().enumerate() {
            let moments = script.epoch_headers.keys().map(|field| (field, field));
            for (field, value) in script.headers.iter().chain(moments) {
                let plain = |text: &str| text.chars().all(|character| u8::try_from(character).is_ok());
                if !plain(field) || !plain(value) {
                    return complaint(format!("upstream.{name}[{index}].headers.{field}"), "is not Latin-1");
                }
            }
        }
    }
    let known = scenario.candidates();
    if let Some(name) = scenario.candidate.keys().find(|name| !known.contains(&name.as_str())) {
        return complaint(format!("candidate.{name}"), "names no candidate that is scripted or refused");
    }
    let expect = &scenario.expect;
    if (expect.verbatim || expect.verbatim_but_ours) && !scenario.upstream.contains_key(&expect.served_by) {
        return complaint("expect.served_by".to_owned(), "names no candidate with scripts");
    }
    for (index, later) in scenario.request.then.iter().enumerate() {
        if later.expect.as_ref().is_some_and(|expect| !expect.is_of_one_reply()) {
            let problem = "judges what its client saw; the rest belongs into [expect]";
            return complaint(format!("request.then[{index}].expect"), problem);
        }
    }
    Ok(())
}
