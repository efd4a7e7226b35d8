//! Vision transformers of several tasks: encoders of masked autoencoders, and what is refused.

use std::path::Path;

use burn::module::Module;
use updraft_models::{EncoderConfig, TransformerConfigError};
use updraft_trainer::{load_part, non_finite_parameter};

use super::TASKS;
use super::loaded_model::FilePrediction;
use crate::config::{ConfigError, Plan, Settings};
use crate::error::RunError;
use crate::folder::RunFolder;

/// The path of the encoder in the parameters of a masked autoencoder.
const ENCODER: &str = "encoder";

/// An encoder with the parameters of a checkpoint's encoder.
///
/// # Errors
/// [`RunError::Checkpoint`] for one that is damaged or of another encoder, [`RunError::Unusable`] for
/// a parameter that is not finite.
pub(super) fn load_encoder<M: Module>(checkpoint: &Path, encoder: M) -> Result<M, RunError> {
    let encoder = load_part(checkpoint, ENCODER, encoder)?;
    match non_finite_parameter(&encoder) {
        None => Ok(encoder),
        Some(parameter) => Err(RunError::Unusable {
            reason: format!(
                "`model.encoder` is `{}`, whose parameter `{parameter}` is not finite; it must be a \
                 trained encoder: name another checkpoint of its run, or train it again",
                checkpoint.display()
            ),
        }),
    }
}

/// The run that a key names, with its plan.
///
/// # Errors
/// [`RunError::Unusable`] with the key for a path that is no run.
pub(super) fn named_run(key: &str, path: &Path) -> Result<(RunFolder, Plan), RunError> {
    let opened = RunFolder::open(path).and_then(|folder| {
        let plan = folder.plan(TASKS)?;
        Ok((folder, plan))
    });
    opened.map_err(|error| refuse_run(key, path, error))
}

/// The error of a run that a key names and that cannot be used.
pub(super) fn refuse_run(key: &str, path: &Path, cause: RunError) -> RunError {
    let cause = cause.without_choice(path);
    let reason = format!("`{key}` is `{}`; it must be a trained run: {cause}", path.display());
    RunError::Unusable { reason }
}

/// Returns an error for windows of other sides than the training's crops.
pub(super) fn refuse_other_window(
    request: &FilePrediction,
    crop: &[usize],
) -> Result<(), RunError> {
    match &request.window {
        Some(window) if window != crop => {
            let reason = format!(
                "the window is {window:?}; the positions of the network are those of {crop:?}: \
                 leave out --window"
            );
            Err(RunError::Unusable { reason })
        }
        _ => Ok(()),
    }
}

/// The error of an encoder of crops that cannot be built, about the key that gave the value.
pub(super) fn refuse_encoder(
    settings: &Settings,
    config: &EncoderConfig,
    error: &TransformerConfigError,
) -> ConfigError {
    use TransformerConfigError as Error;

    let (sides, patch) = (&config.sides, &config.patch);
    let refuse_patch =
        |expected: String| settings.refuse("model.patch", format!("{patch:?}"), expected);
    match error {
        Error::Axes { sides: count, .. } => {
            refuse_patch(format!("{count} sides, as `data.patch` is {sides:?}"))
        }
        Error::Tiling { .. } => {
            let expected = format!("sides that tokens of `model.patch`, {patch:?}, tile: {error}");
            settings.refuse("data.patch", format!("{sides:?}"), expected)
        }
        Error::Heads { name, heads, embedding } => {
            let (key, of) = (format!("model.{name}"), name.replace("heads", "embedding"));
            let expected = format!("a divisor of `model.{of}`, which is {embedding}");
            settings.refuse(&key, heads, expected)
        }
        Error::Number { name: "patches", value, most, .. } => refuse_patch(format!(
            "sides that give at most {most} tokens of `data.patch`; they give {value}"
        )),
        Error::Number { name: "patch", least, most, .. } => {
            refuse_patch(format!("sides of {least} to {most}"))
        }
        Error::Number { name, value, least, most } => {
            settings.refuse(&format!("model.{name}"), value, format!("{least} to {most}"))
        }
        other => settings.refuse_given("model", &format!("a network that can be built: {other}")),
    }
}
