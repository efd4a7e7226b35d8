//! Steps as a trace for Chrome and Perfetto.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use updraft_simd::{LayerPass, LayerSpan};
use updraft_trainer::{StepTimes, Upload};

use crate::bounded;
use crate::error::RunError;

/// The rows of the trace: whole steps with their phases, layers, and batches that are moved to the
/// device ahead of their steps.
const STEPS: u64 = 1;
const LAYERS: u64 = 2;
const UPLOADS: u64 = 3;

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
    /// The batch that was moved for the next step.
    pub(crate) upload: Option<Upload>,
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
        for (row, name) in [(STEPS, "steps"), (LAYERS, "layers"), (UPLOADS, "uploads")] {
            trace.line(&json!({ "name": "thread_name", "ph": "M", "pid": 1, "tid": row,
                                "args": { "name": name } }))?;
        }
        Ok(trace)
    }

    /// Appends a step with its phases and the memory of this process.
    ///
    /// Phases are consecutive, in their order; with accumulation each is the sum over batches. A
    /// batch that is moved for the next step has a row of its own, and is part of the backward pass,
    /// which was submitted before.
    pub(crate) fn add_step(&mut self, step: &TracedStep) -> Result<(), RunError> {
        let TracedStep { name, begin_us, lasts_us, times, upload, facts } = step;
        self.slice(STEPS, name, (*begin_us, *lasts_us), facts.clone())?;
        if let Some(Upload { at_us, us }) = *upload {
            self.slice(UPLOADS, "upload of the next batch", (at_us, us), Value::Null)?;
        }
        let ahead_us = upload.map_or(0, |upload| upload.us.min(times.copy_us));
        let (copy_us, backward_us) = (times.copy_us - ahead_us, times.backward_us + ahead_us);
        let times = StepTimes { copy_us, backward_us, ..*times };
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

    /// The events of a trace.
    fn events(mut trace: Trace) -> Vec<Value> {
        trace.flush().expect("flushed");
        let text = std::fs::read_to_string(&trace.path).expect("read");
        let whole = format!("{}]", text.trim_end().trim_end_matches(','));
        serde_json::from_str(&whole).expect("JSON")
    }

    #[test]
    fn a_batch_that_is_moved_ahead_is_a_slice_of_its_own_beside_the_backward_pass() {
        let dir = tempfile::tempdir().expect("temporary folder");
        let mut trace = Trace::create(dir.path(), "trace.json").expect("created");
        // 4 of the 6 µs of copies are those of the next batch.
        let times = StepTimes {
            copy_us: 6,
            forward_us: 20,
            backward_us: 30,
            optimizer_us: 8,
            ..StepTimes::default()
        };
        let upload = Some(Upload { at_us: 125, us: 4 });
        let (name, facts) = ("step 0".to_owned(), Value::Null);
        let step = TracedStep { name, begin_us: 100, lasts_us: 64, times, upload, facts };
        trace.add_step(&step).expect("written");
        let events = events(trace);
        let slices = events.iter().filter(|event| event["ph"] == "X");
        let found: Vec<_> = slices
            .map(|slice| {
                let number = |field: &str| slice[field].as_u64().expect("a number");
                let name = slice["name"].as_str().expect("a name");
                (name, number("tid"), number("ts"), number("dur"))
            })
            .collect();
        let expected = [
            ("step 0", STEPS, 100, 64),
            ("upload of the next batch", UPLOADS, 125, 4),
            ("copy", STEPS, 100, 2),
            ("forward", STEPS, 102, 20),
            ("backward", STEPS, 122, 34),
            ("optimizer", STEPS, 156, 8),
        ];
        assert_eq!(found, expected);
        let row = events.iter().find(|event| event["tid"] == UPLOADS && event["ph"] == "M");
        assert_eq!(row.expect("a named row")["args"]["name"], "uploads");
    }

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
            let traced = TracedStep { name, begin_us, lasts_us: 70, times, upload: None, facts };
            trace.add_step(&traced).expect("written");
        }
        let mut timer = LayerTimer::start();
        time_layer(1, "convolution", || add_operations(1000));
        trace.add_layer("stem", (216, 9), &timer.take()[0]).expect("written");
        let events = events(trace);
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
