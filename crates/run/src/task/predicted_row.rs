//! The predictions for a row that a program has in memory.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::loaded_model::{PredictedTarget, PredictedValue};
use crate::error::RunError;

/// The predictions for a row: its targets, in the order of their names.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PredictedRow {
    /// The targets.
    pub targets: Vec<PredictedTarget>,
}

impl PredictedRow {
    /// The prediction of a target; `None` for a name that no target has.
    #[must_use]
    pub fn get(&self, target: &str) -> Option<&PredictedValue> {
        self.targets.iter().find(|other| other.name == target).map(|target| &target.value)
    }

    /// The predicted values as a type of your own, with a field for each target that matters: a
    /// number for a number, a text or an enum for a class, and a list of these for labels.
    ///
    /// # Errors
    /// [`RunError::Unusable`] for a field that no target has, or that has another kind.
    pub fn values<T: DeserializeOwned>(&self) -> Result<T, RunError> {
        let value = |target: &PredictedTarget| match &target.value {
            PredictedValue::Number { value, .. } => Value::from(*value),
            PredictedValue::Classes(_) => Value::from(target.value.class()),
            PredictedValue::Labels(_) => Value::from(target.value.labels()),
        };
        let values = self.targets.iter().map(|target| (target.name.clone(), value(target)));
        let values: Map<String, Value> = values.collect();
        serde_json::from_value(values.into()).map_err(|error| RunError::Unusable {
            reason: format!("the predicted values do not fit the type: {error}"),
        })
    }
}
