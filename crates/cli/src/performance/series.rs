//! Measurements of several rows, whose repeats alternate.

use anyhow::Result;
use updraft_run::Plan;

use super::limit::MemoryLimit;
use super::order::{ComparedOrder, Order, Work};
use super::process::{Ended, Folder, run};
use super::rows::Row;
use super::summary::Measured;
use crate::progress::Display;

/// How rows are measured.
pub(crate) struct Series<'a> {
    pub(crate) folder: &'a Folder,
    pub(crate) display: &'a Display,
    pub(crate) work: Work,
    /// Timed steps of a repeat.
    pub(crate) steps: usize,
    pub(crate) repeats: usize,
    /// The name of samples in a rate.
    pub(crate) short: &'static str,
    /// The memory of a process, or of the device; a row that takes more is out of memory.
    pub(crate) limit: Option<MemoryLimit>,
}

/// Why a row has no result.
pub(crate) const OUT_OF_MEMORY: &str = "out of memory";

impl Series<'_> {
    /// Measures every row, the repeats of all rows in turn; the result of a row that fails is the
    /// reason.
    pub(crate) fn measure(&self, rows: &[(Row, Plan)]) -> Result<Vec<Result<Measured, String>>> {
        let mut found: Vec<_> = rows.iter().map(|_| Ok(Vec::new())).collect();
        for repeat in 0..self.repeats {
            for ((row, plan), found) in rows.iter().zip(&mut found) {
                let Ok(answers) = found else { continue };
                match self.once(row, plan, repeat, None)? {
                    Ok(answer) => answers.push(answer),
                    Err(reason) => *found = Err(reason),
                }
            }
        }
        Ok(found.into_iter().map(|answers| answers.map(Measured::of)).collect())
    }

    /// Measures a row once, and prints its rate.
    pub(crate) fn once(
        &self,
        row: &Row,
        plan: &Plan,
        repeat: usize,
        compared: Option<ComparedOrder>,
    ) -> Result<Result<super::order::Answer, String>> {
        let order = Order {
            plan: plan.to_toml(),
            plain: row.setting.plain,
            work: self.work,
            steps: self.steps,
            compared,
            answer: self.folder.file("answer.json"),
        };
        let (name, work) = (&row.name, self.work.name());
        let ended = run(self.folder, &order, row.setting.threads, self.limit)?;
        let (text, found) = match ended {
            Ended::Measured(answer) => {
                let rate = Measured::of(vec![(*answer).clone()]).rate.median;
                (format!("{rate:.1} {}/s", self.short), Ok(*answer))
            }
            Ended::OutOfMemory => (OUT_OF_MEMORY.to_owned(), Err(OUT_OF_MEMORY.to_owned())),
            Ended::Failed(reason) => (reason.clone(), Err(reason)),
        };
        let count = format!("{}/{}", repeat + 1, self.repeats);
        self.display.line(&format!("{count:8}{work:11}{name:24}{text}"));
        Ok(found)
    }
}
