//! The keys of `data`: where images come from, and the size and scale they are brought to.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use updraft_data::{Cue, DataError, GeneratedConfig};

use super::supply::{CACHE, CachePlan, FAULTS, FaultsPlan, read_supply};
use crate::config::{AnyKey as _, ConfigError, Key, Keys, Settings};

const SOURCE: Key<SourceName> =
    Key::new("data.source", "or `archives`, `folders`, `manifest`, `cifar-10`, `cifar-100`")
        .default(r#""generated""#);
const DIR: Key<PathBuf> = Key::new("data.dir", "the data folder; `--data` comes before it");
const HOW_TO_GET: Key<String> = Key::new("data.how_to_get", "printed when the data is missing");
const TRAIN: Key<PathBuf> = Key::new(
    "data.train",
    "name inside the data folder: an archive `.tar` or `.tar.gz` of `class/file`, a folder of the same, or a manifest `.csv` or `.tsv`",
);
const TEST: Key<PathBuf> = Key::new("data.test", "the same for the test images");
const TEST_FRACTION: Key<f64> = Key::new(
    "data.test_fraction",
    "share of each class held out where there is no `data.test`; folders and manifests only",
)
.default("0.2")
.check("above 0 and below 1", |share| *share > 0.0 && *share < 1.0);
const INFLATE_TO: Key<PathBuf> = Key::new(
    "data.inflate_to",
    "archives only: a folder that gzipped ones are inflated into once, to be read there; else into memory, up to 4 GiB",
);
const PATH_COLUMN: Key<String> =
    Key::new("data.path_column", "manifest only: where an image lies, from the manifest's folder")
        .default(r#""path""#);
const CLASS_COLUMN: Key<String> =
    Key::new("data.class_column", "manifest only: what an image's class is").default(r#""class""#);
const FILES: Key<PathBuf> = Key::new(
    "data.files",
    "CIFAR only: its binary version inside the data folder, unpacked or as `.tar` or `.tar.gz`",
)
.default(r#"".""#);
const LABELS: Key<Cifar100Labels> =
    Key::new("data.labels", "cifar-100 only: a hundred classes, or `coarse`, twenty groups")
        .default(r#""fine""#);
const CUE: Key<Cue> =
    Key::new("data.cue", "generated only: `color`, `brightness` or `both` distinguish the classes")
        .default(r#""both""#);
const TRAIN_IMAGES: Key<usize> = Key::new("data.train_images", "generated only")
    .default("3000")
    .check("10 to 10000000 images", |images| (10..=10_000_000).contains(images));
const TEST_IMAGES: Key<usize> = Key::new("data.test_images", "generated only")
    .default("1000")
    .check("10 to 10000000 images", |images| (10..=10_000_000).contains(images));
const HEIGHT: Key<usize> = Key::new("data.height", "images are resized to so many rows")
    .default("32")
    .check("8 to 4096 pixels", |pixels| (8..=4096).contains(pixels));
const WIDTH: Key<usize> = Key::new("data.width", "and to so many columns")
    .default("32")
    .check("8 to 4096 pixels", |pixels| (8..=4096).contains(pixels));
const MEAN: Key<[f64; 3]> = Key::new("data.mean", "per channel, as a fraction of 255")
    .default("[0.5, 0.5, 0.5]")
    .check("a list of three finite numbers", |mean| mean.iter().all(|mean| mean.is_finite()));
const STD: Key<[f64; 3]> = Key::new("data.std", "per channel, as a fraction of 255")
    .default("[0.25, 0.25, 0.25]")
    .check("a list of three finite numbers above 0", |std| {
        std.iter().all(|std| std.is_finite() && *std > 0.0)
    });

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
    &MEAN,
    &STD,
    &CACHE,
    &FAULTS,
];

/// Where the images come from, and the size and scale they are brought to.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct DataPlan {
    pub(super) height: usize,
    pub(super) width: usize,
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
    /// Drawn by a formula; the truth says which pathway matters.
    Generated { cue: Cue, train_images: usize, test_images: usize },
    /// Two archives, `.tar` or `.tar.gz`, of `class/file` images.
    Archives { train: PathBuf, test: PathBuf, inflate_to: Option<PathBuf> },
    /// Folders of `class/file` images.
    Folders { train: PathBuf, test: TestPlan },
    /// CSV or TSV files that list images with their classes.
    Manifest { train: PathBuf, test: TestPlan, path_column: String, class_column: String },
    /// CIFAR-10 in its binary form: the folder, or the archive it comes in.
    Cifar10 { files: PathBuf },
    /// CIFAR-100 likewise.
    Cifar100 { files: PathBuf, labels: Cifar100Labels },
}

/// Where test images come from.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum TestPlan {
    /// A folder or manifest of their own.
    Apart(PathBuf),
    /// A share of the training images is held out.
    HeldOut(f64),
}

/// What `data.source` says.
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

/// Which of its two labels an image of CIFAR-100 has.
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
        let (cache, faults) = read_supply(settings)?;
        let (height, width) = (settings.value(&HEIGHT)?, settings.value(&WIDTH)?);
        if let DataSource::Generated { cue, train_images, test_images } = source {
            for (key, images) in [(&TRAIN_IMAGES, train_images), (&TEST_IMAGES, test_images)] {
                let config = GeneratedConfig::new(cue, images).with_size(height, width);
                config.validate().map_err(|error| refuse_generated(settings, key, &error))?;
            }
        }
        Ok(Self {
            height,
            width,
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

    /// Height and width.
    pub(super) const fn size(&self) -> (usize, usize) {
        (self.height, self.width)
    }

    /// The data folder that the configuration names.
    pub(super) fn dir(&self) -> Option<&Path> {
        self.dir.as_deref()
    }

    /// What the configuration says of how to get the data.
    pub(super) fn how_to_get(&self) -> Option<&str> {
        self.how_to_get.as_deref()
    }
}

/// The error of generated images by the key that was written; `count` is that of their number.
fn refuse_generated(settings: &Settings, count: &Key<usize>, error: &DataError) -> ConfigError {
    let key = match error {
        DataError::Setting { name: "height", .. } => HEIGHT.name(),
        DataError::Setting { name: "width", .. } => WIDTH.name(),
        _ => count.name(),
    };
    settings.refuse_data(key, error)
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
