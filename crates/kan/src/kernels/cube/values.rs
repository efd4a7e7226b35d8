//! All basis values of an input, in shared memory, for the forms that are products of matrices.

use cubecl::prelude::*;

use super::function;
use super::layer::CubeLayer;
use super::position::{Kind, Knots, basis, locate};

/// Writes the values of all bases at `number`, and that of the activation after them, from `first`
/// on, each `distance` after the last. Without a value of its own, all bases are NaN if
/// `is_nan_everywhere`, else those of a window are.
#[cube]
pub(super) fn write_values<E: Float>(
    values: &mut Shared<[E]>,
    first: u32,
    #[comptime] distance: u32,
    number: f32,
    is_there: bool,
    knots: &Knots,
    #[comptime] layer: CubeLayer,
    #[comptime] is_nan_everywhere: bool,
) {
    let position = locate(number, knots, layer);
    let mut elsewhere = 0.0f32;
    if comptime!(is_nan_everywhere) {
        elsewhere = select(position.has_no_value && is_there, position.nan, 0.0f32);
    }
    #[unroll]
    for row in 0..comptime!(layer.bases() as u32) {
        values[(first + comptime!(row * distance)) as usize] = E::cast_from(elsewhere);
    }
    if is_there {
        #[unroll]
        for tap in 0..comptime!(layer.taps()) {
            let row = position.window + comptime!(tap as u32);
            let value = basis(&position, layer, tap, Kind::Value);
            values[(first + row * distance) as usize] = E::cast_from(value);
        }
    }
    if comptime!(layer.activation.is_some()) {
        let value = function::value(number, comptime!(layer.activation.unwrap_or_default()));
        let row = comptime!(layer.bases() as u32 * distance);
        values[(first + row) as usize] = E::cast_from(select(is_there, value, 0.0f32));
    }
}
