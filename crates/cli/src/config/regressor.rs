//! The model part of a regression's plan.

use serde::{Deserialize, Serialize};
use updraft_kan::{KanConfig, KanLinearConfig, Outside};

use super::error::ConfigError;
use super::plan::value;

/// The network; which keys are read depends on its kind.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawRegressor {
    pub(crate) kind: Option<String>,
    pub(crate) hidden: Option<Vec<usize>>,
    pub(crate) intervals: Option<usize>,
    pub(crate) degree: Option<usize>,
    pub(crate) domain: Option<f32>,
    pub(crate) outside: Option<Outside>,
}

/// The network; its number of inputs comes from the data.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) enum RegressorPlan {
    /// Layers of splines.
    Kan {
        hidden: Vec<usize>,
        intervals: usize,
        degree: usize,
        /// The splines' domain reaches so far to both sides, in standard deviations of the first
        /// layer's inputs.
        domain: f32,
        outside: Outside,
    },
    /// Linear layers with `SiLU` between them.
    Mlp { hidden: Vec<usize> },
}

impl RegressorPlan {
    /// Features from the input's to the output's.
    pub(crate) fn widths(&self, inputs: usize) -> Vec<usize> {
        let (Self::Kan { hidden, .. } | Self::Mlp { hidden }) = self;
        [&[inputs], hidden.as_slice(), &[1]].concat()
    }

    /// The network of splines for so many inputs; `None` for another kind.
    pub(crate) fn kan(&self, inputs: usize) -> Option<KanConfig> {
        let Self::Kan { intervals, degree, domain, outside, .. } = *self else { return None };
        let layer = KanLinearConfig::new(1, 1)
            .with_intervals(intervals)
            .with_degree(degree)
            .with_domain_low(-domain)
            .with_domain_high(domain)
            .with_outside(outside);
        Some(KanConfig::new(self.widths(inputs)).with_layer(layer))
    }

    /// Checks every value.
    pub(super) fn validate(&self) -> Result<(), ConfigError> {
        let (Self::Kan { hidden, .. } | Self::Mlp { hidden }) = self;
        if hidden.len() > 64 || hidden.iter().any(|&width| !(1..=65_536).contains(&width)) {
            let expected = "at most 64 layers of 1 to 65536 features";
            return value("model.hidden", format!("{hidden:?}"), expected);
        }
        // One input stands in for the number that only the data knows.
        match self.kan(1).map(|config| config.validate()) {
            Some(Err(error)) => value("model", "not buildable".to_owned(), &error.to_string()),
            _ => Ok(()),
        }
    }
}

/// Decides which network is trained.
pub(super) fn decide_regressor(raw: RawRegressor) -> Result<RegressorPlan, ConfigError> {
    let kind = raw.kind.as_deref().unwrap_or("kan");
    match kind {
        "kan" => Ok(RegressorPlan::Kan {
            hidden: raw.hidden.unwrap_or_else(|| vec![8]),
            intervals: raw.intervals.unwrap_or(5),
            degree: raw.degree.unwrap_or(3),
            // Standardized numbers rarely lie further from their mean.
            domain: raw.domain.unwrap_or(2.5),
            outside: raw.outside.unwrap_or_default(),
        }),
        "mlp" => {
            for (key, is_given) in [
                ("model.intervals", raw.intervals.is_some()),
                ("model.degree", raw.degree.is_some()),
                ("model.domain", raw.domain.is_some()),
                ("model.outside", raw.outside.is_some()),
            ] {
                if is_given {
                    return value(
                        key,
                        "given with kind `mlp`".to_owned(),
                        "only with `model.kind` kan",
                    );
                }
            }
            Ok(RegressorPlan::Mlp { hidden: raw.hidden.unwrap_or_else(|| vec![32, 32]) })
        }
        other => value("model.kind", format!("`{other}`"), "`kan` or `mlp`"),
    }
}
