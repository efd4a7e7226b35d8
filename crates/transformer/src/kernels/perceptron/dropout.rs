//! Dropout whose masks are a function of a key and of each number's place.

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

/// A bijection in which every bit of the result depends on every bit of `x`.
#[inline(always)]
const fn mixed(x: u32) -> u32 {
    let x = (x ^ (x >> 16)).wrapping_mul(0x85EB_CA6B);
    let x = (x ^ (x >> 13)).wrapping_mul(0xC2B2_AE35);
    x ^ (x >> 16)
}

#[cfg(test)]
mod tests {
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
    fn nothing_is_dropped_with_probability_0() {
        let dropout = Dropout::new([1, 2], 0.0);
        assert!((0..10_000).all(|column| !dropout.drops(column)) && dropout.scale == 1.0);
    }
}
