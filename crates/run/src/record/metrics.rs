//! The metrics of a run, one JSON object per line, and the files derived from them.

use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, Write};
use std::path::PathBuf;

use serde_json::Value;
use updraft_trainer::Event;

use super::event_file::EventFile;
use super::schema::RunSchema;
use super::table::{Columns, Table};
use crate::bounded::{LINE_BYTES, METRICS_BYTES, check_no_pipe, open_own, read_line};
use crate::config::LogPlan;
use crate::error::RunError;
use crate::folder::RunFolder;
use crate::in_place::check_in_place;

/// The file with the metrics of a run.
pub(crate) const METRICS: &str = "metrics.jsonl";

/// The metrics of a run, one JSON object per line, and the files derived from them.
pub(crate) struct Metrics {
    file: BufWriter<File>,
    path: PathBuf,
    tables: Vec<Table>,
    events: Option<EventFile>,
}

impl Metrics {
    /// Opens a run's metrics, truncated to the lines before update `step`.
    ///
    /// A run that was killed after its last checkpoint has written lines that the resumed run
    /// will write again.
    pub(crate) fn open(
        folder: &RunFolder,
        plan: &LogPlan,
        schema: &RunSchema,
        (step, recorded): (u64, RecordedMetrics),
    ) -> Result<Self, RunError> {
        let path = folder.path().join(METRICS);
        let failed = |cause| RunError::io("write", &path, cause);
        let is_before = |value: &Value| {
            let reached = value["step"].as_u64().unwrap_or(u64::MAX);
            let is_step = value["event"] == "step";
            step > 0 && ((is_step && reached < step) || (!is_step && reached <= step))
        };
        let lines = recorded.texts.into_iter().zip(recorded.lines);
        let kept: Vec<(String, Value)> = lines.filter(|(_, value)| is_before(value)).collect();
        let partial = folder.path().join(format!(".{METRICS}.partial"));
        check_no_pipe(&partial)?;
        let mut file = BufWriter::new(File::create(&partial).map_err(failed)?);
        let mut write = || -> io::Result<()> {
            kept.iter().try_for_each(|(line, _)| writeln!(file, "{line}"))?;
            file.flush()?;
            fs::rename(&partial, &path)
        };
        write().map_err(|cause| {
            // Remove the incomplete file from a full disk.
            let _ = fs::remove_file(&partial);
            failed(cause)
        })?;
        let tables = match plan.csv {
            true => vec![
                Table::create(folder.path(), "steps.csv", Columns::of_steps(schema))?,
                Table::create(folder.path(), "epochs.csv", Columns::of_epochs(schema))?,
            ],
            false => Vec::new(),
        };
        let events =
            plan.tensorboard.then(|| EventFile::create(folder.path(), schema)).transpose()?;
        let mut metrics = Self { file, path, tables, events };
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

    /// Flushes all lines to the disk, into the file at the path: one that was removed is an error.
    pub(crate) fn flush(&mut self) -> Result<(), RunError> {
        let flushed = self.file.flush().and_then(|()| self.file.get_ref().sync_data());
        flushed.map_err(|cause| self.fault(cause))?;
        check_in_place(self.file.get_ref(), &self.path)?;
        for table in &mut self.tables {
            table.flush()?;
        }
        self.events.as_mut().map_or(Ok(()), EventFile::flush)
    }

    fn derive(&mut self, line: &str, value: &Value) -> Result<(), RunError> {
        for table in &mut self.tables {
            table.add(line, value)?;
        }
        if let Some(events) = &mut self.events {
            events.add(value)?;
        }
        Ok(())
    }

    fn fault(&self, cause: io::Error) -> RunError {
        RunError::io("write", &self.path, cause)
    }

    fn json(&self, cause: serde_json::Error) -> RunError {
        RunError::Json { path: self.path.clone(), cause }
    }
}

/// The lines of a run's `metrics.jsonl`.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct RecordedMetrics {
    /// The intact ones, parsed, in order.
    pub lines: Vec<Value>,
    /// The numbers of those that are damaged, from 1: not JSON, or not UTF-8. A truncated last line
    /// of a killed run is not included.
    pub damaged: Vec<u64>,
    /// The texts of [`lines`](Self::lines).
    texts: Vec<String>,
}

impl RecordedMetrics {
    /// A message about damaged lines; `None` without any.
    #[must_use]
    pub fn damage(&self) -> Option<String> {
        let (first, count) = (self.damaged.first()?, self.damaged.len());
        Some(match count {
            1 => format!("line {first} of metrics.jsonl is damaged and was left out"),
            _ => format!(
                "{count} damaged lines of metrics.jsonl, from line {first} on, were left out"
            ),
        })
    }
}

/// The lines of a run's `metrics.jsonl`; empty if there is no file.
///
/// # Errors
/// [`RunError::Io`], and [`RunError::TooLarge`] for more than 4 GiB.
pub fn read_metrics(folder: &RunFolder) -> Result<RecordedMetrics, RunError> {
    let path = folder.path().join(METRICS);
    let mut recorded = RecordedMetrics::default();
    if !path.exists() {
        return Ok(recorded);
    }
    let failed = |cause| RunError::io("read", &path, cause);
    let mut file = BufReader::new(open_own(&path, METRICS_BYTES)?);
    let mut number = 0;
    while let Some((line, has_end)) = read_line(&mut file, LINE_BYTES).map_err(failed)? {
        number += 1;
        let text = line.and_then(|line| String::from_utf8(line).ok());
        match text.and_then(|text| Some((serde_json::from_str(&text).ok()?, text))) {
            Some((value, text)) => {
                recorded.lines.push(value);
                recorded.texts.push(text);
            }
            None if has_end => recorded.damaged.push(number),
            // A kill cut it off.
            None => {}
        }
    }
    Ok(recorded)
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    #[test]
    fn json_numbers_are_read_to_the_bit() {
        // A linear congruential generator; Knuth, MMIX.
        let next = |state: &u64| {
            let multiplied = state.wrapping_mul(6_364_136_223_846_793_005);
            Some(multiplied.wrapping_add(1_442_695_040_888_963_407))
        };
        let numbers = std::iter::successors(Some(1_u64), next).map(f64::from_bits);
        for number in numbers.take(20_000).filter(|number| number.is_finite()) {
            let text = Value::from(number).to_string();
            let read: f64 = serde_json::from_str(&text).expect("JSON");
            assert_eq!(read.to_bits(), number.to_bits(), "{text}");
        }
    }
}
