//! The keys of `model` for networks of pathways.

use updraft_integration::{
    BrightnessKind, Depth, DualPathwayConfig, GateKind, IntegrationPoint, WeightPenalty,
};

use crate::config::{ConfigError, Edit, Key, Settings, is_0_or_above_in_f32};

pub(super) const DEPTH: Key<Depth> =
    Key::new("model.depth", "dual-pathway and single-pathway only: `shallow`, two stages of one block; `medium`, three of two; or `deep`, four of 2, 3, 4 and 2")
        .default(r#""shallow""#);
pub(super) const BRIGHTNESS: Key<BrightnessKind> = Key::new(
    "model.brightness",
    "dual-pathway only: `bt709` or `bt601`, weighted sums of the colors; `hsv-value`, the largest of them; or `lab-lightness`, CIE 1976",
)
.default(r#""bt709""#);
pub(super) const POINTS: Key<Vec<IntegrationPoint>> =
    Key::new("model.integration_points", "dual-pathway only, and the network that `single-pathway` is as costly as: `early`, `middle`, `late` or `all`")
        .default(r#"["all"]"#)
        .check(
            "a list of `early`, `middle` and `late`, none of them twice, or of `all` alone",
            |points| {
                let has_all = points.contains(&IntegrationPoint::All);
                let is_repeated = |at: usize| points[..at].contains(&points[at]);
                !(has_all && points.len() > 1 || (0..points.len()).any(is_repeated))
            },
        );
pub(super) const GATE: Key<GateKind> = Key::new(
    "model.gate",
    "dual-pathway only, and the network that `single-pathway` is as costly as: where an integration takes the weights of its streams from: `static`, one learned weight of each stream; or `adaptive`, two layers on the means of the feature maps of each image",
)
.default(r#""static""#);
pub(super) const PENALTY: Key<WeightPenalty> = Key::new(
    "model.penalty",
    "dual-pathway only: the penalty of the weights of its streams, the mean of all integrations, added to the loss and reported as `loss-penalty`",
)
.with(&[
    ("entropy", "0", "weight of the mean entropy of an image's weights, in nats: few streams for each image"),
    ("balance", "0", "weight of the squared distance between the mean weights of a batch and equal ones: no stream unused"),
])
.edit(Edit::Reported)
.check(
    "a table with `entropy` or `balance`, each 0 or in the range of f32, 1.2e-38 to 3.4e38, and one above 0",
    |penalty| {
        let is_in_range = [penalty.entropy, penalty.balance].iter().all(is_0_or_above_in_f32);
        is_in_range && !penalty.is_zero()
    },
);

/// The dual-pathway network with its own keys.
pub(super) fn dual_pathway(
    settings: &Settings,
    classes: usize,
    channels: usize,
) -> Result<DualPathwayConfig, ConfigError> {
    Ok(DualPathwayConfig::new(classes, channels)
        .with_depth(settings.value(&DEPTH)?)
        .with_integration_points(settings.value(&POINTS)?)
        .with_gate(settings.value(&GATE)?))
}
