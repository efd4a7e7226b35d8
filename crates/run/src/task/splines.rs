//! The keys of `model` that networks of splines have in several tasks.

use updraft_kan::slices::MAX_DEGREE;
use updraft_kan::{KanLinearConfig, Outside, Penalty};

use crate::config::{ConfigError, Edit, Key, Settings};

/// More pieces than that take minutes to be drawn, and no table has the rows to learn them from.
const MOST_INTERVALS: usize = 4096;

pub(super) const INTERVALS: Key<usize> =
    Key::new("model.intervals", "kan only: pieces of each spline")
        .default("5")
        .check("1 to 4096", |intervals| (1..=MOST_INTERVALS).contains(intervals));
pub(super) const DEGREE: Key<usize> = Key::new("model.degree", "kan only: their degree")
    .default("3")
    .check("0 to 15", |degree| *degree <= MAX_DEGREE);
// Standardized numbers rarely lie further from their mean.
pub(super) const DOMAIN: Key<f32> =
    Key::new("model.domain", "kan only: splines reach so far to both sides of 0")
        .default("2.5")
        .check("a finite number above 0", |reach| reach.is_finite() && *reach > 0.0);
pub(super) const OUTSIDE: Key<Outside> =
    Key::new("model.outside", "kan only: or `clamp`, `extend`, what splines are beyond")
        .default(r#""zero""#);

/// The layer that these keys describe, of one edge.
pub(super) fn spline_layer(settings: &Settings) -> Result<KanLinearConfig, ConfigError> {
    let domain = settings.value(&DOMAIN)?;
    Ok(KanLinearConfig::new(1, 1)
        .with_intervals(settings.value(&INTERVALS)?)
        .with_degree(settings.value(&DEGREE)?)
        .with_domain_low(-domain)
        .with_domain_high(domain)
        .with_outside(settings.value(&OUTSIDE)?))
}

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
        .check("of weights that are finite and at least 0, one of them above 0", |penalty| {
            penalty.is_valid() && !penalty.is_zero()
        })
}
