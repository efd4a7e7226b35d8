//! The volumes of a run: patches for training, and windows for evaluation.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use updraft_data::{
    DataError, Digest, Progress, ProgressUnit, SampleSource, VolumePair, VolumePatches,
    VolumeSource, VolumeTarget, VolumeWindows, draw_cells, volume_statistics,
};

use super::data_plan::{DataPlan, TargetKind};
use super::manifest::{has_splits, open_manifest, used_rows};
use super::objective::Objective;
use crate::error::RunError;
use crate::folder::RunFolder;
use crate::task::Opening;

/// The file of a run's folder that holds the [`Shape`] of its images.
pub(in crate::task) const IMAGES: &str = "images.json";

/// The seed of the noise of test windows.
const NOISE_SEED: u64 = 0;

/// Channels of an image beyond which a file is damaged rather than rich.
const MOST_CHANNELS: usize = 65_536;

/// The properties of the data that a network depends on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::task) struct Shape {
    /// Channels of the input.
    pub(in crate::task) inputs: usize,
    /// Channels of the output.
    pub(in crate::task) outputs: usize,
    /// The difference between the largest and the smallest value of target images, after their
    /// normalization; 1 for masks.
    pub(in crate::task) data_range: f64,
    /// A SHA-256 of the volumes.
    pub(in crate::task) fingerprint: String,
}

impl Shape {
    /// Parses a workload's signature; falls back to one channel.
    pub(in crate::task) fn of_signature(signature: &Value) -> Self {
        let one = || Self::of_channels(1, 1);
        serde_json::from_value(signature.clone()).unwrap_or_else(|_| one())
    }

    /// That of a run, whose file may have been edited.
    pub(in crate::task) fn of_run(folder: &RunFolder) -> Result<Self, RunError> {
        let shape: Self = folder.read_bound_json(IMAGES)?;
        let is_count = |channels: usize| (1..=MOST_CHANNELS).contains(&channels);
        let is_range = shape.data_range.is_finite() && shape.data_range > 0.0;
        if is_count(shape.inputs) && is_count(shape.outputs) && is_range {
            return Ok(shape);
        }
        let reason = format!(
            "`{}` is not what a run writes: {} to {} channels with a range of {}; restore it from a \
             copy, or train the run again",
            folder.path().join(IMAGES).display(),
            shape.inputs,
            shape.outputs,
            shape.data_range
        );
        Err(RunError::Unusable { reason })
    }

    pub(in crate::task) const fn of_channels(inputs: usize, outputs: usize) -> Self {
        Self { inputs, outputs, data_range: 1.0, fingerprint: String::new() }
    }
}

/// The volumes of a run.
pub(in crate::task) struct ImagePairs {
    pub(in crate::task) train: Arc<VolumePatches>,
    pub(in crate::task) test: Arc<VolumeWindows>,
    pub(in crate::task) shape: Shape,
    /// Messages about the volumes.
    pub(in crate::task) notes: Vec<String>,
}

impl ImagePairs {
    /// Opens the volumes of a plan, or generates them.
    pub(in crate::task) fn open(
        plan: &DataPlan,
        objective: &Objective,
        seed: u64,
        opening: Opening<'_>,
    ) -> Result<Self, RunError> {
        let Opening { dir, progress, .. } = opening;
        let mut notes = Vec::new();
        let [train, test] = match plan.find(dir)? {
            Some(manifest) => read(plan, &manifest, seed)?,
            None => {
                notes.push("no data folder is given: the cells are generated".to_owned());
                draw(plan, seed, progress)?
            }
        };
        let (inputs, targets) = channels_of(&train, &test)?;
        let config = plan.patch_config();
        let mut test_config = config.clone();
        test_config.foreground = None;
        let mut reading = |progress_of| progress("reading volumes", progress_of);
        let train = VolumePatches::try_new(train, config, &mut reading)?;
        if train.labeled_voxels() == Some(0) {
            let reason = "every label of the training masks is 0, the background: nothing to learn; \
                          list masks with other labels for training";
            return Err(RunError::Unusable { reason: reason.to_owned() });
        }
        let test = VolumeWindows::new(VolumePatches::try_new(test, test_config, &mut reading)?);
        let test = match plan.noise {
            0.0 => test,
            // Runs of all seeds are scored on the same windows.
            std => test.with_noise(std as f32, NOISE_SEED),
        };
        let fingerprint = Digest::new("updraft image pairs")
            .text(&train.fingerprint())
            .text(&test.fingerprint())
            .hex();
        let shape = Shape {
            inputs,
            outputs: objective.outputs(targets),
            data_range: data_range(train.pairs())?,
            fingerprint,
        };
        Ok(Self { train: Arc::new(train), test: Arc::new(test), shape, notes })
    }

    /// Returns an error for other volumes than the run's.
    pub(in crate::task) fn check(&self, folder: &RunFolder) -> Result<(), RunError> {
        let stored = Shape::of_run(folder)?;
        if stored == self.shape {
            return Ok(());
        }
        let channels = |shape: &Shape| (shape.inputs, shape.outputs);
        let difference = if channels(&stored) == channels(&self.shape) {
            "its volumes, or how they are cut and normalized, are others".to_owned()
        } else {
            let text = |(inputs, outputs)| format!("{inputs} to {outputs} channels");
            let (own, other) = (text(channels(&self.shape)), text(channels(&stored)));
            format!("it has {own}, the run {other}")
        };
        Err(RunError::OtherData { run: folder.path().to_owned(), difference })
    }
}

/// Checks that the volumes of a plan exist and that their manifest can be used, without reading
/// them; `dir` is their folder, instead of the one in the plan.
pub(in crate::task) fn find(plan: &DataPlan, dir: Option<&Path>) -> Result<(), RunError> {
    plan.find(dir)?.map_or(Ok(()), |manifest| open_manifest(plan, &manifest).map(drop))
}

/// The files of the volumes of a plan that are used, each once; none for generated cells. `dir` is as
/// in [`find`].
pub(in crate::task) fn files(
    plan: &DataPlan,
    dir: Option<&Path>,
) -> Result<Vec<PathBuf>, RunError> {
    let Some(path) = plan.find(dir)? else { return Ok(Vec::new()) };
    let manifest = open_manifest(plan, &path)?;
    let (mut seen, mut files) = (HashSet::new(), Vec::new());
    for row in used_rows(plan, manifest.rows()) {
        let targets: Vec<&PathBuf> = match plan.target {
            TargetKind::Labels => row.labels.iter().collect(),
            TargetKind::Image => row.targets.iter().collect(),
            TargetKind::Input => Vec::new(),
        };
        // Several rows may be blocks of one file.
        let new = row.inputs.iter().chain(targets).filter(|file| seen.insert((*file).clone()));
        files.extend(new.cloned());
    }
    Ok(files)
}

/// The training and the test volumes of a manifest.
fn read(plan: &DataPlan, path: &Path, seed: u64) -> Result<[Vec<VolumePair>; 2], RunError> {
    let manifest = open_manifest(plan, path)?;
    let config = plan.open_config();
    let [train, test] = if has_splits(manifest.rows()) {
        let [train, test] = &plan.splits;
        [manifest.pairs(Some(train), &config)?, manifest.pairs(Some(test), &config)?]
    } else {
        let split = manifest.hold_out_positions(plan.test_fraction, seed)?;
        let pairs = manifest.pairs(None, &config)?;
        let chosen = |rows: &[usize]| rows.iter().map(|&row| pairs[row].clone()).collect();
        [chosen(&split.kept), chosen(&split.held_out)]
    };
    Ok([train, test].map(|pairs| pairs.into_iter().map(|pair| of_kind(plan, pair)).collect()))
}

/// The same volume with the target of the plan.
fn of_kind(plan: &DataPlan, pair: VolumePair) -> VolumePair {
    match plan.target {
        TargetKind::Labels | TargetKind::Image => pair,
        TargetKind::Input => VolumePair { target: plan.own_target(&pair.input), ..pair },
    }
}

/// Channels of the inputs and of the targets, which the test volumes must share; 1 of a mask.
fn channels_of(train: &[VolumePair], test: &[VolumePair]) -> Result<(usize, usize), RunError> {
    let of = |pairs: &[VolumePair]| {
        let pair = pairs.first()?;
        let (targets, files) = match &pair.target {
            VolumeTarget::Image(target) => {
                let files = format!("`{}` with the target `{}`", pair.input.name(), target.name());
                (target.spec().raster.channels, files)
            }
            _ => (1, format!("`{}`", pair.input.name())),
        };
        Some(((pair.input.spec().raster.channels, targets), files))
    };
    let Some((channels, name)) = of(train) else { return Err(DataError::Empty.into()) };
    match of(test) {
        Some((others, other)) if others != channels => {
            let text =
                |(inputs, targets)| format!("{inputs} of the input and {targets} of the target");
            let reason = format!(
                "the test volume {other} has other channels, {}, than the training volume {name}, \
                 {}; list files of the same channels for both",
                text(others),
                text(channels)
            );
            Err(RunError::Unusable { reason })
        }
        _ => Ok(channels),
    }
}

/// Generated cells: fluorescence with class masks, transmitted light with fluorescence, or only
/// fluorescence.
fn draw(
    plan: &DataPlan,
    seed: u64,
    report: &mut dyn FnMut(&str, Progress),
) -> Result<[Vec<VolumePair>; 2], RunError> {
    let (cells, total) = (plan.cells(seed), plan.train_fields + plan.test_fields);
    let mut pairs = Vec::new();
    for field in 0..total {
        let images = draw_cells(&cells, field)?;
        pairs.push(match plan.target {
            TargetKind::Labels => VolumePair {
                input: Arc::new(images.fluorescence),
                target: VolumeTarget::Labels(Arc::new(images.classes)),
            },
            TargetKind::Image => VolumePair {
                input: Arc::new(images.transmitted),
                target: VolumeTarget::Image(Arc::new(images.fluorescence)),
            },
            TargetKind::Input => {
                let input: Arc<dyn VolumeSource> = Arc::new(images.fluorescence);
                VolumePair { target: plan.own_target(&input), input }
            }
        });
        let (done, total) = (field as u64 + 1, total as u64);
        report("drawing cells", Progress { done, total, unit: ProgressUnit::Images });
    }
    let test = pairs.split_off(plan.train_fields);
    Ok([pairs, test])
}

/// The range of the values of target images, over all volumes and channels.
fn data_range(pairs: &[VolumePair]) -> Result<f64, RunError> {
    let (mut least, mut greatest) = (f64::INFINITY, f64::NEG_INFINITY);
    for pair in pairs {
        let VolumeTarget::Image(target) = &pair.target else { return Ok(1.0) };
        for channel in volume_statistics(&**target)? {
            least = least.min(f64::from(channel.least));
            greatest = greatest.max(f64::from(channel.greatest));
        }
    }
    if greatest > least {
        return Ok(greatest - least);
    }
    let reason = "every value of the target images is the same: nothing to learn";
    Err(RunError::Unusable { reason: reason.to_owned() })
}
