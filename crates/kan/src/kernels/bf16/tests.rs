//! Products of bf16 beside the same layer in f32, on every path.

use updraft_simd::{Bf16Unit, Products};
use updraft_testing::scattered_to;

use super::{Bf16Scratch, Plan};
use crate::grid::{Grid, Outside};
use crate::kernels::coefficients::CoefficientGradients;
use crate::kernels::{
    Activation, Gradients, Isa, LayerGeometry, Scratch, Weights, backward, forward,
};

/// The largest error allowed, by the root of the sum of squares: factors have 8 bits.
const CLOSE: f64 = 5e-3;

struct Case {
    geometry: LayerGeometry,
    spline: Vec<f32>,
    base: Option<Vec<f32>>,
    scaler: Option<Vec<f32>>,
    bias: Option<Vec<f32>>,
    x: Vec<f32>,
    dy: Vec<f32>,
}

/// Outputs, then the gradients of inputs, coefficients, base weights and factors.
type Results = [Vec<f32>; 5];

impl Case {
    fn new(grid: Grid, [rows, inputs, outputs]: [usize; 3], parts: [bool; 3]) -> Self {
        let geometry = LayerGeometry::try_new(grid, inputs, outputs, Activation::Silu).unwrap();
        let (edges, [base, scaler, bias]) = (geometry.edges(), parts);
        Self {
            spline: scattered_to(1.0, 1, edges * geometry.grid().bases()),
            base: base.then(|| scattered_to(1.0, 2, edges)),
            scaler: scaler.then(|| scattered_to(2.0, 3, edges)),
            bias: bias.then(|| scattered_to(1.0, 4, outputs)),
            x: scattered_to(1.4, 5, rows * inputs),
            dy: scattered_to(1.0, 6, rows * outputs),
            geometry,
        }
    }

    fn weights(&self) -> Weights<'_> {
        Weights {
            spline: &self.spline,
            base: self.base.as_deref(),
            scaler: self.scaler.as_deref(),
            bias: self.bias.as_deref(),
        }
    }

    fn empty(&self) -> Results {
        let like = |numbers: Option<&Vec<f32>>| vec![f32::NAN; numbers.map_or(0, Vec::len)];
        let optional = [&self.base, &self.scaler].map(|numbers| like(numbers.as_ref()));
        let [base, scaler] = optional;
        [like(Some(&self.dy)), like(Some(&self.x)), like(Some(&self.spline)), base, scaler]
    }

    fn in_f32(&self) -> Results {
        let (isa, weights, geometry) = (Isa::detect().base(), self.weights(), &self.geometry);
        let (scratch, mut all) = (&mut Scratch::new(), self.empty());
        let [y, of_x, spline, base, scaler] = &mut all;
        forward(isa, geometry, weights, &self.x, y, scratch, 1).unwrap();
        let gradients = Gradients {
            x: Some(of_x),
            spline: Some(spline),
            base: self.base.is_some().then_some(base),
            scaler: self.scaler.is_some().then_some(scaler),
            bias: None,
        };
        backward(isa, geometry, weights, &self.x, &self.dy, gradients, scratch, 1).unwrap();
        all
    }

    fn in_bf16(&self, isa: Isa, unit: Bf16Unit, threads: usize) -> Results {
        let (weights, geometry) = (&self.weights(), &self.geometry);
        let rows = self.x.len() / geometry.in_features();
        let plan = Plan::with_unit(isa, unit, geometry, weights, rows).expect("closed forms");
        let (scratch, mut all) = (&mut Bf16Scratch::default(), self.empty());
        let [y, of_x, spline, base, scaler] = &mut all;
        super::forward(&plan, weights, &self.x, y, scratch, threads);
        let parameters = CoefficientGradients {
            functions: Some(spline),
            base: self.base.is_some().then_some(base),
            factors: self.scaler.is_some().then_some(scaler),
        };
        let (x, dy) = (&self.x, &self.dy);
        super::backward(&plan, weights, x, dy, Some(of_x), parameters, scratch, threads);
        all
    }
}

/// The root of the sum of squared errors, relative to that of the numbers.
fn error(found: &[f32], expected: &[f32]) -> f64 {
    let norm = |numbers: &mut dyn Iterator<Item = f64>| numbers.map(|x| x * x).sum::<f64>().sqrt();
    let pairs = found.iter().zip(expected);
    let error = norm(&mut pairs.map(|(found, expected)| f64::from(found - expected)));
    error / norm(&mut expected.iter().map(|&x| f64::from(x))).max(1e-30)
}

#[test]
fn outputs_and_gradients_are_those_of_f32_up_to_the_rounding_of_factors() {
    let grid = |intervals: usize, degree: usize, outside: Outside| {
        Grid::uniform(-1.0, 1.0, intervals, degree).unwrap().with_outside(outside)
    };
    let unit = Bf16Unit::detect();
    for (grid, sizes, parts) in [
        (grid(5, 3, Outside::Zero), [130, 40, 33], [true; 3]),
        (grid(4, 2, Outside::Clamp), [33, 100, 70], [true, false, true]),
        (grid(3, 1, Outside::Extend), [5, 7, 3], [false, true, false]),
        (grid(30, 3, Outside::Zero), [64, 65, 32], [true; 3]),
    ] {
        let case = Case::new(grid, sizes, parts);
        let exact = case.in_f32();
        let mut first: Option<Results> = None;
        for isa in Isa::BASES.into_iter().filter(|isa| isa.is_available()) {
            for (unit, threads) in [(unit.plain(), 1), (unit, 1), (unit, 2), (unit, 5)] {
                let found = case.in_bf16(isa, unit, threads);
                for (part, (found, exact)) in found.iter().zip(&exact).enumerate() {
                    let error = error(found, exact);
                    assert!(error <= CLOSE, "{isa}, {sizes:?}: part {part} differs by {error}");
                }
                // Functions round differently on different sets, and terms have another order.
                let same = first.get_or_insert_with(|| found.clone());
                let bits = |results: &Results| -> Vec<u32> {
                    results.iter().flatten().map(|number| number.to_bits()).collect()
                };
                assert!(bits(same) == bits(&found), "{isa}, {unit:?}, {threads} threads");
            }
            first = None;
        }
    }
}

#[test]
fn a_row_that_is_not_finite_reaches_its_own_outputs_and_its_inputs_coefficients() {
    let grid = Grid::uniform(-1.0, 1.0, 5, 3).unwrap();
    let mut case = Case::new(grid, [40, 34, 33], [true; 3]);
    case.x[7 * 34 + 3] = f32::NAN;
    let [y, dx, spline, ..] = case.in_bf16(Isa::detect(), Bf16Unit::detect(), 1);
    for (at, y) in y.iter().enumerate() {
        assert_eq!(y.is_nan(), at / 33 == 7, "output {at}");
    }
    for (at, dx) in dx.iter().enumerate() {
        assert_eq!(dx.is_nan(), at == 7 * 34 + 3, "dx {at}");
    }
    for (at, spline) in spline.iter().enumerate() {
        assert_eq!(spline.is_nan(), at / (8 * 33) == 3, "d spline {at}");
    }
}

#[test]
fn a_layer_multiplies_bf16_where_it_is_asked_to_and_that_pays() {
    let case = Case::new(Grid::uniform(-1.0, 1.0, 5, 3).unwrap(), [512, 32, 512], [true; 3]);
    let (isa, weights) = (Isa::detect(), case.weights());
    let run = |geometry: &LayerGeometry| {
        let (mut y, mut scratch) = (vec![0.0; case.dy.len()], Scratch::new());
        forward(isa, geometry, weights, &case.x, &mut y, &mut scratch, 1).unwrap();
        y
    };
    let exact = run(&case.geometry);
    let rounded = run(&case.geometry.clone().with_products(Products::Bf16));
    assert_eq!(exact != rounded, Bf16Unit::detect().is_fast());
    let other = Grid::uniform(-1.0, 1.0, 5, 5).unwrap();
    let layer = LayerGeometry::try_new(other, 32, 512, Activation::Silu).unwrap();
    let layer = layer.with_products(Products::Bf16);
    assert!(Plan::of(isa, &layer, &Weights::default(), 512).is_none(), "no closed form");
}

#[test]
fn far_outside_of_the_domain_splines_and_their_slopes_are_zero() {
    let grid = Grid::uniform(-1.0, 1.0, 5, 3).unwrap();
    let mut case = Case::new(grid, [40, 34, 33], [false, true, false]);
    for (row, far) in [f32::INFINITY, f32::NEG_INFINITY, 1e20, -3e38].into_iter().enumerate() {
        case.x[row * 34..(row + 1) * 34].fill(far);
    }
    for isa in Isa::BASES.into_iter().filter(|isa| isa.is_available()) {
        let [y, dx, spline, ..] = case.in_bf16(isa, Bf16Unit::detect(), 1);
        assert!(y[..4 * 33].iter().chain(&dx[..4 * 34]).all(|&number| number == 0.0), "{isa}");
        assert!(spline.iter().all(|number| number.is_finite()), "{isa}");
    }
}

#[test]
fn the_scratch_of_both_passes_is_what_was_estimated() {
    let grid = Grid::uniform(-1.0, 1.0, 5, 3).unwrap();
    for sizes in [[300, 100, 70], [40, 512, 33], [1000, 32, 200]] {
        let case = Case::new(grid.clone(), sizes, [true; 3]);
        let (weights, [rows, _, outputs]) = (&case.weights(), sizes);
        for (isa, threads) in [(Isa::detect(), 1), (Isa::detect(), 3)] {
            let unit = Bf16Unit::detect();
            let plan = Plan::with_unit(isa, unit, &case.geometry, weights, rows).unwrap();
            let near = |what: &str, estimate: usize, scratch: &Bf16Scratch| {
                let ratio = estimate as f64 / scratch.bytes() as f64;
                // A thread to which the others leave no work takes no memory.
                let most = if threads == 1 { 1.1 } else { f64::INFINITY };
                assert!((0.9..most).contains(&ratio), "{what}, {sizes:?}, {threads}: {ratio}");
            };
            let mut scratch = Bf16Scratch::default();
            let mut y = vec![0.0; rows * outputs];
            super::forward(&plan, weights, &case.x, &mut y, &mut scratch, threads);
            near("forward", plan.forward_bytes(threads), &scratch);

            let (mut scratch, mut all) = (Bf16Scratch::default(), case.empty());
            let [_, of_x, spline, base, scaler] = &mut all;
            let wanted = CoefficientGradients {
                functions: Some(spline),
                base: Some(base),
                factors: Some(scaler),
            };
            let (x, dy) = (&case.x, &case.dy);
            super::backward(&plan, weights, x, dy, Some(of_x), wanted, &mut scratch, threads);
            near("backward", plan.backward_bytes(threads), &scratch);
        }
    }
}
