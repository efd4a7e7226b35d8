//! Networks imported from fast-kan: their outputs against its formula in f64, and what is refused.

use std::collections::HashMap;

use burn::module::Param;
use burn::tensor::{Tensor, TensorData};
use safetensors::SafeTensors;
use updraft_kan::{Activation, BasisKan, ImportError};
use updraft_testing::{Numbers, Tolerance, assert_close, devices, scattered};

/// Shapes and values of tensors by name.
type Tensors = HashMap<String, (Vec<usize>, Vec<f64>)>;

fn silu(x: f64) -> f64 {
    x / (1.0 + (-x).exp())
}

/// The tensors of `fast_kan.safetensors` by name.
fn fast_kan() -> (Vec<u8>, Tensors) {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let bytes = std::fs::read(folder.join("fast_kan.safetensors")).expect("a golden file");
    let file = SafeTensors::deserialize(&bytes).expect("a file of tensors");
    let tensors = file.iter().map(|(name, view)| {
        let numbers = view
            .data()
            .chunks(4)
            .map(|bytes| f64::from(f32::from_le_bytes(bytes.try_into().expect("four bytes"))));
        (name.to_owned(), (view.shape().to_vec(), numbers.collect()))
    });
    let tensors = tensors.collect();
    (bytes, tensors)
}

/// `spline_linear(exp(−((layernorm(x) − grid)/width)²)) + base_linear(silu(x))` of the layer's
/// tensors as fast-kan names and lays them out, in f64.
fn fast_kan_layer(tensors: &Tensors, prefix: &str, x: &[f64]) -> Vec<f64> {
    let of = |part: &str| &tensors[&format!("{prefix}{part}")].1;
    let inputs = x.len() as f64;
    let mean = x.iter().sum::<f64>() / inputs;
    let variance = x.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / inputs;
    let grid = of("rbf.grid");
    let width = (grid[grid.len() - 1] - grid[0]) / (grid.len() - 1) as f64;
    let normed = x.iter().enumerate().map(|(at, x)| {
        let normed = (x - mean) / (variance + 1e-5).sqrt();
        normed * of("layernorm.weight")[at] + of("layernorm.bias")[at]
    });
    let bumps: Vec<f64> = normed
        .flat_map(|x| grid.iter().map(move |center| (-((x - center) / width).powi(2)).exp()))
        .collect();
    let product = |weight: &[f64], x: &[f64]| -> Vec<f64> {
        weight.chunks(x.len()).map(|row| row.iter().zip(x).map(|(w, x)| w * x).sum()).collect()
    };
    let splines = product(of("spline_linear.weight"), &bumps);
    let base: Vec<f64> = x.iter().map(|&x| silu(x)).collect();
    let base = product(of("base_linear.weight"), &base);
    let sums = splines.iter().zip(&base).zip(of("base_linear.bias"));
    sums.map(|((spline, base), bias)| spline + base + bias).collect()
}

#[test]
fn an_imported_network_of_fast_kan_has_its_outputs() {
    let (bytes, tensors) = fast_kan();
    for device in devices() {
        let network = BasisKan::from_safetensors(&bytes, Activation::Silu, &device).unwrap();
        assert_eq!(network.layers.len(), 1);
        let norm = network.layers[0].norm.as_ref().expect("a norm");
        assert_eq!(norm.gamma.dims(), [2]);
        let rows = [[0.3_f32, -1.25], [2.0, 0.5], [-3.0, -2.75], [0.0, 0.0]];
        let found = network.forward(Tensor::<2>::from_floats(rows, &device));
        let expected: Vec<f64> = rows
            .iter()
            .flat_map(|row| fast_kan_layer(&tensors, "layers.0.", &row.map(f64::from)))
            .collect();
        // f32 against f64, with a norm of two numbers.
        assert_close(&found, &expected, Tolerance::new(1e-5, 1e-5));
        assert!(!network.layers[0].functions.as_ref().unwrap().is_require_grad());
    }
}

/// The tensors of layers of these widths, with norms that have an effect.
fn tensors_of(widths: &[usize], centers: usize) -> Vec<(String, Vec<usize>, Vec<f32>)> {
    let mut tensors = Vec::new();
    for (at, pair) in widths.windows(2).enumerate() {
        let (inputs, outputs) = (pair[0], pair[1]);
        let grid = (0..centers).map(|center| 4.0 * center as f32 / (centers - 1) as f32 - 2.0);
        let mut add = |name: &str, shape: &[usize], numbers: Vec<f32>| {
            tensors.push((format!("layers.{at}.{name}"), shape.to_vec(), numbers));
        };
        let near = |seed: u32, count, center: f32| -> Vec<f32> {
            scattered(10 * at as u32 + seed, count).into_iter().map(|x| center + x).collect()
        };
        add("rbf.grid", &[centers], grid.collect());
        add("layernorm.weight", &[inputs], near(1, inputs, 1.0));
        add("layernorm.bias", &[inputs], near(2, inputs, 0.2));
        let columns = inputs * centers;
        add("spline_linear.weight", &[outputs, columns], near(3, outputs * columns, 0.0));
        add("base_linear.weight", &[outputs, inputs], near(4, outputs * inputs, 0.0));
        add("base_linear.bias", &[outputs], near(5, outputs, 0.0));
    }
    tensors
}

#[test]
fn layers_with_trained_norms_are_chained() {
    let list = tensors_of(&[3, 4, 2], 5);
    let tensors: Tensors = list
        .iter()
        .map(|(name, shape, numbers)| {
            let numbers = numbers.iter().map(|&number| f64::from(number)).collect();
            (name.clone(), (shape.clone(), numbers))
        })
        .collect();
    let rows = [[0.3_f32, -1.25, 0.7], [2.0, 0.5, -0.1], [-3.0, -2.75, 1.5]];
    let expected: Vec<f64> = rows
        .iter()
        .flat_map(|row| {
            let hidden = fast_kan_layer(&tensors, "layers.0.", &row.map(f64::from));
            fast_kan_layer(&tensors, "layers.1.", &hidden)
        })
        .collect();
    for device in devices() {
        let given = list.iter().map(|(name, shape, numbers)| {
            (name.clone(), TensorData::new(numbers.clone(), shape.clone()))
        });
        let network = BasisKan::import(given, Activation::Silu, &device).unwrap();
        assert_eq!(network.layers.len(), 2);
        let found = network.forward(Tensor::<2>::from_floats(rows, &device));
        assert_close(&found, &expected, Tolerance::new(1e-5, 1e-5));
    }
}

#[test]
fn tensors_that_make_no_network_of_gaussians_are_refused() {
    let device = &devices()[0];
    let data = |shape: &[usize]| {
        let numbers: Vec<f32> = (0..shape.iter().product()).map(|at: usize| at as f32).collect();
        TensorData::new(numbers, shape.to_vec())
    };
    let import = |tensors: &[(&str, &[usize])]| {
        let tensors = tensors.iter().map(|(name, shape)| ((*name).to_owned(), data(shape)));
        BasisKan::import(tensors, Activation::Silu, device)
    };
    let refusal = |tensors: &[(&str, &[usize])]| import(tensors).unwrap_err().to_string();
    assert_eq!(
        refusal(&[("a.weight", &[2, 2])]),
        "expected names that end in `rbf.grid` (fast-kan), got 1 others"
    );
    assert_eq!(refusal(&[("l.rbf.grid", &[3])]), "there is no tensor `l.spline_linear.weight`");
    assert!(matches!(
        import(&[("l.rbf.grid", &[1]), ("l.spline_linear.weight", &[2, 2])]),
        Err(ImportError::Shape { .. })
    ));
    assert!(matches!(
        import(&[("l.rbf.grid", &[3]), ("l.spline_linear.weight", &[2, 7])]),
        Err(ImportError::Shape { .. })
    ));
    assert!(matches!(
        import(&[
            ("l.0.rbf.grid", &[3]),
            ("l.0.spline_linear.weight", &[2, 6]),
            ("l.1.rbf.grid", &[3]),
            ("l.1.spline_linear.weight", &[2, 9]),
        ]),
        Err(ImportError::Chain { expected: 2, actual: 3, .. })
    ));
    // A network without norm and base branch has neither.
    let bare = import(&[("rbf.grid", &[3]), ("spline_linear.weight", &[2, 6])]).unwrap();
    assert!(bare.layers[0].norm.is_none() && bare.layers[0].base.is_none());
    let Some(functions) = bare.layers[0].functions.as_ref().map(Param::val) else {
        panic!("centers and a width")
    };
    assert_eq!(functions.numbers(), [0.0, 1.0, 2.0, 1.0]);
}
