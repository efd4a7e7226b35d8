//! The passes of a convolution of volumes against the reference, by every algorithm.

use proptest::prelude::*;
use updraft_testing::scattered;

use super::{forward_3d, input_gradient_3d, weight_gradient_3d};
use crate::kernels::geometry::{Conv3dGeometry, Conv3dShape};
use crate::kernels::strategy::{Algorithm, Pass, strategy};
use crate::kernels::{Activation, Isa, Scratch, reference};

const ALGORITHMS: [Algorithm; 3] =
    [Algorithm::DirectByChannel, Algorithm::DirectByPixel, Algorithm::Winograd];

fn wide(values: &[f32]) -> Vec<f64> {
    values.iter().map(|&value| value.into()).collect()
}

fn sets() -> impl Iterator<Item = Isa> {
    Isa::BASES.into_iter().filter(|isa| isa.is_available())
}

fn largest(values: &[f64]) -> f64 {
    values.iter().fold(0.0, |most, value| most.max(value.abs()))
}

/// Errors relative to the largest number times the sum of the sizes of the factors of a result.
fn assert_near(given: &[f32], right: &[f64], reach: f64, algorithm: Option<Algorithm>, what: &str) {
    assert_eq!(given.len(), right.len(), "{what}");
    let unit = if algorithm == Some(Algorithm::Winograd) { 4e-6 } else { 4e-7 };
    for (index, (&given, right)) in given.iter().zip(right).enumerate() {
        let error = (f64::from(given) - right).abs();
        assert!(
            error <= unit * reach,
            "{what}[{index}]: {given} is not {right} ± {:e}",
            unit * reach
        );
    }
}

struct Case {
    geometry: Conv3dGeometry,
    algorithm: Option<Algorithm>,
    x: Vec<f32>,
    w: Vec<f32>,
    dy: Vec<f32>,
    bias: Vec<f32>,
}

impl Case {
    fn new(shape: Conv3dShape, algorithm: Option<Algorithm>) -> Option<Self> {
        let geometry = Conv3dGeometry::try_new(shape).ok()?;
        let geometry = match algorithm {
            Some(algorithm) => geometry.with_algorithm(algorithm).ok()?,
            None => geometry,
        };
        let any = |pass| strategy(Isa::Portable, &geometry, pass).algorithm;
        let algorithm = algorithm
            .or(Pass::ALL.map(any).contains(&Algorithm::Winograd).then_some(Algorithm::Winograd));
        Some(Self {
            geometry,
            algorithm,
            x: scattered(1, geometry.input_len()),
            w: scattered(2, geometry.weight_len()),
            dy: scattered(3, geometry.output_len()),
            bias: scattered(4, shape.channels[1]),
        })
    }

    fn run(&self, isa: Isa, threads: usize) -> [Vec<f32>; 3] {
        let Self { geometry, x, w, dy, bias, .. } = self;
        // The contents of the scratch must not change the result.
        let mut scratch = Scratch::new();
        let (shared, mut own) = scratch.split(1 << 18, threads, 1 << 18);
        shared.fill(f32::NAN);
        own.iter_mut().for_each(|own| own.fill(f32::NAN));
        let s = &mut scratch;
        let mut y = vec![f32::NAN; geometry.output_len()];
        let none = Activation::Identity;
        forward_3d(isa, geometry, x, w, Some(bias), none, &mut y, s, threads);
        let mut dx = vec![f32::NAN; geometry.input_len()];
        input_gradient_3d(isa, geometry, dy, w, None, &mut dx, s, threads);
        let mut dw = vec![f32::NAN; geometry.weight_len()];
        weight_gradient_3d(isa, geometry, x, dy, &mut dw, s, threads);
        [y, dx, dw]
    }

    fn check(&self, isa: Isa) {
        let Self { geometry, algorithm, .. } = self;
        let [x, w, dy, bias] = [&self.x, &self.w, &self.dy, &self.bias].map(|values| wide(values));
        let [y, dx, dw] = self.run(isa, 1);
        let context = format!("{isa} {algorithm:?} {:?}", geometry.shape());
        let taps = geometry.shape().kernel.iter().product::<usize>() as f64;
        let [inputs, outputs] =
            geometry.shape().channels.map(|channels| (channels / geometry.shape().groups) as f64);
        let voxels = (geometry.shape().batch * geometry.output().iter().product::<usize>()) as f64;
        // Numbers are at most 1: the reach of a result is its number of products.
        let reach = |of: &[f64], with: &[f64]| largest(of) * largest(with);
        let right = reference::forward_3d(geometry, &x, &w, Some(&bias));
        let meet = reach(&x, &w) * taps * inputs + largest(&bias);
        assert_near(&y, &right, meet, *algorithm, &format!("y of {context}"));
        let right = reference::input_gradient_3d(geometry, &dy, &w);
        let meet = reach(&dy, &w) * taps * outputs;
        assert_near(&dx, &right, meet, *algorithm, &format!("dx of {context}"));
        let right = reference::weight_gradient_3d(geometry, &x, &dy);
        assert_near(&dw, &right, reach(&x, &dy) * voxels, *algorithm, &format!("dw of {context}"));
    }
}

fn cases(shape: Conv3dShape) -> impl Iterator<Item = Case> {
    let algorithms = std::iter::once(None).chain(ALGORITHMS.map(Some));
    algorithms.filter_map(move |algorithm| Case::new(shape, algorithm))
}

fn check_all(shape: Conv3dShape) -> usize {
    let mut count = 0;
    for case in cases(shape) {
        sets().for_each(|isa| case.check(isa));
        count += 1;
    }
    count
}

#[test]
fn shapes_of_real_networks_are_right() {
    let base = |batch, channels, side: usize, kernel: usize| Conv3dShape {
        padding: [kernel / 2; 3],
        ..Conv3dShape::new(batch, channels, [side; 3], [kernel; 3])
    };
    for shape in [
        base(2, [1, 16], 16, 3),
        base(1, [16, 16], 18, 3),
        base(1, [17, 33], 9, 3),
        Conv3dShape { stride: [2; 3], ..base(2, [8, 20], 12, 3) },
        Conv3dShape { padding: [0; 3], stride: [2; 3], ..base(1, [20, 16], 8, 2) },
        base(2, [16, 3], 7, 1),
        Conv3dShape { padding: [0, 1, 1], ..Conv3dShape::new(1, [16, 16], [5, 12, 20], [1, 3, 3]) },
        Conv3dShape { stride: [2, 1, 1], ..base(1, [16, 16], 12, 3) },
        Conv3dShape { dilation: [2, 1, 1], padding: [2, 1, 1], ..base(1, [16, 18], 12, 3) },
        Conv3dShape { groups: 2, ..base(2, [32, 32], 8, 3) },
        Conv3dShape { dilation: [2; 3], padding: [2; 3], groups: 2, ..base(1, [4, 6], 9, 3) },
        base(1, [2, 3], 21, 5),
    ] {
        assert_ne!(check_all(shape), 0, "{shape:?} is a convolution");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

    #[test]
    fn any_geometry_is_right(
        batch in 1_usize..4,
        inputs in 1_usize..5,
        outputs in 1_usize..5,
        groups in prop::sample::select(vec![1_usize, 1, 2, 5]),
        input in [1_usize..7, 1_usize..8, 1_usize..20],
        kernel in [1_usize..4, 1_usize..4, 1_usize..4],
        stride in [1_usize..4, 1_usize..3, 1_usize..4],
        padding in [0_usize..3, 0_usize..3, 0_usize..4],
        dilation in [1_usize..3, 1_usize..3, 1_usize..3],
    ) {
        let channels = [inputs * groups, outputs * groups];
        check_all(Conv3dShape { batch, channels, groups, input, kernel, stride, padding, dilation });
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn any_volume_is_right_by_winograd(
        batch in 1_usize..3,
        inputs in 1_usize..20,
        outputs in 1_usize..36,
        groups in prop::sample::select(vec![1_usize, 1, 2]),
        input in [1_usize..7, 1_usize..10, 1_usize..14],
        depth in [1_usize..4, 1_usize..3, 0_usize..3, 1_usize..3],
        padding in [0_usize..4, 0_usize..4],
    ) {
        let [kernel, stride, before, dilation] = depth;
        let shape = Conv3dShape {
            groups,
            stride: [stride, 1, 1],
            dilation: [dilation, 1, 1],
            padding: [before, padding[0], padding[1]],
            ..Conv3dShape::new(batch, [inputs * groups, outputs * groups], input, [kernel, 3, 3])
        };
        if let Some(case) = Case::new(shape, Some(Algorithm::Winograd)) {
            sets().for_each(|isa| case.check(isa));
        }
    }
}

#[test]
fn the_number_of_threads_changes_no_bit() {
    let shape = |batch, channels, side| Conv3dShape {
        padding: [1; 3],
        ..Conv3dShape::new(batch, channels, [side, 7, 18], [3; 3])
    };
    for (shape, algorithm) in [
        (shape(3, [5, 18], 9), None),
        (shape(1, [3, 4], 11), Some(Algorithm::DirectByPixel)),
        (shape(1, [16, 16], 13), Some(Algorithm::Winograd)),
        (Conv3dShape { stride: [2; 3], ..shape(1, [4, 5], 9) }, None),
    ] {
        let case = Case::new(shape, algorithm).expect("valid");
        for isa in sets() {
            let alone = case.run(isa, 1);
            for threads in [2, 3, 8] {
                assert_eq!(alone, case.run(isa, threads), "{isa} {algorithm:?}, {threads} threads");
            }
        }
    }
}

#[test]
fn what_is_not_finite_reaches_all_that_it_meets_and_nothing_else() {
    let shape = Conv3dShape { padding: [1; 3], ..Conv3dShape::new(2, [3, 17], [5, 6, 21], [3; 3]) };
    for algorithm in ALGORITHMS {
        for poison in [f32::NAN, f32::INFINITY] {
            let mut case = Case::new(shape, Some(algorithm)).expect("valid");
            case.x[2 * 630 + 3 * 126 + 2 * 21 + 7] = poison;
            case.x[4 * 630 + 4 * 126 + 5 * 21 + 20] = poison;
            case.dy[5 * 630 + 126 + 2 * 21 + 20] = poison;
            for isa in sets() {
                let [y, dx, dw] = case.run(isa, 1);
                let [x, w, dy, bias] =
                    [&case.x, &case.w, &case.dy, &case.bias].map(|values| wide(values));
                let finite = |values: &[f64]| -> Vec<bool> {
                    values.iter().map(|value| value.is_finite()).collect()
                };
                let right = reference::forward_3d(&case.geometry, &x, &w, Some(&bias));
                assert_eq!(finite(&wide(&y)), finite(&right), "{isa} {algorithm:?} y");
                let right = reference::input_gradient_3d(&case.geometry, &dy, &w);
                assert_eq!(finite(&wide(&dx)), finite(&right), "{isa} {algorithm:?} dx");
                // A zero of the padding is multiplied by the NaN gradient in the fast sums.
                let right = reference::weight_gradient_3d(&case.geometry, &x, &dy);
                for (given, right) in dw.iter().zip(&right) {
                    assert!(right.is_finite() || !given.is_finite(), "{isa} {algorithm:?} dw");
                }
            }
        }
    }
}

#[test]
fn an_empty_batch_has_no_results_and_no_gradient() {
    let shape = Conv3dShape::new(0, [2, 3], [4; 3], [3; 3]);
    let case = Case::new(shape, None).expect("valid");
    let [y, dx, dw] = case.run(Isa::detect(), 2);
    assert_eq!((y, dx, dw), (Vec::new(), Vec::new(), vec![0.0; 3 * 2 * 27]));
}

#[test]
fn a_bias_of_the_inputs_gradient_is_added_to_every_voxel() {
    let shape = Conv3dShape { stride: [2; 3], ..Conv3dShape::new(1, [3, 4], [6; 3], [2; 3]) };
    let case = Case::new(shape, None).expect("valid");
    let bias = [0.5, -1.0, 2.0];
    for isa in sets() {
        let mut dx = vec![f32::NAN; case.geometry.input_len()];
        let s = &mut Scratch::new();
        input_gradient_3d(isa, &case.geometry, &case.dy, &case.w, Some(&bias), &mut dx, s, 1);
        let [w, dy] = [&case.w, &case.dy].map(|values| wide(values));
        let mut right = reference::input_gradient_3d(&case.geometry, &dy, &w);
        for (at, right) in right.iter_mut().enumerate() {
            *right += f64::from(bias[at / 216]);
        }
        assert_near(&dx, &right, 40.0, None, "transposed");
    }
}
