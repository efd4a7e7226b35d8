//! Every instruction set against the reference in f64, over random convolutions.

mod winograd;

use proptest::prelude::*;
use updraft_testing::{Numbers, relative_error, scattered_to};

use super::{BaseBranch, ConvAxis, ConvGeometry, conv_backward, conv_forward};
use crate::grid::{Grid, Outside};
use crate::kernels::reference::{self, Parameters};
use crate::kernels::{
    Activation, Gradients, Isa, LayerGeometry, Scratch, Weights, backward, forward,
};

/// The largest error allowed, relative to the largest value.
const CLOSE: f64 = 3e-6;

/// A convolution with its parameters, a batch and the gradients of its outputs.
#[derive(Debug, Clone)]
struct Case {
    geometry: ConvGeometry,
    shape: Vec<usize>,
    spline: Vec<f32>,
    base: Option<Vec<f32>>,
    scaler: Option<Vec<f32>>,
    bias: Option<Vec<f32>>,
    x: Vec<f32>,
    dy: Vec<f32>,
}

/// The results of a case: `y`, then the gradients of `x` and of the parameters.
type Results = [Vec<f32>; 6];

const NAMES: [&str; 6] = ["y", "dx", "d spline", "d base", "d scaler", "d bias"];

impl Case {
    fn weights(&self) -> Weights<'_> {
        Weights {
            spline: &self.spline,
            base: self.base.as_deref(),
            scaler: self.scaler.as_deref(),
            bias: self.bias.as_deref(),
        }
    }

    fn run(&self, isa: Isa, scratch: &mut Scratch, threads: usize) -> Results {
        let Self { geometry, shape, x, dy, .. } = self;
        let like = |slice: Option<&Vec<f32>>| vec![f32::NAN; slice.map_or(0, Vec::len)];
        let mut y = like(Some(dy));
        conv_forward(isa, geometry, self.weights(), x, shape, &mut y, scratch, threads).unwrap();
        let mut of_x = like(Some(x));
        let mut spline = like(Some(&self.spline));
        let [mut base, mut scaler, mut bias] =
            [&self.base, &self.scaler, &self.bias].map(|slice| like(slice.as_ref()));
        let gradients = Gradients {
            x: Some(&mut of_x),
            spline: Some(&mut spline),
            base: self.base.as_ref().map(|_| &mut base[..]),
            scaler: self.scaler.as_ref().map(|_| &mut scaler[..]),
            bias: self.bias.as_ref().map(|_| &mut bias[..]),
        };
        let weights = self.weights();
        conv_backward(isa, geometry, weights, x, shape, dy, gradients, scratch, threads).unwrap();
        [y, of_x, spline, base, scaler, bias]
    }

    fn expected(&self) -> [Vec<f64>; 6] {
        let optional =
            |slice: &Option<Vec<f32>>| slice.as_ref().map(Numbers::numbers).unwrap_or_default();
        let parameters = Parameters {
            spline: self.spline.numbers(),
            base: optional(&self.base),
            scaler: optional(&self.scaler),
            bias: optional(&self.bias),
        };
        let (x, dy) = (self.x.numbers(), self.dy.numbers());
        let y = reference::conv_forward(&self.geometry, &parameters, &x, &self.shape);
        let of = reference::conv_backward(&self.geometry, &parameters, &x, &self.shape, &dy);
        let Parameters { spline, base, scaler, bias } = of.parameters;
        [y, of.x, spline, base, scaler, bias]
    }
}

fn sets() -> impl Iterator<Item = Isa> {
    Isa::BASES.into_iter().filter(|isa| isa.is_available())
}

fn assert_close(case: &Case) {
    let expected = case.expected();
    // The slope of a spline changes by the square of the number of intervals, and the rounding of
    // its argument with it; the slope itself is proportional to that number.
    let of_slopes = (case.geometry.grid().intervals() as f64 / 5.0).max(1.0);
    for isa in sets() {
        let actual = case.run(isa, &mut Scratch::new(), 1);
        for ((name, actual), expected) in NAMES.iter().zip(&actual).zip(&expected) {
            let error = relative_error(actual, expected);
            let close = if *name == "dx" { CLOSE * of_slopes } else { CLOSE };
            assert!(error <= close, "{isa}: {name} differs by {error}");
        }
    }
}

fn geometry(
    grid: Grid,
    channels: [usize; 2],
    groups: usize,
    axes: &[ConvAxis],
    base_branch: BaseBranch,
) -> ConvGeometry {
    ConvGeometry::try_new(grid, channels, groups, axes, Activation::Silu, base_branch).unwrap()
}

fn case(
    geometry: ConvGeometry,
    batch: usize,
    shape: &[usize],
    parts: [bool; 3],
    seed: u32,
) -> Case {
    let edges = geometry.edges();
    let [base, scaler, bias] = parts;
    let pixels = shape.iter().product::<usize>();
    let output = geometry.output_shape(shape).unwrap().iter().product::<usize>();
    Case {
        shape: shape.to_vec(),
        spline: scattered_to(1.0, seed, edges * geometry.grid().bases()),
        base: base.then(|| scattered_to(1.0, seed + 1, edges)),
        scaler: scaler.then(|| scattered_to(2.0, seed + 2, edges)),
        bias: bias.then(|| scattered_to(1.0, seed + 3, geometry.out_channels())),
        x: scattered_to(1.6, seed + 4, batch * geometry.in_channels() * pixels),
        dy: scattered_to(1.0, seed + 5, batch * geometry.out_channels() * output),
        geometry,
    }
}

fn cubic() -> Grid {
    Grid::uniform(-1.0, 1.0, 5, 3).unwrap()
}

fn axes() -> impl Strategy<Value = Vec<(ConvAxis, usize)>> {
    let axis = (1_usize..4, 1_usize..4, 0_usize..3, 1_usize..4, 0_usize..6);
    let axis = axis.prop_map(|(kernel, stride, padding, dilation, more)| {
        let axis = ConvAxis { kernel, stride, padding, dilation };
        // The smallest image that the kernel fits into, and larger ones.
        let least = ((kernel - 1) * dilation + 1).saturating_sub(2 * padding).max(1);
        (axis, least + more)
    });
    prop::collection::vec(axis, 1..4)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn every_set_computes_the_convolution_and_its_gradients(
        axes in axes(),
        degree in prop_oneof![2_usize..4, Just(5_usize)],
        intervals in prop_oneof![1_usize..8, Just(20_usize)],
        outside in prop_oneof![Just(Outside::Zero), Just(Outside::Clamp), Just(Outside::Extend)],
        batch in 0_usize..3,
        groups in 1_usize..3,
        inputs in prop_oneof![1_usize..3, Just(9_usize)],
        outputs in prop_oneof![1_usize..6, Just(17_usize), Just(33_usize), Just(70_usize)],
        parts: [bool; 3],
        is_sum_first: bool,
        seed in 0_u32..1000,
    ) {
        let (axes, shape): (Vec<_>, Vec<_>) = axes.into_iter().unzip();
        let grid = Grid::uniform(-1.0, 1.0, intervals, degree).unwrap().with_outside(outside);
        let branch = match is_sum_first {
            true => BaseBranch::ActivationOfConv,
            false => BaseBranch::ConvOfActivation,
        };
        let geometry = geometry(grid, [groups * inputs, groups * outputs], groups, &axes, branch);
        assert_close(&case(geometry, batch, &shape, parts, seed));
    }
}

#[test]
fn splines_of_low_degree_are_exact_away_from_their_knots() {
    let axes = [ConvAxis { padding: 1, ..ConvAxis::new(3) }; 2];
    for degree in [0, 1] {
        let grid = Grid::uniform(-1.0, 1.0, 5, degree).unwrap();
        let geometry = geometry(grid, [2, 5], 1, &axes, BaseBranch::default());
        let mut case = case(geometry, 2, &[6, 5], [true; 3], 2);
        // At a knot the value or the slope has a jump; rounding may choose the other side.
        for x in &mut case.x {
            let place = (*x + 1.0) / 0.4;
            *x += if (place - place.round()).abs() < 0.01 { 0.02 } else { 0.0 };
        }
        assert_close(&case);
    }
}

#[test]
fn knots_of_each_channel_are_its_own() {
    let knots = vec![-2.0, -1.0, 0.0, 1.5, 2.0, 3.0, -1.5, -1.0, -0.5, 0.0, 0.5, 2.5];
    let grid = Grid::per_feature(2, knots, 1, 2).unwrap();
    let axes = [ConvAxis { padding: 1, ..ConvAxis::new(3) }; 2];
    let geometry = geometry(grid, [2, 5], 1, &axes, BaseBranch::default());
    assert_close(&case(geometry, 2, &[5, 4], [true; 3], 3));
}

#[test]
fn images_of_many_boxes_are_as_exact_as_small_ones() {
    let wide = [ConvAxis { padding: 2, ..ConvAxis::new(3) }; 2];
    let strided = [ConvAxis { stride: 3, padding: 1, ..ConvAxis::new(2) }; 2];
    for (axes, shape) in [(&wide[..], [61, 53]), (&strided, [70, 90]), (&wide[..1], [5000, 1])] {
        let geometry = geometry(cubic(), [2, 3], 1, axes, BaseBranch::default());
        assert_close(&case(geometry, 1, &shape[..axes.len()], [true, false, true], 5));
    }
}

#[test]
fn taps_that_see_more_than_a_box_holds_are_taken_one_by_one() {
    let axis = ConvAxis { kernel: 3, stride: 1, padding: 2600, dilation: 2600 };
    let geometry = geometry(cubic(), [2, 3], 1, &[axis], BaseBranch::default());
    let case = case(geometry, 1, &[50], [true; 3], 6);
    assert_close(&case);
}

#[test]
fn kernels_of_many_taps_fit_no_panel_and_are_exact() {
    let axes = [ConvAxis { padding: 3, ..ConvAxis::new(7) }; 2];
    let geometry = geometry(cubic(), [2, 65], 1, &axes, BaseBranch::default());
    assert_close(&case(geometry, 1, &[6, 5], [true; 3], 7));
}

/// The patches of an image, `[pixels, channels·taps]`, the input of a linear layer.
fn unfolded(case: &Case) -> Vec<f32> {
    let Case { geometry, shape, x, .. } = case;
    let output = geometry.output_shape(shape).unwrap();
    let channels = geometry.in_channels();
    let mut rows = Vec::new();
    for image in x.chunks_exact(channels * shape[0] * shape[1]) {
        for place in 0..output[0] * output[1] {
            for channel in 0..channels {
                for k in 0..geometry.taps() {
                    let [vertical, horizontal] = [geometry.axes[1], geometry.axes[2]];
                    let (ky, kx) = (k / horizontal.kernel, k % horizontal.kernel);
                    let y = place / output[1] * vertical.stride + ky * vertical.dilation;
                    let x = place % output[1] * horizontal.stride + kx * horizontal.dilation;
                    let y = y.checked_sub(vertical.padding).filter(|&y| y < shape[0]);
                    let x = x.checked_sub(horizontal.padding).filter(|&x| x < shape[1]);
                    rows.push(
                        y.zip(x)
                            .map_or(0.0, |(y, x)| image[(channel * shape[0] + y) * shape[1] + x]),
                    );
                }
            }
        }
    }
    rows
}

#[test]
fn a_convolution_is_a_linear_layer_of_the_patches() {
    let axes = [ConvAxis { kernel: 3, stride: 2, padding: 1, dilation: 1 }; 2];
    let geometry = geometry(cubic(), [5, 20], 1, &axes, BaseBranch::default());
    let case = case(geometry, 2, &[9, 8], [true; 3], 8);
    let outputs = case.geometry.out_channels();
    let layer = LayerGeometry::try_new(cubic(), 5 * 9, outputs, Activation::Silu).unwrap();
    let rows = unfolded(&case);
    let pixels = rows.len() / (2 * 5 * 9);
    // `[batch, channels, pixels]` and `[batch·pixels, channels]`.
    let by_rows = |numbers: &[f32]| {
        let images = numbers.chunks_exact(outputs * pixels);
        let rows = images.flat_map(|image| {
            (0..pixels).flat_map(move |p| (0..outputs).map(move |o| image[o * pixels + p]))
        });
        rows.collect::<Vec<f32>>()
    };
    for isa in sets() {
        let [y, _, spline, base, scaler, bias] = case.run(isa, &mut Scratch::new(), 1);
        let (mut expected, mut scratch) = (vec![0.0; y.len()], Scratch::new());
        forward(isa, &layer, case.weights(), &rows, &mut expected, &mut scratch, 1).unwrap();
        let mut of = [spline.clone(), base.clone(), scaler.clone(), bias.clone()];
        let [of_spline, of_base, of_scaler, of_bias] = &mut of;
        let gradients = Gradients {
            x: None,
            spline: Some(of_spline),
            base: Some(of_base),
            scaler: Some(of_scaler),
            bias: Some(of_bias),
        };
        let dy = by_rows(&case.dy);
        backward(isa, &layer, case.weights(), &rows, &dy, gradients, &mut scratch, 1).unwrap();
        assert!(relative_error(&by_rows(&y), &expected) <= 1e-5);
        for (actual, expected) in [spline, base, scaler, bias].iter().zip(&of) {
            assert!(relative_error(actual, expected) <= 1e-5);
        }
    }
}

#[test]
fn the_number_of_threads_and_the_scratch_change_no_bit() {
    let axes = [ConvAxis { padding: 1, ..ConvAxis::new(3) }; 2];
    for (channels, groups, batch, shape) in
        [([3, 20], 1, 3, [40, 41]), ([20, 6], 2, 2, [7, 8]), ([1, 1], 1, 1, [3, 3])]
    {
        for branch in [BaseBranch::ConvOfActivation, BaseBranch::ActivationOfConv] {
            let geometry = geometry(cubic(), channels, groups, &axes, branch);
            let case = case(geometry, batch, &shape, [true; 3], 4);
            for isa in sets() {
                let mut scratch = Scratch::new();
                let once = case.run(isa, &mut scratch, 1);
                for threads in [2, 3, 8] {
                    let again = case.run(isa, &mut scratch, threads);
                    for (once, again) in once.iter().flatten().zip(again.iter().flatten()) {
                        assert_eq!(once.to_bits(), again.to_bits(), "{isa}, {threads} threads");
                    }
                }
            }
        }
    }
}

#[test]
fn nan_and_infinity_reach_what_sees_them() {
    let axes = [ConvAxis { padding: 1, ..ConvAxis::new(3) }; 2];
    for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        let geometry = geometry(cubic(), [2, 18], 1, &axes, BaseBranch::default());
        let mut case = case(geometry, 1, &[6, 7], [false, true, true], 9);
        // Pixel (2, 3) of channel 1.
        case.x[42 + 2 * 7 + 3] = bad;
        let [y, dx, ..] = case.expected();
        for isa in sets() {
            let [own_y, own_dx, spline, ..] = case.run(isa, &mut Scratch::new(), 1);
            assert!(
                relative_error(&own_y, &y) <= CLOSE && relative_error(&own_dx, &dx) <= CLOSE,
                "{isa}"
            );
            // At infinity no basis is non-zero; NaN propagates to all bases of its channel.
            let nans = spline.iter().map(|x| x.is_nan());
            let is_seen = |at: usize| bad.is_nan() && at >= spline.len() / 2;
            assert!(nans.enumerate().all(|(at, is_nan)| is_nan == is_seen(at)), "{isa}");
        }
    }
}

#[test]
fn only_the_gradients_asked_for_are_computed() {
    let axes = [ConvAxis { padding: 1, ..ConvAxis::new(3) }];
    for branch in [BaseBranch::ConvOfActivation, BaseBranch::ActivationOfConv] {
        let geometry = geometry(cubic(), [2, 3], 1, &axes, branch);
        let case = case(geometry, 2, &[9], [true; 3], 8);
        let isa = Isa::detect().base();
        let [_, of_x, _, base, ..] = case.run(isa, &mut Scratch::new(), 1);
        let mut lone = [vec![0.0; of_x.len()], vec![0.0; base.len()]];
        let [x, b] = &mut lone;
        for gradients in [
            Gradients { x: Some(x), ..Gradients::default() },
            Gradients { base: Some(b), ..Gradients::default() },
            Gradients::default(),
        ] {
            let (x, dy, mut scratch) = (&case.x, &case.dy, Scratch::new());
            conv_backward(
                isa,
                &case.geometry,
                case.weights(),
                x,
                &[9],
                dy,
                gradients,
                &mut scratch,
                1,
            )
            .unwrap();
        }
        assert_eq!(lone, [of_x, base]);
    }
}
