//! The model part of a plan.

use serde::{Deserialize, Serialize};
use toml::Table;
use updraft_integration::{
    Depth, DualPathwayConfig, IntegrationPoint, LumaStandard, Normalization, SeparableConfig,
};

use super::data::DataPlan;
use super::error::ConfigError;
use super::plan::value;
use super::raw::RawModel;
use crate::classifier::ClassifierConfig;

/// The kind of a model that no kind was written for.
const DUAL_PATHWAY: &str = "dual-pathway";

/// The network; its number of classes comes from the data.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) enum ModelPlan {
    /// Color and brightness, integrated stage by stage.
    DualPathway {
        depth: Depth,
        channels: usize,
        stem_stride: usize,
        dropout: f64,
        luma: LumaStandard,
        integration_points: Vec<IntegrationPoint>,
    },
    /// Depthwise-separable convolutions.
    Separable { channels: usize, stem_stride: usize, dropout: f64 },
}

impl ModelPlan {
    /// The network for so many classes.
    pub(super) fn network(&self, classes: usize, data: &DataPlan) -> ClassifierConfig {
        match *self {
            Self::DualPathway {
                depth,
                channels,
                stem_stride,
                dropout,
                luma,
                ref integration_points,
            } => ClassifierConfig::DualPathway(
                DualPathwayConfig::new(classes, channels)
                    .with_depth(depth)
                    .with_stem_stride(stem_stride)
                    .with_dropout(dropout)
                    .with_luma(luma)
                    .with_integration_points(integration_points.clone())
                    .with_normalization(Normalization { mean: data.mean, std: data.std }),
            ),
            Self::Separable { channels, stem_stride, dropout } => ClassifierConfig::Separable(
                SeparableConfig::new(classes, channels)
                    .with_stem_stride(stem_stride)
                    .with_dropout(dropout),
            ),
        }
    }

    /// The probability of dropping a feature, to change it.
    pub(crate) const fn dropout_mut(&mut self) -> &mut f64 {
        match self {
            Self::DualPathway { dropout, .. } | Self::Separable { dropout, .. } => dropout,
        }
    }
}

/// Decides which network is trained.
pub(super) fn decide_model(raw: RawModel) -> Result<ModelPlan, ConfigError> {
    let kind = raw.kind.as_deref().unwrap_or(DUAL_PATHWAY);
    let channels = raw.channels.unwrap_or(16);
    let stem_stride = raw.stem_stride.unwrap_or(1);
    let dropout = raw.dropout.unwrap_or(0.0);
    match kind {
        DUAL_PATHWAY => Ok(ModelPlan::DualPathway {
            depth: raw.depth.unwrap_or_default(),
            channels,
            stem_stride,
            dropout,
            luma: raw.luma.unwrap_or_default(),
            integration_points: raw
                .integration_points
                .unwrap_or_else(|| vec![IntegrationPoint::All]),
        }),
        "separable" => {
            // A key that nothing reads is a mistake.
            for (key, is_given) in [
                ("model.depth", raw.depth.is_some()),
                ("model.luma", raw.luma.is_some()),
                ("model.integration_points", raw.integration_points.is_some()),
            ] {
                if is_given {
                    let given = format!("given with kind `{kind}`");
                    return value(key, given, "only with `model.kind` dual-pathway");
                }
            }
            Ok(ModelPlan::Separable { channels, stem_stride, dropout })
        }
        other => value("model.kind", format!("`{other}`"), "`dual-pathway` or `separable`"),
    }
}

/// Reads a model; plans that were written when there was one kind name none.
pub(super) fn model_of_any_age<'de, D: serde::Deserializer<'de>>(
    deserializer: D,
) -> Result<ModelPlan, D::Error> {
    let mut table = Table::deserialize(deserializer)?;
    table.entry("kind").or_insert_with(|| DUAL_PATHWAY.into());
    table.try_into().map_err(serde::de::Error::custom)
}

#[cfg(test)]
mod tests {
    use crate::config::Plan;

    #[test]
    fn a_plan_from_before_there_were_kinds_is_a_dual_pathway() {
        let plan = crate::command::plan(None, &[]).expect("the quickstart").plan;
        let text = plan.to_toml();
        let old = text.replace("kind = \"dual-pathway\"\n", "");
        assert_ne!(old, text);
        assert_eq!(toml::from_str::<Plan>(&old).expect("a plan"), plan);
        let damaged = old.replace("stem_stride", "steam_stride");
        let said = toml::from_str::<Plan>(&damaged).expect_err("unknown").to_string();
        assert!(said.contains("steam_stride"), "{said}");
    }
}
