//! Settings that generated cells must match.

use super::data_plan::{DataPlan, LabelKind, TargetKind};
use crate::config::ConfigError;

/// Their classes.
const CLASSES: usize = 3;

impl DataPlan {
    /// Returns an error for settings that the generated cells do not match.
    pub(super) fn check_generated(&self) -> Result<(), ConfigError> {
        let refuse = |key: &str, value: usize, expected: String| {
            let (place, value) = (String::new(), value.to_string());
            Err(ConfigError::Value { place, key: key.to_owned(), value, expected })
        };
        let is_classes = (self.target, self.labels) == (TargetKind::Labels, LabelKind::Classes);
        if is_classes && self.classes < CLASSES {
            let expected = format!(
                "at least {CLASSES} without a data folder: background, bodies and nuclei of \
                 generated cells"
            );
            return refuse("data.classes", self.classes, expected);
        }
        let samples = self.train_fields.saturating_mul(self.patches);
        match self.batch {
            Some(batch) if batch > samples => {
                let expected =
                    format!("at most {samples}, `data.patches` of each of `data.train_fields`");
                refuse("train.batch", batch, expected)
            }
            _ => Ok(()),
        }
    }
}
