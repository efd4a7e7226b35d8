//! The rows of a plan that are generated.

use serde::{Deserialize, Serialize};
use updraft_data::{Formula, interaction_csv, label_csv};

/// Rows that need no files.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Generated {
    /// By `updraft_data::interaction_csv`.
    Interactions,
    /// By `updraft_data::label_csv`.
    Labels { noise: f64 },
    /// By a formula; only training rows have noise.
    Formula { formula: FormulaPlan, noise: f32 },
}

impl Generated {
    /// The names of its columns.
    pub(super) fn columns(self) -> Vec<String> {
        let of_header = |header: String| header.trim_end().split(',').map(str::to_owned).collect();
        match self {
            Self::Interactions => of_header(interaction_csv(0, 0)),
            Self::Labels { noise } => of_header(label_csv(0, 0, noise)),
            Self::Formula { formula, .. } => {
                let inputs = 1..=Formula::from(formula).inputs();
                inputs.map(|input| format!("x{input}")).chain(["y".to_owned()]).collect()
            }
        }
    }
}

/// A formula of [`updraft_data::Formula`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum FormulaPlan {
    ExpSinSquare,
    Friedman1,
    Product,
}

impl From<FormulaPlan> for Formula {
    fn from(plan: FormulaPlan) -> Self {
        match plan {
            FormulaPlan::ExpSinSquare => Self::ExpSinSquare,
            FormulaPlan::Friedman1 => Self::Friedman1,
            FormulaPlan::Product => Self::Product,
        }
    }
}
