//! The image sources of a plan, before caching.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use updraft_data::{
    CifarFiles, CifarLabels, CifarPart, Delimiter, GeneratedConfig, GeneratedImages, ImageFolder,
    ImageSource, PassedOver, TarImages,
};

use super::cache::note;
use super::data::Report;
use super::data_plan::{Cifar100Labels, DataPlan, DataSource, TestPlan};
use crate::error::RunError;
use crate::task::data_folder::{DataFolder, refuse_folder};

/// Images of a plan.
pub(super) enum Opened {
    /// Two sets.
    Apart { train: Arc<dyn ImageSource>, test: Arc<dyn ImageSource> },
    /// One set, of which a fraction is held out for testing.
    Together { all: Arc<dyn ImageSource>, test_fraction: f64 },
}

/// The files of a plan's source, found in the data folder; empty for generated images. `dir` takes
/// precedence over the plan's data folder.
pub(super) fn find_sources(plan: &DataPlan, dir: Option<&Path>) -> Result<Vec<PathBuf>, RunError> {
    let files = match &plan.source {
        DataSource::Generated { .. } => return refuse_folder(dir).map(|()| Vec::new()),
        DataSource::Archives { train, test, .. }
        | DataSource::Folders { train, test: TestPlan::Apart(test) }
        | DataSource::Manifest { train, test: TestPlan::Apart(test), .. } => vec![train, test],
        DataSource::Folders { train, .. } | DataSource::Manifest { train, .. } => vec![train],
        DataSource::Cifar10 { files } | DataSource::Cifar100 { files, .. } => vec![files],
    };
    DataFolder { dir: dir.or(plan.dir()), how_to_get: plan.how_to_get() }.find(&files)
}

/// The files with the images of a plan, found as by [`find_sources`]; none for images whose pixels
/// are hashed when they are opened.
pub(super) fn source_files(plan: &DataPlan, dir: Option<&Path>) -> Result<Vec<PathBuf>, RunError> {
    let paths = find_sources(plan, dir)?;
    let folders: Vec<ImageFolder> = match &plan.source {
        DataSource::Generated { .. } | DataSource::Cifar10 { .. } | DataSource::Cifar100 { .. } => {
            Vec::new()
        }
        DataSource::Archives { .. } => return Ok(paths),
        DataSource::Folders { .. } => {
            paths.iter().map(ImageFolder::open).collect::<Result<_, _>>()?
        }
        DataSource::Manifest { path_column, class_column, .. } => {
            let open = |path: &PathBuf| {
                ImageFolder::from_manifest(path, Delimiter::of(path), path_column, class_column)
            };
            paths.iter().map(open).collect::<Result<_, _>>()?
        }
    };
    Ok(folders.iter().flat_map(ImageFolder::paths).map(Path::to_owned).collect())
}

/// Opens the source of a plan; `notes` collects messages about decompressed archives.
pub(super) fn open_sources(
    (plan, seed): (&DataPlan, u64),
    dir: Option<&Path>,
    notes: &mut Vec<String>,
    report: Report<'_>,
) -> Result<Opened, RunError> {
    let paths = find_sources(plan, dir)?;
    match &plan.source {
        DataSource::Generated { cue, train_images, test_images } => {
            let generate = |images, seed| -> Result<Arc<dyn ImageSource>, RunError> {
                let config = GeneratedConfig::new(*cue, images)
                    .with_size(plan.height, plan.width)
                    .with_seed(seed);
                Ok(Arc::new(GeneratedImages::try_new(config)?))
            };
            // A different seed draws other images of the same classes.
            let train = generate(*train_images, seed)?;
            Ok(Opened::Apart { train, test: generate(*test_images, seed ^ (1 << 63))? })
        }
        DataSource::Archives { inflate_to, .. } => {
            let mut open = |path: &PathBuf, name: &str| -> Result<Arc<dyn ImageSource>, RunError> {
                let step = format!("reading {name} archive");
                let progress = &mut |progress| report(&step, progress);
                let archive = match inflate_to {
                    None => TarImages::open(path, progress)?,
                    Some(folder) => {
                        let (archive, used) = TarImages::open_cached(path, folder, progress)?;
                        notes.extend(note(&format!("{name} archive"), &used));
                        archive
                    }
                };
                notes.extend(in_place(path, archive.passed_over()));
                Ok(Arc::new(archive))
            };
            let train = open(&paths[0], "training")?;
            Ok(Opened::Apart { train, test: open(&paths[1], "test")? })
        }
        DataSource::Folders { test, .. } => {
            let mut open = |path: &Path, name: &str| -> Result<ImageFolder, RunError> {
                let step = format!("listing {name} images");
                let folder = ImageFolder::open_with(path, &mut |progress| report(&step, progress))?;
                notes.extend(in_place(path, folder.passed_over()));
                Ok(folder)
            };
            let first = open(&paths[0], "training")?;
            Ok(match test {
                TestPlan::Apart(_) => {
                    let second = open(&paths[1], "test")?;
                    first.check_apart(&second)?;
                    Opened::Apart { train: Arc::new(first), test: Arc::new(second) }
                }
                TestPlan::HeldOut(share) => {
                    first.check_no_repeats()?;
                    Opened::Together { all: Arc::new(first), test_fraction: *share }
                }
            })
        }
        DataSource::Manifest { test, path_column, class_column, .. } => match test {
            TestPlan::Apart(_) => {
                let manifests: [&Path; 2] = [&paths[0], &paths[1]];
                let [train, test] =
                    ImageFolder::pair_from_manifests(manifests, path_column, class_column)?;
                Ok(Opened::Apart { train: Arc::new(train), test: Arc::new(test) })
            }
            TestPlan::HeldOut(share) => {
                let (path, delimiter) = (&paths[0], Delimiter::of(&paths[0]));
                let all = ImageFolder::from_manifest(path, delimiter, path_column, class_column)?;
                Ok(Opened::Together { all: Arc::new(all), test_fraction: *share })
            }
        },
        DataSource::Cifar10 { .. } => cifar(&paths[0], CifarLabels::Ten, report),
        DataSource::Cifar100 { labels, .. } => {
            let labels = match labels {
                Cifar100Labels::Fine => CifarLabels::Fine,
                Cifar100Labels::Coarse => CifarLabels::Coarse,
            };
            cifar(&paths[0], labels, report)
        }
    }
}

/// The files that a source skipped, with its path.
fn in_place(path: &Path, passed_over: &PassedOver) -> Option<String> {
    passed_over.message().map(|message| format!("`{}`: {message}", path.display()))
}

fn cifar(path: &Path, labels: CifarLabels, report: Report<'_>) -> Result<Opened, RunError> {
    let files = CifarFiles::open(path, &mut |progress| report("reading archive", progress))?;
    let train = Arc::new(files.images(labels, CifarPart::Train)?);
    Ok(Opened::Apart { train, test: Arc::new(files.images(labels, CifarPart::Test)?) })
}
