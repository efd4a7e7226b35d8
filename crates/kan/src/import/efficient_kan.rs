//! Layers of efficient-kan.

use super::error::ImportError;
use super::parts::{Parts, grid, outputs_last};
use super::state::{State, swapped};

/// How the name of a layer's coefficients ends.
pub(super) const COEFFICIENTS: &str = "spline_weight";

/// The layer whose names begin with `prefix`.
///
/// # Source
/// <https://github.com/Blealtan/efficient-kan> at 082a4da: `spline_weight` is `[out, in, bases]`,
/// `base_weight` and `spline_scaler` are `[out, in]`, `grid` is `[in, knots]`.
pub(super) fn layer(state: &State, prefix: &str) -> Result<Parts, ImportError> {
    let name = |part: &str| format!("{prefix}{part}");
    let [outputs, inputs, bases] = state.shape(&name(COEFFICIENTS))?;
    let edges = |numbers: Vec<f32>| swapped(&numbers, outputs, inputs, 1);
    let spline = state.numbers(&name(COEFFICIENTS), [outputs, inputs, bases])?;
    let spline = swapped(&spline, outputs, inputs, bases);
    let scaler = state.optional(&name("spline_scaler"), [outputs, inputs])?;
    Ok(Parts {
        grid: grid(state, &name("grid"), inputs, bases)?,
        inputs,
        outputs,
        spline: outputs_last(&spline, outputs, bases),
        base: edges(state.numbers(&name("base_weight"), [outputs, inputs])?),
        scaler: scaler.map(edges),
        bias: None,
        name: name(COEFFICIENTS),
    })
}
