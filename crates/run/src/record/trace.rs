//! Selected steps as a trace for Chrome and Perfetto.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::error::RunError;

/// The phases of a step in their order, as name and field.
const PHASES: [(&str, &str); 5] = [
    ("data wait", "data_wait_us"),
    ("copy", "copy_us"),
    ("forward", "forward_us"),
    ("backward", "backward_us"),
    ("optimizer", "optimizer_us"),
];

/// A file in the array form of the Trace Event Format, whose closing bracket is optional, so that
/// it is valid after every step.
pub(super) struct Trace {
    file: BufWriter<File>,
    path: PathBuf,
    steps: [u64; 2],
}

impl Trace {
    /// Truncates the file, for the steps from the first to the last given.
    pub(super) fn create(run: &Path, steps: [u64; 2]) -> Result<Self, RunError> {
        let path = run.join("trace.json");
        let failed = |cause| RunError::io("write", &path, cause);
        let mut file = BufWriter::new(File::create(&path).map_err(failed)?);
        writeln!(file, "[").map_err(failed)?;
        Ok(Self { file, path, steps })
    }

    /// Appends a step with its phases, if it is selected.
    ///
    /// Phases are consecutive, in their order; with accumulation each is the sum over batches.
    pub(super) fn add(&mut self, event: &Value) -> Result<(), RunError> {
        let [first, last] = self.steps;
        let step = event["step"].as_u64().filter(|step| (first..=last).contains(step));
        let (Some(step), true) = (step, event["event"] == "step") else { return Ok(()) };
        let number = |field: &str| event[field].as_u64().unwrap_or_default();
        let mut begin = number("at_us");
        let whole = number("data_wait_us") + number("step_us");
        self.slice(&format!("step {step}"), begin, whole, event["loss"].clone())?;
        for (name, field) in PHASES {
            self.slice(name, begin, number(field), Value::Null)?;
            begin += number(field);
        }
        Ok(())
    }

    pub(super) fn flush(&mut self) -> Result<(), RunError> {
        self.file.flush().map_err(|cause| RunError::io("write", &self.path, cause))
    }

    fn slice(&mut self, name: &str, begin: u64, lasts: u64, loss: Value) -> Result<(), RunError> {
        let mut slice =
            json!({ "name": name, "ph": "X", "ts": begin, "dur": lasts, "pid": 1, "tid": 1 });
        if !loss.is_null() {
            slice["args"] = json!({ "loss": loss });
        }
        writeln!(self.file, "{slice},").map_err(|cause| RunError::io("write", &self.path, cause))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chosen_steps_are_laid_out_phase_by_phase() {
        let dir = tempfile::tempdir().expect("temporary folder");
        let mut trace = Trace::create(dir.path(), [2, 3]).expect("created");
        for step in 0..6 {
            let event = json!({
                "event": "step", "step": step, "loss": 0.5, "at_us": 100 * step, "step_us": 60,
                "data_wait_us": 10, "copy_us": 5, "forward_us": 20, "backward_us": 25,
                "optimizer_us": 8,
            });
            trace.add(&event).expect("written");
        }
        trace.flush().expect("flushed");
        let text = std::fs::read_to_string(dir.path().join("trace.json")).expect("read");
        let whole = format!("{}]", text.trim_end().trim_end_matches(','));
        let slices: Vec<Value> = serde_json::from_str(&whole).expect("JSON");
        assert_eq!(slices.len(), 12);
        assert_eq!(slices[0]["name"], "step 2");
        assert_eq!((slices[0]["ts"].as_u64(), slices[0]["dur"].as_u64()), (Some(200), Some(70)));
        assert_eq!(slices[3]["name"], "forward");
        assert_eq!((slices[3]["ts"].as_u64(), slices[3]["dur"].as_u64()), (Some(215), Some(20)));
    }
}
