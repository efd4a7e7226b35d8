//! Image classification: opens what a plan calls data.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, anyhow, bail};
use updraft_data::{
    Augment, GeneratedConfig, GeneratedImages, HorizontalFlip, ImageFolder, ImageSource,
    InMemoryImages, LastBatch, Loader, LoaderConfig, Normalize, Order, Progress, Relabeled, Subset,
    TarImages, Translate, Workers, stratified_split,
};

use crate::config::{DataSource, Plan, WorkersPlan};
use crate::stop::NothingToSave;

/// The images of a run, decoded to the plan's size and held in memory as bytes.
pub(crate) struct ImageData {
    pub(crate) train: Arc<dyn ImageSource>,
    pub(crate) test: Arc<dyn ImageSource>,
}

/// Told about long steps: the step's name and how far it is.
pub(crate) type Report<'a> = &'a mut dyn FnMut(&str, Progress);

/// Opens and decodes the data of a plan.
///
/// `dir` is the command line's `--data`; it comes before the plan's. A signal while data opens ends
/// the process.
pub(crate) fn open_data(plan: &Plan, dir: Option<&Path>, report: Report<'_>) -> Result<ImageData> {
    let _unasked = NothingToSave::begin();
    let size = (plan.data.height, plan.data.width);
    match &plan.data.source {
        DataSource::Generated { cue, train_images, test_images } => {
            let generate = |images, seed| -> Result<Arc<dyn ImageSource>> {
                let config = GeneratedConfig::new(*cue, images).with_size(size.0, size.1);
                Ok(Arc::new(GeneratedImages::try_new(config.with_seed(seed))?))
            };
            // Another seed draws other images of the same classes.
            let train = generate(*train_images, plan.seed)?;
            let test = generate(*test_images, plan.seed ^ (1 << 63))?;
            Ok(ImageData {
                train: resident(&train, size, "drawing training images", report)?,
                test: resident(&test, size, "drawing test images", report)?,
            })
        }
        DataSource::Archives { dir: planned, train, test, how_to_get } => {
            let paths = locate(dir.or(planned.as_deref()), &[train, test], how_to_get.as_deref())?;
            let mut open = |path: &PathBuf, name: &str| -> Result<Arc<dyn ImageSource>> {
                let archive = TarImages::open(path, &mut |progress| {
                    report(&format!("reading {name} archive"), progress);
                })?;
                let archive: Arc<dyn ImageSource> = Arc::new(archive);
                resident(&archive, size, &format!("decoding {name} images"), report)
            };
            let train = open(&paths[0], "training")?;
            let test = open(&paths[1], "test")?;
            let test = Arc::new(Relabeled::try_new(test, train.classes())?);
            Ok(ImageData { train, test })
        }
        DataSource::Folders { dir: planned, train, test, test_fraction, how_to_get } => {
            let dir = dir.or(planned.as_deref());
            let paths = match test {
                Some(test) => locate(dir, &[train, test], how_to_get.as_deref())?,
                None => locate(dir, &[train], how_to_get.as_deref())?,
            };
            let mut open = |path: &PathBuf, name: &str| -> Result<Arc<dyn ImageSource>> {
                let folder: Arc<dyn ImageSource> = Arc::new(ImageFolder::open(path)?);
                resident(&folder, size, &format!("decoding {name} images"), report)
            };
            let train = open(&paths[0], "training")?;
            if let Some(path) = paths.get(1) {
                let test = Arc::new(Relabeled::try_new(open(path, "test")?, train.classes())?);
                return Ok(ImageData { train, test });
            }
            let labels: Vec<usize> = (0..train.len()).map(|index| train.label(index)).collect();
            let split = stratified_split(&labels, *test_fraction, plan.seed)?;
            Ok(ImageData {
                test: Arc::new(Subset::try_new(train.clone(), split.held_out)?),
                train: Arc::new(Subset::try_new(train, split.kept)?),
            })
        }
    }
}

/// The loaders of a run: shuffled and augmented for training, in order and plain for the test.
pub(crate) fn loaders(plan: &Plan, data: &ImageData) -> Result<(Loader, Loader)> {
    let workers = match plan.train.workers {
        WorkersPlan::Auto => Workers::Auto,
        WorkersPlan::Count(count) => Workers::Count(count),
    };
    let mut augment = Vec::new();
    if plan.augment.flip {
        augment.push(Augment::HorizontalFlip(HorizontalFlip));
    }
    if plan.augment.translate > 0 {
        augment.push(Augment::Translate(Translate { max_pixels: plan.augment.translate }));
    }
    let normalize = normalization(plan);
    let train = LoaderConfig::new(plan.train.batch)
        .with_order(Order::Shuffled)
        .with_seed(plan.seed)
        .with_workers(workers)
        .with_last(LastBatch::Drop)
        .with_augment(augment)
        .with_normalize(normalize);
    let test = LoaderConfig::new(plan.train.batch)
        .with_order(Order::Sequential)
        .with_workers(workers)
        .with_normalize(normalize);
    let train = Loader::try_new(data.train.clone(), train).context("the training data")?;
    let test = Loader::try_new(data.test.clone(), test).context("the test data")?;
    Ok((train, test))
}

/// The plan's normalization in the loader's precision.
pub(crate) fn normalization(plan: &Plan) -> Normalize {
    Normalize { mean: plan.data.mean.map(|m| m as f32), std: plan.data.std.map(|s| s as f32) }
}

fn resident(
    source: &Arc<dyn ImageSource>,
    size: (usize, usize),
    step: &str,
    report: Report<'_>,
) -> Result<Arc<dyn ImageSource>> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let images = InMemoryImages::decode(source.as_ref(), Some(size), threads, &mut |progress| {
        report(step, progress);
    })?;
    Ok(Arc::new(images))
}

/// Joins each file to the data folder, or says where it looked and how to get it.
pub(super) fn locate(
    dir: Option<&Path>,
    files: &[&PathBuf],
    how_to_get: Option<&str>,
) -> Result<Vec<PathBuf>> {
    let hint = how_to_get.map(|text| format!("; {text}")).unwrap_or_default();
    let Some(dir) = dir else {
        bail!(
            "this config needs data: name its folder with --data DIR or the key `data.dir`{hint}"
        );
    };
    let mut paths = Vec::new();
    for file in files {
        let path = dir.join(file);
        if !path.exists() {
            return Err(anyhow!("looked for `{}`, which is not there{hint}", path.display()));
        }
        paths.push(path);
    }
    Ok(paths)
}
