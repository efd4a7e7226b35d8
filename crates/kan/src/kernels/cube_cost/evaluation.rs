//! Operations of the functions at a number, counted in `kernels/cube/position.rs` and `function.rs`.

use super::CubeLayer;
use crate::kernels::Activation;

/// Of the interval of a number and its position there, with the correction of rounding errors.
const LOCATE: u64 = 16;

/// Of the values of all rows of an input at a number.
pub(super) fn value_flops(layer: CubeLayer) -> u64 {
    // One for the distance to the other end of the interval, which all bases share.
    let bases = match layer.degree {
        1 => 1,
        2 => 1 + 2 * 2 + 2,
        _ => 1 + 2 * 3 + 2 * 6,
    };
    let function = match layer.activation {
        Some(Activation::Silu) => 3,
        Some(Activation::Relu | Activation::Identity) | None => 0,
    };
    LOCATE + bases + function
}

/// Of the slopes there, and of their products with the gradients of the values.
pub(super) fn slope_flops(layer: CubeLayer) -> u64 {
    let bases = match layer.degree {
        1 => 1,
        2 => 1 + 1,
        _ => 1 + 2 * 2 + 2 * 3,
    };
    let of_base = match layer.activation {
        Some(Activation::Silu) => 7 + 2,
        Some(Activation::Relu | Activation::Identity) => 2,
        None => 0,
    };
    // A slope is multiplied by the intervals per unit, then by a gradient, and added.
    LOCATE + bases + 3 * layer.taps() as u64 + of_base
}
