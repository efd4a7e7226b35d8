//! The images of a plan as they lie on disk or are drawn, before anything is kept of them.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use updraft_data::{
    CifarFiles, CifarLabels, CifarPart, Delimiter, GeneratedConfig, GeneratedImages, ImageFolder,
    ImageSource, TarImages,
};

use super::cache::note;
use super::data::Report;
use super::data_plan::{Cifar100Labels, DataPlan, DataSource, TestPlan};
use crate::error::RunError;
use crate::task::place::Place;

/// Images of a plan.
pub(super) enum Opened {
    /// Two sets.
    Apart { train: Arc<dyn ImageSource>, test: Arc<dyn ImageSource> },
    /// One set, of which a share is held out to score on.
    Together { all: Arc<dyn ImageSource>, test_fraction: f64 },
}

/// Opens what a plan names; `dir` comes before the plan's own data folder, and `notes` gathers what
/// became of inflated archives.
pub(super) fn open_sources(
    (plan, seed): (&DataPlan, u64),
    dir: Option<&Path>,
    notes: &mut Vec<String>,
    report: Report<'_>,
) -> Result<Opened, RunError> {
    let place = Place { dir: dir.or(plan.dir()), how_to_get: plan.how_to_get() };
    match &plan.source {
        DataSource::Generated { cue, train_images, test_images } => {
            let generate = |images, seed| -> Result<Arc<dyn ImageSource>, RunError> {
                let config = GeneratedConfig::new(*cue, images)
                    .with_size(plan.height, plan.width)
                    .with_seed(seed);
                Ok(Arc::new(GeneratedImages::try_new(config)?))
            };
            // Another seed draws other images of the same classes.
            let train = generate(*train_images, seed)?;
            Ok(Opened::Apart { train, test: generate(*test_images, seed ^ (1 << 63))? })
        }
        DataSource::Archives { train, test, inflate_to } => {
            let paths = place.find(&[train, test])?;
            let mut open = |path: &PathBuf, name: &str| -> Result<Arc<dyn ImageSource>, RunError> {
                let step = format!("reading {name} archive");
                let progress = &mut |progress| report(&step, progress);
                let Some(folder) = inflate_to else {
                    return Ok(Arc::new(TarImages::open(path, progress)?));
                };
                let (archive, used) = TarImages::open_cached(path, folder, progress)?;
                notes.extend(note(&format!("{name} archive"), &used));
                Ok(Arc::new(archive))
            };
            let train = open(&paths[0], "training")?;
            Ok(Opened::Apart { train, test: open(&paths[1], "test")? })
        }
        DataSource::Folders { train, test } => {
            place.listed(train, test, |path| Ok(Arc::new(ImageFolder::open(path)?)))
        }
        DataSource::Manifest { train, test, path_column, class_column } => {
            place.listed(train, test, |path| {
                let delimiter = Delimiter::of(path);
                let folder =
                    ImageFolder::from_manifest(path, delimiter, path_column, class_column)?;
                Ok(Arc::new(folder))
            })
        }
        DataSource::Cifar10 { files } => place.cifar(files, CifarLabels::Ten, report),
        DataSource::Cifar100 { files, labels } => {
            let labels = match labels {
                Cifar100Labels::Fine => CifarLabels::Fine,
                Cifar100Labels::Coarse => CifarLabels::Coarse,
            };
            place.cifar(files, labels, report)
        }
    }
}

impl Place<'_> {
    /// One set or two that `open` lists.
    fn listed(
        &self,
        train: &PathBuf,
        test: &TestPlan,
        open: impl Fn(&Path) -> Result<Arc<dyn ImageSource>, RunError>,
    ) -> Result<Opened, RunError> {
        match test {
            TestPlan::Apart(test) => {
                let paths = self.find(&[train, test])?;
                Ok(Opened::Apart { train: open(&paths[0])?, test: open(&paths[1])? })
            }
            TestPlan::HeldOut(test_fraction) => {
                let paths = self.find(&[train])?;
                Ok(Opened::Together { all: open(&paths[0])?, test_fraction: *test_fraction })
            }
        }
    }

    fn cifar(
        &self,
        files: &PathBuf,
        labels: CifarLabels,
        report: Report<'_>,
    ) -> Result<Opened, RunError> {
        let path = self.find(&[files])?.remove(0);
        let files = CifarFiles::open(path, &mut |progress| report("reading archive", progress))?;
        let train = Arc::new(files.images(labels, CifarPart::Train)?);
        Ok(Opened::Apart { train, test: Arc::new(files.images(labels, CifarPart::Test)?) })
    }
}
