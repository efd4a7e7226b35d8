//! The three passes of a convolution against the reference, by every algorithm.

use proptest::prelude::*;
use updraft_simd::Cut;
use updraft_testing::scattered;

use super::{
    Activation, Algorithm, ConvGeometry, ConvShape, Isa, Scratch, forward, forward_into,
    input_gradient, reference, weight_gradient,
};

/// What is chosen among the algorithms that compute every product, and every algorithm that applies.
fn cases(shape: ConvShape) -> impl Iterator<Item = Case> {
    let algorithms = std::iter::once(None).chain(Algorithm::ALL.map(Some));
    algorithms.filter_map(move |algorithm| Case::new(shape, algorithm))
}

fn wide(values: &[f32]) -> Vec<f64> {
    values.iter().map(|&value| value.into()).collect()
}

/// The error relative to the largest possible sum: see [`reach`].
const DIRECT: f64 = 4e-7;

/// Points up to 3/2 to the third power are between the numbers and the sums.
const WINOGRAD: f64 = 4e-6;

/// The largest possible sum of products: the largest number times the largest sum of the sizes of
/// the factors of one result. Rounding errors grow with it, also where terms cancel.
fn reach(numbers: &[f64], factors: &[f64]) -> f64 {
    let largest = |values: &[f64]| values.iter().fold(0.0_f64, |most, value| most.max(value.abs()));
    largest(numbers) * largest(factors)
}

/// The sum of the sizes of each channel's values.
fn sizes(values: &[f64], channels: usize, channel: impl Fn(usize) -> usize) -> Vec<f64> {
    let mut sums = vec![0.0; channels];
    for (at, value) in values.iter().enumerate() {
        sums[channel(at)] += value.abs();
    }
    sums
}

fn assert_near(given: &[f32], right: &[f64], tolerance: f64, what: &str) {
    assert_eq!(given.len(), right.len());
    for (index, (&given, right)) in given.iter().zip(right).enumerate() {
        let error = (f64::from(given) - right).abs();
        assert!(error <= tolerance, "{what}[{index}]: {given} is not {right} ± {tolerance:e}");
    }
}

fn sets() -> impl Iterator<Item = Isa> {
    Isa::BASES.into_iter().filter(|isa| isa.is_available())
}

struct Case {
    geometry: ConvGeometry,
    x: Vec<f32>,
    w: Vec<f32>,
    dy: Vec<f32>,
    bias: Vec<f32>,
}

impl Case {
    /// `None` where the shape is no convolution, or the algorithm does not apply; without one,
    /// every product is computed by the chosen algorithm.
    fn new(shape: ConvShape, algorithm: Option<Algorithm>) -> Option<Self> {
        let geometry = ConvGeometry::try_new(shape).ok()?;
        let geometry = match algorithm {
            Some(algorithm) => geometry.with_algorithm(algorithm).ok()?,
            None => geometry.with_every_product(),
        };
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
        let (shared, mut own) = scratch.split(1 << 18, threads, 1 << 18);
        shared.fill(f32::NAN);
        own.iter_mut().for_each(|own| own.fill(f32::NAN));
        let s = &mut scratch;
        let mut y = vec![f32::NAN; geometry.output_len()];
        forward(isa, geometry, x, w, Some(bias), &mut y, s, threads);
        let mut dx = vec![f32::NAN; geometry.input_len()];
        input_gradient(isa, geometry, dy, w, &mut dx, s, threads);
        let mut dw = vec![f32::NAN; geometry.weight_len()];
        weight_gradient(isa, geometry, x, dy, &mut dw, s, threads);
        [y, dx, dw]
    }

    fn check(&self, isa: Isa) {
        let Self { geometry, x, w, dy, bias } = self;
        let [x, w, dy, bias] = [x, w, dy, bias].map(|values| wide(values));
        let [y, dx, dw] = self.run(isa, 1);
        let context = format!("{isa} {:?} {:?}", geometry.forced(), geometry.shape());
        let unit = match geometry.forced() {
            Some(Algorithm::Winograd) => WINOGRAD,
            _ => DIRECT,
        };
        let ConvShape { channels: [inputs, outputs], groups, kernel, .. } = *geometry.shape();
        let taps = kernel[0] * kernel[1];
        let of_group = [inputs / groups, outputs / groups];
        let plane = dy.len() / geometry.shape().batch / outputs;
        let output_weights = sizes(&w, outputs, |at| at / (of_group[0] * taps));
        let input_weights =
            sizes(&w, inputs, |at| at / taps % of_group[0] + at / (w.len() / groups) * of_group[0]);
        let gradients = sizes(&dy, outputs, |at| at / plane % outputs);
        let right = reference::forward(geometry, &x, &w, Some(&bias));
        let tolerance = unit * (reach(&x, &output_weights) + reach(&bias, &[1.0]));
        assert_near(&y, &right, tolerance, &format!("y of {context}"));
        let right = reference::input_gradient(geometry, &dy, &w);
        let tolerance = unit * reach(&dy, &input_weights);
        assert_near(&dx, &right, tolerance, &format!("dx of {context}"));
        let right = reference::weight_gradient(geometry, &x, &dy);
        let tolerance = unit * reach(&x, &gradients);
        assert_near(&dw, &right, tolerance, &format!("dw of {context}"));
    }
}

#[test]
fn shapes_of_real_networks_are_right() {
    let base = |batch, channels, side, kernel| {
        ConvShape::new(batch, channels, [side, side], [kernel, kernel])
    };
    for shape in [
        ConvShape { padding: [1, 1], ..base(2, [3, 16], 32, 3) },
        ConvShape { padding: [1, 1], stride: [2, 2], ..base(3, [16, 32], 16, 3) },
        ConvShape { padding: [1, 1], ..base(2, [32, 32], 8, 3) },
        ConvShape { stride: [2, 2], ..base(2, [16, 32], 16, 1) },
        base(2, [32, 16], 16, 1),
        // More taps than one part of a sum has, and rows that end within a vector.
        ConvShape { padding: [1, 1], ..base(1, [33, 27], 27, 3) },
        ConvShape { padding: [2, 2], ..base(1, [8, 40], 13, 5) },
        ConvShape { padding: [3, 3], stride: [2, 2], ..base(1, [3, 24], 21, 7) },
        ConvShape { padding: [1, 1], groups: 12, ..base(2, [12, 12], 9, 3) },
        ConvShape { padding: [1, 1], groups: 5, ..base(3, [5, 10], 37, 3) },
        ConvShape { padding: [2, 2], dilation: [2, 2], groups: 2, ..base(2, [8, 36], 11, 3) },
        ConvShape { padding: [0, 2], ..ConvShape::new(5, [4, 8], [1, 50], [1, 5]) },
    ] {
        assert_ne!(cases(shape).count(), 0, "{shape:?} is a convolution");
        for case in cases(shape) {
            sets().for_each(|isa| case.check(isa));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn any_geometry_is_right(
        batch in 1_usize..4,
        inputs in 1_usize..6,
        outputs in 1_usize..6,
        groups in prop::sample::select(vec![1_usize, 1, 1, 2, 3, 11]),
        input in [1_usize..14, 1_usize..38],
        kernel in [1_usize..5, 1_usize..5],
        stride in [1_usize..4, 1_usize..6],
        padding in [0_usize..4, 0_usize..5],
        dilation in [1_usize..3, 1_usize..4],
    ) {
        let channels = [inputs * groups, outputs * groups];
        let shape =
            ConvShape { batch, channels, groups, input, kernel, stride, padding, dilation };
        for case in cases(shape) {
            sets().for_each(|isa| case.check(isa));
        }
    }

    #[test]
    fn any_geometry_by_depth_is_right(
        batch in 1_usize..4,
        groups in prop::sample::select(vec![6_usize, 7, 8, 14, 16, 29]),
        input in [1_usize..14, 1_usize..20],
        kernel in [1_usize..5, 1_usize..5],
        stride in [1_usize..4, 1_usize..6],
        padding in [0_usize..4, 0_usize..5],
        dilation in [1_usize..3, 1_usize..4],
    ) {
        let channels = [groups; 2];
        let shape = ConvShape { batch, channels, groups, input, kernel, stride, padding, dilation };
        for case in cases(shape) {
            sets().for_each(|isa| case.check(isa));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

    #[test]
    fn any_plane_by_depth_is_right(
        batch in 1_usize..4,
        groups in 1_usize..20,
        input in [1_usize..14, 1_usize..50],
        padding in [0_usize..5, 0_usize..5],
    ) {
        let shape =
            ConvShape { groups, padding, ..ConvShape::new(batch, [groups; 2], input, [3, 3]) };
        for case in cases(shape) {
            sets().for_each(|isa| case.check(isa));
        }
    }

    #[test]
    fn any_kernel_of_one_pixel_is_right(
        batch in 1_usize..4,
        // Also more than one part of a sum has.
        inputs in prop::sample::select(vec![1_usize, 2, 11, 12, 13, 40, 150]),
        outputs in prop::sample::select(vec![1_usize, 3, 7, 8, 12, 15, 17, 23, 145]),
        input in [1_usize..5, 1_usize..40],
        kernel in [1_usize..3, 1_usize..2],
    ) {
        let shape = ConvShape::new(batch, [inputs, outputs], input, kernel);
        for case in cases(shape) {
            sets().for_each(|isa| case.check(isa));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn any_image_is_right_by_winograd(
        batch in 1_usize..4,
        inputs in 1_usize..20,
        outputs in 1_usize..36,
        groups in prop::sample::select(vec![1_usize, 1, 1, 2, 3]),
        input in [1_usize..18, 1_usize..40],
        padding in [0_usize..5, 0_usize..5],
    ) {
        let channels = [inputs * groups, outputs * groups];
        let shape =
            ConvShape { groups, padding, ..ConvShape::new(batch, channels, input, [3, 3]) };
        if let Some(case) = Case::new(shape, Some(Algorithm::Winograd)) {
            sets().for_each(|isa| case.check(isa));
        }
    }
}

#[test]
fn a_large_batch_is_right_and_the_number_of_threads_changes_no_bit() {
    let shape = ConvShape { padding: [1, 1], ..ConvShape::new(37, [5, 18], [9, 16], [3, 3]) };
    let strided = ConvShape { stride: [1, 2], ..shape };
    let by_depth = ConvShape { channels: [29, 29], groups: 29, ..strided };
    let by_plane = ConvShape { stride: [1, 1], ..by_depth };
    let point = ConvShape { kernel: [1, 1], padding: [0, 0], ..shape };
    for (shape, algorithm) in [
        (shape, None),
        (strided, None),
        (by_depth, None),
        (by_plane, None),
        (point, None),
        (shape, Some(Algorithm::Winograd)),
    ] {
        let case = Case::new(shape, algorithm).expect("valid");
        for isa in sets() {
            // Several samples of this batch are one sum.
            case.check(isa);
            let alone = case.run(isa, 1);
            for threads in [2, 3, 8] {
                let given = case.run(isa, threads);
                assert_eq!(alone, given, "{isa} {algorithm:?} with {threads} threads");
            }
        }
    }
}

#[test]
fn sums_over_many_pixels_keep_their_digits() {
    let shape = ConvShape { padding: [1, 1], ..ConvShape::new(40, [8, 8], [48, 48], [3, 3]) };
    for (shape, algorithm) in [
        (ConvShape { groups: 8, ..shape }, None),
        (ConvShape { channels: [3, 2], ..shape }, None),
        (ConvShape { channels: [3, 9], ..shape }, None),
        (shape, Some(Algorithm::Winograd)),
    ] {
        let mut case = Case::new(shape, algorithm).expect("valid");
        // Terms of one sign, as after a rectifier: a long chain of additions rounds each of them.
        for values in [&mut case.x, &mut case.dy] {
            values.iter_mut().for_each(|value| *value = value.abs());
        }
        sets().for_each(|isa| case.check(isa));
    }
}

#[test]
fn what_is_not_finite_reaches_all_that_it_meets_and_nothing_else() {
    let shape = ConvShape { padding: [1, 1], ..ConvShape::new(2, [3, 17], [6, 21], [3, 3]) };
    let by_depth = ConvShape { channels: [14, 14], groups: 14, ..shape };
    for (poison, shape, algorithm) in [
        (f32::NAN, shape, None),
        (f32::INFINITY, shape, None),
        (f32::NAN, by_depth, None),
        (f32::INFINITY, by_depth, None),
        (f32::NAN, shape, Some(Algorithm::Winograd)),
        (f32::INFINITY, shape, Some(Algorithm::Winograd)),
    ] {
        let mut case = Case::new(shape, algorithm).expect("valid");
        case.x[2 * 126 + 3 * 21 + 7] = poison;
        // In the last row and column, where tiles reach over the image.
        case.x[4 * 126 + 5 * 21 + 20] = poison;
        case.dy[5 * 126 + 2 * 21 + 20] = poison;
        for isa in sets() {
            let [y, dx, dw] = case.run(isa, 1);
            let [x, w, dy, bias] =
                [&case.x, &case.w, &case.dy, &case.bias].map(|values| wide(values));
            let finite = |values: &[f64]| -> Vec<bool> {
                values.iter().map(|value| value.is_finite()).collect()
            };
            let geometry = &case.geometry;
            let right = reference::forward(geometry, &x, &w, Some(&bias));
            assert_eq!(finite(&wide(&y)), finite(&right), "{isa} {algorithm:?} y");
            let right = reference::input_gradient(geometry, &dy, &w);
            assert_eq!(finite(&wide(&dx)), finite(&right), "{isa} {algorithm:?} dx");
            // A zero of the padding is multiplied by the NaN gradient in the fast sums.
            let right = reference::weight_gradient(geometry, &x, &dy);
            for (given, right) in dw.iter().zip(&right) {
                assert!(right.is_finite() || !given.is_finite(), "{isa} {algorithm:?} dw");
            }
        }
    }
}

#[test]
fn what_leaves_the_range_between_winograds_sums_is_computed_directly() {
    let shape = ConvShape { padding: [1, 1], ..ConvShape::new(3, [16, 16], [9, 10], [3, 3]) };
    let [direct, winograd] = [None, Some(Algorithm::Winograd)].map(|algorithm| {
        let mut case = Case::new(shape, algorithm).expect("valid");
        let image = case.x.len() / 3;
        // Results of the second sample stay below the largest f32, sums of its neighbours do not.
        case.x[image..2 * image].iter_mut().for_each(|x| *x = f32::MAX * x.signum());
        case.dy[image..2 * image].iter_mut().for_each(|dy| *dy *= 1e-3);
        case.w.iter_mut().for_each(|w| *w *= 1e-3);
        case
    });
    for isa in sets() {
        let ([y, _, dw], [right_y, _, right_dw]) = (direct.run(isa, 1), winograd.run(isa, 1));
        assert!(right_y.iter().all(|y| y.is_finite()), "{isa}");
        let sample = y.len() / 3;
        assert_eq!(y[sample..2 * sample], right_y[sample..2 * sample], "{isa}");
        assert_ne!(y[..sample], right_y[..sample], "{isa}: the others are not computed directly");
        assert!(dw.iter().zip(&right_dw).all(|(a, b)| a.is_finite() == b.is_finite()), "{isa}");
    }
}

#[test]
fn an_activation_follows_the_sums_of_both_algorithms() {
    let shape = ConvShape { padding: [1, 1], ..ConvShape::new(2, [16, 17], [7, 12], [3, 3]) };
    for algorithm in [None, Some(Algorithm::Winograd)] {
        let Case { geometry, x, w, bias, .. } = Case::new(shape, algorithm).expect("valid");
        for isa in sets() {
            let (mut plain, mut given) = (vec![0.0; geometry.output_len()], Vec::new());
            given.resize(plain.len(), f32::NAN);
            let s = &mut Scratch::new();
            forward(isa, &geometry, &x, &w, Some(&bias), &mut plain, s, 1);
            let relu = Activation::Relu;
            let to = Cut::new(&mut given, plain.len() / 2);
            forward_into(isa, &geometry, &x, &w, Some(&bias), relu, to, s, 1);
            let right: Vec<f32> = plain.iter().map(|&y| if y <= 0.0 { 0.0 } else { y }).collect();
            assert_eq!(given, right, "{isa} {algorithm:?}");
        }
    }
}

#[test]
#[should_panic(expected = "numbers of the input")]
fn a_slice_of_another_length_is_refused() {
    let case = Case::new(ConvShape::new(1, [1, 1], [4, 4], [3, 3]), None).expect("valid");
    let mut y = vec![0.0; 4];
    let x = &case.x[1..];
    let geometry = &case.geometry;
    forward(Isa::Portable, geometry, x, &case.w, None, &mut y, &mut Scratch::new(), 1);
}
