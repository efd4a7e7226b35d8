//! Dropout of the weights of one head.

use super::Dropout;
use super::block::QUERIES;

/// The masks of a head's queries.
#[derive(Debug, Clone, Copy)]
pub(super) struct Mask {
    pub(super) dropout: Dropout,
    /// The row of the head's first query.
    pub(super) first_row: usize,
}

impl Mask {
    /// Multiplies a block of `[keys][QUERIES]` numbers by the factors of their weights.
    #[inline(always)]
    pub(super) fn apply(self, [first, queries]: [usize; 2], first_key: usize, numbers: &mut [f32]) {
        let Self { dropout, first_row } = self;
        let mut keys_of_rows = [0; QUERIES];
        for (query, key) in keys_of_rows.iter_mut().take(queries).enumerate() {
            *key = dropout.key_of_row(first_row + first + query);
        }
        for (key, numbers) in numbers.chunks_exact_mut(QUERIES).enumerate() {
            let column = (first_key + key) as u32;
            let of_queries = numbers.iter_mut().zip(&keys_of_rows).take(queries);
            for (number, &key_of_row) in of_queries {
                let dropped = dropout.drops_of(key_of_row, column);
                *number = if dropped { 0.0 } else { *number * dropout.scale };
            }
        }
    }
}
