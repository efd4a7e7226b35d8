//! Products of tiles against the reference in f64, and against themselves on every path.

use proptest::prelude::*;
use updraft_simd::{Products, round_to_bf16};
use updraft_testing::scattered;

use crate::kernels::{
    Algorithm, ConvGeometry, ConvShape, Isa, Scratch, forward, input_gradient, reference,
    weight_gradient,
};

/// Sums in f32 of exact products, relative to the largest possible sum.
const SUMS: f64 = 1e-6;

/// Factors with 8 bits: two of them are off by 2⁻⁸ together, and their sums by less.
const FACTORS: f64 = 2e-2;

struct Case {
    geometry: ConvGeometry,
    x: Vec<f32>,
    w: Vec<f32>,
    dy: Vec<f32>,
    bias: Vec<f32>,
}

fn rounded(numbers: &[f32]) -> Vec<f64> {
    let mut to = vec![0.0; numbers.len()];
    round_to_bf16(Isa::Portable.vectors(), numbers, &mut to);
    wide(&to)
}

fn wide(numbers: &[f32]) -> Vec<f64> {
    numbers.iter().map(|&number| number.into()).collect()
}

fn assert_near(given: &[f32], right: &[f64], tolerance: f64, what: &str) {
    assert_eq!(given.len(), right.len());
    for (index, (&given, right)) in given.iter().zip(right).enumerate() {
        let error = (f64::from(given) - right).abs();
        assert!(error <= tolerance, "{what}[{index}]: {given} is not {right} ± {tolerance:e}");
    }
}

impl Case {
    fn new(shape: ConvShape) -> Option<Self> {
        let geometry = ConvGeometry::try_new(shape).ok()?.with_products(Products::Bf16);
        let geometry = geometry.with_algorithm(Algorithm::Bf16Tiles).ok()?;
        Some(Self {
            geometry,
            x: scattered(1, geometry.input_len()),
            w: scattered(2, geometry.weight_len()),
            dy: scattered(3, geometry.output_len()),
            bias: scattered(4, shape.channels[1]),
        })
    }

    fn run(&self, isa: Isa, threads: usize) -> [Vec<f32>; 3] {
        let Self { geometry, x, w, dy, bias } = self;
        // The contents of the scratch must not change the result.
        let mut scratch = Scratch::new();
        let mut split = scratch.split_pairs([1 << 16; 2], [1 << 16; 2], threads);
        split.numbers.fill(f32::NAN);
        split.pairs.fill(u32::MAX);
        for (own, pairs) in &mut split.of_threads {
            own.fill(f32::NAN);
            pairs.fill(u32::MAX);
        }
        let mut y = vec![f32::NAN; geometry.output_len()];
        forward(isa, geometry, x, w, Some(bias), &mut y, &mut scratch, threads);
        let mut dx = vec![f32::NAN; geometry.input_len()];
        input_gradient(isa, geometry, dy, w, &mut dx, &mut scratch, threads);
        let mut dw = vec![f32::NAN; geometry.weight_len()];
        weight_gradient(isa, geometry, x, dy, &mut dw, &mut scratch, threads);
        [y, dx, dw]
    }

    /// Compares the passes with the reference, and the bits of every path and number of threads.
    fn check(&self) {
        let Self { geometry, x, w, dy, bias } = self;
        let ConvShape { batch, channels, kernel, .. } = *geometry.shape();
        let first = self.run(Isa::Portable, 1);
        let taps = kernel[0] * kernel[1];
        let pixels = geometry.output()[0] * geometry.output()[1];
        let most = [channels[0] * taps + 1, channels[1] * taps, batch * pixels];
        for (unit, wide) in [(SUMS, rounded as fn(&[f32]) -> Vec<f64>), (FACTORS, wide)] {
            let [x, w, dy] = [x, w, dy].map(|numbers| wide(numbers));
            let bias: Vec<f64> = bias.iter().map(|&number| number.into()).collect();
            let right = [
                reference::forward(geometry, &x, &w, Some(&bias)),
                reference::input_gradient(geometry, &dy, &w),
                reference::weight_gradient(geometry, &x, &dy),
            ];
            for (pass, (given, right)) in first.iter().zip(&right).enumerate() {
                // Errors of factors add up as a random walk, those of sums at worst in full.
                let terms = most[pass] as f64;
                let size = if unit == SUMS { terms } else { terms.sqrt() };
                let what = format!("pass {pass} of {:?}", geometry.shape());
                assert_near(given, right, unit * size, &what);
            }
        }
        let bits = |all: &[Vec<f32>; 3]| {
            all.each_ref().map(|all| all.iter().map(|x| x.to_bits()).collect::<Vec<_>>())
        };
        for isa in Isa::BASES.into_iter().filter(|isa| isa.is_available()) {
            for threads in [1, 2, 5] {
                let again = self.run(isa, threads);
                assert!(bits(&again) == bits(&first), "{isa} {threads} {:?}", geometry.shape());
            }
        }
    }
}

#[test]
fn shapes_of_networks_are_right_with_the_same_bits_on_every_path_and_number_of_threads() {
    let base = |batch, channels, side: usize, kernel: usize| ConvShape {
        padding: [kernel / 2; 2],
        ..ConvShape::new(batch, channels, [side; 2], [kernel; 2])
    };
    for shape in [
        base(2, [16, 16], 32, 3),
        base(3, [33, 50], 8, 3),
        base(1, [64, 17], 7, 3),
        base(2, [40, 72], 9, 1),
        base(17, [3, 5], 5, 3),
        base(1, [2, 34], 13, 5),
        ConvShape { padding: [0, 2], ..ConvShape::new(2, [8, 4], [1, 50], [1, 5]) },
        ConvShape::new(1, [31, 1], [4, 3], [2, 2]),
        ConvShape::new(1, [1, 1], [1, 1], [1, 1]),
    ] {
        Case::new(shape).expect("a convolution of tiles").check();
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn any_shape_is_right(
        batch in 1_usize..5,
        channels in [1_usize..40, 1_usize..40],
        input in [1_usize..12, 1_usize..20],
        kernel in [1_usize..5, 1_usize..5],
        padding in [0_usize..4, 0_usize..4],
    ) {
        let shape = ConvShape { padding, ..ConvShape::new(batch, channels, input, kernel) };
        if let Some(case) = Case::new(shape) {
            case.check();
        }
    }
}

#[test]
fn what_is_not_finite_stays_so_in_every_result_that_it_belongs_to() {
    let shape = ConvShape { padding: [1, 1], ..ConvShape::new(1, [4, 3], [6, 6], [3, 3]) };
    let mut case = Case::new(shape).expect("a convolution of tiles");
    // The first pixel of the second channel.
    case.x[36] = f32::INFINITY;
    for isa in Isa::BASES.into_iter().filter(|isa| isa.is_available()) {
        let [y, dx, dw] = case.run(isa, 1);
        for (index, y) in y.iter().enumerate() {
            let (row, column) = (index % 36 / 6, index % 6);
            assert_eq!(y.is_finite(), row > 1 || column > 1, "{isa}: y[{index}] is {y}");
        }
        assert!(dx.iter().all(|dx| dx.is_finite()));
        // Every weight of the channel whose window sees the pixel, and none of other channels.
        for (index, dw) in dw.iter().enumerate() {
            let (channel, tap) = (index / 9 % 4, index % 9);
            if channel != 1 {
                assert!(dw.is_finite(), "{isa}: dw[{index}] is {dw}");
            } else if tap % 3 < 2 && tap < 6 {
                assert!(!dw.is_finite(), "{isa}: dw[{index}] is {dw}");
            }
        }
    }
}
