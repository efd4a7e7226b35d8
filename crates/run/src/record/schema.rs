//! The schema of a run's metrics.

use serde::{Deserialize, Serialize};
use updraft_trainer::{Criterion, MetricSpec};

use crate::error::RunError;
use crate::folder::RunFolder;

const FILE: &str = "run.json";

/// The version of [`RunSchema`] and of the lines of `metrics.jsonl` that this build writes.
const VERSION: u32 = 1;

/// The schema of the lines in a run's `metrics.jsonl`, stored as `run.json`.
///
/// A line whose `event` is `step` has `loss` and, under `metrics`, the rest of
/// [`metrics`](Self::metrics); one whose `event` is `epoch` has all of them under `train` and, with
/// test data, under `test`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunSchema {
    version: u32,
    /// The name of the task.
    pub task: String,
    /// The name of samples, such as `images` or `rows`.
    pub samples: String,
    /// The loss, its parts and the task's metrics, in the order in which they are shown.
    pub metrics: Vec<MetricSpec>,
    /// The metric by which epochs are compared.
    pub criterion: Criterion,
    /// Plots of further numbers of an epoch's line: the title of each, and its curves as name and
    /// JSON pointer into the line.
    pub curves: Vec<(String, Vec<(String, String)>)>,
}

/// The fields of every version of the file.
#[derive(Deserialize)]
struct Versioned {
    version: u32,
}

impl RunSchema {
    pub(crate) fn new(
        task: &str,
        samples: &str,
        metrics: Vec<MetricSpec>,
        criterion: Criterion,
        curves: Vec<(String, Vec<(String, String)>)>,
    ) -> Self {
        let (task, samples) = (task.to_owned(), samples.to_owned());
        Self { version: VERSION, task, samples, metrics, criterion, curves }
    }

    pub(crate) fn write(&self, folder: &RunFolder) -> Result<(), RunError> {
        folder.write_json(FILE, self)
    }

    /// Reads the schema of a run.
    ///
    /// # Errors
    /// [`RunError::Io`] if it does not exist, [`RunError::Json`] if it is damaged, and
    /// [`RunError::Unusable`] for one of another version.
    pub fn read(folder: &RunFolder) -> Result<Self, RunError> {
        // The version first, because other versions may have other fields.
        let Versioned { version: found } = folder.read_json(FILE)?;
        if found == VERSION {
            return folder.read_json(FILE);
        }
        let path = folder.path().join(FILE);
        Err(RunError::Unusable {
            reason: format!(
                "`{}` has version {found}; this build reads version {VERSION}",
                path.display()
            ),
        })
    }

    /// The metric of this name.
    #[must_use]
    pub fn metric(&self, name: &str) -> Option<&MetricSpec> {
        self.metrics.iter().find(|metric| metric.name == name)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use updraft_trainer::{Direction, Unit};

    use super::*;
    use crate::config::Plan;
    use crate::task::TASKS;

    #[test]
    fn a_schema_survives_being_written_then_read() {
        let dir = tempfile::tempdir().expect("temporary folder");
        let plan = Plan::read(TASKS, "", Path::new("c.toml"), &[]).expect("valid").plan;
        let folder = RunFolder::create(dir.path(), &plan).expect("made");
        let metrics = vec![
            MetricSpec::new("loss", Unit::None, Direction::LowerIsBetter),
            MetricSpec::new("rmse", Unit::Of("y".into()), Direction::LowerIsBetter),
        ];
        let curves = vec![("a plot".to_owned(), vec![("a".to_owned(), "/a/0".to_owned())])];
        let criterion = "test-rmse".parse().expect("a criterion");
        let schema = RunSchema::new("a-task", "rows", metrics, criterion, curves);
        schema.write(&folder).expect("written");
        let read = RunSchema::read(&folder).expect("read");
        assert_eq!(read, schema);
        assert_eq!(read.metric("rmse"), Some(&schema.metrics[1]));
        assert_eq!(read.metric("accuracy"), None);
    }
}
