//! Every instruction set against the reference in f64, over random layers.

use proptest::prelude::*;
use updraft_testing::{Numbers, relative_error, scattered_to};

use super::reference::{self, Parameters};
use super::{
    Activation, Gradients, Isa, LayerGeometry, PackedLayer, Scratch, Weights, backward, forward,
};
use crate::grid::{Grid, MAX_DEGREE, Outside};

/// The largest error allowed, relative to the largest value: sums of a thousand terms in f32.
const CLOSE: f64 = 2e-6;

/// A layer with its parameters, a batch and the gradients of its outputs.
#[derive(Debug, Clone)]
struct Case {
    geometry: LayerGeometry,
    spline: Vec<f32>,
    base: Option<Vec<f32>>,
    scaler: Option<Vec<f32>>,
    bias: Option<Vec<f32>>,
    x: Vec<f32>,
    dy: Vec<f32>,
}

/// The results of a case: `y`, then the gradients of `x` and of the parameters.
type Results = [Vec<f32>; 6];

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
        let Self { geometry, x, dy, .. } = self;
        let like = |slice: Option<&Vec<f32>>| vec![f32::NAN; slice.map_or(0, Vec::len)];
        let mut y = like(Some(dy));
        forward(isa, geometry, self.weights(), x, &mut y, scratch, threads).unwrap();
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
        backward(isa, geometry, self.weights(), x, dy, gradients, scratch, threads).unwrap();
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
        let y = reference::forward(&self.geometry, &parameters, &x);
        let of = reference::backward(&self.geometry, &parameters, &x, &dy);
        let Parameters { spline, base, scaler, bias } = of.parameters;
        [y, of.x, spline, base, scaler, bias]
    }
}

const NAMES: [&str; 6] = ["y", "dx", "d spline", "d base", "d scaler", "d bias"];

fn assert_close(case: &Case, bound: f64) {
    let expected = case.expected();
    for isa in Isa::BASES.into_iter().filter(|isa| isa.is_available()) {
        let actual = case.run(isa, &mut Scratch::new(), 1);
        for ((name, actual), expected) in NAMES.iter().zip(&actual).zip(&expected) {
            let error = relative_error(actual, expected);
            assert!(error <= bound, "{isa}: {name} differs by {error}");
        }
    }
}

fn case(grid: Grid, [batch, inputs, outputs]: [usize; 3], parts: [bool; 3], seed: u32) -> Case {
    let geometry = LayerGeometry::try_new(grid, inputs, outputs, Activation::Silu).unwrap();
    let edges = geometry.edges();
    let [base, scaler, bias] = parts;
    Case {
        spline: scattered_to(1.0, seed, edges * geometry.grid().bases()),
        base: base.then(|| scattered_to(1.0, seed + 1, edges)),
        scaler: scaler.then(|| scattered_to(2.0, seed + 2, edges)),
        bias: bias.then(|| scattered_to(1.0, seed + 3, outputs)),
        x: scattered_to(1.6, seed + 4, batch * inputs),
        dy: scattered_to(1.0, seed + 5, batch * outputs),
        geometry,
    }
}

/// Separate knots for each feature, some of them equal.
fn uneven(features: usize, intervals: usize, degree: usize, seed: u32) -> Grid {
    let of_one = intervals + 2 * degree + 1;
    let mut knots = Vec::new();
    for feature in 0..features {
        let steps = scattered_to(0.5, seed + feature as u32, of_one);
        let mut knot = -1.0;
        for (index, step) in steps.into_iter().enumerate() {
            knots.push(knot);
            // Every third interval inside is empty, if it is not the first.
            let is_inside = index > degree && index + 1 < degree + intervals;
            knot += if is_inside && index % 3 == 0 { 0.0 } else { 0.3 + 0.4 * (step + 0.5) };
        }
    }
    Grid::per_feature(features, knots, intervals, degree).unwrap()
}

fn outside() -> impl Strategy<Value = Outside> {
    prop_oneof![Just(Outside::Zero), Just(Outside::Clamp), Just(Outside::Extend)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn every_path_computes_the_layer_and_its_gradients(
        degree in 0_usize..=6,
        intervals in prop_oneof![1_usize..8, Just(20_usize)],
        is_even: bool,
        outside in outside(),
        batch in prop_oneof![0_usize..20, Just(257_usize)],
        inputs in prop_oneof![1_usize..5, 15_usize..19],
        outputs in prop_oneof![1_usize..9, 15_usize..18, Just(64_usize), Just(83_usize), Just(128_usize)],
        parts: [bool; 3],
        seed in 0_u32..1000,
    ) {
        let grid = if is_even {
            Grid::uniform(-1.0, 1.0, intervals, degree).unwrap()
        } else {
            uneven(inputs, intervals, degree, seed)
        };
        let mut case = case(grid.with_outside(outside), [batch, inputs, outputs], parts, seed);
        if degree == 1 || degree == 0 {
            // At a knot the slope, or the value, has a jump; rounding may choose the other side.
            for x in &mut case.x {
                *x = if (*x * 40.0).fract().abs() < 1e-3 { *x + 0.011 } else { *x };
            }
        }
        // Gradients of parameters round once a sample, and values of both signs cancel.
        let sums = 1.0 + (batch as f64).sqrt() / 8.0;
        assert_close(&case, sums * if degree > 3 { 10.0 * CLOSE } else { CLOSE });
    }
}

#[test]
fn wide_layers_are_as_exact_as_narrow_ones() {
    let grid = Grid::uniform(-1.0, 1.0, 5, 3).unwrap();
    assert_close(&case(grid, [300, 500, 20], [true; 3], 5), CLOSE);
}

#[test]
fn few_samples_are_as_exact_as_many() {
    for outside in [Outside::Zero, Outside::Clamp, Outside::Extend] {
        for (batch, degree) in [(1, 3), (2, 1), (4, 2), (5, 3)] {
            let grid = Grid::uniform(-1.0, 1.0, 5, degree).unwrap().with_outside(outside);
            // A number of outputs whose weights are read without packing, and one that is packed.
            for outputs in [64, 67] {
                assert_close(&case(grid.clone(), [batch, 133, outputs], [true; 3], 8), CLOSE);
            }
        }
    }
}

#[test]
fn inputs_at_knots_and_far_outside_are_exact() {
    for outside in [Outside::Zero, Outside::Clamp, Outside::Extend] {
        for degree in 2..=3 {
            let grid = Grid::uniform(-1.0, 1.0, 4, degree).unwrap().with_outside(outside);
            let mut case = case(grid, [64, 2, 18], [true; 3], 3);
            for (index, x) in case.x.iter_mut().enumerate() {
                let knot = -3.0 + 0.5 * (index / 3) as f32;
                *x = [knot, knot.next_up(), knot.next_down()][index % 3];
            }
            if outside != Outside::Extend {
                case.x[5] = 1e30;
                case.x[6] = -80.0;
            }
            assert_close(&case, CLOSE);
        }
    }
}

#[test]
fn nan_and_infinity_pass_as_in_the_definition() {
    for (index, bad) in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY].into_iter().enumerate() {
        for outside in [Outside::Zero, Outside::Clamp, Outside::Extend] {
            for degree in 0..=4 {
                if outside == Outside::Extend && bad.is_infinite() {
                    // The reference's zeros are products there, and none is zero.
                    continue;
                }
                let even = Grid::uniform(-1.0, 1.0, 5, degree).unwrap();
                for grid in [even, uneven(3, 4, degree, 1)] {
                    let grid = grid.with_outside(outside);
                    for has_base in [false, true] {
                        let parts = [has_base, index != 1, true];
                        let mut case = case(grid.clone(), [40, 3, 17], parts, 9);
                        case.x[31] = bad;
                        assert_close(&case, 10.0 * CLOSE);
                    }
                }
            }
        }
    }
}

#[test]
fn extended_polynomials_have_no_value_at_infinity() {
    for (bad, degree) in [(f32::INFINITY, 1), (f32::NEG_INFINITY, 2), (f32::INFINITY, 5)] {
        for grid in [Grid::uniform(-1.0, 1.0, 5, degree).unwrap(), uneven(3, 4, degree, 1)] {
            let grid = grid.with_outside(Outside::Extend);
            let mut case = case(grid, [40, 3, 17], [false, true, true], 9);
            case.x[31] = bad;
            for isa in Isa::BASES.into_iter().filter(|isa| isa.is_available()) {
                let [y, ..] = case.run(isa, &mut Scratch::new(), 1);
                for (at, y) in y.iter().enumerate() {
                    assert_eq!(y.is_nan(), at / 17 == 31 / 3, "{isa}, degree {degree}");
                }
            }
        }
    }
}

#[test]
fn what_is_not_finite_in_dy_reaches_what_its_sample_sees_and_nothing_else() {
    let [row, output] = [31, 11];
    for degree in [0, 1, 3, 5] {
        let grid = Grid::uniform(-1.0, 1.0, 7, degree).unwrap();
        let mut case = case(grid, [300, 3, 17], [true; 3], 9);
        let [inputs, outputs] = [case.geometry.in_features(), case.geometry.out_features()];
        case.x[row * inputs..(row + 1) * inputs].copy_from_slice(&[-0.7, 0.05, 0.8]);
        for isa in Isa::BASES.into_iter().filter(|isa| isa.is_available()) {
            let with = |dy: f32| {
                let mut case = case.clone();
                case.dy[row * outputs + output] = dy;
                case.run(isa, &mut Scratch::new(), 1)
            };
            let finite = with(0.0);
            for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
                let [_, dx, spline, base, scaler, bias] = with(bad);
                let [_, finite_dx, finite_spline, finite_base, finite_scaler, finite_bias] =
                    &finite;
                let reached = |all: &[f32], others: &[f32], is_seen: &dyn Fn(usize) -> bool| {
                    for (at, (number, other)) in all.iter().zip(others).enumerate() {
                        assert!(other.is_finite());
                        let is_left = number.to_bits() == other.to_bits();
                        assert!(if is_seen(at) { !number.is_finite() } else { is_left }, "{isa}");
                    }
                };
                reached(&dx, finite_dx, &|at| at / inputs == row);
                let bases = case.geometry.grid().bases();
                reached(&spline, finite_spline, &|at| {
                    let (input, basis) = (at / outputs / bases, at / outputs % bases);
                    let x = f64::from(case.x[row * inputs + input]);
                    let values = reference::bases(case.geometry.grid(), input, x);
                    at % outputs == output && values[basis] != 0.0
                });
                for (all, others) in
                    [(&base, finite_base), (&scaler, finite_scaler), (&bias, finite_bias)]
                {
                    reached(all, others, &|at| at % outputs == output);
                }
            }
        }
    }
}

#[test]
fn high_degrees_are_as_exact_as_their_rounding_lets_them() {
    for degree in [7, 10, MAX_DEGREE] {
        for grid in [Grid::uniform(-1.0, 1.0, 6, degree).unwrap(), uneven(4, 6, degree, 2)] {
            assert_close(&case(grid, [60, 4, 9], [true; 3], 6), 10.0 * CLOSE);
        }
    }
}

#[test]
fn packed_weights_give_the_same_bits() {
    for [batch, inputs, outputs] in
        [[0, 3, 5], [1, 1, 1], [1, 70, 64], [7, 70, 64], [40, 130, 300], [1100, 5, 49]]
    {
        for (degree, parts) in [(3, [true; 3]), (1, [false, true, false]), (5, [true, false, true])]
        {
            let grid = Grid::uniform(-1.0, 1.0, 5, degree).unwrap();
            let case = case(grid, [batch, inputs, outputs], parts, 4);
            for isa in Isa::BASES.into_iter().filter(|isa| isa.is_available()) {
                let [expected, ..] = case.run(isa, &mut Scratch::new(), 1);
                let packed = PackedLayer::try_new(isa, &case.geometry, case.weights()).unwrap();
                let packed = packed.clone();
                for threads in [1, 3] {
                    let mut y = vec![f32::NAN; expected.len()];
                    packed.forward(&case.x, &mut y, &mut Scratch::new(), threads).unwrap();
                    let bits = |y: &[f32]| y.iter().map(|y| y.to_bits()).collect::<Vec<_>>();
                    assert_eq!(bits(&y), bits(&expected), "{isa}");
                }
            }
        }
    }
}

#[test]
fn the_number_of_threads_and_the_scratch_change_no_bit() {
    for [batch, inputs, outputs] in [[700, 3, 5], [70, 40, 20], [3, 1, 1], [2100, 17, 9]] {
        let grid = Grid::uniform(-1.0, 1.0, 5, 3).unwrap();
        let case = case(grid, [batch, inputs, outputs], [true; 3], 4);
        for isa in Isa::BASES.into_iter().filter(|isa| isa.is_available()) {
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

#[test]
fn only_the_gradients_asked_for_are_computed() {
    let grid = Grid::uniform(-1.0, 1.0, 5, 3).unwrap();
    let case = case(grid, [30, 5, 7], [true; 3], 8);
    let [_, of_x, _, base, ..] = case.run(Isa::Portable, &mut Scratch::new(), 1);
    let mut lone = [vec![0.0; of_x.len()], vec![0.0; base.len()]];
    let [lone_x, lone_base] = &mut lone;
    let ask = |gradients| {
        let (weights, scratch) = (case.weights(), &mut Scratch::new());
        let (x, dy) = (&case.x, &case.dy);
        backward(Isa::Portable, &case.geometry, weights, x, dy, gradients, scratch, 1).unwrap();
    };
    ask(Gradients { x: Some(lone_x), ..Gradients::default() });
    ask(Gradients { base: Some(lone_base), ..Gradients::default() });
    assert_eq!(lone, [of_x, base]);
}
