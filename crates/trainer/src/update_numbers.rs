//! The numbers of an update: read, or still on the device.

use burn::module::Module;

use crate::decisions::Decision;
use crate::ema::Ema;
use crate::step::StepOutcome;
use crate::unread::UnreadUpdate;

/// The numbers of an update.
pub(crate) enum Numbers<S> {
    Read(StepOutcome<S>),
    /// They are read later, with those of other updates.
    Unread(Box<UnreadUpdate>),
}

impl<S> Numbers<S> {
    /// Adds the model to the average of the parameters unless the update was skipped.
    pub(crate) fn average<M: Module>(&self, ema: &mut Ema<M>, model: &M) {
        match self {
            Self::Read(outcome) if outcome.skipped.is_some() => {}
            Self::Read(_) => ema.update(model),
            Self::Unread(update) => match &update.decision {
                Some(Decision { is_applied, pull: Some(pull), .. }) => {
                    ema.update_if(is_applied, pull, model);
                }
                _ => ema.update(model),
            },
        }
    }
}
