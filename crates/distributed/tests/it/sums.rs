//! Sums over ranks, against sums in f64.

use proptest::prelude::*;
use updraft_distributed::{AllReduce, Alone, Collective, Wire, sum_f64};

use crate::on_threads;

/// Numbers of moderate size that differ from rank to rank.
fn numbers(rank: usize, count: usize) -> Vec<f32> {
    let number = |i: usize| (i.wrapping_mul(2_654_435_761) >> 5) % 4001;
    (0..count).map(|i| number(i * 31 + rank * 7919 + 1) as f32 / 1000.0 - 2.0).collect()
}

/// The sums on every rank, all of the same bits.
fn sums(size: usize, count: usize, wire: Wire) -> Vec<f32> {
    let all = on_threads(size, |mut rank| {
        let mut mine = numbers(rank.rank(), count);
        AllReduce::new(wire).sum(&mut rank, &mut mine).unwrap();
        mine
    });
    let bits = |sums: &[f32]| sums.iter().map(|sum| sum.to_bits()).collect::<Vec<_>>();
    assert!(all.iter().all(|sums| bits(sums) == bits(&all[0])));
    all.into_iter().next().unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn sums_are_those_of_f64(size in 1usize..6, count in 0usize..70) {
        for (wire, step) in [(Wire::F32, f64::from(f32::EPSILON)), (Wire::Bf16, 1.0 / 256.0)] {
            let found = sums(size, count, wire);
            for (index, found) in found.iter().enumerate() {
                let terms = (0..size).map(|rank| f64::from(numbers(rank, count)[index]));
                let magnitude: f64 = terms.clone().map(f64::abs).sum();
                let error = (f64::from(*found) - terms.sum::<f64>()).abs();
                prop_assert!(error <= 2.0 * step * magnitude * size as f64, "{error}");
            }
        }
    }
}

#[test]
fn f32_sums_are_added_in_the_order_of_ranks() {
    let found = sums(4, 33, Wire::F32);
    for (index, found) in found.iter().enumerate() {
        let in_order =
            (1..4).fold(numbers(0, 33)[index], |sum, rank| sum + numbers(rank, 33)[index]);
        assert_eq!(found.to_bits(), in_order.to_bits());
    }
}

#[test]
fn sums_longer_than_a_bucket_are_whole() {
    let count = (2 << 20) + 5;
    let found = sums(2, count, Wire::F32);
    let (first, second) = (numbers(0, count), numbers(1, count));
    assert!((0..count).all(|i| found[i] == first[i] + second[i]));
}

#[test]
fn what_is_not_finite_reaches_every_rank() {
    let all = on_threads(3, |mut rank| {
        let mut mine = [1.0, if rank.rank() == 1 { f32::NAN } else { 2.0 }, f32::INFINITY];
        AllReduce::new(Wire::Bf16).sum(&mut rank, &mut mine).unwrap();
        mine
    });
    for sums in all {
        assert!(sums[0] == 3.0 && sums[1].is_nan() && sums[2] == f32::INFINITY);
    }
}

#[test]
fn one_rank_changes_nothing() {
    let mut mine = [0.1, f32::MIN_POSITIVE];
    AllReduce::new(Wire::Bf16).sum(&mut Alone, &mut mine).unwrap();
    assert_eq!(mine, [0.1, f32::MIN_POSITIVE]);
    let mut counts = [0.1];
    sum_f64(&mut Alone, &mut counts).unwrap();
    assert_eq!(counts, [0.1]);
}

#[test]
fn few_numbers_are_summed_in_f64() {
    let all = on_threads(3, |mut rank| {
        let mut mine = [1e-12 * rank.rank() as f64, 1.0];
        sum_f64(&mut rank, &mut mine).unwrap();
        mine
    });
    assert!(all.iter().all(|sums| *sums == [0.0 + 1e-12 + 2e-12, 3.0]));
}
