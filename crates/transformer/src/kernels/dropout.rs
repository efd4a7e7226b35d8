//! Dropout whose masks are a function of a key and of each number's place.

use updraft_simd::{Isa, Pieces, dispatch, over, threads};

use super::PIECE_ROWS;

/// Sets numbers to 0 at random and scales the others, so that the mean stays.
///
/// A number is kept or not by a hash of its place and the key, so that the division of work changes
/// no mask, and none has to be stored.
///
/// # Source
/// Salmon and others 2011, "Parallel random numbers: as easy as 1, 2, 3", for generators that are
/// functions of a counter; the hash is the finalizer of Appleby's `MurmurHash3`, twice.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Dropout {
    key: [u32; 2],
    /// Hashes below this one are dropped.
    threshold: u32,
    pub(super) scale: f32,
}

impl Dropout {
    /// Drops each number with a probability, at least 0 and below 1.
    pub(crate) fn new(key: [u32; 2], probability: f64) -> Self {
        let threshold = (probability * 4_294_967_296.0) as u32;
        Self { key, threshold, scale: (1.0 / (1.0 - probability)) as f32 }
    }

    /// That of one row of a layer.
    #[inline(always)]
    pub(super) fn of_row(self, layer: usize, row: usize) -> Self {
        let [low, high] = self.key;
        let low = mixed(low ^ mixed(row as u32)).wrapping_add(layer as u32);
        Self { key: [low, high], ..self }
    }

    /// The same for all of a row's columns: what [`drops_of`](Self::drops_of) needs of it.
    #[inline(always)]
    pub(super) fn key_of_row(self, row: usize) -> u32 {
        self.of_row(0, row).key[0]
    }

    /// Whether the number of a column is dropped in the row with this key.
    #[inline(always)]
    pub(super) fn drops_of(self, key_of_row: u32, column: u32) -> bool {
        Self { key: [key_of_row, self.key[1]], ..self }.drops(column)
    }

    /// Writes the numbers of rows of `len`, dropped or scaled, in pieces of [`PIECE_ROWS`] rows.
    pub(crate) fn apply<'a>(
        self,
        isa: Isa,
        x: &[f32],
        len: usize,
        to: impl Pieces<Piece = &'a mut [f32]>,
        asked_threads: usize,
    ) {
        let vectors = isa.vectors();
        over(to, &mut vec![(); threads(asked_threads)], |index, to, ()| {
            let first = index * PIECE_ROWS;
            let x = &x[first * len..][..to.len()];
            for (row, (x, to)) in x.chunks(len).zip(to.chunks_mut(len)).enumerate() {
                drop_row(vectors, self.of_row(0, first + row), x, to);
            }
        });
    }

    /// The factors of a layer's outputs, `[rows, columns]`.
    pub(crate) fn mask(self, layer: usize, [rows, columns]: [usize; 2]) -> Vec<f32> {
        let of_row = |row| {
            let dropout = self.of_row(layer, row);
            let factor = move |column| if dropout.drops(column) { 0.0 } else { dropout.scale };
            (0..columns as u32).map(factor)
        };
        (0..rows).flat_map(of_row).collect()
    }

    /// Whether the number of a column is dropped.
    #[inline(always)]
    pub(super) fn drops(self, column: u32) -> bool {
        mixed(mixed(column ^ self.key[0]).wrapping_add(self.key[1])) < self.threshold
    }
}

dispatch! {
    fn drop_row(_simd, dropout: Dropout, x: &[f32], to: &mut [f32]) {
        for (column, (x, to)) in x.iter().zip(to).enumerate() {
            *to = if dropout.drops(column as u32) { 0.0 } else { x * dropout.scale };
        }
    }
}

/// A bijection in which every bit of the result depends on every bit of `x`.
#[inline(always)]
const fn mixed(x: u32) -> u32 {
    let x = (x ^ (x >> 16)).wrapping_mul(0x85EB_CA6B);
    let x = (x ^ (x >> 13)).wrapping_mul(0xC2B2_AE35);
    x ^ (x >> 16)
}

#[cfg(test)]
mod tests {
    use updraft_simd::Cut;
    use updraft_testing::scattered;

    use super::*;

    #[test]
    fn as_many_are_dropped_as_the_probability_says_in_every_row_column_and_layer() {
        let dropout = Dropout::new([17, 4], 0.3);
        let (rows, columns) = (400, 500);
        let masks: Vec<Vec<Vec<bool>>> = (0..2)
            .map(|layer| {
                let of_row = |row| {
                    let dropout = dropout.of_row(layer, row);
                    (0..columns).map(|column| dropout.drops(column)).collect()
                };
                (0..rows).map(of_row).collect()
            })
            .collect();
        let share = |mask: &mut dyn Iterator<Item = bool>| {
            let (mut dropped, mut all) = (0.0, 0.0);
            for drops in mask {
                (dropped, all) = (dropped + f64::from(u8::from(drops)), all + 1.0);
            }
            // In standard deviations from the mean.
            (dropped / all - 0.3) / (0.21_f64 / all).sqrt()
        };
        let flat = |layer: usize| masks[layer].iter().flatten().copied();
        assert!(share(&mut flat(0)).abs() < 4.0 && share(&mut flat(1)).abs() < 4.0);
        for row in &masks[0] {
            assert!(share(&mut row.iter().copied()).abs() < 5.0);
        }
        for column in 0..columns as usize {
            assert!(share(&mut masks[0].iter().map(|row| row[column])).abs() < 5.0);
        }
        // Pairs of neighbors are dropped together as often as independent numbers: with 0.09.
        let both = |a: &mut dyn Iterator<Item = bool>, b: &mut dyn Iterator<Item = bool>| {
            let (mut together, mut all) = (0.0, 0.0);
            for (a, b) in a.zip(b) {
                (together, all) = (together + f64::from(u8::from(a && b)), all + 1.0);
            }
            (together / all - 0.09) / (0.09_f64 * 0.91 / all).sqrt()
        };
        let other = Dropout::new([17, 5], 0.3);
        let of_other = (0..rows).flat_map(|row| {
            let dropout = other.of_row(0, row);
            (0..columns).map(move |column| dropout.drops(column))
        });
        for found in [
            both(&mut flat(0), &mut flat(0).skip(1)),
            both(&mut flat(0), &mut flat(0).skip(columns as usize)),
            both(&mut flat(0), &mut flat(1)),
            both(&mut flat(0), &mut { of_other }),
        ] {
            assert!(found.abs() < 4.0, "{found}");
        }
    }

    #[test]
    fn numbers_are_multiplied_by_the_mask_on_any_number_of_threads() {
        let dropout = Dropout::new([3, 9], 0.4);
        for [rows, len] in [[1, 1], [2, 15], [70, 16], [33, 53]] {
            let x = scattered(1, rows * len);
            let mask = dropout.mask(0, [rows, len]);
            let expected: Vec<f32> = x.iter().zip(&mask).map(|(x, factor)| x * factor).collect();
            for isa in Isa::BASES.into_iter().filter(|isa| isa.is_available()) {
                for threads in [1, 3] {
                    let mut to = vec![f32::NAN; rows * len];
                    let pieces = Cut::new(&mut to, PIECE_ROWS * len);
                    dropout.apply(isa, &x, len, pieces, threads);
                    assert_eq!(to, expected, "{isa} {threads}");
                }
            }
        }
    }

    #[test]
    fn nothing_is_dropped_with_probability_0() {
        let dropout = Dropout::new([1, 2], 0.0);
        assert!((0..10_000).all(|column| !dropout.drops(column)) && dropout.scale == 1.0);
    }
}
