//! Random numbers of an item by a hash, for a few numbers of each of many items.

/// Numbers that are a function of seed, epoch, item and place.
///
/// A number takes a few instructions, while [`Random`](crate::Random) computes 256 bytes when the first
/// of an item is drawn.
///
/// # Source
/// Steele, Lea and Flood 2014, "Fast splittable pseudorandom number generators", for the finalizer
/// (variant 13 of Stafford) and the increment.
///
/// # Example
/// ```
/// use updraft_data::ItemHash;
///
/// let item = ItemHash::new(1, 0, 42);
/// assert!((0..1000).filter(|&place| item.is_drawn(place, 0.25)).count() < 300);
/// ```
#[derive(Debug, Clone, Copy)]
pub struct ItemHash(u64);

const INCREMENT: u64 = 0x9E37_79B9_7F4A_7C15;

impl ItemHash {
    /// The numbers of an item in an epoch.
    #[must_use]
    pub const fn new(seed: u64, epoch: u64, item: usize) -> Self {
        let of_epoch = mixed(mixed(seed.wrapping_add(INCREMENT)) ^ epoch);
        Self(mixed(of_epoch ^ (item as u64).wrapping_mul(INCREMENT)))
    }

    /// True with a probability.
    #[must_use]
    pub fn is_drawn(self, place: u64, probability: f64) -> bool {
        let hash = mixed(self.0.wrapping_add(place.wrapping_add(1).wrapping_mul(INCREMENT)));
        ((hash >> 11) as f64) < probability * 9_007_199_254_740_992.0
    }
}

/// A bijection in which every bit of the result depends on every bit of `x`.
const fn mixed(x: u64) -> u64 {
    let x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_are_drawn_as_the_probability_says_whatever_changes() {
        let share = |draws: &mut dyn Iterator<Item = bool>| {
            let (mut drawn, mut all) = (0.0, 0.0);
            for is_drawn in draws {
                (drawn, all) = (drawn + f64::from(u8::from(is_drawn)), all + 1.0);
            }
            // In standard deviations from the mean.
            (drawn / all - 0.3) / (0.21_f64 / all).sqrt()
        };
        let drawn =
            |seed, epoch, item, place| ItemHash::new(seed, epoch, item).is_drawn(place, 0.3);
        let many = 0..20_000_u32;
        for found in [
            share(&mut many.clone().map(|at| drawn(at.into(), 0, 0, 0))),
            share(&mut many.clone().map(|at| drawn(0, at.into(), 0, 0))),
            share(&mut many.clone().map(|at| drawn(0, 0, at as usize, 0))),
            share(&mut many.clone().map(|at| drawn(0, 0, 0, at.into()))),
            share(&mut many.clone().map(|at| drawn(7, 3, at as usize / 8, (at % 8).into()))),
        ] {
            assert!(found.abs() < 4.0, "{found}");
        }
        // Neighbors are drawn together as often as independent numbers: with 0.09.
        for other in [[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]] {
            let [seed, epoch, item, place] = other;
            let both = many.clone().filter(|&at| {
                drawn(5, 2, at as usize, 3)
                    && drawn(5 + seed, 2 + epoch, (at + item as u32) as usize, 3 + place)
            });
            let share = both.count() as f64 / 20_000.0;
            assert!(((share - 0.09) / (0.09_f64 * 0.91 / 20_000.0).sqrt()).abs() < 4.0, "{share}");
        }
    }

    #[test]
    fn nothing_is_drawn_with_probability_0_and_all_with_1() {
        let item = ItemHash::new(1, 2, 3);
        assert!((0..1000).all(|place| !item.is_drawn(place, 0.0) && item.is_drawn(place, 1.0)));
    }
}
