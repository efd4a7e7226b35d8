//! The keys of `data`: the source of images, their size and normalization.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use updraft_data::{Cue, GeneratedConfig};

use super::augment::CROP;
use super::cache_plan::{CACHE, CachePlan, FAULTS, FaultsPlan, read_cache_and_faults};
use super::resize_plan::{RESIZE, ResizePlan};
use crate::config::{
    AnyKey as _, ConfigError, Edit, Key, Keys, Settings, is_above_0_in_f32, is_finite_in_f32,
};

const SOURCE: Key<SourceName> =
    Key::new("data.source", "or `archives`, `folders`, `manifest`, `cifar-10`, `cifar-100`")
        .default(r#""generated""#)
        .edit(Edit::Reported);
const DIR: Key<PathBuf> =
    Key::new("data.dir", "the data folder; `--data` takes precedence").edit(Edit::Free);
const HOW_TO_GET: Key<String> =
    Key::new("data.how_to_get", "printed when the data is missing").edit(Edit::Free);
const TRAIN: Key<PathBuf> = Key::new(
    "data.train",
    "name inside the data folder: an archive `.tar` or `.tar.gz` of `class/file`, a folder of the same, or a manifest `.csv` or `.tsv`",
).edit(Edit::Reported);
const TEST: Key<PathBuf> =
    Key::new("data.test", "the same for the test images").edit(Edit::Reported);
const TEST_FRACTION: Key<f64> = Key::new(
    "data.test_fraction",
    "fraction of each class held out if there is no `data.test`; folders and manifests only",
)
.default("0.2")
.edit(Edit::Reported)
.check("above 0 and below 1", |share| *share > 0.0 && *share < 1.0)
.decided_by(&["data.source", "data.test"]);
const INFLATE_TO: Key<PathBuf> = Key::new(
    "data.inflate_to",
    "archives only: a folder into which gzipped archives are decompressed once; by default they are decompressed into memory, up to 4 GiB",
).edit(Edit::Free);
const PATH_COLUMN: Key<String> = Key::new(
    "data.path_column",
    "manifest only: the column with an image's path, relative to the manifest's folder",
)
.default(r#""path""#)
.edit(Edit::Reported);
const CLASS_COLUMN: Key<String> =
    Key::new("data.class_column", "manifest only: the column with an image's class")
        .default(r#""class""#)
        .edit(Edit::Reported);
const FILES: Key<PathBuf> = Key::new(
    "data.files",
    "CIFAR only: its binary version inside the data folder, unpacked or as `.tar` or `.tar.gz`",
)
.default(r#"".""#)
.edit(Edit::Reported);
const LABELS: Key<Cifar100Labels> =
    Key::new("data.labels", "cifar-100 only: a hundred classes, or `coarse`, twenty groups")
        .default(r#""fine""#);
const CUE: Key<Cue> =
    Key::new("data.cue", "generated only: `color`, `brightness` or `both` distinguish the classes")
        .default(r#""both""#)
        .edit(Edit::Reported);
const TRAIN_IMAGES: Key<usize> = Key::new("data.train_images", "generated only")
    .default("3000")
    .edit(Edit::Reported)
    .check("10 to 10000000 images", |images| (10..=10_000_000).contains(images));
const TEST_IMAGES: Key<usize> = Key::new("data.test_images", "generated only")
    .default("1000")
    .edit(Edit::Reported)
    .check("10 to 10000000 images", |images| (10..=10_000_000).contains(images));
const HEIGHT: Key<usize> = Key::new("data.height", "height to which images are resized")
    .default("32")
    .check("8 to 4096 pixels", |pixels| (8..=4096).contains(pixels));
const WIDTH: Key<usize> = Key::new("data.width", "width to which images are resized")
    .default("32")
    .check("8 to 4096 pixels", |pixels| (8..=4096).contains(pixels));
const DRAWN: &str = "16 to 1024 pixels, for generated images";
const DRAWN_HEIGHT: Key<usize> = HEIGHT.check(DRAWN, |pixels| (16..=1024).contains(pixels));
const DRAWN_WIDTH: Key<usize> = WIDTH.check(DRAWN, |pixels| (16..=1024).contains(pixels));
const MEAN: Key<[f64; 3]> = Key::new("data.mean", "per channel, as a fraction of 255")
    .default("[0.5, 0.5, 0.5]")
    .check("a list of three finite numbers, at most 3.4e38 as f32", |mean| {
        mean.iter().all(is_finite_in_f32)
    });
const STD: Key<[f64; 3]> =
    Key::new("data.std", "per channel, as a fraction of 255").default("[0.25, 0.25, 0.25]").check(
        "a list of three finite numbers above 0 in the range of f32, 1.2e-38 to 3.4e38",
        |std| std.iter().all(is_above_0_in_f32),
    );

/// The keys of `data`.
pub(super) const KEYS: Keys = &[
    &SOURCE,
    &DIR,
    &HOW_TO_GET,
    &TRAIN,
    &TEST,
    &TEST_FRACTION,
    &INFLATE_TO,
    &PATH_COLUMN,
    &CLASS_COLUMN,
    &FILES,
    &LABELS,
    &CUE,
    &TRAIN_IMAGES,
    &TEST_IMAGES,
    &HEIGHT,
    &WIDTH,
    &RESIZE,
    &MEAN,
    &STD,
    &CACHE,
    &FAULTS,
];

/// The source of images, their size and normalization.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct DataPlan {
    pub(super) height: usize,
    pub(super) width: usize,
    pub(super) resize: ResizePlan,
    /// Whether random parts of whole pictures are trained on.
    pub(super) crops_pictures: bool,
    pub(super) mean: [f64; 3],
    pub(super) std: [f64; 3],
    pub(super) dir: Option<PathBuf>,
    pub(super) how_to_get: Option<String>,
    pub(super) source: DataSource,
    pub(super) cache: CachePlan,
    pub(super) faults: FaultsPlan,
}

/// The kind of image source.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum DataSource {
    /// Generated by a formula, in which color or brightness decides the class.
    Generated { cue: Cue, train_images: usize, test_images: usize },
    /// Two archives, `.tar` or `.tar.gz`, of `class/file` images.
    Archives { train: PathBuf, test: PathBuf, inflate_to: Option<PathBuf> },
    /// Folders of `class/file` images.
    Folders { train: PathBuf, test: TestPlan },
    /// CSV or TSV files that list images with their classes.
    Manifest { train: PathBuf, test: TestPlan, path_column: String, class_column: String },
    /// CIFAR-10 in its binary form: the folder, or the published archive.
    Cifar10 { files: PathBuf },
    /// CIFAR-100 likewise.
    Cifar100 { files: PathBuf, labels: Cifar100Labels },
}

/// The source of test images.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum TestPlan {
    /// A separate folder or manifest.
    Apart(PathBuf),
    /// A fraction of the training images is held out.
    HeldOut(f64),
}

/// The values of `data.source`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum SourceName {
    Generated,
    Archives,
    Folders,
    Manifest,
    #[serde(rename = "cifar-10")]
    Cifar10,
    #[serde(rename = "cifar-100")]
    Cifar100,
}

/// The label of CIFAR-100 images to use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Cifar100Labels {
    /// One of a hundred classes.
    Fine,
    /// One of twenty groups of classes.
    Coarse,
}

impl DataPlan {
    /// Reads the keys of the chosen source.
    pub(super) fn read(settings: &Settings) -> Result<Self, ConfigError> {
        let name = settings.value(&SOURCE)?;
        let is_drawn = name == SourceName::Generated;
        let source = read_source(settings, name)?;
        let resize = ResizePlan::read(settings)?;
        let is_stretched = resize == ResizePlan::Stretch {};
        let crops_pictures = !is_stretched && settings.option(&CROP)?.is_some();
        let (cache, faults) = read_cache_and_faults(settings, crops_pictures)?;
        let sides = if is_drawn { [DRAWN_HEIGHT, DRAWN_WIDTH] } else { [HEIGHT, WIDTH] };
        let (height, width) = (settings.value(&sides[0])?, settings.value(&sides[1])?);
        if let DataSource::Generated { cue, train_images, test_images } = source {
            for (key, images) in [(&TRAIN_IMAGES, train_images), (&TEST_IMAGES, test_images)] {
                let config = GeneratedConfig::new(cue, images).with_size(height, width);
                config.validate().map_err(|error| settings.refuse_data(key.name(), &error))?;
            }
        }
        Ok(Self {
            height,
            width,
            resize,
            crops_pictures,
            mean: settings.value(&MEAN)?,
            std: settings.value(&STD)?,
            dir: if is_drawn { None } else { settings.option(&DIR)? },
            how_to_get: if is_drawn { None } else { settings.option(&HOW_TO_GET)? },
            source,
            cache,
            faults,
        })
    }

    /// Generated images of this size, with the defaults of everything else.
    #[cfg(test)]
    pub(super) fn of_size(height: usize, width: usize) -> Self {
        let settings = Settings::load("", Path::new("c.toml"), &[]).expect("an empty config");
        let settings = settings.with_keys(vec![KEYS], &[]).expect("no unknown key");
        Self { height, width, ..Self::read(&settings).expect("defaults") }
    }

    /// Whether opening the data writes files that another opening reads.
    pub(super) const fn writes_caches(&self) -> bool {
        let inflates = matches!(self.source, DataSource::Archives { inflate_to: Some(_), .. });
        inflates || matches!(self.cache, CachePlan::File { .. })
    }

    /// Height and width.
    pub(super) const fn size(&self) -> (usize, usize) {
        (self.height, self.width)
    }

    /// The data folder that the configuration names.
    pub(super) fn dir(&self) -> Option<&Path> {
        self.dir.as_deref()
    }

    /// The text of `data.how_to_get`.
    pub(super) fn how_to_get(&self) -> Option<&str> {
        self.how_to_get.as_deref()
    }
}

fn read_source(settings: &Settings, name: SourceName) -> Result<DataSource, ConfigError> {
    let needed = |source: &str| format!("`data.source = \"{source}\"`");
    let test = || {
        Ok(match settings.option(&TEST)? {
            Some(path) => TestPlan::Apart(path),
            None => TestPlan::HeldOut(settings.value(&TEST_FRACTION)?),
        })
    };
    Ok(match name {
        SourceName::Generated => DataSource::Generated {
            cue: settings.value(&CUE)?,
            train_images: settings.value(&TRAIN_IMAGES)?,
            test_images: settings.value(&TEST_IMAGES)?,
        },
        SourceName::Archives => DataSource::Archives {
            train: settings.required(&TRAIN, needed("archives"))?,
            test: settings.required(&TEST, needed("archives"))?,
            inflate_to: settings.option(&INFLATE_TO)?,
        },
        SourceName::Folders => DataSource::Folders {
            train: settings.value_or(&TRAIN, || PathBuf::from("."))?,
            test: test()?,
        },
        SourceName::Manifest => DataSource::Manifest {
            train: settings.required(&TRAIN, needed("manifest"))?,
            test: test()?,
            path_column: settings.value(&PATH_COLUMN)?,
            class_column: settings.value(&CLASS_COLUMN)?,
        },
        SourceName::Cifar10 => DataSource::Cifar10 { files: settings.value(&FILES)? },
        SourceName::Cifar100 => DataSource::Cifar100 {
            files: settings.value(&FILES)?,
            labels: settings.value(&LABELS)?,
        },
    })
}
