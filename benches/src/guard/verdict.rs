//! The table of ratios, before and now, at most 80 columns wide.

use std::fmt::Write;

use crate::guard::rule::{Change, Decision, Process};
use crate::measure::Measured;

/// What was found about a ratio.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Verdict {
    entry: String,
    other: String,
    before: f64,
    /// Not a number if it was not measured.
    now: f64,
    /// The processes that timed it now.
    processes: usize,
    /// `None` if it was not measured.
    pub(crate) change: Option<Change>,
    /// What the other program was and is, if that differs.
    versions: Option<(String, String)>,
    /// Why it was not measured.
    failure: Option<String>,
}

impl Verdict {
    pub(crate) fn new(
        measured: &Measured,
        saved: &Measured,
        other: &str,
        before: &[Process],
        after: &[Process],
        change: Option<Change>,
    ) -> Self {
        let about = |of: &Measured| {
            let outcome = of.outcomes.iter().find(|outcome| outcome.strategy == other)?;
            outcome.about.clone()
        };
        let failure = measured.outcomes.iter().find_map(|outcome| outcome.failure.clone());
        Self {
            entry: measured.id.clone(),
            other: other.to_owned(),
            before: mean_ratio(before),
            now: mean_ratio(after),
            processes: after.len(),
            change,
            versions: about(saved).zip(about(measured)).filter(|(was, is)| was != is),
            failure: failure.filter(|_| change.is_none()),
        }
    }

    /// The entry and the strategy that ours is compared with.
    pub(crate) fn name(&self) -> String {
        format!("{} {}", self.entry, self.other)
    }
}

/// The geometric mean of the ratios of several processes.
fn mean_ratio(processes: &[Process]) -> f64 {
    (processes.iter().map(|one| one.log_ratio).sum::<f64>() / processes.len() as f64).exp()
}

/// All ratios by entry.
pub(crate) fn table(verdicts: &[Verdict]) -> String {
    let mut text = format!(
        "\n{:<30}{:>8}{:>8}{:>19}{:>11}\n",
        "time of others over ours", "saved", "now", "ours slower", "processes"
    );
    let mut entry = "";
    for verdict in verdicts {
        if entry != verdict.entry {
            entry = &verdict.entry;
            let _ = writeln!(text, "{entry}");
        }
        let _ = write!(text, "  {:<28}{:>8.3}", verdict.other, verdict.before);
        let Some(Change { slower, error, decision }) = verdict.change else {
            let reason = verdict.failure.as_deref().unwrap_or_default();
            let reason: String =
                reason.lines().next().unwrap_or_default().chars().take(38).collect();
            let _ = writeln!(text, "  {}", if reason.is_empty() { "not timed" } else { &reason });
            continue;
        };
        let word = match decision {
            Decision::Fell => "fell",
            Decision::Stayed => "",
            Decision::Open => "open",
        };
        let percent = format!("{:+.1} ± {:.1} %", 100.0 * slower, 100.0 * error);
        let line = format!("{:>8.3}{percent:>19}{:>6} {word}", verdict.now, verdict.processes);
        let _ = writeln!(text, "{}", line.trim_end());
        if let Some((was, is)) = &verdict.versions {
            let cut = |about: &str| about.chars().take(64).collect::<String>();
            let _ = writeln!(text, "    saved with {}\n    now   with {}", cut(was), cut(is));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::strategy::{self, Role};
    use crate::{catalog, synthetic};

    #[test]
    fn the_table_fits_eighty_columns_and_names_another_version() {
        let run = |about: &str, time: Option<f64>| {
            let strategies = [("updraft", Role::Dispatched, Some(1.0)), ("peer", Role::Peer, time)];
            let mut measured = synthetic::run("a CPU", &strategies).entries.remove(0);
            measured.outcomes[1].about = Some(about.repeat(9));
            measured
        };
        let saved = run("PyTorch 2.8, ", Some(2.0));
        let (newer, failed) = (run("PyTorch 2.9, ", Some(2.0)), run("PyTorch 2.9, ", None));
        let process = [Process { log_ratio: 0.0, error: 0.0 }];
        let decisions = [Decision::Fell, Decision::Stayed, Decision::Open];
        let mut verdicts: Vec<_> = decisions
            .map(|decision| {
                let change = Some(Change { slower: 12.345, error: 9.87, decision });
                Verdict::new(&newer, &saved, "peer", &process, &process, change)
            })
            .to_vec();
        verdicts.push(Verdict::new(&failed, &saved, "peer", &process, &[], None));
        for entry in catalog::entries() {
            for strategy in strategy::peers(&entry.problem) {
                let mut verdict = verdicts[0].clone();
                (verdict.entry, verdict.other) = (entry.id.clone(), strategy.id);
                verdicts.push(verdict);
            }
        }
        let text = table(&verdicts);
        for line in text.lines() {
            assert!(line.chars().count() <= 80, "{line}");
        }
        for said in ["fell", "open", "+1234.5 ± 987.0 %", "it <failed>", "with PyTorch 2.9"] {
            assert!(text.contains(said), "{said}");
        }
    }
}
