//! What somebody may have meant.

/// The one of these words that is most like `word`, if one is like it.
pub(super) fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let plain = |word: &str| word.to_lowercase().replace('-', "_");
    let meant = plain(word);
    // One letter in three may be wrong; of shorter words, none.
    let allowed = meant.chars().count() / 3;
    known
        .into_iter()
        .filter_map(|candidate| {
            let other = plain(candidate);
            let distance = strsim::damerau_levenshtein(&meant, &other);
            // A part of a name, such as `retries` of `max_retries`.
            let is_part = meant.len() >= 4 && (other.contains(&meant) || (other.len() >= 4 && meant.contains(&other)));
            (distance <= allowed || is_part).then_some((distance, candidate))
        })
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// "did you mean ...?", or, where nothing is like it, what there is.
pub(super) fn suggestion(word: &str, known: &[&str], quote: char) -> String {
    match nearest(word, known.iter().copied()) {
        Some(meant) => format!("; did you mean {quote}{meant}{quote}?"),
        None if known.is_empty() => String::new(),
        None => {
            let known: Vec<String> = known.iter().map(|word| format!("{quote}{word}{quote}")).collect();
            format!("; there are: {}", known.join(", "))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_like_it_is_found_and_nothing_else() {
        let known = ["max_retries", "scope", "base", "factor", "cap", "cap_stage"];
        for (word, meant) in [
            ("max_retrys", Some("max_retries")),
            ("Max-Retries", Some("max_retries")),
            ("retries", Some("max_retries")),
            ("socpe", Some("scope")),
            ("bse", Some("base")),
            ("cap_stge", Some("cap_stage")),
            ("colour", None),
            ("x", None),
        ] {
            assert_eq!(nearest(word, known), meant, "{word}");
        }
    }
}
