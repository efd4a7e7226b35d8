//! Layers of pykan.

use super::error::ImportError;
use super::parts::{Parts, grid, outputs_last};
use super::state::State;

/// How the name of a layer's coefficients ends.
pub(super) const COEFFICIENTS: &str = "coef";

/// The layer with a number, of the network whose names begin with `prefix`.
///
/// # Source
/// <https://github.com/KindXiaoming/pykan>, release 0.2.8: `act_fun.l.coef` is `[in, out, bases]`,
/// `scale_base`, `scale_sp` and `mask` are `[in, out]`, and the sums `s` of the edges leave a
/// layer without multiplications as `node_scale·(subnode_scale·s + subnode_bias) + node_bias`.
pub(super) fn layer(state: &State, prefix: &str, number: usize) -> Result<Parts, ImportError> {
    let name = |part: &str| format!("{prefix}act_fun.{number}.{part}");
    let [inputs, outputs, bases] = state.shape(&name(COEFFICIENTS))?;
    let edges = [inputs, outputs];

    let symbolic = format!("{prefix}symbolic_fun.{number}.mask");
    let formulae = state.optional(&symbolic, [outputs, inputs])?.unwrap_or_default();
    if formulae.iter().any(|&mask| mask != 0.0) {
        return Err(ImportError::Symbolic { name: symbolic });
    }
    let node = |part: &str| format!("{prefix}{part}_{number}");
    let [nodes] = state.shape(&node("node_bias"))?;
    if nodes != outputs {
        return Err(ImportError::Multiplication { layer: number, sums: outputs, nodes });
    }
    let of_outputs = |part: &str| state.numbers(&node(part), [outputs]);
    let (scale, bias) = (of_outputs("node_scale")?, of_outputs("node_bias")?);
    let (inner_scale, inner_bias) = (of_outputs("subnode_scale")?, of_outputs("subnode_bias")?);

    let factor: Vec<f32> = scale.iter().zip(&inner_scale).map(|(s, inner)| s * inner).collect();
    let mask = state.numbers(&name("mask"), edges)?;
    let scaled = |mut numbers: Vec<f32>| {
        for (edge, number) in numbers.iter_mut().enumerate() {
            *number *= mask[edge] * factor[edge % outputs];
        }
        numbers
    };
    let bias = bias.iter().zip(&inner_bias).zip(&scale).map(|((b, inner), s)| s * inner + b);
    let spline = state.numbers(&name(COEFFICIENTS), [inputs, outputs, bases])?;
    Ok(Parts {
        grid: grid(state, &name("grid"), inputs, bases)?,
        inputs,
        outputs,
        spline: outputs_last(&spline, outputs, bases),
        base: scaled(state.numbers(&name("scale_base"), edges)?),
        scaler: Some(scaled(state.numbers(&name("scale_sp"), edges)?)),
        bias: Some(bias.collect()),
        name: name(COEFFICIENTS),
    })
}
