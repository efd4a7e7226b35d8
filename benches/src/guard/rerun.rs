//! Measures the entries of a saved run again, until every ratio is decided.

use std::path::Path;

use anyhow::{Result, bail, ensure};

use crate::catalog::{self, Entry};
use crate::guard::ratio;
use crate::guard::rule::{Change, Decision, LOOKS, Process, decide};
use crate::guard::verdict::{self, Verdict};
use crate::host::Programs;
use crate::machine::Machine;
use crate::measure::{Effort, Measured, measure, measure_again};
use crate::record::{self, Record};
use crate::strategy::{Role, Strategy};

/// A comparison with a saved run.
#[derive(Debug)]
pub(crate) struct Guard {
    earlier: Record,
    /// The ratios that are compared in the whole run.
    ratios: usize,
    verdicts: Vec<Verdict>,
}

impl Guard {
    /// Reads the saved run, and returns its entries that match the filter.
    ///
    /// # Errors
    /// If the run cannot be read or no entry of it matches, or an entry is another problem now.
    pub(crate) fn read(run: &Path, filter: Option<&str>) -> Result<(Self, Vec<Entry>)> {
        let earlier = Record::read(run)?;
        let mut entries = catalog::select(filter.unwrap_or_default());
        entries.retain(|entry| earlier.entries.iter().any(|old| old.id == entry.id));
        ensure!(!entries.is_empty(), "`{}` has no entry of that name", run.display());
        for entry in &entries {
            let old = earlier.entries.iter().find(|old| old.id == entry.id);
            ensure!(
                old.is_some_and(|old| old.problem == entry.problem),
                "{} is another problem than in `{}`",
                entry.id,
                run.display()
            );
        }
        Ok((Self { earlier, ratios: 0, verdicts: Vec::new() }, entries))
    }

    /// Refuses another machine than the saved run's.
    ///
    /// # Errors
    /// If the machine, its card or the number of threads differs.
    pub(crate) fn expect_machine(&self, machine: &Machine) -> Result<()> {
        record::expect_same(&self.earlier.machine, machine)
    }

    /// Keeps our strategy and those whose ratios to it the saved run has.
    pub(crate) fn keep_compared(&self, entry: &Entry, strategies: &mut Vec<Strategy>) {
        let saved = self.saved(entry);
        strategies.retain(|strategy| {
            strategy.role == Role::Dispatched
                || ratio::others(saved).any(|other| other.strategy == strategy.id)
        });
    }

    /// Takes note of the ratios that will be compared, which decide how certain each has to be.
    ///
    /// # Errors
    /// If there is none.
    pub(crate) fn expect_ratios(&mut self, compared: &[(Entry, Vec<Strategy>)]) -> Result<()> {
        let ratios = compared.iter().map(|(entry, strategies)| {
            let others = strategies.iter().filter(|strategy| strategy.role != Role::Dispatched);
            if ratio::ours(self.saved(entry)).is_some() { others.count() } else { 0 }
        });
        self.ratios = ratios.sum();
        ensure!(
            self.ratios > 0,
            "the saved run has no ratio that this run would measure; --peers times other projects"
        );
        Ok(())
    }

    /// Measures an entry, adding processes until its ratios are decided or too many were started.
    ///
    /// # Errors
    /// If the reference cannot be computed.
    pub(crate) fn measure(
        &mut self,
        entry: &Entry,
        strategies: &[Strategy],
        programs: &Programs,
        effort: Effort,
    ) -> Result<Measured> {
        let threads = programs.threads;
        let saved = self.saved(entry);
        let before = |other: &str| ratio::processes(saved, other, threads);
        let others: Vec<_> = strategies
            .iter()
            .filter(|strategy| strategy.role != Role::Dispatched)
            .map(|strategy| (strategy.id.as_str(), before(&strategy.id)))
            .filter(|(_, before)| !before.is_empty())
            .collect();
        let mut measured =
            measure(entry, strategies, programs, Effort { processes: LOOKS[0], ..effort })?;
        let mut processes = LOOKS[0];
        for look in LOOKS {
            while processes < look {
                measure_again(&mut measured, entry, strategies, programs, effort);
                processes += 1;
            }
            let is_open = |(other, before): &(&str, Vec<Process>)| {
                let after = ratio::processes(&measured, other, threads);
                !after.is_empty() && decide(before, &after, self.ratios).decision == Decision::Open
            };
            if !others.iter().any(is_open) {
                break;
            }
        }
        let verdicts = others.into_iter().map(|(other, before)| {
            let after = ratio::processes(&measured, other, threads);
            let change = (!after.is_empty()).then(|| decide(&before, &after, self.ratios));
            Verdict::new(&measured, saved, other, &before, &after, change)
        });
        let verdicts: Vec<_> = verdicts.collect();
        self.verdicts.extend(verdicts);
        Ok(measured)
    }

    /// The table of all ratios.
    pub(crate) fn table(&self) -> String {
        verdict::table(&self.verdicts)
    }

    /// Refuses ratios that fell, and those that nothing can be said about.
    ///
    /// # Errors
    /// If a ratio fell, was not measured, or varies too much to be decided.
    pub(crate) fn refuse_regressions(&self) -> Result<()> {
        let names = |is: &dyn Fn(Option<Change>) -> bool| -> Vec<String> {
            let found = self.verdicts.iter().filter(|verdict| is(verdict.change));
            found.map(Verdict::name).collect()
        };
        let decided =
            |as_this| names(&|change| change.is_some_and(|change| change.decision == as_this));
        let fell = decided(Decision::Fell);
        if !fell.is_empty() {
            bail!("ours is slower than in the saved run, beside:\n  {}", fell.join("\n  "));
        }
        let absent = names(&|change| change.is_none());
        if !absent.is_empty() {
            bail!("not measured again:\n  {}", absent.join("\n  "));
        }
        let open = decided(Decision::Open);
        if !open.is_empty() {
            bail!(
                "the times vary too much to decide; a quieter machine helps, or a saved run of \
                 more --processes:\n  {}",
                open.join("\n  ")
            );
        }
        Ok(())
    }

    fn saved(&self, entry: &Entry) -> &Measured {
        let mut saved = self.earlier.entries.iter();
        saved.find(|old| old.id == entry.id).expect("entries are those of the saved run")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic;

    /// A guard with a saved run of one entry, by strategy and time.
    fn guard(folder: &Path, strategies: &[(&str, Role, Option<f64>)]) -> (Guard, Vec<Entry>) {
        synthetic::run("a CPU", strategies).save(folder).expect("saved");
        Guard::read(folder, None).expect("a run")
    }

    fn strategies(entry: &Entry) -> Vec<Strategy> {
        let ours = crate::strategy::ours(&entry.problem);
        ours.into_iter().chain(crate::strategy::peers(&entry.problem)).collect()
    }

    #[test]
    fn only_strategies_with_a_saved_ratio_are_timed() {
        let folder = tempfile::tempdir().expect("a folder");
        let (mut guard, entries) = guard(
            folder.path(),
            &[
                ("flex", Role::Dispatched, Some(2.0)),
                ("pytorch", Role::Peer, Some(1.0)),
                ("candle", Role::Peer, None),
            ],
        );
        let mut kept = strategies(&entries[0]);
        guard.keep_compared(&entries[0], &mut kept);
        let names: Vec<_> = kept.iter().map(|strategy| strategy.id.as_str()).collect();
        assert_eq!(names, ["flex", "pytorch"]);
        let mut alone = kept.clone();
        alone.truncate(1);
        let entry = entries[0].clone();
        let error = guard.expect_ratios(&[(entry.clone(), alone)]).expect_err("no ratio");
        assert!(error.to_string().contains("--peers"), "{error}");
        guard.expect_ratios(&[(entry, kept)]).expect("one ratio");
        assert_eq!(guard.ratios, 1);
    }

    #[test]
    fn what_fell_was_not_measured_or_stays_open_is_an_error() {
        let folder = tempfile::tempdir().expect("a folder");
        let (mut guard, _) = guard(
            folder.path(),
            &[("flex", Role::Dispatched, Some(2.0)), ("pytorch", Role::Peer, Some(1.0))],
        );
        let saved = guard.earlier.entries[0].clone();
        let process = Process { log_ratio: 0.0, error: 0.0 };
        let mut verdict = |change| {
            let verdict = Verdict::new(&saved, &saved, "pytorch", &[process], &[process], change);
            guard.verdicts = vec![verdict];
            guard.refuse_regressions()
        };
        let change = |decision| Some(Change { slower: 0.1, error: 0.01, decision });
        verdict(change(Decision::Stayed)).expect("no regression");
        for (change, said) in [
            (change(Decision::Fell), "ours is slower"),
            (change(Decision::Open), "vary too much"),
            (None, "not measured"),
        ] {
            let error = verdict(change).expect_err(said).to_string();
            assert!(error.contains(said) && error.contains("pytorch"), "{error}");
        }
    }

    #[test]
    fn another_machine_and_an_entry_that_is_not_saved_are_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let (guard, _) = guard(folder.path(), &[("flex", Role::Dispatched, Some(2.0))]);
        let other = synthetic::run("another CPU", &[]);
        let error = guard.expect_machine(&other.machine).expect_err("another");
        assert!(error.to_string().contains("different machines"), "{error}");
        let error = Guard::read(folder.path(), Some("kan/*")).expect_err("not there");
        assert!(error.to_string().contains("no entry of that name"), "{error}");
    }
}
