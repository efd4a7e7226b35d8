//! Metrics as comma-separated values.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde_json::Value;

/// What a table is made of: the kind of event, and the fields that are its columns.
pub(crate) struct Columns {
    event: &'static str,
    /// JSON pointers; a column's name is its pointer with dots.
    fields: &'static [&'static str],
}

/// One row an update.
pub(crate) const STEPS: Columns = Columns {
    event: "step",
    fields: &[
        "/epoch",
        "/step",
        "/samples",
        "/loss",
        "/correct",
        "/learning_rate",
        "/gradient_norm",
        "/loss_scale",
        "/skipped",
        "/at_us",
        "/step_us",
        "/data_wait_us",
        "/copy_us",
        "/forward_us",
        "/backward_us",
        "/optimizer_us",
    ],
};

/// One row an epoch.
pub(crate) const EPOCHS: Columns = Columns {
    event: "epoch",
    fields: &[
        "/epoch",
        "/step",
        "/train_loss",
        "/train_accuracy",
        "/test/loss",
        "/test/accuracy",
        "/test/samples",
        "/test/r_squared",
        "/samples_per_s",
        "/resident_bytes",
        "/epoch_peak_resident_bytes",
        "/peak_resident_bytes",
        "/device_peak_in_use_bytes",
        "/device_peak_reserved_bytes",
        "/train_us",
        "/data_wait_us",
        "/copy_us",
        "/forward_us",
        "/backward_us",
        "/optimizer_us",
    ],
};

/// A file of comma-separated values (RFC 4180) with a line of names.
pub(crate) struct Table {
    file: BufWriter<File>,
    path: PathBuf,
    columns: &'static Columns,
}

impl Table {
    /// Starts the file anew.
    pub(crate) fn create(run: &Path, name: &str, columns: &'static Columns) -> Result<Self> {
        let path = run.join(name);
        let file =
            File::create(&path).with_context(|| format!("cannot write `{}`", path.display()))?;
        let mut table = Self { file: BufWriter::new(file), path, columns };
        let names = columns.fields.iter().map(|field| field[1..].replace('/', "."));
        table.line(&names.collect::<Vec<_>>())?;
        Ok(table)
    }

    /// Appends a row, if the event is of this table's kind; `line` is the event's text.
    pub(crate) fn add(&mut self, line: &str, event: &Value) -> Result<()> {
        if event["event"] != self.columns.event {
            return Ok(());
        }
        let cells = self.columns.fields.iter().map(|field| cell(line, field, event.pointer(field)));
        self.line(&cells.collect::<Vec<_>>())
    }

    pub(crate) fn flush(&mut self) -> Result<()> {
        self.file.flush().with_context(|| format!("cannot write `{}`", self.path.display()))
    }

    fn line(&mut self, cells: &[String]) -> Result<()> {
        writeln!(self.file, "{}", cells.join(","))
            .with_context(|| format!("cannot write `{}`", self.path.display()))
    }
}

/// A cell; empty where there is no value, in quotes where its text could be taken for more cells.
///
/// A number is copied from the line, because reading and printing it may move its last digit; the
/// columns' names occur once in a line.
fn cell(line: &str, field: &str, value: Option<&Value>) -> String {
    match value {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => format!("\"{}\"", text.replace('"', "\"\"")),
        Some(other) => {
            let name = field.rsplit('/').next().unwrap_or(field);
            let copied = line.split(&format!("\"{name}\":")).nth(1);
            let copied = copied.and_then(|rest| rest.split([',', '}']).next());
            copied.map_or_else(|| other.to_string(), str::to_owned)
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn rows_have_the_columns_of_their_kind_and_text_in_quotes() {
        let dir = tempfile::tempdir().expect("temporary folder");
        let mut table = Table::create(dir.path(), "steps.csv", &STEPS).expect("created");
        table.add("{}", &json!({ "event": "epoch", "epoch": 0 })).expect("another kind");
        let step = json!({
            "event": "step", "epoch": 0, "step": 3, "loss": 0.5, "skipped": "the \"images\", all",
        });
        // The text is what counts for numbers.
        let text = step.to_string().replace("0.5", "0.50");
        table.add(&text, &step).expect("written");
        table.flush().expect("flushed");
        let text = std::fs::read_to_string(dir.path().join("steps.csv")).expect("read");
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].starts_with("epoch,step,samples,loss,"), "{}", lines[0]);
        assert_eq!(lines[1], "0,3,,0.50,,,,,\"the \"\"images\"\", all\",,,,,,,");
        assert_eq!(lines.len(), 2);
    }
}
