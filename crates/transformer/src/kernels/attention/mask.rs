//! Dropout of the weights of one head.

use super::Dropout;

/// The masks of a head's queries.
#[derive(Debug, Clone, Copy)]
pub(super) struct Mask {
    pub(super) dropout: Dropout,
    /// The row of the head's first query.
    pub(super) first_row: usize,
}

impl Mask {
    /// Multiplies a block of numbers, a row for each key, by the factors of their weights.
    #[inline(always)]
    pub(super) fn apply<const Q: usize>(
        self,
        [first, queries]: [usize; 2],
        first_key: usize,
        numbers: &mut [[f32; Q]],
    ) {
        let Self { dropout, first_row } = self;
        let mut keys_of_rows = [0; Q];
        for (query, key) in keys_of_rows.iter_mut().take(queries).enumerate() {
            *key = dropout.key_of_row(first_row + first + query);
        }
        for (key, numbers) in numbers.iter_mut().enumerate() {
            let column = (first_key + key) as u32;
            let of_queries = numbers.iter_mut().zip(&keys_of_rows).take(queries);
            for (number, &key_of_row) in of_queries {
                let dropped = dropout.drops_of(key_of_row, column);
                *number = if dropped { 0.0 } else { *number * dropout.scale };
            }
        }
    }
}
