//! The cost of each kernel against numbers that were calculated by hand.

mod convolutions;

use super::*;
use crate::grid::Grid;
use crate::kernels::{Activation, CubeForm, LayerGeometry, Weights};

const FORMS: [CubeForm; 7] = [
    CubeForm::Sparse,
    CubeForm::Dense,
    CubeForm::Bf16,
    CubeForm::F16,
    CubeForm::Expanded,
    CubeForm::ExpandedBf16,
    CubeForm::ExpandedF16,
];

/// Cubic splines with `SiLU`, base weights and factors, and with a bias if it is asked for.
fn cost_of(
    form: CubeForm,
    [batch, inputs, outputs, intervals]: [usize; 4],
    has_bias: bool,
) -> Option<LayerCost> {
    let grid = Grid::uniform(-1.0, 1.0, intervals, 3).unwrap();
    let geometry = LayerGeometry::try_new(grid, inputs, outputs, Activation::Silu).unwrap();
    let bias = has_bias.then_some(&[][..]);
    let weights = Weights { base: Some(&[]), scaler: Some(&[]), bias, ..Weights::default() };
    LayerCost::of(form, &geometry, &weights, batch)
}

/// 300 samples, 20 inputs, 150 outputs and 5 intervals with a bias: 8 coefficients and a base weight
/// an edge.
fn example(form: CubeForm) -> LayerCost {
    cost_of(form, [300, 20, 150, 5], true).expect("nine rows an input")
}

/// Bytes of the example's input, outputs, coefficients, and of a number for each edge.
const X: u64 = 4 * 300 * 20;
const Y: u64 = 4 * 300 * 150;
const SPLINE: u64 = 4 * 8 * 20 * 150;
const EDGES: u64 = 4 * 20 * 150;
const WEIGHTS: u64 = SPLINE + 2 * EDGES;
const BIAS: u64 = 4 * 150;

/// Operations of the functions at a number: 16 for its position, 19 for four cubic bases and 3 for
/// `SiLU`; 11 for their slopes, 12 for the products of these, and 9 for the base branch.
const VALUES: u64 = 16 + 19 + 3;
const SLOPES: u64 = 16 + 11 + 12 + 9;

/// Name, launches, bytes read and written, operations, cubes, threads and shared bytes of a cube.
type Expected = (&'static str, u64, [u64; 2], u64, Option<(u64, u32, u64)>);

fn assert_costs(kernels: &[KernelCost], expected: &[Expected]) {
    let costs: Vec<Expected> = kernels
        .iter()
        .map(|of| {
            let cubes =
                of.cubes.map(|cubes| (cubes.count, cubes.threads_per_cube, cubes.shared_bytes));
            (of.name, of.launches, [of.bytes_read, of.bytes_written], of.flops, cubes)
        })
        .collect();
    assert_eq!(costs, expected);
}

/// The gradients of factors and bias, which all forms share.
const OF_FACTORS_AND_BIAS: [Expected; 2] = [
    (
        "gradient_of_scaler",
        1,
        [2 * SPLINE + EDGES, SPLINE + EDGES],
        3 * 8 * 20 * 150,
        // 32 outputs and 8 inputs of a cube.
        Some((5 * 3, 256, 0)),
    ),
    // Columns beyond the end are summed, too; then the sums of eight groups.
    ("gradient_of_bias", 1, [Y, BIAS], 5 * 32 * 300 + 150 * 8, Some((5, 256, 4 * 256))),
];

#[test]
fn the_dense_kernels_cost_what_was_calculated_by_hand() {
    let LayerCost { forward, backward } = example(CubeForm::Dense);
    // 2 × 3 tiles of 128 × 128; ten chunks of two inputs with 18 rows.
    let of_cube = 2 * 10 * 18 * 128 * 128 + 10 * 2 * 128 * VALUES + 20 * 8 * 128;
    let cubes = Some((6, 256, 4 * 2 * 18 * 128));
    assert_costs(
        &forward,
        &[("dense_forward", 1, [X + WEIGHTS + BIAS, Y], 6 * of_cube + 300 * 150, cubes)],
    );
    // 3 × 2 tiles of 8 inputs and 256 samples; 150 outputs are ten times 16, and 9 rows 3 vectors.
    let of_input = 6 * (2 * 160 * 8 * 256 * 12 + 150 * 8 * 8) + 300 * 20 * SLOPES;
    // 2 × 2 tiles of 14 inputs and 128 outputs; 300 samples are 19 times 16.
    let of_weights = 4 * (2 * 304 * 128 * 128 + 304 * 14 * VALUES);
    let [of_scaler, of_bias] = OF_FACTORS_AND_BIAS;
    assert_costs(
        &backward,
        &[
            (
                "dense_gradient_of_input",
                1,
                [X + WEIGHTS + Y, X],
                of_input,
                Some((6, 256, 4 * 16 * (257 + 8 * 12))),
            ),
            (
                "dense_gradient_of_weights",
                1,
                [X + Y, SPLINE + EDGES],
                of_weights,
                Some((4, 256, 4 * 16 * (129 + 128))),
            ),
            of_scaler,
            of_bias,
        ],
    );
}

#[test]
fn the_sparse_kernels_cost_what_was_calculated_by_hand() {
    let LayerCost { forward, backward } = example(CubeForm::Sparse);
    // 3 × 10 tiles of 64 outputs and 32 samples, with five products for an edge; the weights of four
    // inputs are in shared memory, and the values of three times eight are evaluated.
    let of_cube = 2 * 20 * 64 * 32 * 5 + 24 * 32 * VALUES + 20 * 8 * 64;
    let cubes = Some((30, 256, 4 * (256 * 6 + 4 * 9 * 64)));
    assert_costs(
        &forward,
        &[("layer_forward", 1, [X + WEIGHTS + BIAS, Y], 30 * of_cube + 300 * 150, cubes)],
    );
    // 3 × 10 tiles of 8 inputs and 32 samples; 16 outputs at a time.
    let of_input = 30 * (2 * 150 * 256 * 5 + 8 * 8 * 160 + 256 * SLOPES);
    // 5 tiles of 32 outputs for each input; 128 samples at a time, and all eight bases.
    let of_weights = 100 * (300 * 32 * 10 + 384 * VALUES) + 20 * 150 * 9 * 4;
    let [of_scaler, of_bias] = OF_FACTORS_AND_BIAS;
    assert_costs(
        &backward,
        &[
            (
                "gradient_of_input",
                1,
                [X + WEIGHTS + Y, X],
                of_input,
                Some((30, 256, 4 * 17 * (32 + 8 * 9))),
            ),
            (
                "gradient_of_weights",
                1,
                [X + Y, SPLINE + EDGES],
                of_weights,
                Some((100, 128, 4 * 128 * (3 + 4 + 8))),
            ),
            of_scaler,
            of_bias,
        ],
    );
}

#[test]
fn sparse_kernels_without_room_for_weights_multiply_factors_again() {
    // 400 intervals: 403 coefficients in 17 windows of 24; no weights are in shared memory.
    let LayerCost { forward, backward } =
        cost_of(CubeForm::Sparse, [32, 8, 64, 400], false).expect("any number of rows");
    let of_forward = 2 * 8 * 64 * 32 * 5 + 8 * 32 * VALUES + 8 * 64 * 32 * 4;
    assert_eq!(forward[0].flops, of_forward);
    assert_eq!(forward[0].cubes.map(|cubes| cubes.shared_bytes), Some(4 * (256 * 6 + 1)));
    let of_input = 2 * 64 * 256 * 5 + 256 * 4 * 64 + 256 * SLOPES;
    assert_eq!(backward[0].flops, of_input);
    assert_eq!(backward[0].cubes.map(|cubes| cubes.shared_bytes), Some(4 * (32 * 17 + 1)));
    // Each window multiplies four taps and the base branch's function, and each tap is added once.
    let of_weights = 2 * 8 * (32 * 32 * (17 * 6 + 4) + 17 * 128 * VALUES) + 8 * 64 * 404 * 4;
    assert_eq!(backward[1].flops, of_weights);
    let cubes = backward[1].cubes.map(|cubes| (cubes.count, cubes.shared_bytes));
    assert_eq!(cubes, Some((2 * 8 * 17, 4 * 128 * (3 + 4 + 24))));
}

#[test]
fn the_kernels_of_tensor_cores_cost_what_was_calculated_by_hand() {
    // Three chunks of seven inputs, whose 63 rows fill up to 64; 256 columns of outputs.
    let pack = ("pack_weights", 1, [WEIGHTS, 2 * 192 * 256], 8 * 20 * 150, Some((2 * 192, 128, 0)));
    let of_forward = 6 * (2 * 3 * 64 * 128 * 128 + 3 * 7 * 128 * VALUES) + 300 * 150;
    // 3 × 3 tiles of a chunk and 128 samples; 150 outputs are five times 32.
    let of_input = 9 * 2 * 160 * 128 * 64 + 300 * 20 * SLOPES;
    // 2 × 2 tiles of 14 inputs and 128 outputs; 300 samples are ten times 32.
    let of_weights = 4 * (2 * 320 * 128 * 128 + 320 * 14 * VALUES);
    let [of_scaler, of_bias] = OF_FACTORS_AND_BIAS;
    for form in [CubeForm::Bf16, CubeForm::F16] {
        let LayerCost { forward, backward } = example(form);
        assert_costs(
            &forward,
            &[
                pack,
                (
                    "products_forward",
                    1,
                    [X + 2 * 192 * 256 + BIAS, Y],
                    of_forward,
                    Some((6, 256, 2 * 2 * 64 * 136 + 8192)),
                ),
            ],
        );
        assert_costs(
            &backward,
            &[
                pack,
                (
                    "products_of_input",
                    1,
                    [X + Y + 2 * 192 * 160, X],
                    of_input,
                    Some((9, 256, 2 * (128 + 64) * 40 + 4 * 128 * 64)),
                ),
                (
                    "products_of_weights",
                    1,
                    [X + Y, SPLINE + EDGES],
                    of_weights,
                    Some((4, 256, 2 * (128 * 40 + 32 * 136) + 8192)),
                ),
                of_scaler,
                of_bias,
            ],
        );
    }
}

#[test]
fn the_expanded_kernels_cost_what_was_calculated_by_hand() {
    let [of_scaler, of_bias] = OF_FACTORS_AND_BIAS;
    for (form, bytes) in
        [(CubeForm::Expanded, 4), (CubeForm::ExpandedBf16, 2), (CubeForm::ExpandedF16, 2)]
    {
        let (values, weights) = (bytes * 300 * 180, bytes * 180 * 150);
        let gradient = bytes * 300 * 150;
        let products = 2 * 300 * 180 * 150;
        // 24 cubes of 256 pairs, whose rows are in shared memory.
        let of_pairs = Some((24, 256, 256 * 9 * bytes));
        let of_rows = Some((180, 256, 0));
        let pack = ("weights_of_part", 1, [WEIGHTS, weights], 8 * 20 * 150, of_rows);
        let bases = ("bases_of_part", 1, [X, values], 6000 * VALUES, of_pairs);
        let LayerCost { forward, backward } = example(form);
        assert_costs(
            &forward,
            &[
                pack,
                bases,
                ("matmul", 1, [values + weights, Y], products, None),
                ("plus_bias", 1, [Y + BIAS, Y], 300 * 150, Some((300, 256, 0))),
            ],
        );
        let cast = ("cast", 1, [Y, gradient], 0, None);
        let of_parts = [
            pack,
            ("matmul", 1, [gradient + weights, values], products, None),
            ("times_slopes", 1, [X + values, X], 6000 * SLOPES, of_pairs),
            bases,
            ("matmul", 1, [values + gradient, SPLINE + EDGES], products, None),
            ("gradients_of_part", 1, [SPLINE + EDGES; 2], 0, of_rows),
            of_scaler,
            of_bias,
        ];
        let expected: Vec<_> = (bytes == 2).then_some(cast).into_iter().chain(of_parts).collect();
        assert_costs(&backward, &expected);
    }
}

#[test]
fn values_beyond_the_memory_of_a_part_take_more_launches() {
    // 24 rows of 512 inputs and 8192 samples in f32 are 384 MiB, one and a half parts.
    let LayerCost { forward, backward } =
        cost_of(CubeForm::Expanded, [8192, 512, 512, 20], false).expect("24 rows");
    let launches = |kernels: &[KernelCost]| -> Vec<u64> {
        kernels.iter().map(|kernel| kernel.launches).collect()
    };
    assert_eq!(launches(&forward), [1, 2, 2]);
    assert_eq!(launches(&backward), [2, 2, 2, 2, 2, 2, 1]);
    // Each part reads the weights.
    let (values, weights) = (4 * 8192 * 512 * 24, 4 * 512 * 24 * 512);
    assert_eq!(forward[2].bytes_read, values + 2 * weights);
}

#[test]
fn bytes_grow_with_the_samples_and_weights_are_read_once() {
    let total = |kernels: &[KernelCost]| -> u64 {
        kernels.iter().map(|kernel| kernel.bytes_read + kernel.bytes_written).sum()
    };
    for form in FORMS {
        // Whole tiles of every kernel.
        let [once, twice, thrice] = [1, 2, 3].map(|times| {
            let cost = cost_of(form, [512 * times, 64, 256, 5], true).expect("nine rows");
            [total(&cost.forward), total(&cost.backward)]
        });
        for pass in 0..2 {
            assert_eq!(thrice[pass] - twice[pass], twice[pass] - once[pass], "{form}, {pass}");
        }
        // What each sample adds: the input and the outputs, and what the expanded forms write.
        let expanded = match form {
            CubeForm::Expanded => Some(4),
            CubeForm::ExpandedBf16 | CubeForm::ExpandedF16 => Some(2),
            _ => None,
        };
        let values = expanded.map_or(0, |bytes| 2 * bytes * 9 * 64 + 2 * 4 * 256);
        assert_eq!(twice[0] - once[0], 512 * (4 * (64 + 256) + values), "{form}");
    }
}

#[test]
fn operations_of_whole_tiles_grow_with_the_samples() {
    for form in FORMS {
        let [once, twice] = [1, 2].map(|times| {
            let cost = cost_of(form, [512 * times, 64, 256, 5], false).expect("nine rows");
            // The last kernel takes the samples; others lay out weights.
            cost.forward.last().expect("a kernel").flops
        });
        assert_eq!(twice, 2 * once, "{form}");
        // At least five products of each edge, at most those of nine rows, filled up by a fifth.
        let of_row = 2 * 512 * 64 * 256;
        assert!((5 * of_row..11 * of_row).contains(&once), "{form}");
    }
}

#[test]
fn shared_memory_of_every_kernel_is_that_which_its_form_asks_devices_for() {
    for (form, most) in FORMS.into_iter().zip([16, 32, 48, 48, 16, 16, 16]) {
        for intervals in 1..70 {
            let Some(cost) = cost_of(form, [100, 30, 200, intervals], true) else { continue };
            for kernel in cost.forward.iter().chain(&cost.backward) {
                let Some(cubes) = kernel.cubes else { continue };
                assert!(cubes.shared_bytes <= most << 10, "{form}, {intervals}: {kernel:?}");
                assert!(cubes.threads_per_cube <= 256, "{kernel:?}");
            }
        }
    }
}

#[test]
fn layers_that_a_form_does_not_compute_have_no_cost() {
    let of = |form, intervals| cost_of(form, [8, 3, 5, intervals], false).is_some();
    // 28 intervals have 32 rows, 60 have 64.
    assert!(of(CubeForm::Dense, 28) && !of(CubeForm::Dense, 29));
    assert!(of(CubeForm::Bf16, 60) && !of(CubeForm::Bf16, 61));
    assert!(of(CubeForm::Expanded, 2000) && of(CubeForm::Sparse, 2000));
    assert!(!of(CubeForm::Sparse, 3000));
    assert!(cost_of(CubeForm::Sparse, [0, 3, 5, 5], false).is_none());
    let grid = Grid::uniform(-1.0, 1.0, 5, 4).unwrap();
    let geometry = LayerGeometry::try_new(grid, 3, 5, Activation::Silu).unwrap();
    let of_degree_4 = |form| LayerCost::of(form, &geometry, &Weights::default(), 8);
    assert!(FORMS[1..].iter().all(|&form| of_degree_4(form).is_none()));
    let sparse = of_degree_4(CubeForm::Sparse).expect("the recursion computes it");
    // Products of a tile of 32 samples and 64 outputs, and five bases at 8 inputs of each sample.
    let products = 2 * 3 * 32 * 64 * 5;
    assert_eq!(sparse.forward[0].flops, products + 8 * 32 * (16 + 60));
    let grid = Grid::per_feature(3, [-1.0, 0.0, 1.0, 3.0].repeat(3), 1, 1).unwrap();
    let geometry = LayerGeometry::try_new(grid, 3, 5, Activation::Silu).unwrap();
    let uneven = |form| LayerCost::of(form, &geometry, &Weights::default(), 8);
    assert!(uneven(CubeForm::Dense).is_none());
    let sparse = uneven(CubeForm::Sparse).expect("the recursion computes it");
    // The input, two coefficients an edge, and six knots of each input.
    assert_eq!(sparse.forward[0].bytes_read, 4 * (8 * 3 + 2 * 15 + 6 * 3));
}
