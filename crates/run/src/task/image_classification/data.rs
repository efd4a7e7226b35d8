//! The images of a run at the plan's size, and the loaders that deliver them.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use updraft_data::{
    FaultPolicy, ImageSource, LastBatch, Loader, LoaderConfig, Normalize, Order, PictureCrop,
    Progress, Relabeled, Split, Subset, stratified_split,
};

use super::ImagePlan;
use super::cache::{CacheBuilder, SizedSet};
use super::data_plan::DataPlan;
use super::sources::{Opened, find_sources, open_sources};
use crate::config::TrainPlan;
use crate::error::RunError;
use crate::folder::RunFolder;
use crate::task::held_out_fraction::HeldOutFraction;
use crate::task::{Opening, StreamUse};

/// Receives the current step and its progress.
pub(super) type Report<'a> = &'a mut dyn FnMut(&str, Progress);

/// The images of a run at the plan's size.
pub(super) struct ImageData {
    pub(super) train: Arc<dyn ImageSource>,
    pub(super) test: Arc<dyn ImageSource>,
    /// The whole training pictures, if random parts of them are trained on.
    pictures: Option<Arc<dyn ImageSource>>,
    /// The set that was divided, and its split.
    divided: Option<(Arc<dyn ImageSource>, SetSplit)>,
    /// Messages about caches.
    pub(super) notes: Vec<String>,
}

/// The split of one set into training and test images.
struct SetSplit {
    /// The fingerprint of the set.
    set: String,
    split: Split,
}

/// The file of a run's folder that holds its [`SetSplit`].
const SPLIT: &str = "split.json";

impl ImageData {
    /// Opens the data of a plan and decodes the images that the plan caches.
    pub(super) fn open(plan: &DataPlan, seed: u64, opening: Opening<'_>) -> Result<Self, RunError> {
        let Opening { dir, run, progress: report } = opening;
        let mut notes = Vec::new();
        let opened = open_sources((plan, seed), dir, &mut notes, report)?;
        // The data of a run is compared with the run's classes instead.
        if run.is_none() {
            let (Opened::Apart { train: images, .. } | Opened::Together { all: images, .. }) =
                &opened;
            refuse_one_class(images.classes(), &find_sources(plan, dir)?)?;
        }
        match opened {
            Opened::Apart { train, test } => {
                let images = train.len() + test.len();
                let mut caches = CacheBuilder { data: plan, images, notes: &mut notes };
                let SizedSet { images: train, pictures } = caches.build_training(train, report)?;
                let mut test = caches.build(test, "test", report)?;
                if test.classes() != train.classes() {
                    test = Arc::new(Relabeled::try_new(test, train.classes())?);
                }
                Ok(Self { train, test, pictures, divided: None, notes })
            }
            Opened::Together { all, test_fraction } => {
                let mut caches = CacheBuilder { data: plan, images: all.len(), notes: &mut notes };
                let SizedSet { images: all, pictures } = caches.build_training(all, report)?;
                let set = all.fingerprint();
                let written = run.map(|run| run.path().join(SPLIT)).filter(|path| path.exists());
                let split = match written {
                    Some(path) => Split::read(&set, path)?,
                    None => {
                        let labels: Vec<usize> = (0..all.len()).map(|at| all.label(at)).collect();
                        stratified_split(&labels, test_fraction, seed)?
                    }
                };
                let asked = HeldOutFraction {
                    key: "data.test_fraction",
                    part: "test data",
                    fraction: test_fraction,
                };
                let sizes = [split.held_out.len(), split.kept.len()];
                let why = "each class of at least two images has one on both sides";
                notes.extend(asked.message(sizes, "images", why));
                let kept = |pictures| Subset::try_new(pictures, split.kept.clone());
                let pictures: Option<Arc<dyn ImageSource>> = match pictures {
                    Some(pictures) => Some(Arc::new(kept(pictures)?)),
                    None => None,
                };
                Ok(Self {
                    pictures,
                    test: Arc::new(Subset::try_new(all.clone(), split.held_out.clone())?),
                    train: Arc::new(Subset::try_new(all.clone(), split.kept.clone())?),
                    divided: Some((all, SetSplit { set, split })),
                    notes,
                })
            }
        }
    }

    /// The class names, in the order of the model's outputs.
    pub(super) fn classes(&self) -> &[String] {
        self.train.classes()
    }

    /// The sets as they are read, with their names in messages.
    pub(super) fn sets(&self) -> Vec<(&'static str, &dyn ImageSource)> {
        match &self.divided {
            None => vec![("training", &*self.train), ("test", &*self.test)],
            Some((all, _)) => vec![("training and test", &**all)],
        }
    }

    /// Writes the split of the set into the run folder, if there is one.
    pub(super) fn write_split(&self, folder: &Path) -> Result<(), RunError> {
        match &self.divided {
            None => Ok(()),
            Some((_, SetSplit { set, split })) => Ok(split.write(set, folder.join(SPLIT))?),
        }
    }
}

/// The file of a run's folder that holds its class names, in the order of the model's outputs.
pub(super) const CLASSES: &str = "classes.json";

/// The classes of a run, whose file may have been edited.
pub(super) fn classes_of(folder: &RunFolder) -> Result<Vec<String>, RunError> {
    let classes: Vec<String> = folder.read_bound_json(CLASSES)?;
    if classes.is_empty() {
        let path = folder.path().join(CLASSES);
        let reason = format!(
            "`{}` is not what a run writes: it has no class; restore it from a copy, or train the run \
             again",
            path.display()
        );
        return Err(RunError::Unusable { reason });
    }
    Ok(classes)
}

/// Returns an error for training data of one class, in the first of the files.
fn refuse_one_class(classes: &[String], files: &[PathBuf]) -> Result<(), RunError> {
    let ([class], [file, ..]) = (classes, files) else { return Ok(()) };
    let reason = format!(
        "`{}` has one class, `{class}`; a classifier needs at least two: add images of another \
         class, or name data that has several",
        file.display()
    );
    Err(RunError::Unusable { reason })
}

/// Returns an error for data with other classes than the run's.
pub(super) fn check_classes(found: &[String], folder: &RunFolder) -> Result<(), RunError> {
    let expected = classes_of(folder)?;
    if found == expected {
        return Ok(());
    }
    let list = |classes: &[String]| match classes {
        [first, .., last] if classes.len() > 6 => {
            format!("{} classes from `{first}` to `{last}`", classes.len())
        }
        classes => format!("the classes `{}`", classes.join("`, `")),
    };
    let difference = format!("it has {}, the run {}", list(found), list(&expected));
    Err(RunError::OtherData { run: folder.path().to_owned(), difference })
}

/// The loaders of a run: shuffled and augmented for training, in order and without augmentation for
/// testing.
pub(super) fn loaders(
    plan: &ImagePlan,
    (train, seed): (&TrainPlan, u64),
    data: &ImageData,
    used_for: StreamUse<'_>,
) -> Result<[Loader; 2], RunError> {
    let faults = match used_for {
        StreamUse::Training { .. } => plan.data.faults.of_training(),
        StreamUse::Reading => plan.data.faults.of_reading(),
    };
    let config = LoaderConfig::new(train.batch)
        .with_order(Order::Shuffled)
        .with_seed(seed)
        .with_workers(train.workers.into())
        .with_last(LastBatch::Drop)
        .with_faults(faults.clone())
        .with_part(used_for.part())
        .with_normalize(normalization(&plan.data));
    let config = match plan.augment.mix_up {
        None => config,
        Some(mix_up) => config.with_mix_up(mix_up),
    };
    let (source, config) = match (&data.pictures, plan.augment.crop) {
        (Some(pictures), Some(crop)) => {
            let (height, width) = plan.data.size();
            let config = config.with_crop(PictureCrop { crop, height, width });
            (pictures, config.with_augment(plan.augment.transforms_after_crop()))
        }
        _ => (&data.train, config.with_augment(plan.augment.transforms())),
    };
    let stream = |split| move |cause| RunError::Stream { split, cause: Box::new(cause) };
    let training = Loader::try_new(source.clone(), config).map_err(stream("training"))?;
    let plain = plain(&plan.data, train, train.batch, faults).with_part(used_for.part());
    Ok([training, Loader::try_new(data.test.clone(), plain).map_err(stream("test"))?])
}

/// Images in order, without augmentation.
pub(super) fn plain_loader(
    plan: &DataPlan,
    train: &TrainPlan,
    images: Arc<dyn ImageSource>,
    batch: usize,
) -> Result<Loader, RunError> {
    Ok(Loader::try_new(images, plain(plan, train, batch, plan.faults.of_reading()))?)
}

fn plain(plan: &DataPlan, train: &TrainPlan, batch: usize, faults: FaultPolicy) -> LoaderConfig {
    LoaderConfig::new(batch)
        .with_order(Order::Sequential)
        .with_workers(train.workers.into())
        .with_faults(faults)
        .with_normalize(normalization(plan))
}

/// The plan's normalization in the loader's precision.
pub(super) fn normalization(plan: &DataPlan) -> Normalize {
    Normalize { mean: plan.mean.map(|m| m as f32), std: plan.std.map(|s| s as f32) }
}

#[cfg(test)]
mod tests {
    use super::super::augment::{self, AugmentPlan};
    use super::super::data_plan;
    use super::super::loss::ClassLoss;
    use super::super::model::{self, ModelPlan};
    use super::super::prune;
    use super::*;
    use crate::config::{Plan, Settings};
    use crate::task::TASKS;

    /// The first training batch of a small generated set, `[20, 3, 32, 32]`.
    fn first_batch(augment: &str) -> Vec<f32> {
        let text = format!("[data]\ntrain_images = 40\ntest_images = 20\n[augment]\n{augment}\n");
        let place = Path::new("c.toml");
        let settings = Settings::load(&text, place, &[]).expect("TOML");
        let keys = vec![data_plan::KEYS, model::KEYS, prune::KEYS, augment::KEYS];
        let settings = settings.with_keys(keys, &[]).expect("known keys");
        let data = DataPlan::read(&settings).expect("valid");
        let plan = ImagePlan {
            model: ModelPlan::read(&settings, &data, None).expect("valid"),
            augment: AugmentPlan::read(&settings, data.size()).expect("valid"),
            loss: ClassLoss::default(),
            label_smoothing: 0.0,
            distillation: None,
            pruning: None,
            data,
        };
        let train = Plan::read(TASKS, "train.batch = 20", place, &[]).expect("valid").plan.train;
        let opening = Opening { dir: None, run: None, progress: &mut |_, _| {} };
        let data = ImageData::open(&plan.data, 1, opening).expect("data");
        let loaders = loaders(&plan, (&train, 1), &data, StreamUse::Reading).expect("loaders");
        let batch = loaders[0].epoch(0).next().expect("a batch").expect("whole");
        batch.planes().to_vec()
    }

    #[test]
    fn each_augmentation_that_a_config_names_changes_the_batches() {
        let plain = first_batch("");
        assert_eq!(first_batch("rotate = 0.0\ntranslate = 0\nflip = false"), plain);
        let settings = [
            "flip = true",
            "alternating_flip = true",
            "translate = 2",
            "rotate = 20.0",
            "random_resized_crop = { min_area = 0.5 }",
            "zoom = { min_factor = 0.8, max_factor = 1.2 }",
            "color_jitter = { brightness = 0.3 }",
            "mix_up = { alpha = 1.0 }",
        ];
        let batches: Vec<Vec<f32>> = settings.iter().map(|setting| first_batch(setting)).collect();
        for (setting, batch) in settings.iter().zip(&batches) {
            assert_ne!(*batch, plain, "{setting}");
            assert_eq!(*batch, first_batch(setting), "{setting}");
            assert_eq!(batches.iter().filter(|other| *other == batch).count(), 1, "{setting}");
        }
        assert_ne!(first_batch("color_jitter = { hue = 0.3 }"), batches[6]);
    }

    #[test]
    fn images_of_other_classes_are_not_those_of_a_run() {
        let dir = tempfile::tempdir().expect("temporary folder");
        let plan = Plan::read(TASKS, "", Path::new("c.toml"), &[]).expect("valid").plan;
        let folder = RunFolder::create(dir.path(), &plan).expect("made");
        let names = |names: &[&str]| -> Vec<String> {
            names.iter().map(|name| (*name).to_owned()).collect()
        };
        folder.write_bound_json(CLASSES, &names(&["cat", "dog"])).expect("written");
        check_classes(&names(&["cat", "dog"]), &folder).expect("the same");
        let error = check_classes(&names(&["dog", "cat"]), &folder).expect_err("another order");
        let message = error.to_string();
        assert!(
            message.contains("it has the classes `dog`, `cat`, the run the classes `cat`, `dog`"),
            "{message}"
        );
    }
}
