//! The outcome of a case: what its tests printed, counted, and a table of all cases.

use serde_json::{Value, json};

/// How many tests of a program passed, failed and were skipped.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) passed: u64,
    pub(super) failed: u64,
    /// Ignored tests, and messages of tests that skipped all or a part of what they check: lines
    /// that begin with `skipped`.
    pub(super) skipped: u64,
}

impl Counts {
    /// Reads what a test program prints with `--show-output`; `None` if it did not come to its end.
    pub(super) fn read(printed: &str) -> Option<Self> {
        let line = printed.lines().rev().find_map(|line| line.strip_prefix("test result: "))?;
        let number = |word: &str| {
            let part =
                line.split([';', '.']).map(str::trim).find_map(|part| part.strip_suffix(word));
            part.and_then(|number| number.trim().parse::<u64>().ok())
        };
        let messages = printed.lines().filter(|line| line.starts_with("skipped")).count();
        Some(Self {
            passed: number("passed")?,
            failed: number("failed")?,
            skipped: number("ignored")? + u64::try_from(messages).unwrap_or(u64::MAX),
        })
    }

    pub(super) fn plus(self, other: Self) -> Self {
        Self {
            passed: self.passed + other.passed,
            failed: self.failed + other.failed,
            skipped: self.skipped + other.skipped,
        }
    }
}

/// The outcome of a case.
#[derive(Debug, Clone)]
pub(super) struct Outcome {
    /// The folder of the crate.
    pub(super) folder: &'static str,
    pub(super) proves: &'static str,
    pub(super) counts: Counts,
    pub(super) seconds: f64,
    /// Why the case did not pass, if it did not.
    pub(super) fault: Option<String>,
}

impl Outcome {
    pub(super) fn json(&self) -> Value {
        let Counts { passed, failed, skipped } = self.counts;
        json!({
            "crate": self.folder, "proves": self.proves, "passed": passed, "failed": failed,
            "skipped": skipped, "seconds": self.seconds, "fault": self.fault,
        })
    }
}

/// A line for each case, and one for all.
pub(super) fn table(outcomes: &[Outcome]) -> String {
    let mut total = Counts::default();
    let mut seconds = 0.0;
    let mut lines = vec![row("case", ["passed", "failed", "skipped", "s"], "what it proves")];
    for Outcome { folder, proves, counts, seconds: of_case, fault } in outcomes {
        total = total.plus(*counts);
        seconds += of_case;
        let proves =
            fault.as_ref().map_or_else(|| (*proves).to_owned(), |f| format!("FAILED: {f}"));
        lines.push(numbers(folder, *counts, *of_case, &proves));
    }
    lines.push(numbers("all", total, seconds, ""));
    lines.join("\n")
}

fn numbers(
    name: &str,
    Counts { passed, failed, skipped }: Counts,
    seconds: f64,
    what: &str,
) -> String {
    let seconds = format!("{seconds:.1}");
    let [passed, failed, skipped] = [passed, failed, skipped].map(|count| count.to_string());
    row(name, [&passed, &failed, &skipped, &seconds], what)
}

fn row(name: &str, cells: [&str; 4], what: &str) -> String {
    let [passed, failed, skipped, seconds] = cells;
    let line = format!("{name:<10} {passed:>6} {failed:>6} {skipped:>7} {seconds:>7}  {what}");
    line.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRINTED: &str = "\nrunning 3 tests\ntest cube::a ... ok\ntest cube::b ... ignored\n\n\
                           successes:\n\n---- cube::a stdout ----\nskipped: it has no bf16\n\n\
                           test result: FAILED. 12 passed; 1 failed; 3 ignored; 0 measured; \
                           40 filtered out; finished in 1.23s\n";

    #[test]
    fn tests_are_counted_from_the_line_that_ends_a_program() {
        let counts = Counts::read(PRINTED).unwrap();
        assert_eq!(counts, Counts { passed: 12, failed: 1, skipped: 4 });
        let crashed = PRINTED.split("test result").next().unwrap();
        assert_eq!(Counts::read(crashed), None);
    }

    #[test]
    fn the_table_has_a_line_for_each_case_and_their_sums() {
        let outcome = |folder, passed, fault: Option<&str>| Outcome {
            folder,
            proves: "kernels",
            counts: Counts { passed, failed: u64::from(fault.is_some()), skipped: 1 },
            seconds: 1.2,
            fault: fault.map(str::to_owned),
        };
        let table = table(&[outcome("kan", 20, None), outcome("conv", 3, Some("1 test"))]);
        let lines: Vec<&str> = table.lines().collect();
        assert_eq!(lines[1], "kan            20      0       1     1.2  kernels");
        assert_eq!(lines[2], "conv            3      1       1     1.2  FAILED: 1 test");
        assert_eq!(lines[3], "all            23      1       2     2.4");
    }
}
