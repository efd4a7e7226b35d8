//! Random masks of patches.

use burn::tensor::{Device, Int, Tensor, TensorData};

/// The numbers from 0 to below `patches` in a random order that depends on the seed only.
///
/// The first ones are the visible patches of a masked autoencoder, the others the masked ones.
#[must_use]
pub fn random_order(seed: u64, patches: usize) -> Vec<usize> {
    let mut state = seed;
    // SplitMix64: Steele, Lea and Flood 2014, "Fast splittable pseudorandom number generators".
    let mut next = || {
        state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    };
    let mut order: Vec<usize> = (0..patches).collect();
    // Fisher and Yates; the upper bits of a product instead of a remainder.
    for last in (1..patches).rev() {
        let chosen = (u128::from(next()) * (last as u128 + 1)) >> 64;
        order.swap(last, chosen as usize);
    }
    order
}

/// The visible and the masked patches of every sample of a batch.
#[derive(Debug, Clone)]
pub struct PatchMasks {
    /// `[batch, visible]`, numbers of patches.
    pub visible: Tensor<2, Int>,
    /// `[batch, masked]`, those of the others.
    pub masked: Tensor<2, Int>,
}

impl PatchMasks {
    /// The masks of samples, of each of which the first `visible` patches of an order are visible.
    ///
    /// # Panics
    /// If there is no order, or orders have different lengths, or not more than `visible`.
    #[must_use]
    pub fn new(orders: &[Vec<usize>], visible: usize, device: &Device) -> Self {
        let patches = orders[0].len();
        assert!(visible < patches, "{visible} of {patches} patches are visible");
        let part = |range: std::ops::Range<usize>| {
            let ids: Vec<i64> = orders
                .iter()
                .flat_map(|order| {
                    assert_eq!(order.len(), patches, "every sample has as many patches");
                    order[range.clone()].iter().map(|&patch| patch as i64)
                })
                .collect();
            Tensor::from_data(TensorData::new(ids, [orders.len(), range.len()]), device)
        };
        Self { visible: part(0..visible), masked: part(visible..patches) }
    }
}

/// The rows with these numbers of every sample: `[batch, chosen, features]` of
/// `[batch, rows, features]`.
pub(super) fn take_rows(rows: Tensor<3>, chosen: Tensor<2, Int>) -> Tensor<3> {
    let [batch, count, features] = rows.dims();
    let [_, taken] = chosen.dims();
    let first = Tensor::<1, Int>::arange(0..batch as i64, &chosen.device());
    let first = first.mul_scalar(count as i64).unsqueeze_dim::<2>(1);
    let flat = (chosen + first).reshape([batch * taken]);
    let rows = rows.reshape([batch * count, features]).select(0, flat);
    rows.reshape([batch, taken, features])
}

/// The rows of a table for every sample: `[batch, chosen, features]` of `[rows, features]`.
pub(super) fn look_up(table: Tensor<2>, chosen: Tensor<2, Int>) -> Tensor<3> {
    let [batch, taken] = chosen.dims();
    let [_, features] = table.dims();
    table.select(0, chosen.reshape([batch * taken])).reshape([batch, taken, features])
}

#[cfg(test)]
mod tests {
    use updraft_testing::{Numbers, devices};

    use super::*;

    #[test]
    fn orders_depend_on_the_seed_and_are_permutations() {
        let order = random_order(7, 64);
        assert_eq!(order, random_order(7, 64));
        assert_ne!(order, random_order(8, 64));
        let mut sorted = order;
        sorted.sort_unstable();
        assert_eq!(sorted, (0..64).collect::<Vec<_>>());
        assert_eq!(random_order(1, 1), [0]);
    }

    #[test]
    fn every_patch_is_first_equally_often() {
        let (patches, seeds) = (5, 20_000);
        let mut counts = [0_u32; 5];
        for seed in 0..seeds {
            counts[random_order(seed, patches)[0]] += 1;
        }
        // Five standard deviations of a binomial count: 5·√(20000·0.2·0.8) = 283.
        assert!(counts.iter().all(|count| count.abs_diff(4000) < 283), "{counts:?}");
    }

    #[test]
    fn rows_are_those_of_their_own_sample() {
        for device in devices() {
            let masks = PatchMasks::new(&[vec![2, 0, 1], vec![1, 2, 0]], 1, &device);
            assert_eq!(masks.masked.dims(), [2, 2]);
            let numbers: Vec<f32> = (0..12).map(|n| n as f32).collect();
            let rows = Tensor::<3>::from_data(TensorData::new(numbers, [2, 3, 2]), &device);
            let found = take_rows(rows.clone(), masks.masked.clone()).numbers();
            assert_eq!(found, [0., 1., 2., 3., 10., 11., 6., 7.]);
            assert_eq!(take_rows(rows, masks.visible.clone()).numbers(), [4., 5., 8., 9.]);
            let table = Tensor::<2>::from_floats([[5.0], [6.0], [7.0]], &device);
            assert_eq!(look_up(table, masks.masked).numbers(), [5., 6., 7., 5.]);
        }
    }
}
