//! The data part of a plan.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use updraft_data::Cue;

use super::error::ConfigError;
use super::plan::value;
use super::raw::RawData;

/// Where the images come from, and the size and scale they are brought to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct DataPlan {
    pub(crate) height: usize,
    pub(crate) width: usize,
    pub(crate) mean: [f64; 3],
    pub(crate) std: [f64; 3],
    #[serde(flatten)]
    pub(crate) source: DataSource,
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
}

/// Decides where the images come from.
pub(super) fn decide_data(raw: RawData) -> Result<DataPlan, ConfigError> {
    let source = raw.source.clone().unwrap_or_else(|| "generated".to_owned());
    refuse_unread(&raw, &source)?;
    let missing = |key| ConfigError::Missing { source_name: source.clone(), key };
    let decided = match source.as_str() {
        "generated" => {
            let cue = raw.cue.unwrap_or_else(|| "both".to_owned());
            DataSource::Generated {
                cue: toml::Value::String(cue.clone()).try_into().or_else(|_| {
                    value("data.cue", format!("`{cue}`"), "`color`, `brightness` or `both`")
                })?,
                train_images: raw.train_images.unwrap_or(3000),
                test_images: raw.test_images.unwrap_or(1000),
            }
        }
        "archives" => DataSource::Archives {
            dir: raw.dir,
            train: raw.train.ok_or_else(|| missing("data.train"))?,
            test: raw.test.ok_or_else(|| missing("data.test"))?,
            how_to_get: raw.how_to_get,
        },
        "folders" => DataSource::Folders {
            dir: raw.dir,
            train: raw.train.unwrap_or_else(|| PathBuf::from(".")),
            test: raw.test,
            test_fraction: raw.test_fraction.unwrap_or(0.2),
            how_to_get: raw.how_to_get,
        },
        other => {
            return value(
                "data.source",
                format!("`{other}`"),
                "`generated`, `archives` or `folders`",
            );
        }
    };
    Ok(DataPlan {
        height: raw.height.unwrap_or(32),
        width: raw.width.unwrap_or(32),
        mean: raw.mean.unwrap_or([0.5; 3]),
        std: raw.std.unwrap_or([0.25; 3]),
        source: decided,
    })
}

/// Keys of the data that only some sources read: a key that nothing reads is a mistake.
fn refuse_unread(raw: &RawData, source: &str) -> Result<(), ConfigError> {
    const GENERATED: &[&str] = &["generated"];
    const FILES: &[&str] = &["archives", "folders"];
    let given = [
        ("data.dir", raw.dir.is_some(), FILES),
        ("data.train", raw.train.is_some(), FILES),
        ("data.test", raw.test.is_some(), FILES),
        ("data.how_to_get", raw.how_to_get.is_some(), FILES),
        ("data.test_fraction", raw.test_fraction.is_some(), &["folders"]),
        ("data.cue", raw.cue.is_some(), GENERATED),
        ("data.train_images", raw.train_images.is_some(), GENERATED),
        ("data.test_images", raw.test_images.is_some(), GENERATED),
    ];
    let is_known = ["generated", "archives", "folders"].contains(&source);
    for (key, is_given, readers) in given {
        if is_known && is_given && !readers.contains(&source) {
            let expected = format!("only with `data.source` {}", readers.join(" or "));
            return value(key, format!("given with source `{source}`"), &expected);
        }
    }
    if raw.test.is_some() && raw.test_fraction.is_some() {
        return value("data.test_fraction", "given".to_owned(), "only without `data.test`");
    }
    Ok(())
}
