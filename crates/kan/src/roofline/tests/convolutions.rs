//! The cost of convolutions against numbers that were calculated by hand.

use super::{FORMS, SLOPES, VALUES, assert_costs};
use crate::grid::Grid;
use crate::kernels::{Activation, BaseBranch, ConvAxis, ConvGeometry, CubeForm, Weights};
use crate::roofline::LayerCost;

/// 20 channels to 300 in two groups, 3 × 3 taps with padding, 5 intervals with a bias, for square
/// images.
fn cost_of_conv(form: CubeForm, batch: usize, side: usize) -> Option<LayerCost> {
    let grid = Grid::uniform(-1.0, 1.0, 5, 3).unwrap();
    let axes = [ConvAxis { padding: 1, ..ConvAxis::new(3) }; 2];
    let (silu, branch) = (Activation::Silu, BaseBranch::ConvOfActivation);
    let geometry = ConvGeometry::try_new(grid, [20, 300], 2, &axes, silu, branch).unwrap();
    let weights =
        Weights { base: Some(&[]), scaler: Some(&[]), bias: Some(&[]), ..Weights::default() };
    LayerCost::of_conv(form, &geometry, &weights, batch, &[side, side])
}

#[test]
fn a_convolution_reads_images_and_costs_the_products_of_its_windows() {
    // 3 images of 10 × 10 pixels: 300 rows of 90 taps of ten channels to 150 outputs, in two groups.
    let (images, outputs, edges) = (4 * 300 * 10, 4 * 300 * 150, 4 * 90 * 150);
    let (weights, bias) = (10 * edges, 4 * 150);
    let LayerCost { forward, backward } = cost_of_conv(CubeForm::Dense, 3, 10).unwrap();
    // 2 × 3 tiles of 128 × 128; 45 chunks of two inputs.
    let of_cube = 2 * 45 * 18 * 128 * 128 + 45 * 2 * 128 * VALUES + 90 * 8 * 128;
    assert_costs(
        &forward,
        &[(
            "dense_forward",
            1,
            [2 * (images + weights + bias), 2 * outputs],
            2 * (6 * of_cube + 300 * 150),
            Some((12, 256, 4 * 2 * 18 * 128)),
        )],
    );
    // 2 × 2 tiles of 8 channels and 256 pixels, whose slopes are computed once for nine taps.
    let of_input = 4 * 9 * (2 * 160 * 8 * 256 * 12 + 150 * 8 * 8) + 300 * 10 * SLOPES;
    // 7 × 2 tiles of 14 taps and 128 outputs.
    let of_weights = 14 * (2 * 304 * 128 * 128 + 304 * 14 * VALUES);
    let of_input_cubes = Some((8, 256, 4 * 16 * (257 + 8 * 12)));
    let of_weight_cubes = Some((28, 256, 4 * 16 * (129 + 128)));
    let reads = 2 * (images + weights + outputs);
    let expected = [
        ("dense_gradient_of_input", 1, [reads, 2 * images], 2 * of_input, of_input_cubes),
        (
            "dense_gradient_of_weights",
            1,
            [2 * (images + outputs), 2 * 9 * edges],
            2 * of_weights,
            of_weight_cubes,
        ),
        (
            "gradient_of_scaler",
            1,
            [2 * 17 * edges, 2 * 9 * edges],
            2 * 3 * 8 * 90 * 150,
            // All groups have 180 inputs, eight a cube.
            Some((5 * 23, 256, 0)),
        ),
        (
            "gradient_of_bias",
            1,
            [2 * outputs, 2 * bias],
            2 * (5 * 32 * 300 + 150 * 8),
            Some((10, 256, 4 * 256)),
        ),
    ];
    assert_costs(&backward, &expected);

    let LayerCost { forward, backward } = cost_of_conv(CubeForm::Sparse, 3, 10).unwrap();
    // 3 × 10 tiles of 64 outputs and 32 rows; twelve times eight inputs.
    let of_cube = 2 * 90 * 64 * 32 * 5 + 96 * 32 * VALUES + 90 * 8 * 64;
    assert_eq!(forward[0].flops, 2 * (30 * of_cube + 300 * 150));
    // 2 × 10 tiles of 8 channels and 32 pixels.
    let of_input = 20 * (9 * (2 * 150 * 256 * 5 + 8 * 8 * 160) + 256 * SLOPES);
    assert_eq!(backward[0].flops, 2 * of_input);
    assert_eq!([backward[0].bytes_read, backward[0].bytes_written], [reads, 2 * images]);
}

#[test]
fn long_sums_of_a_convolution_are_added_in_parts() {
    // 80,000 rows are two parts.
    for form in [CubeForm::Dense, CubeForm::Sparse] {
        let LayerCost { forward, backward } = cost_of_conv(form, 8, 100).unwrap();
        assert_eq!(forward[0].launches, 1, "{form}");
        let launches: Vec<_> = backward.iter().map(|kernel| kernel.launches).collect();
        assert_eq!(launches, [1, 2, 3, 1, 2], "{form}");
        let (edges, bias) = (4 * 90 * 150, 4 * 150);
        assert_eq!(backward[1].bytes_written, 2 * 2 * 9 * edges, "{form}");
        assert_eq!(backward[2].bytes_read, 2 * 2 * (9 * edges + bias), "{form}");
        assert_eq!(backward[4].bytes_written, 2 * 2 * bias, "{form}");
    }
}

#[test]
fn forms_that_store_patches_and_images_smaller_than_the_kernel_have_no_model() {
    for form in FORMS {
        let has_model = matches!(form, CubeForm::Sparse | CubeForm::Dense);
        assert_eq!(cost_of_conv(form, 3, 10).is_some(), has_model, "{form}");
        assert_eq!(cost_of_conv(form, 0, 10), None, "{form}");
    }
    // One pixel with padding on both sides.
    assert!(cost_of_conv(CubeForm::Dense, 1, 1).is_some());
    assert_eq!(cost_of_conv(CubeForm::Dense, 1, 0), None);
}
