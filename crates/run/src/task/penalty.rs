//! The key of `model` for the penalty of splines, which several tasks have.

use updraft_kan::Penalty;

use crate::config::{ConfigError, Edit, Key, Settings, is_0_or_above_in_f32};

/// `model.penalty`, with what a task says of it.
pub(super) const fn penalty_key(meaning: &'static str) -> Key<Penalty> {
    Key::new("model.penalty", meaning)
        .with(&[
            ("l1", "0", "weight of the splines' sizes: small splines"),
            ("entropy", "0", "weight of the entropy of their shares: few splines"),
            ("roughness", "0", "weight of squared differences of coefficients: smooth splines"),
            ("order", "2", "how often differences are taken; 2 leaves straight lines free"),
        ])
        .edit(Edit::Reported)
        .check("a table with `l1`, `entropy` or `roughness`, each 0 or in the range of f32, 1.2e-38 to 3.4e38, and one above 0", |penalty| {
            let weights = [penalty.l1, penalty.entropy, penalty.roughness];
            weights.iter().all(is_0_or_above_in_f32) && !penalty.is_zero()
        })
}

/// The value of the key, if it is given; `coefficients` is the number of those of a spline.
///
/// # Errors
/// An error for a roughness of differences that so few coefficients do not have.
pub(super) fn read_penalty(
    settings: &Settings,
    key: &Key<Penalty>,
    coefficients: usize,
) -> Result<Option<Penalty>, ConfigError> {
    let penalty = settings.option(key)?;
    match penalty {
        Some(Penalty { roughness, order, .. }) if roughness > 0.0 && order >= coefficients => {
            let expected = format!(
                "below {coefficients}, the coefficients of a spline (`model.intervals` + \
                 `model.degree`): they have no more differences"
            );
            Err(settings.refuse("model.penalty.order", order, expected))
        }
        _ => Ok(penalty),
    }
}
