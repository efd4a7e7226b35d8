//! A trained model, loaded from a run folder.

use std::ops::ControlFlow;
use std::path::Path;

use burn::tensor::Device;
use serde::Serialize;
use serde_json::Value;
use updraft_data::WindowProgress;
use updraft_device::{DeviceSpec, open, probe, select};
use updraft_distributed::{Alone, Collective};
use updraft_precision::Policy;
use updraft_trainer::CaptureReport;

use crate::error::RunError;
use crate::folder::RunFolder;
use crate::int8_network::Int8Network;
use crate::operation::PredictionTrace;
use crate::task::{
    ClassProbability, FilePrediction, LoadedModel, Outcome, Predicted, PredictedRow,
    PredictionColumns, PredictionTable, Registry, SampleBlocks, TASKS, TablePrediction,
    WrittenPrediction, WrittenTable,
};

/// A model that was trained by a run, ready to predict; of any task.
///
/// The crate's page has an example.
#[derive(Debug)]
pub struct TrainedModel {
    loaded: Box<dyn LoadedModel>,
    policy: Policy,
    device: Device,
}

impl TrainedModel {
    /// Loads the model of a run folder: that of the best epoch for a run with early stopping,
    /// otherwise that of the newest checkpoint.
    ///
    /// `device` is `auto`, `cpu`, or a backend that is compiled in, such as `flex` or `cuda:0`.
    ///
    /// # Errors
    /// [`RunError::NoRun`] for another folder, [`RunError::Plan`] for a plan that this build cannot
    /// read, [`RunError::Edited`] for one that was edited to another model,
    /// [`RunError::NoCheckpoint`] for a run that was stopped before its first checkpoint,
    /// [`RunError::Io`], [`RunError::Json`] or [`RunError::Checkpoint`] for a file that is missing
    /// or damaged, [`RunError::NotFinite`] for a model that diverged, and [`RunError::Device`] for
    /// a device that is not usable.
    pub fn load(run: impl AsRef<Path>, device: &str) -> Result<Self, RunError> {
        Self::load_of(TASKS, run, device)
    }

    /// The same for a run of one of the given tasks.
    ///
    /// # Errors
    /// As [`load`](Self::load).
    ///
    /// # Panics
    /// If the registry has no task.
    pub fn load_of(
        registry: Registry,
        run: impl AsRef<Path>,
        device: &str,
    ) -> Result<Self, RunError> {
        Self::load_from(registry, &RunFolder::open(run.as_ref())?, device)
    }

    /// The same for an open folder, for which another checkpoint may be chosen with
    /// [`RunFolder::with_checkpoint`].
    ///
    /// # Errors
    /// As [`load`](Self::load).
    ///
    /// # Panics
    /// If the registry has no task.
    pub fn load_from(
        registry: Registry,
        folder: &RunFolder,
        device: &str,
    ) -> Result<Self, RunError> {
        let plan = folder.plan(registry)?;
        folder.refuse_other_model(&plan)?;
        let device = open(&select(&device.parse()?, &probe())?)?;
        let loaded = plan.predictor()?.load(&plan, folder, &device)?;
        Ok(Self { loaded, policy: plan.precision, device })
    }

    /// Loads the int8 network of a run folder, which `quantize` wrote into it: its predictions are
    /// those that were scored then. It computes on the CPU, on the threads of rayon's pool.
    ///
    /// # Errors
    /// [`RunError::NoInt8`] for a run that was not quantized, or not since it was trained further,
    /// [`RunError::Int8File`] or [`RunError::OtherInt8`] for a file that is damaged or of another
    /// network, [`RunError::NotForTask`] for a task whose models are not quantized, and as
    /// [`load`](Self::load).
    pub fn load_int8(run: impl AsRef<Path>) -> Result<Self, RunError> {
        Self::load_int8_from(TASKS, &RunFolder::open(run.as_ref())?)
    }

    /// The same for an open folder of a run of one of the given tasks.
    ///
    /// # Errors
    /// As [`load_int8`](Self::load_int8).
    ///
    /// # Panics
    /// If the registry has no task.
    pub fn load_int8_from(registry: Registry, folder: &RunFolder) -> Result<Self, RunError> {
        let plan = folder.plan(registry)?;
        folder.refuse_other_model(&plan)?;
        let network = Int8Network::open(folder, &plan)?;
        let device = open(&select(&DeviceSpec::Cpu, &probe())?)?;
        let loaded = plan.quantizer()?.load_int8(&plan, folder, network, &device)?;
        Ok(Self { loaded, policy: plan.precision, device })
    }

    /// Records the forward pass at the next prediction and replays it from then on for inputs of the
    /// same shape, with the same results; see [`updraft_trainer::CapturedModel`].
    ///
    /// Where the device offers none, predictions are computed as before, and
    /// [`capture_report`](Self::capture_report) has the reason.
    ///
    /// # Errors
    /// [`RunError::Unusable`] for a model whose predictions are no calls of one forward pass, and for
    /// an int8 network.
    pub fn capture(&mut self) -> Result<(), RunError> {
        let refuse = |reason: &str| RunError::Unusable {
            reason: format!("the model cannot be captured: {reason}; leave out --captured"),
        };
        self.loaded.capture().map_err(refuse)
    }

    /// How captured forward passes were computed so far; `None` without [`capture`](Self::capture).
    #[must_use]
    pub fn capture_report(&self) -> Option<CaptureReport> {
        self.loaded.capture_report()
    }

    /// The class names, in the order of the model's outputs; empty for a task without classes.
    #[must_use]
    pub fn classes(&self) -> &[String] {
        self.loaded.classes()
    }

    /// Predicts every sample of a file: a JPEG, PNG or TIFF image of any size, or the rows of a
    /// table with the columns of the run's features: by the names in a header, in any order and
    /// possibly with others, or without a header by position, without the target.
    ///
    /// # Errors
    /// [`RunError::Io`], [`RunError::Input`], [`RunError::Data`] or [`RunError::Table`] for a file
    /// that cannot be read.
    pub fn predict(&self, path: impl AsRef<Path>) -> Result<Vec<Predicted>, RunError> {
        self.loaded.predict(path.as_ref())
    }

    /// The same with a call for each sample, in the order of the file, until one breaks. The rows of
    /// a table are predicted while the file is read, in blocks: memory does not grow with the file,
    /// which may be a pipe.
    ///
    /// # Errors
    /// As [`predict`](Self::predict); samples before the error have been passed on.
    pub fn predict_each(
        &self,
        path: impl AsRef<Path>,
        each: &mut dyn FnMut(Predicted) -> ControlFlow<()>,
    ) -> Result<(), RunError> {
        self.loaded.predict_each(path.as_ref(), each)
    }

    /// The samples of a file in blocks that can be predicted one by one, for several processes that
    /// divide the rows of one table; `None` for a task whose files are one sample each.
    #[must_use]
    pub fn blocks<'a>(&'a self, path: impl AsRef<Path>) -> Option<Box<dyn SampleBlocks + 'a>> {
        self.loaded.blocks(path.as_ref())
    }

    /// Predicts a whole image or volume into a file, window by window; `progress` is called after
    /// each batch of windows and may stop the prediction, which the next call resumes.
    ///
    /// # Errors
    /// [`RunError::Unusable`] for a task that does not predict images; [`RunError::Input`] for an
    /// image of another kind than the run's, and [`RunError::Data`].
    pub fn predict_image(
        &self,
        request: &FilePrediction,
        progress: &mut dyn FnMut(WindowProgress) -> ControlFlow<()>,
    ) -> Result<WrittenPrediction, RunError> {
        match self.loaded.predict_file(request, &mut Alone, progress)? {
            Some(written) => Ok(written),
            None => unreachable!("a single rank writes"),
        }
    }

    /// The same by several ranks, which compute a batch of windows each; rank 0 writes, and the others
    /// return `None`. The file has the bits of one rank.
    ///
    /// # Errors
    /// As [`predict_image`](Self::predict_image), and [`RunError::Train`] if a rank is lost, or reads
    /// another image or model than rank 0.
    pub fn predict_image_on_ranks(
        &self,
        request: &FilePrediction,
        ranks: &mut dyn Collective,
        progress: &mut dyn FnMut(WindowProgress) -> ControlFlow<()>,
    ) -> Result<Option<WrittenPrediction>, RunError> {
        self.loaded.predict_file(request, ranks, progress)
    }

    /// Predicts the rows of a table into another one, in their order: for each target a column of its
    /// value, which for labels are those that apply with the target's separator between them, and
    /// columns `TARGET-probability-WORD` of the probabilities of its classes or labels.
    ///
    /// The output appears when it is complete. `progress` is called with the number of rows after each
    /// block, and may stop the prediction; memory does not grow with the file, which may be a pipe.
    ///
    /// # Errors
    /// As [`predict`](Self::predict), [`RunError::Unusable`] for a task that does not predict rows or
    /// an output that is no CSV or TSV file, [`RunError::Io`] for one that cannot be written,
    /// [`RunError::Stopped`].
    pub fn predict_table(
        &self,
        request: &TablePrediction,
        progress: &mut dyn FnMut(u64) -> ControlFlow<()>,
    ) -> Result<WrittenTable, RunError> {
        request.check()?;
        let columns = self.loaded.prediction_columns()?;
        let mut blocks =
            self.loaded.blocks(&request.input).ok_or_else(RunError::predicts_no_rows)?;
        let mut table = PredictionTable::create(request, &columns)?;
        while let Some(predicted) = blocks.predict()? {
            predicted.iter().try_for_each(|row| table.add(&columns.record(row)))?;
            if progress(table.rows()).is_break() {
                return Err(RunError::Stopped { what: "all rows were predicted" });
            }
        }
        table.finish()
    }

    /// The columns of a table of the model's predictions, for several processes that divide the
    /// [`blocks`](Self::blocks) of one table.
    ///
    /// # Errors
    /// [`RunError::Unusable`] for a task that does not predict rows, and for targets with columns of
    /// the same name.
    pub fn prediction_columns(&self) -> Result<PredictionColumns, RunError> {
        self.loaded.prediction_columns()
    }

    /// Predicts rows of your own type: a struct or a map with a field for each column of the run's
    /// features, of its name, and possibly others.
    ///
    /// A field is a number, a text, a truth value, a list of texts for a column of lists, or `None`
    /// for a missing value; a date is a text. A number that is not finite is missing.
    ///
    /// # Errors
    /// [`RunError::Unusable`] for a task that does not predict rows, and with row and column for a
    /// field that is not there or is none of these; [`RunError::Input`] for numbers beyond f32.
    ///
    /// # Example
    /// ```
    /// use serde::{Deserialize, Serialize};
    /// use updraft_run::TrainedModel;
    /// # use updraft_run::Experiment;
    ///
    /// #[derive(Serialize)]
    /// struct Flower {
    ///     petal: f64,
    ///     color: Option<&'static str>,
    /// }
    ///
    /// #[derive(Deserialize)]
    /// struct Answer {
    ///     kind: String,
    ///     height: f64,
    /// }
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let rows = (0..40).map(|row| format!("{},red,{},{row}\n", row % 7, ["iris", "rose"][row % 2]));
    /// # let rows = format!("petal,color,kind,height\n,,iris,1\n{}", rows.collect::<String>());
    /// # std::fs::write(dir.path().join("flowers.csv"), rows)?;
    /// # let config = "task = \"tables\"\ndata = { source = \"files\", files = [\"flowers.csv\"] }\n\
    /// #     targets = { kind = { kind = \"classes\" }, height = { kind = \"number\" } }\n\
    /// #     model = { hidden = 4 }\ntrain = { epochs = 1, batch = 8 }\n";
    /// # std::fs::write(dir.path().join("flowers.toml"), config)?;
    /// # let folder = dir.path().to_str().ok_or("UTF-8")?;
    /// # let run = Experiment::from_config(dir.path().join("flowers.toml")).set("data.dir", folder);
    /// # let run = run.runs(folder).train()?.folder.path().to_owned();
    /// let model = TrainedModel::load(run, "auto")?;
    /// let rows = [Flower { petal: 1.5, color: Some("red") }, Flower { petal: 4.0, color: None }];
    /// for row in model.predict_rows(&rows)? {
    ///     let Answer { kind, height } = row.values()?;
    ///     let sure = row.get("kind").and_then(|target| target.probability(&kind));
    ///     println!("{kind} ({sure:?}), {height} cm");
    ///     # assert!(sure.is_some_and(|sure| sure >= 0.5) && height.is_finite());
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn predict_rows<T: Serialize>(&self, rows: &[T]) -> Result<Vec<PredictedRow>, RunError> {
        let mut objects = Vec::with_capacity(rows.len());
        for (at, row) in rows.iter().enumerate() {
            let refuse = |what: &str| {
                let reason = format!("row {}: {what}; pass a struct or a map", at + 1);
                RunError::Unusable { reason }
            };
            match serde_json::to_value(row) {
                Ok(Value::Object(object)) => objects.push(object),
                Ok(_) => return Err(refuse("it has no names of columns")),
                Err(error) => return Err(refuse(&error.to_string())),
            }
        }
        self.loaded.predict_rows(&objects)
    }

    /// Starts a trace of the first `steps` predictions that this thread makes, into the folder of the
    /// model's run.
    ///
    /// # Errors
    /// [`RunError::Io`] if the folder cannot be written.
    pub fn trace(&self, folder: &RunFolder, steps: u64) -> Result<PredictionTrace, RunError> {
        let names = self.loaded.layer_names();
        PredictionTrace::start(folder, names, (self.policy, &self.device), steps)
    }

    /// Classifies an image file: every class, the most probable first.
    ///
    /// # Errors
    /// As [`predict`](Self::predict), and [`RunError::Input`] for a model without classes.
    pub fn predict_file(&self, path: impl AsRef<Path>) -> Result<Vec<ClassProbability>, RunError> {
        let path = path.as_ref();
        match self.loaded.predict(path)?.into_iter().next().map(|first| first.outcome) {
            Some(Outcome::Classes(classes)) => Ok(classes),
            _ => Err(RunError::Input {
                path: path.to_owned(),
                cause: "the model has no classes; use `predict`".into(),
            }),
        }
    }
}
