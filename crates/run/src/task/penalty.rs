//! The key of `model` for the penalty of splines, which several tasks have.

use updraft_kan::Penalty;

use crate::config::{Edit, Key};

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
