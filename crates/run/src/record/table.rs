//! Metrics as comma-separated values.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::schema::RunSchema;
use crate::bounded;
use crate::error::RunError;

/// The fields of every update before and after its metrics, as JSON pointers.
const STEP: [&[&str]; 2] = [
    &["/epoch", "/step", "/samples", "/loss"],
    &[
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
];

/// The same for an epoch.
const EPOCH: [&[&str]; 2] = [
    &["/epoch", "/step"],
    &[
        "/test/samples",
        "/samples_per_s",
        "/resident_bytes",
        "/epoch_peak_resident_bytes",
        "/peak_resident_bytes",
        "/device_peak_in_use_bytes",
        "/device_peak_reserved_bytes",
        "/gpu/busy_share",
        "/gpu/peak_memory_bytes",
        "/gpu/peak_temperature_c",
        "/gpu/mean_power_w",
        "/train_us",
        "/data_wait_us",
        "/copy_us",
        "/forward_us",
        "/backward_us",
        "/optimizer_us",
    ],
];

/// The definition of a table: the kind of event, and the fields that are its columns.
pub(super) struct Columns {
    event: &'static str,
    /// JSON pointers; a column's name is its pointer with dots.
    fields: Vec<String>,
}

impl Columns {
    /// One row an update.
    pub(super) fn of_steps(schema: &RunSchema) -> Self {
        let metrics = schema.metrics.iter().skip(1);
        let metrics = metrics.map(|metric| format!("/metrics/{}", metric.name));
        Self::around("step", STEP, metrics)
    }

    /// One row an epoch.
    pub(super) fn of_epochs(schema: &RunSchema) -> Self {
        let of =
            |split| schema.metrics.iter().map(move |metric| format!("/{split}/{}", metric.name));
        Self::around("epoch", EPOCH, of("train").chain(of("test")))
    }

    fn around(
        event: &'static str,
        [before, after]: [&[&str]; 2],
        metrics: impl Iterator<Item = String>,
    ) -> Self {
        let owned = |fields: &[&str]| fields.iter().map(|&field| field.to_owned()).collect();
        let fields: [Vec<String>; 3] = [owned(before), metrics.collect(), owned(after)];
        Self { event, fields: fields.concat() }
    }
}

/// A file of comma-separated values (RFC 4180) with a line of names.
pub(super) struct Table {
    file: BufWriter<File>,
    path: PathBuf,
    columns: Columns,
}

impl Table {
    /// Truncates the file.
    pub(super) fn create(run: &Path, name: &str, columns: Columns) -> Result<Self, RunError> {
        let path = run.join(name);
        let mut table = Self { file: BufWriter::new(bounded::create(&path)?), path, columns };
        let names: Vec<String> =
            table.columns.fields.iter().map(|field| field[1..].replace('/', ".")).collect();
        table.line(&names)?;
        Ok(table)
    }

    /// Appends a row, if the event is of this table's kind; `line` is the event's text.
    pub(super) fn add(&mut self, line: &str, event: &Value) -> Result<(), RunError> {
        if event["event"] != self.columns.event {
            return Ok(());
        }
        let cells = self.columns.fields.iter().map(|field| cell(line, field, event.pointer(field)));
        self.line(&cells.collect::<Vec<_>>())
    }

    pub(super) fn flush(&mut self) -> Result<(), RunError> {
        self.file.flush().map_err(|cause| RunError::io("write", &self.path, cause))
    }

    fn line(&mut self, cells: &[String]) -> Result<(), RunError> {
        writeln!(self.file, "{}", cells.join(","))
            .map_err(|cause| RunError::io("write", &self.path, cause))
    }
}

/// A cell; empty without a value, quoted if necessary.
///
/// A number is copied from the line, because parsing and printing it may change its last digit.
fn cell(line: &str, field: &str, value: Option<&Value>) -> String {
    match value {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => format!("\"{}\"", text.replace('"', "\"\"")),
        Some(other) => {
            let copied = field[1..].split('/').try_fold(line, |rest, name| {
                rest.split_once(&format!("\"{name}\":")).map(|(_, rest)| rest)
            });
            let copied = copied.and_then(|rest| rest.split([',', '}']).next());
            copied.map_or_else(|| other.to_string(), str::to_owned)
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use updraft_trainer::{Criterion, Direction, MetricSpec, Unit};

    use super::*;

    fn schema() -> RunSchema {
        let metrics = vec![
            MetricSpec::new("loss", Unit::None, Direction::LowerIsBetter),
            MetricSpec::new("accuracy", Unit::Share, Direction::HigherIsBetter),
        ];
        RunSchema::new("a task", "images", metrics, Criterion::default(), Vec::new())
    }

    fn rows(columns: Columns, text: &str, event: &Value) -> Vec<String> {
        let dir = tempfile::tempdir().expect("temporary folder");
        let mut table = Table::create(dir.path(), "t.csv", columns).expect("created");
        table.add("{}", &json!({ "event": "other", "epoch": 0 })).expect("another kind");
        table.add(text, event).expect("written");
        table.flush().expect("flushed");
        let text = std::fs::read_to_string(dir.path().join("t.csv")).expect("read");
        text.lines().map(str::to_owned).collect()
    }

    #[test]
    fn rows_have_the_columns_of_their_kind_and_text_in_quotes() {
        let step = json!({
            "event": "step", "epoch": 0, "step": 3, "loss": 0.5, "skipped": "the \"input\", all",
        });
        // The text is what counts for numbers.
        let text = step.to_string().replace("0.5", "0.50");
        let lines = rows(Columns::of_steps(&schema()), &text, &step);
        assert!(
            lines[0].starts_with("epoch,step,samples,loss,metrics.accuracy,learning_rate,"),
            "{}",
            lines[0]
        );
        assert_eq!(lines[1], "0,3,,0.50,,,,,\"the \"\"input\"\", all\",,,,,,,");
        assert_eq!(lines.len(), 2);
    }

    #[test]
    fn the_same_name_under_train_and_test_gives_two_columns() {
        let text = "{\"event\":\"epoch\",\"epoch\":0,\"step\":3,\
                    \"train\":{\"loss\":0.10,\"accuracy\":0.5},\
                    \"test\":{\"loss\":0.20,\"accuracy\":null,\"samples\":7}}";
        let event = serde_json::from_str(text).expect("JSON");
        let lines = rows(Columns::of_epochs(&schema()), text, &event);
        assert!(lines[0].starts_with(
            "epoch,step,train.loss,train.accuracy,test.loss,test.accuracy,test.samples,"
        ));
        assert!(lines[1].starts_with("0,3,0.10,0.5,0.20,,7,"), "{}", lines[1]);
    }
}
