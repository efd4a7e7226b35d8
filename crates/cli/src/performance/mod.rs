//! Speed, memory and outputs of a config under different settings, each measured in a process of
//! its own.

mod compared;
mod limit;
mod measure;
mod order;
mod process;
mod rows;
mod series;
mod summary;
mod switch;
mod table;

pub(crate) use compared::Compared;
pub(crate) use limit::MemoryLimit;
pub(crate) use measure::measure;
pub(crate) use order::{ComparedOrder, Samples, Setting, Work};
pub(crate) use process::Folder;
pub(crate) use rows::{Kind, Row, rows};
pub(crate) use series::{OUT_OF_MEMORY, Series};
#[cfg(test)]
pub(crate) use summary::tests::{answer as planted_answer, comparison as planted};
pub(crate) use summary::{Comparison, Measured, RowResult, Spread, Verdict};
pub(crate) use switch::{Facts, Switch};
pub(crate) use table::{lines, number, share};

/// The largest number of timed steps and of repeats.
pub(crate) const MOST_STEPS: usize = 100_000;
