//! Invalid arguments are refused before anything is written.

use updraft_kan::slices::{
    Activation, Gradients, Grid, Isa, LayerError, LayerGeometry, PackedLayer, QuantizedLayer,
    QuantizedScratch, Scratch, Weights, backward, evaluate, forward,
};

fn layer() -> LayerGeometry {
    let grid = Grid::uniform(-1.0, 1.0, 5, 3).expect("a grid");
    LayerGeometry::try_new(grid, 2, 3, Activation::Silu).expect("a layer")
}

#[test]
fn a_wrong_length_is_refused_with_both_numbers() {
    let spline = [0.5; 48];
    let weights = |spline| Weights { spline, ..Weights::default() };
    let error = |weights, x: &[f32]| evaluate(&layer(), weights, x).unwrap_err().to_string();
    assert_eq!(error(weights(&spline[1..]), &[0.0; 2]), "expected 48 numbers in `spline`, got 47");
    let with_bias = Weights { bias: Some(&spline[..2]), ..weights(&spline) };
    assert_eq!(error(with_bias, &[0.0; 2]), "expected 3 numbers in `bias`, got 2");
    let expected = "3 numbers in `x` are no whole samples of 2 features";
    assert_eq!(error(weights(&spline), &[0.0; 3]), expected);

    let mut y = [7.0; 4];
    let (path, mut scratch) = (Isa::Portable, Scratch::new());
    let refused = forward(path, &layer(), weights(&spline), &[0.0; 2], &mut y, &mut scratch, 1);
    assert_eq!(refused, Err(LayerError::Length { name: "y", expected: 3, actual: 4 }));
    assert_eq!(y, [7.0; 4]);
}

#[test]
fn a_gradient_of_nothing_is_refused() {
    let mut base = [7.0; 6];
    let gradients = Gradients { base: Some(&mut base), ..Gradients::default() };
    let weights = Weights { spline: &[0.5; 48], ..Weights::default() };
    let (path, mut scratch) = (Isa::Portable, Scratch::new());
    let refused =
        backward(path, &layer(), weights, &[0.0; 2], &[1.0; 3], gradients, &mut scratch, 1);
    let message = refused.unwrap_err().to_string();
    assert_eq!(message, "a gradient of `base` was asked for, but the layer has no `base`");
    assert_eq!(base, [7.0; 6]);
}

#[test]
fn instructions_that_the_processor_lacks_are_refused() {
    let (layer, weights) = (layer(), Weights { spline: &[0.5; 48], ..Weights::default() });
    let (x, mut y) = ([0.0; 2], [7.0; 3]);
    for isa in Isa::ALL.into_iter().filter(|isa| !isa.is_available()) {
        let refused = forward(isa, &layer, weights, &x, &mut y, &mut Scratch::new(), 1);
        assert_eq!(refused, Err(LayerError::Isa { isa }));
        assert_eq!(PackedLayer::try_new(isa, &layer, weights).unwrap_err(), refused.unwrap_err());
    }
    let quantized = QuantizedLayer::try_new(&layer, weights).unwrap();
    for isa in Isa::ALL.into_iter().filter(|isa| !isa.is_available()) {
        let refused = quantized.forward(isa, &x, &mut y, &mut QuantizedScratch::default(), 1);
        assert_eq!(refused, Err(LayerError::Isa { isa }));
    }
    assert_eq!(y, [7.0; 3]);
}

#[test]
fn any_number_of_threads_is_taken() {
    let (layer, weights) = (layer(), Weights { spline: &[0.5; 48], ..Weights::default() });
    let (x, mut y) = ([0.0; 2], [7.0; 3]);
    let quantized = QuantizedLayer::try_new(&layer, weights).unwrap();
    for threads in [0, usize::MAX] {
        forward(Isa::Portable, &layer, weights, &x, &mut y, &mut Scratch::new(), threads).unwrap();
        assert!(y.iter().all(|y| (y - 1.0).abs() < 1e-6));
        let (isa, mut scratch) = (Isa::Portable, QuantizedScratch::default());
        quantized.forward(isa, &x, &mut y, &mut scratch, threads).unwrap();
        assert!(y.iter().all(|y| (y - 1.0).abs() < 1e-2));
    }
}

#[test]
fn a_layer_and_its_grid_have_to_fit() {
    let knots = vec![0.0, 1.0, 2.0, 3.0];
    let grid = Grid::per_feature(1, knots, 1, 1).unwrap();
    let error = LayerGeometry::try_new(grid, 2, 3, Activation::Silu).unwrap_err();
    let expected = "the grid has knots for 1 features, the layer has 2 inputs";
    assert_eq!(error.to_string(), expected);
    let grid = Grid::uniform(0.0, 1.0, 1, 1).unwrap();
    for [inputs, outputs] in [[1 << 32, 1 << 32], [1 << 60, 1], [1, usize::MAX]] {
        let error = LayerGeometry::try_new(grid.clone(), inputs, outputs, Activation::Silu);
        let message = error.unwrap_err().to_string();
        assert!(message.ends_with("more weights than memory has addresses for"), "{message}");
    }
    let error = LayerGeometry::try_new(grid, 0, 3, Activation::Silu).unwrap_err();
    assert_eq!(error, LayerError::NoFeatures { in_features: 0, out_features: 3 });
}
