//! What binds an int8 network to the model that was quantized: a part of `quant.json`.

use serde::{Deserialize, Serialize};
use updraft_data::Digest;
use updraft_trainer::{checkpoint_step, export_hash};

use crate::config::Plan;
use crate::error::RunError;
use crate::folder::RunFolder;

/// The model that was quantized, and the file of its int8 network: fields of
/// [`Int8Network::REPORT`](crate::Int8Network::REPORT).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Int8Record {
    /// The step of the checkpoint that was quantized.
    checkpoint: Option<u64>,
    /// SHA-256 of the weights that were quantized.
    weights: Option<String>,
    /// The digest of the network's file.
    network: Option<String>,
}

impl Int8Record {
    /// Identifies the model that a run serves, before it is quantized.
    ///
    /// # Errors
    /// As [`RunFolder::served_checkpoint`], and [`RunError::Checkpoint`] or [`RunError::Damaged`]
    /// for one that is damaged.
    pub fn of_served(folder: &RunFolder, plan: &Plan) -> Result<Self, RunError> {
        let path = folder.served_checkpoint(plan)?;
        let weights = export_hash(&path).map_err(|error| folder.advised(error))?;
        let checkpoint = checkpoint_step(&path);
        Ok(Self { checkpoint, weights: Some(weights), network: None })
    }

    /// The same with the content of the network's file, after the quantization.
    #[must_use]
    pub fn with_network(self, file: &[u8]) -> Self {
        Self { network: Some(digest(file)), ..self }
    }

    /// Returns an error if a run serves another model, or the file has another content.
    ///
    /// # Errors
    /// [`RunError::NoInt8`], and as [`of_served`](Self::of_served).
    pub fn check(&self, folder: &RunFolder, plan: &Plan, file: &[u8]) -> Result<(), RunError> {
        self.check_model(folder, plan)?;
        self.check_network(folder, file)
    }

    /// The part of [`check`](Self::check) about the file.
    pub(crate) fn check_network(&self, folder: &RunFolder, file: &[u8]) -> Result<(), RunError> {
        match &self.network {
            Some(network) if *network == digest(file) => Ok(()),
            _ => {
                let reason = "model.int8 is not the file that was written with quant.json";
                Err(refusal(folder, reason.to_owned()))
            }
        }
    }

    /// The part of [`check`](Self::check) about the model.
    pub(crate) fn check_model(&self, folder: &RunFolder, plan: &Plan) -> Result<(), RunError> {
        let served = Self::of_served(folder, plan)?;
        if self.checkpoint != served.checkpoint {
            let step = self.checkpoint.map_or("none".to_owned(), |step| step.to_string());
            let reason = format!("the checkpoint of step {step} was, which it does not serve");
            return Err(refusal(folder, reason));
        }
        if self.weights != served.weights {
            let step = served.checkpoint.unwrap_or_default();
            let reason =
                format!("other weights of step {step} were quantized, which it does not serve");
            return Err(refusal(folder, reason));
        }
        Ok(())
    }
}

/// Identifies the content of a network's file.
pub(crate) fn digest(file: &[u8]) -> String {
    Digest::new("updraft int8 network").bytes(file).hex()
}

fn refusal(folder: &RunFolder, reason: String) -> RunError {
    RunError::NoInt8 { run: folder.path().to_owned(), reason }
}
