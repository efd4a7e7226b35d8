//! The keys of `model` that describe layers of splines.

use updraft_kan::slices::MAX_DEGREE;
use updraft_kan::{KanLinearConfig, Outside};

use crate::config::{ConfigError, Key, Settings};

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
