//! The data part of a plan.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use updraft_data::Cue;

use super::error::ConfigError;
use super::plan::value;
use super::raw::RawData;
use super::supply::{CachePlan, FaultsPlan, decide_supply};

/// Where the images come from, and the size and scale they are brought to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct DataPlan {
    pub(crate) height: usize,
    pub(crate) width: usize,
    pub(crate) mean: [f64; 3],
    pub(crate) std: [f64; 3],
    #[serde(flatten)]
    pub(crate) source: DataSource,
    #[serde(default)]
    pub(crate) cache: CachePlan,
    #[serde(default)]
    pub(crate) faults: FaultsPlan,
}

/// The kind of image source.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "source", rename_all = "kebab-case")]
pub(crate) enum DataSource {
    /// Drawn by a formula; the truth says which pathway matters.
    Generated { cue: Cue, train_images: usize, test_images: usize },
    /// Two archives, `.tar` or `.tar.gz`, of `class/file` images.
    Archives {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        dir: Option<PathBuf>,
        train: PathBuf,
        test: PathBuf,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        inflate_to: Option<PathBuf>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        how_to_get: Option<String>,
    },
    /// Folders of `class/file` images; without `test`, a share of the training images is held out.
    Folders {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        dir: Option<PathBuf>,
        train: PathBuf,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        test: Option<PathBuf>,
        test_fraction: f64,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        how_to_get: Option<String>,
    },
    /// CSV or TSV files that list images with their classes; without `test` as above.
    Manifest {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        dir: Option<PathBuf>,
        train: PathBuf,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        test: Option<PathBuf>,
        test_fraction: f64,
        path_column: String,
        class_column: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        how_to_get: Option<String>,
    },
    /// CIFAR-10 in its binary form: the folder, or the archive it comes in.
    #[serde(rename = "cifar-10")]
    Cifar10 {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        dir: Option<PathBuf>,
        files: PathBuf,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        how_to_get: Option<String>,
    },
    /// CIFAR-100 likewise.
    #[serde(rename = "cifar-100")]
    Cifar100 {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        dir: Option<PathBuf>,
        files: PathBuf,
        labels: Cifar100Labels,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        how_to_get: Option<String>,
    },
}

/// Which of its two labels an image of CIFAR-100 has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Cifar100Labels {
    /// One of a hundred classes.
    #[default]
    Fine,
    /// One of twenty groups of classes.
    Coarse,
}

const SOURCES: [&str; 6] =
    ["generated", "archives", "folders", "manifest", "cifar-10", "cifar-100"];

/// Decides where the images come from.
pub(super) fn decide_data(mut raw: RawData) -> Result<DataPlan, ConfigError> {
    let source = raw.source.take().unwrap_or_else(|| "generated".to_owned());
    if !SOURCES.contains(&source.as_str()) {
        let expected = SOURCES.map(|name| format!("`{name}`")).join(", ");
        return value("data.source", format!("`{source}`"), &format!("one of {expected}"));
    }
    refuse_unread(&raw, &source)?;
    let (cache, faults) = decide_supply(raw.cache.take(), raw.faults.take())?;
    Ok(DataPlan {
        height: raw.height.unwrap_or(32),
        width: raw.width.unwrap_or(32),
        mean: raw.mean.unwrap_or([0.5; 3]),
        std: raw.std.unwrap_or([0.25; 3]),
        source: decide_source(raw, &source)?,
        cache,
        faults,
    })
}

fn decide_source(raw: RawData, source: &str) -> Result<DataSource, ConfigError> {
    let missing = |key| ConfigError::Missing { source_name: source.to_owned(), key };
    let RawData { dir, how_to_get, .. } = raw;
    let here = || PathBuf::from(".");
    let test_fraction = raw.test_fraction.unwrap_or(0.2);
    Ok(match source {
        "archives" => DataSource::Archives {
            dir,
            train: raw.train.ok_or_else(|| missing("data.train"))?,
            test: raw.test.ok_or_else(|| missing("data.test"))?,
            inflate_to: raw.inflate_to,
            how_to_get,
        },
        "folders" => {
            let train = raw.train.unwrap_or_else(here);
            DataSource::Folders { dir, train, test: raw.test, test_fraction, how_to_get }
        }
        "manifest" => DataSource::Manifest {
            dir,
            train: raw.train.ok_or_else(|| missing("data.train"))?,
            test: raw.test,
            test_fraction,
            path_column: raw.path_column.unwrap_or_else(|| "path".to_owned()),
            class_column: raw.class_column.unwrap_or_else(|| "class".to_owned()),
            how_to_get,
        },
        "cifar-10" => {
            let files = raw.files.unwrap_or_else(here);
            DataSource::Cifar10 { dir, files, how_to_get }
        }
        "cifar-100" => {
            let (files, labels) = (raw.files.unwrap_or_else(here), raw.labels.unwrap_or_default());
            DataSource::Cifar100 { dir, files, labels, how_to_get }
        }
        _ => {
            let cue = raw.cue.unwrap_or_else(|| "both".to_owned());
            DataSource::Generated {
                cue: toml::Value::String(cue.clone()).try_into().or_else(|_| {
                    value("data.cue", format!("`{cue}`"), "`color`, `brightness` or `both`")
                })?,
                train_images: raw.train_images.unwrap_or(3000),
                test_images: raw.test_images.unwrap_or(1000),
            }
        }
    })
}

/// Keys of the data that only some sources read: a key that nothing reads is a mistake.
fn refuse_unread(raw: &RawData, source: &str) -> Result<(), ConfigError> {
    const GENERATED: &[&str] = &["generated"];
    const FILES: &[&str] = &["archives", "folders", "manifest", "cifar-10", "cifar-100"];
    const LISTED: &[&str] = &["archives", "folders", "manifest"];
    const CIFAR: &[&str] = &["cifar-10", "cifar-100"];
    let given = [
        ("data.dir", raw.dir.is_some(), FILES),
        ("data.how_to_get", raw.how_to_get.is_some(), FILES),
        ("data.train", raw.train.is_some(), LISTED),
        ("data.test", raw.test.is_some(), LISTED),
        ("data.test_fraction", raw.test_fraction.is_some(), &["folders", "manifest"]),
        ("data.inflate_to", raw.inflate_to.is_some(), &["archives"]),
        ("data.path_column", raw.path_column.is_some(), &["manifest"]),
        ("data.class_column", raw.class_column.is_some(), &["manifest"]),
        ("data.files", raw.files.is_some(), CIFAR),
        ("data.labels", raw.labels.is_some(), &["cifar-100"]),
        ("data.cue", raw.cue.is_some(), GENERATED),
        ("data.train_images", raw.train_images.is_some(), GENERATED),
        ("data.test_images", raw.test_images.is_some(), GENERATED),
    ];
    for (key, is_given, readers) in given {
        if is_given && !readers.contains(&source) {
            let expected = format!("only with `data.source` {}", readers.join(" or "));
            return value(key, format!("given with source `{source}`"), &expected);
        }
    }
    if raw.test.is_some() && raw.test_fraction.is_some() {
        return value("data.test_fraction", "given".to_owned(), "only without `data.test`");
    }
    Ok(())
}

impl DataPlan {
    /// Checks every number that has a range.
    pub(super) fn validate(&self) -> Result<(), ConfigError> {
        for (key, pixels) in [("data.height", self.height), ("data.width", self.width)] {
            if !(8..=MOST_PIXELS).contains(&pixels) {
                return value(key, pixels.to_string(), &format!("8 to {MOST_PIXELS} pixels"));
            }
        }
        match self.source {
            DataSource::Folders { test_fraction, .. }
            | DataSource::Manifest { test_fraction, .. }
                if !(0.0 < test_fraction && test_fraction < 1.0) =>
            {
                value("data.test_fraction", test_fraction.to_string(), "above 0 and below 1")
            }
            DataSource::Generated { train_images, test_images, .. } => {
                for (key, count) in
                    [("data.train_images", train_images), ("data.test_images", test_images)]
                {
                    if !(10..=10_000_000).contains(&count) {
                        return value(key, count.to_string(), "10 to 10000000 images");
                    }
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// The data folder that the configuration names.
    pub(crate) fn dir(&self) -> Option<&Path> {
        match &self.source {
            DataSource::Generated { .. } => None,
            DataSource::Archives { dir, .. }
            | DataSource::Folders { dir, .. }
            | DataSource::Manifest { dir, .. }
            | DataSource::Cifar10 { dir, .. }
            | DataSource::Cifar100 { dir, .. } => dir.as_deref(),
        }
    }

    /// What the configuration says of how to get the data.
    pub(crate) fn how_to_get(&self) -> Option<&str> {
        match &self.source {
            DataSource::Generated { .. } => None,
            DataSource::Archives { how_to_get, .. }
            | DataSource::Folders { how_to_get, .. }
            | DataSource::Manifest { how_to_get, .. }
            | DataSource::Cifar10 { how_to_get, .. }
            | DataSource::Cifar100 { how_to_get, .. } => how_to_get.as_deref(),
        }
    }
}

/// The largest image side that is trained on, in pixels.
const MOST_PIXELS: usize = 4096;
