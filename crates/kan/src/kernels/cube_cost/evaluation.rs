//! Operations of the functions at a number, counted in `kernels/cube/position.rs`, `recursion.rs` and
//! `function.rs`.

use super::CubeLayer;
use super::layer::Spacing;
use crate::kernels::Activation;

/// Of the interval of a number and its position there, with the correction of rounding errors.
const LOCATE: u64 = 16;

/// Of the values of all rows of an input at a number.
pub(super) fn value_flops(layer: CubeLayer) -> u64 {
    let function = match layer.activation {
        Some(Activation::Silu) => 3,
        Some(Activation::Relu | Activation::Identity) | None => 0,
    };
    located_flops(layer) + bases_flops(layer) + function
}

/// Of the slopes there, and of their products with the gradients of the values.
pub(super) fn slope_flops(layer: CubeLayer) -> u64 {
    let bases = match layer.degree {
        _ if !layer.is_closed() => bases_flops(layer),
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
    located_flops(layer) + bases + 3 * layer.taps() as u64 + of_base
}

/// Knots of an input are found by comparisons.
fn located_flops(layer: CubeLayer) -> u64 {
    match layer.spacing {
        Spacing::Equal => LOCATE,
        Spacing::PerInput => 0,
    }
}

fn bases_flops(layer: CubeLayer) -> u64 {
    // One for the distance to the other end of the interval, which all bases share.
    match layer.degree {
        _ if !layer.is_closed() => {
            // Each step of the recursion: the distances of two knots, and a share of a basis that is
            // multiplied by both, and added. Between knots of an input the share is a quotient.
            let degree = layer.degree as u64;
            let of_step = match layer.spacing {
                Spacing::Equal => 6,
                Spacing::PerInput => 7,
            };
            of_step * degree * (degree + 1) / 2
        }
        1 => 1,
        2 => 1 + 2 * 2 + 2,
        _ => 1 + 2 * 3 + 2 * 6,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_of_the_recursion_is_counted_for_each_degree_up_to_the_last() {
        let bare = CubeLayer { activation: None, ..CubeLayer::cubic(5) };
        let of = |degree, spacing| value_flops(CubeLayer { degree, spacing, ..bare });
        assert_eq!(of(3, Spacing::Equal), 16 + 19);
        // 1 + 2 + 3 + 4 steps.
        assert_eq!(of(4, Spacing::Equal), 16 + 6 * 10);
        assert_eq!(of(0, Spacing::Equal), 16);
        assert_eq!(of(3, Spacing::PerInput), 7 * 6);
    }
}
