//! Bases compared with scipy's, inside the domain, in the tapers, and by every rule outside.

use updraft_kan::slices::{
    Activation, Grid, Isa, LayerGeometry, Outside, Scratch, Weights, forward, local_bases,
};
use updraft_testing::{Tolerance, assert_close};

/// f32 against f64; outside their domain polynomials of degree 4 reach some hundreds.
const KERNELS: Tolerance = Tolerance::new(2e-6, 2e-6);
/// Two recursions in f64.
const RECURSION: Tolerance = Tolerance::new(1e-13, 1e-12);

struct Case {
    grid: Grid,
    x: Vec<f32>,
    /// `[samples, bases]`.
    expected: Vec<f64>,
}

fn cases() -> Vec<Case> {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/scipy_bases.json");
    let stored: serde_json::Value =
        serde_json::from_slice(&std::fs::read(file).expect("the golden file")).expect("JSON");
    let numbers = |value: &serde_json::Value| -> Vec<f64> {
        value
            .as_array()
            .expect("a list")
            .iter()
            .map(|number| number.as_f64().expect("a number"))
            .collect()
    };
    let floats = |value| numbers(value).into_iter().map(|number| number as f32).collect();
    let mut cases = Vec::new();
    for case in stored.as_array().expect("a list") {
        let degree = case["degree"].as_u64().expect("a degree") as usize;
        let knots: Vec<f32> = floats(&case["knots"]);
        let x: Vec<f32> = floats(&case["x"]);
        let intervals = knots.len() - 2 * degree - 1;
        let step = knots[1] - knots[0];
        let is_even = knots.windows(2).all(|pair| pair[1] - pair[0] == step);
        let mut grids = Vec::new();
        if is_even {
            let (low, high) = (knots[degree], knots[degree + intervals]);
            grids.push(Grid::uniform(low, high, intervals, degree).expect("a grid"));
        }
        grids.push(Grid::per_feature(1, knots, intervals, degree).expect("a grid"));
        for (name, outside) in
            [("zero", Outside::Zero), ("clamp", Outside::Clamp), ("extend", Outside::Extend)]
        {
            let of_bases: Vec<Vec<f64>> =
                case["bases"][name].as_array().expect("a list").iter().map(numbers).collect();
            let expected: Vec<f64> = (0..x.len())
                .flat_map(|sample| of_bases.iter().map(move |values| values[sample]))
                .collect();
            cases.extend(grids.iter().map(|grid| Case {
                grid: grid.clone().with_outside(outside),
                x: x.clone(),
                expected: expected.clone(),
            }));
        }
    }
    cases
}

#[test]
fn local_bases_are_those_of_scipy() {
    for Case { grid, x, expected } in cases() {
        let taps = grid.degree() + 1;
        let (mut values, mut slopes) = (vec![0.0; taps], vec![0.0; taps]);
        let mut actual = vec![0.0; expected.len()];
        for (x, actual) in x.iter().zip(actual.chunks_exact_mut(grid.bases())) {
            let first = local_bases(&grid, 0, f64::from(*x), &mut values, &mut slopes);
            actual[first..first + taps].copy_from_slice(&values);
        }
        assert_close(&actual, &expected, RECURSION);
    }
}

/// A layer whose outputs are the bases themselves.
#[test]
fn kernels_evaluate_the_bases_of_scipy() {
    for Case { grid, x, expected } in cases() {
        let bases = grid.bases();
        let unit: Vec<f32> =
            (0..bases * bases).map(|at| f32::from(u8::from(at % (bases + 1) == 0))).collect();
        let geometry = LayerGeometry::try_new(grid, 1, bases, Activation::Silu).unwrap();
        for path in Isa::BASES.into_iter().filter(|isa| isa.is_available()) {
            let mut y = vec![0.0; expected.len()];
            let weights = Weights { spline: &unit, ..Weights::default() };
            forward(path, &geometry, weights, &x, &mut y, &mut Scratch::new(), 1).unwrap();
            let y: Vec<f64> = y.into_iter().map(f64::from).collect();
            assert_close(&y, &expected, KERNELS);
        }
    }
}
