//! The metrics of a run, one JSON object a line, and the files that are made of them.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde_json::Value;
use updraft_trainer::Event;

use super::event_file::EventFile;
use super::table::{EPOCHS, STEPS, Table};
use super::trace::Trace;
use crate::config::LogPlan;
use crate::run_folder::RunFolder;

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
    pub(crate) fn open(folder: &RunFolder, plan: &LogPlan, step: u64) -> Result<Self> {
        let path = folder.path().join(METRICS);
        let failed = || format!("cannot write `{}`", path.display());
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
        let mut file = BufWriter::new(File::create(&partial).with_context(failed)?);
        for (line, _) in &kept {
            writeln!(file, "{line}").with_context(failed)?;
        }
        file.flush().with_context(failed)?;
        fs::rename(&partial, &path).with_context(failed)?;
        let tables = match plan.csv {
            true => vec![
                Table::create(folder.path(), "steps.csv", &STEPS)?,
                Table::create(folder.path(), "epochs.csv", &EPOCHS)?,
            ],
            false => Vec::new(),
        };
        let events = plan.tensorboard.then(|| EventFile::create(folder.path())).transpose()?;
        let trace = plan.trace.map(|steps| Trace::create(folder.path(), steps)).transpose()?;
        let mut metrics = Self { file, path, tables, events, trace };
        for (line, value) in &kept {
            metrics.derive(line, value)?;
        }
        Ok(metrics)
    }

    /// Appends an event, with further fields beside it.
    pub(crate) fn write(&mut self, event: &Event, extra: &[(&str, Value)]) -> Result<()> {
        let mut value = serde_json::to_value(event)?;
        for (key, field) in extra {
            value[*key] = field.clone();
        }
        let line = value.to_string();
        writeln!(self.file, "{line}").with_context(|| self.fault())?;
        self.derive(&line, &value)
    }

    /// Brings all lines to the disk.
    pub(crate) fn flush(&mut self) -> Result<()> {
        self.file
            .flush()
            .and_then(|()| self.file.get_ref().sync_data())
            .with_context(|| self.fault())?;
        for table in &mut self.tables {
            table.flush()?;
        }
        self.events.as_mut().map_or(Ok(()), EventFile::flush)?;
        self.trace.as_mut().map_or(Ok(()), Trace::flush)
    }

    fn derive(&mut self, line: &str, value: &Value) -> Result<()> {
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

    fn fault(&self) -> String {
        format!("cannot write `{}`", self.path.display())
    }
}

/// The whole lines of a run's metrics, each with what it says; a line cut off by a kill is left
/// out. None where there is no file.
pub(crate) fn read_lines(run: &Path) -> Result<Vec<(String, Value)>> {
    let path = run.join(METRICS);
    if !path.exists() {
        return Ok(Vec::new());
    }
    let failed = || format!("cannot read `{}`", path.display());
    let mut lines = Vec::new();
    for line in BufReader::new(File::open(&path).with_context(failed)?).lines() {
        let line = line.with_context(failed)?;
        if let Ok(value) = serde_json::from_str(&line) {
            lines.push((line, value));
        }
    }
    Ok(lines)
}
