//! Verdicts as text.

use std::fmt;

use super::Verdict;

/// One line for each scenario, and a summary.
#[derive(Debug, Clone, Copy)]
pub struct Report<'a>(pub &'a [Verdict]);

impl Report<'_> {
    /// How many scenarios were played and do not hold.
    pub fn failed(&self) -> usize {
        self.count(|verdict| verdict.passed() == Some(false))
    }

    fn count(&self, wanted: impl Fn(&Verdict) -> bool) -> usize {
        self.0.iter().filter(|verdict| wanted(verdict)).count()
    }

    /// How often a question was answered with yes, and how often it was asked.
    fn tally(&self, question: impl Fn(&Verdict) -> Option<bool>) -> (usize, usize) {
        (self.count(|verdict| question(verdict) == Some(true)), self.count(|verdict| question(verdict).is_some()))
    }
}

impl fmt::Display for Report<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for verdict in self.0 {
            let (mark, told) = match verdict.passed() {
                Some(true) => ("pass", String::new()),
                Some(false) => ("FAIL", verdict.complaints.join("; ")),
                None => ("n/a ", format!("not offered: {}", verdict.lacks.join(", "))),
            };
            writeln!(formatter, "{}", format!("{mark} {:<44} {told}", verdict.file).trim_end())?;
        }
        let (passed, played) = self.tally(Verdict::passed);
        let (better, told) = self.tally(|verdict| verdict.preferred);
        let (same, compared) = self.tally(|verdict| verdict.verbatim);
        write!(
            formatter,
            "{passed} of {played} hold ({} not offered); a broken stream ends in a told reason in {better} of {told}; \
             bytes unchanged in {same} of {compared}",
            self.0.len() - played
        )
    }
}

#[cfg(test)]
mod tests {
    use super::{Report, Verdict};
    use crate::scenario::Scenario;

    #[test]
    fn a_line_for_each_and_a_summary() {
        let verdict = |id: &str| Verdict::of(&Scenario::parse(id, "name = 's'").unwrap());
        let complaints = vec!["outcome cut, wanted error".to_owned(), "took 9.00s, wanted within 8s".to_owned()];
        let verdicts = [
            Verdict { verbatim: Some(true), ..verdict("one") },
            Verdict { complaints, preferred: Some(false), ..verdict("two") },
            Verdict { lacks: vec!["fallback".to_owned(), "retry".to_owned()], ..verdict("three") },
        ];
        let report = Report(&verdicts);
        assert_eq!(report.failed(), 1);
        let spaces = " ".repeat(42);
        let wanted = format!(
            "pass one\nFAIL two{spaces}outcome cut, wanted error; took 9.00s, wanted within 8s\n\
             n/a  three{}not offered: fallback, retry\n\
             1 of 2 hold (1 not offered); a broken stream ends in a told reason in 0 of 1; bytes unchanged in 1 of 1",
            " ".repeat(40)
        );
        assert_eq!(report.to_string(), wanted);
    }
}
