//! The encoder with which a network begins: its checkpoint, if that is of the same network.

use std::path::{Path, PathBuf};

use serde::Serialize;
use toml::Value;
use updraft_models::EncoderConfig;
use updraft_trainer::check_served_model;

use super::TASKS;
use super::image_pairs::data::{IMAGES, Shape};
use super::pretrained::{named_run, refuse_run};
use crate::config::Plan;
use crate::error::RunError;
use crate::folder::RunFolder;
use crate::lost_checkpoint::MANIFEST;

const KEY: &str = "model.encoder";

/// The key of the sides of an image in a run that trains encoders.
const SIDES: &str = "data.patch";

/// The encoder that a new network needs, and the run that has its parameters.
#[derive(Debug)]
pub(super) struct NeededEncoder<'a> {
    /// The value of `model.encoder`: a run, or a checkpoint in the folder of its run.
    pub(super) path: &'a Path,
    /// The encoder of the new network, but for the channels.
    pub(super) config: &'a EncoderConfig,
    /// The key, or the keys, of the sides of an image.
    pub(super) sides_key: &'static str,
    /// Channels of an image; `None` before the data is opened.
    pub(super) channels: Option<usize>,
}

/// A setting of the new network beside that of the encoder's run.
struct Setting {
    name: String,
    own: Option<Value>,
    /// Its name in the encoder's run, if it is another.
    other_name: Option<String>,
    other: Option<Value>,
}

impl NeededEncoder<'_> {
    /// The checkpoint with the parameters: the served one of a run, or the path itself if it is a
    /// checkpoint.
    ///
    /// Settings are compared, and not shapes alone: another number of heads, another patch or fewer
    /// layers may leave the shapes of all parameters that are read.
    ///
    /// # Errors
    /// [`RunError::Unusable`] for a path that is neither, for a run of another task, for an encoder of
    /// other settings, with their keys, and for a damaged one.
    pub(super) fn checkpoint(&self) -> Result<PathBuf, RunError> {
        let is_checkpoint = self.path.join(MANIFEST).is_file();
        let (folder, plan) = match is_checkpoint {
            true => self.run_of_checkpoint()?,
            false => named_run(KEY, self.path)?,
        };
        if !plan.kind().trains_encoders() {
            let tasks = TASKS.iter().filter(|kind| kind.trains_encoders());
            let tasks: Vec<String> = tasks.map(|kind| format!("`{}`", kind.name())).collect();
            let reason = format!(
                "`{KEY}` is `{}`, a run of `{}`; it must be one of {}",
                self.path.display(),
                plan.kind().name(),
                tasks.join(", ")
            );
            return Err(RunError::Unusable { reason });
        }
        let refuse = |error| refuse_run(KEY, self.path, error);
        folder.refuse_other_model(&plan).map_err(refuse)?;
        self.refuse_other_settings(&folder, &plan)?;
        let checkpoint = match is_checkpoint {
            true => self.path.to_owned(),
            false => folder.served_checkpoint(&plan).map_err(refuse)?,
        };
        let checked = check_served_model(&checkpoint);
        checked.map_err(|error| match is_checkpoint {
            true => refuse(RunError::Checkpoint(error)),
            false => refuse(folder.advised(error)),
        })?;
        Ok(checkpoint)
    }

    /// The run of a checkpoint, two folders above it.
    fn run_of_checkpoint(&self) -> Result<(RunFolder, Plan), RunError> {
        let above = self.path.parent().and_then(Path::parent);
        let above = above.filter(|path| !path.as_os_str().is_empty());
        let named = above.filter(|path| RunFolder::open(path).is_ok());
        let run = named.map_or_else(|| self.path.join("../.."), Path::to_owned);
        if RunFolder::open(&run).is_err() {
            let reason = format!(
                "`{KEY}` is `{}`, a checkpoint without its run; it must be in the folder of its run, \
                 whose plan.toml has the settings of the encoder",
                self.path.display()
            );
            return Err(RunError::Unusable { reason });
        }
        named_run(KEY, &run)
    }

    /// Returns an error with every setting in which the encoder of a run is another.
    fn refuse_other_settings(&self, folder: &RunFolder, plan: &Plan) -> Result<(), RunError> {
        let mut settings = self.settings(plan);
        if let Some(channels) = self.channels
            && folder.has(IMAGES)
        {
            let shape = Shape::of_run(folder).map_err(|error| refuse_run(KEY, self.path, error))?;
            settings.push(Setting {
                name: "the number of channels".to_owned(),
                own: value(&channels),
                other_name: None,
                other: value(&shape.inputs),
            });
        }
        let differences: Vec<String> = settings
            .iter()
            .filter(|setting| setting.own != setting.other)
            .enumerate()
            .map(|(at, setting)| {
                let of = match at {
                    0 => format!("the encoder's run `{}`", self.path.display()),
                    _ => "that run".to_owned(),
                };
                let name = setting.other_name.as_deref().unwrap_or("that");
                let (own, other) = (shown(&setting.own), shown(&setting.other));
                format!("{} is {own} and {name} of {of} {other}", setting.name)
            })
            .collect();
        if differences.is_empty() {
            return Ok(());
        }
        let reason = format!(
            "{}; use the values of that run here, or name a run with these in `{KEY}`",
            differences.join(", ")
        );
        Err(RunError::Unusable { reason })
    }

    /// The settings that have keys.
    fn settings(&self, plan: &Plan) -> Vec<Setting> {
        let EncoderConfig { sides, patch, embedding, layers, heads, positions, .. } = self.config;
        let rows = [
            (self.sides_key, SIDES, value(sides)),
            ("model.patch", "model.patch", value(patch)),
            ("model.embedding", "model.embedding", value(embedding)),
            ("model.layers", "model.layers", value(layers)),
            ("model.heads", "model.heads", value(heads)),
            ("model.positions", "model.positions", value(positions)),
        ];
        rows.map(|(key, other_key, own)| Setting {
            name: format!("`{key}`"),
            own,
            other_name: (key != other_key).then(|| format!("`{other_key}`")),
            other: value_of(plan, other_key),
        })
        .into()
    }
}

fn value<T: Serialize>(of: &T) -> Option<Value> {
    Value::try_from(of).ok()
}

/// The value of a key, `section.name`, in a plan.
fn value_of(plan: &Plan, key: &str) -> Option<Value> {
    let (section, name) = key.split_once('.')?;
    plan.table().get(section)?.get(name).cloned()
}

fn shown(value: &Option<Value>) -> String {
    value.as_ref().map_or_else(|| "not given".to_owned(), Value::to_string)
}
