//! Steps as a trace for Chrome and Perfetto.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use updraft_simd::{LayerPass, LayerSpan};
use updraft_trainer::StepTimes;

use crate::bounded;
use crate::error::RunError;

/// The rows of the trace: whole steps with their phases, and layers.
const STEPS: u64 = 1;
const LAYERS: u64 = 2;

/// A file in the array form of the Trace Event Format, whose closing bracket is optional, so that
/// it is valid after every step.
pub(crate) struct Trace {
    file: BufWriter<File>,
    path: PathBuf,
}

/// A step, or a batch of an evaluation. Times are microseconds since the start of the work.
pub(crate) struct TracedStep {
    pub(crate) name: String,
    pub(crate) begin_us: u64,
    pub(crate) lasts_us: u64,
    pub(crate) times: StepTimes,
    /// Further facts, such as the loss.
    pub(crate) facts: Value,
}

impl Trace {
    /// Truncates the file.
    pub(crate) fn create(run: &Path, name: &str) -> Result<Self, RunError> {
        let path = run.join(name);
        let mut file = BufWriter::new(bounded::create(&path)?);
        writeln!(file, "[").map_err(|cause| RunError::io("write", &path, cause))?;
        let mut trace = Self { file, path };
        for (row, name) in [(STEPS, "steps"), (LAYERS, "layers")] {
            trace.line(&json!({ "name": "thread_name", "ph": "M", "pid": 1, "tid": row,
                                "args": { "name": name } }))?;
        }
        Ok(trace)
    }

    /// Appends a step with its phases and the memory of this process.
    ///
    /// Phases are consecutive, in their order; with accumulation each is the sum over batches.
    pub(crate) fn add_step(&mut self, step: &TracedStep) -> Result<(), RunError> {
        let TracedStep { name, begin_us, lasts_us, times, facts } = step;
        self.slice(STEPS, name, (*begin_us, *lasts_us), facts.clone())?;
        let mut begin = *begin_us;
        for (name, us) in times.phases() {
            if us > 0 {
                self.slice(STEPS, name, (begin, us), Value::Null)?;
            }
            begin += us;
        }
        if let Some(bytes) = updraft_device::memory().resident_bytes {
            let at = begin_us + lasts_us;
            self.line(&json!({ "name": "memory", "ph": "C", "ts": at, "pid": 1,
                               "args": { "resident MiB": bytes >> 20 } }))?;
        }
        Ok(())
    }

    /// Appends a pass of a layer.
    pub(crate) fn add_layer(
        &mut self,
        name: &str,
        at_us: (u64, u64),
        span: &LayerSpan,
    ) -> Result<(), RunError> {
        let pass = match span.pass {
            LayerPass::Forward => "forward",
            LayerPass::Backward => "backward",
        };
        let facts = json!({ "kind": span.layer.kind, "pass": pass, "operations": span.operations });
        self.slice(LAYERS, name, at_us, facts)
    }

    pub(crate) fn flush(&mut self) -> Result<(), RunError> {
        self.file.flush().map_err(|cause| RunError::io("write", &self.path, cause))
    }

    fn slice(
        &mut self,
        row: u64,
        name: &str,
        (begin_us, us): (u64, u64),
        args: Value,
    ) -> Result<(), RunError> {
        let mut slice = json!({ "name": name, "ph": "X", "ts": begin_us, "dur": us, "pid": 1,
                                "tid": row });
        if !args.is_null() {
            slice["args"] = args;
        }
        self.line(&slice)
    }

    fn line(&mut self, value: &Value) -> Result<(), RunError> {
        writeln!(self.file, "{value},").map_err(|cause| RunError::io("write", &self.path, cause))
    }
}

#[cfg(test)]
mod tests {
    use updraft_simd::{LayerTimer, add_operations, time_layer};

    use super::*;

    #[test]
    fn steps_are_laid_out_phase_by_phase_with_layers_and_memory() {
        let dir = tempfile::tempdir().expect("temporary folder");
        let mut trace = Trace::create(dir.path(), "trace.json").expect("created");
        let times = StepTimes {
            data_wait_us: 10,
            copy_us: 5,
            forward_us: 20,
            backward_us: 25,
            rank_wait_us: 0,
            exchange_us: 0,
            optimizer_us: 8,
        };
        for step in 2..4 {
            let (name, begin_us) = (format!("step {step}"), 100 * step);
            let facts = json!({ "loss": 0.5 });
            let traced = TracedStep { name, begin_us, lasts_us: 70, times, facts };
            trace.add_step(&traced).expect("written");
        }
        let mut timer = LayerTimer::start();
        time_layer(1, "convolution", || add_operations(1000));
        trace.add_layer("stem", (216, 9), &timer.take()[0]).expect("written");
        trace.flush().expect("flushed");
        let text = std::fs::read_to_string(dir.path().join("trace.json")).expect("read");
        let whole = format!("{}]", text.trim_end().trim_end_matches(','));
        let events: Vec<Value> = serde_json::from_str(&whole).expect("JSON");
        let slices: Vec<&Value> = events.iter().filter(|event| event["ph"] == "X").collect();
        assert_eq!(slices.len(), 13);
        assert_eq!(
            (&slices[0]["name"], &slices[0]["args"]["loss"]),
            (&json!("step 2"), &json!(0.5))
        );
        assert_eq!((slices[0]["ts"].as_u64(), slices[0]["dur"].as_u64()), (Some(200), Some(70)));
        assert_eq!(slices[3]["name"], "forward");
        assert_eq!((slices[3]["ts"].as_u64(), slices[3]["dur"].as_u64()), (Some(215), Some(20)));
        assert_eq!((&slices[12]["name"], &slices[12]["tid"]), (&json!("stem"), &json!(LAYERS)));
        let facts = json!({ "kind": "convolution", "pass": "forward", "operations": 1000 });
        assert_eq!(slices[12]["args"], facts);
        let has_memory = updraft_device::memory().resident_bytes.is_some();
        let memory = events.iter().filter(|event| event["ph"] == "C").count();
        assert_eq!(memory, if has_memory { 2 } else { 0 });
    }
}
