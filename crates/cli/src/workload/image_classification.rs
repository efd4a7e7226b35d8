//! Image classification: what a plan calls data, as loaders.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};
use updraft_data::{
    FaultPolicy, ImageSource, LastBatch, Loader, LoaderConfig, Normalize, Order, Relabeled, Split,
    Subset, Workers, stratified_split,
};

use super::Report;
use super::image_cache::Keeper;
use super::image_sources::{Opened, open_sources};
use crate::config::{Plan, WorkersPlan};
use crate::run_folder::RunFolder;
use crate::stop::NothingToSave;

/// The images of a run at the plan's size.
pub(crate) struct ImageData {
    pub(crate) train: Arc<dyn ImageSource>,
    pub(crate) test: Arc<dyn ImageSource>,
    /// How one set became the two, where it did.
    pub(crate) split: Option<SetSplit>,
    /// What a person should know of caches.
    pub(crate) notes: Vec<String>,
}

/// The division of one set into training and test images.
pub(crate) struct SetSplit {
    /// The fingerprint of the set.
    pub(crate) set: String,
    pub(crate) split: Split,
}

/// The file of a run's folder that holds its [`SetSplit`].
pub(crate) const SPLIT: &str = "split.json";

/// Opens the data of a plan and decodes what the plan keeps.
///
/// `dir` is the command line's `--data`; it comes before the plan's. The data of a run is divided
/// as its folder says. A signal while data opens ends the process.
pub(crate) fn open_data(
    plan: &Plan,
    dir: Option<&Path>,
    run: Option<&RunFolder>,
    report: Report<'_>,
) -> Result<ImageData> {
    let _unasked = NothingToSave::begin();
    let mut notes = Vec::new();
    match open_sources(plan, dir, &mut notes, report)? {
        Opened::Apart { train, test } => {
            let images = train.len() + test.len();
            let mut keeper = Keeper { data: &plan.data, images, notes: &mut notes };
            let train = keeper.keep(train, "training", report)?;
            let mut test = keeper.keep(test, "test", report)?;
            if test.classes() != train.classes() {
                test = Arc::new(Relabeled::try_new(test, train.classes())?);
            }
            Ok(ImageData { train, test, split: None, notes })
        }
        Opened::Together { all, test_fraction } => {
            let mut keeper = Keeper { data: &plan.data, images: all.len(), notes: &mut notes };
            let all = keeper.keep(all, "training", report)?;
            let set = all.fingerprint();
            let written = run.map(|run| run.path().join(SPLIT)).filter(|path| path.exists());
            let split = match written {
                Some(path) => Split::read(&set, path)?,
                None => {
                    let labels: Vec<usize> = (0..all.len()).map(|at| all.label(at)).collect();
                    stratified_split(&labels, test_fraction, plan.seed)?
                }
            };
            Ok(ImageData {
                test: Arc::new(Subset::try_new(all.clone(), split.held_out.clone())?),
                train: Arc::new(Subset::try_new(all, split.kept.clone())?),
                split: Some(SetSplit { set, split }),
                notes,
            })
        }
    }
}

/// The loaders of a run: shuffled and augmented for training, in order and plain for the test.
///
/// What cannot be delivered is left out as the plan says, and not written down.
pub(crate) fn loaders(plan: &Plan, data: &ImageData) -> Result<(Loader, Loader)> {
    loaders_with(plan, data, &plan.data.faults.quiet())
}

/// The same for training, which writes down what it left out where the plan says so.
pub(crate) fn training_loaders(plan: &Plan, data: &ImageData) -> Result<(Loader, Loader)> {
    loaders_with(plan, data, &plan.data.faults.told())
}

fn loaders_with(plan: &Plan, data: &ImageData, faults: &FaultPolicy) -> Result<(Loader, Loader)> {
    let train = LoaderConfig::new(plan.train.batch)
        .with_order(Order::Shuffled)
        .with_seed(plan.seed)
        .with_workers(workers(plan))
        .with_last(LastBatch::Drop)
        .with_augment(plan.augment.transforms())
        .with_faults(faults.clone())
        .with_normalize(normalization(plan));
    let train = match plan.augment.mix_up {
        None => train,
        Some(mix_up) => train.with_mix_up(mix_up),
    };
    let train = Loader::try_new(data.train.clone(), train).context("the training data")?;
    let test = plain(plan, plan.train.batch, faults.clone());
    let test = Loader::try_new(data.test.clone(), test).context("the test data")?;
    Ok((train, test))
}

/// Images in their order, as they are: not augmented.
pub(crate) fn plain_loader(
    plan: &Plan,
    images: Arc<dyn ImageSource>,
    batch: usize,
) -> Result<Loader> {
    Ok(Loader::try_new(images, plain(plan, batch, plan.data.faults.quiet()))?)
}

fn plain(plan: &Plan, batch: usize, faults: FaultPolicy) -> LoaderConfig {
    LoaderConfig::new(batch)
        .with_order(Order::Sequential)
        .with_workers(workers(plan))
        .with_faults(faults)
        .with_normalize(normalization(plan))
}

fn workers(plan: &Plan) -> Workers {
    match plan.train.workers {
        WorkersPlan::Auto => Workers::Auto,
        WorkersPlan::Count(count) => Workers::Count(count),
    }
}

/// The plan's normalization in the loader's precision.
pub(crate) fn normalization(plan: &Plan) -> Normalize {
    Normalize { mean: plan.data.mean.map(|m| m as f32), std: plan.data.std.map(|s| s as f32) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first training batch of a small generated set.
    fn first_batch(sets: &[&str]) -> Vec<f32> {
        let small = ["data.train_images=40", "data.test_images=20", "train.batch=20"];
        let sets: Vec<String> = small.iter().chain(sets).map(|set| (*set).to_owned()).collect();
        let plan = crate::command::plan(None, &sets).expect("a plan").plan;
        let data = open_data(&plan, None, None, &mut |_, _| {}).expect("data");
        let (train, _) = loaders(&plan, &data).expect("loaders");
        train.epoch(0).next().expect("a batch").expect("whole").planes().to_vec()
    }

    #[test]
    fn each_augmentation_that_a_config_names_changes_the_batches() {
        let plain = first_batch(&[]);
        assert_eq!(first_batch(&["augment.rotate=0.0"]), plain);
        let settings = [
            "augment.flip=true",
            "augment.translate=2",
            "augment.rotate=20.0",
            "augment.random_resized_crop={min_area=0.5}",
            "augment.zoom={min_factor=0.8,max_factor=1.2}",
            "augment.color_jitter={brightness=0.3}",
        ];
        let batches: Vec<Vec<f32>> =
            settings.iter().map(|&setting| first_batch(&[setting])).collect();
        for (setting, batch) in settings.iter().zip(&batches) {
            assert_ne!(*batch, plain, "{setting}");
            assert_eq!(*batch, first_batch(&[setting]), "{setting}");
            assert_eq!(batches.iter().filter(|other| *other == batch).count(), 1, "{setting}");
        }
        assert_ne!(first_batch(&["augment.color_jitter={hue=0.3}"]), batches[5]);
    }
}
