//! The metrics of a run, one JSON object a line, and the files that are made of them.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};

use serde_json::Value;
use updraft_trainer::Event;

use super::event_file::EventFile;
use super::schema::RunSchema;
use super::table::{Columns, Table};
use super::trace::Trace;
use crate::config::LogPlan;
use crate::error::RunError;
use crate::folder::RunFolder;

const METRICS: &str = "metrics.jsonl";

/// The metrics of a run, one JSON object a line, and the files that are made of them.
pub(crate) struct Metrics {
    file: BufWriter<File>,
    path: PathBuf,
    tables: Vec<Table>,
    events: Option<EventFile>,
    trace: Option<Trace>,
}

impl Metrics {
    /// Opens a run's metrics, cut back to what was measured before update `step`.
    ///
    /// A run that was killed after its last checkpoint has written lines that the resumed run
    /// will write again.
    pub(crate) fn open(
        folder: &RunFolder,
        plan: &LogPlan,
        schema: &RunSchema,
        step: u64,
    ) -> Result<Self, RunError> {
        let path = folder.path().join(METRICS);
        let failed = |cause| RunError::io("write", &path, cause);
        let mut kept = Vec::new();
        if step > 0 {
            for (line, value) in read_lines(folder.path())? {
                let reached = value["step"].as_u64().unwrap_or(u64::MAX);
                let is_step = value["event"] == "step";
                if (is_step && reached < step) || (!is_step && reached <= step) {
                    kept.push((line, value));
                }
            }
        }
        let partial = folder.path().join(format!(".{METRICS}.partial"));
        let mut file = BufWriter::new(File::create(&partial).map_err(failed)?);
        for (line, _) in &kept {
            writeln!(file, "{line}").map_err(failed)?;
        }
        file.flush().map_err(failed)?;
        fs::rename(&partial, &path).map_err(failed)?;
        let tables = match plan.csv {
            true => vec![
                Table::create(folder.path(), "steps.csv", Columns::of_steps(schema))?,
                Table::create(folder.path(), "epochs.csv", Columns::of_epochs(schema))?,
            ],
            false => Vec::new(),
        };
        let events =
            plan.tensorboard.then(|| EventFile::create(folder.path(), schema)).transpose()?;
        let trace = plan.trace.map(|steps| Trace::create(folder.path(), steps)).transpose()?;
        let mut metrics = Self { file, path, tables, events, trace };
        for (line, value) in &kept {
            metrics.derive(line, value)?;
        }
        Ok(metrics)
    }

    /// Appends an event, with further fields beside it.
    pub(crate) fn write(&mut self, event: &Event, extra: &[(&str, Value)]) -> Result<(), RunError> {
        let mut value = serde_json::to_value(event).map_err(|cause| self.json(cause))?;
        for (key, field) in extra {
            value[*key] = field.clone();
        }
        let line = value.to_string();
        writeln!(self.file, "{line}").map_err(|cause| self.fault(cause))?;
        self.derive(&line, &value)
    }

    /// Brings all lines to the disk.
    pub(crate) fn flush(&mut self) -> Result<(), RunError> {
        let flushed = self.file.flush().and_then(|()| self.file.get_ref().sync_data());
        flushed.map_err(|cause| self.fault(cause))?;
        for table in &mut self.tables {
            table.flush()?;
        }
        self.events.as_mut().map_or(Ok(()), EventFile::flush)?;
        self.trace.as_mut().map_or(Ok(()), Trace::flush)
    }

    fn derive(&mut self, line: &str, value: &Value) -> Result<(), RunError> {
        for table in &mut self.tables {
            table.add(line, value)?;
        }
        if let Some(events) = &mut self.events {
            events.add(value)?;
        }
        if let Some(trace) = &mut self.trace {
            trace.add(value)?;
        }
        Ok(())
    }

    fn fault(&self, cause: std::io::Error) -> RunError {
        RunError::io("write", &self.path, cause)
    }

    fn json(&self, cause: serde_json::Error) -> RunError {
        RunError::Json { path: self.path.clone(), cause }
    }
}

/// The lines of a run's `metrics.jsonl`; none where there is no file.
///
/// # Errors
/// [`RunError::Io`].
pub fn read_metrics(folder: &RunFolder) -> Result<Vec<Value>, RunError> {
    Ok(read_lines(folder.path())?.into_iter().map(|(_, value)| value).collect())
}

/// The whole lines of a run's metrics, each parsed; a line cut off by a kill is left
/// out.
fn read_lines(run: &Path) -> Result<Vec<(String, Value)>, RunError> {
    let path = run.join(METRICS);
    if !path.exists() {
        return Ok(Vec::new());
    }
    let failed = |cause| RunError::io("read", &path, cause);
    let mut lines = Vec::new();
    for line in BufReader::new(File::open(&path).map_err(failed)?).lines() {
        let line = line.map_err(failed)?;
        if let Ok(value) = serde_json::from_str(&line) {
            lines.push((line, value));
        }
    }
    Ok(lines)
}
