//! Sums of the units of a cube, in an order that its size alone decides.

use cubecl::prelude::*;

use super::tiles::UNITS;

/// Halvings of a cube's units.
const HALVINGS: u32 = UNITS.trailing_zeros();

/// Adds a number of each unit; the sum is the first one, for all units.
#[cube]
pub(super) fn add_up(numbers: &mut Shared<[f32]>) {
    sync_cube();
    #[unroll]
    for step in 0..HALVINGS {
        let half = comptime!(UNITS >> (step + 1));
        if UNIT_POS_X < half {
            let sum = numbers[UNIT_POS_X as usize] + numbers[(UNIT_POS_X + half) as usize];
            numbers[UNIT_POS_X as usize] = sum;
        }
        sync_cube();
    }
}

/// Merges counts, means and sums of squared differences from the mean; those of all are the first
/// ones, for all units.
///
/// # Source
/// Chan, Golub and `LeVeque` 1979, equation 2.1.
#[cube]
pub(super) fn merge(
    counts: &mut Shared<[f32]>,
    means: &mut Shared<[f32]>,
    squares: &mut Shared<[f32]>,
) {
    sync_cube();
    #[unroll]
    for step in 0..HALVINGS {
        let half = comptime!(UNITS >> (step + 1));
        if UNIT_POS_X < half {
            let own = UNIT_POS_X as usize;
            let other = (UNIT_POS_X + half) as usize;
            let total = counts[own] + counts[other];
            let share = select(total > 0.0f32, counts[other] / total, 0.0f32);
            let difference = means[other] - means[own];
            let mean = means[own] + difference * share;
            let between = difference * difference * (counts[own] * share);
            let square = squares[own] + squares[other] + between;
            counts[own] = total;
            means[own] = mean;
            squares[own] = square;
        }
        sync_cube();
    }
}
