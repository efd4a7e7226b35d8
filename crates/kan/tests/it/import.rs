//! Imported networks have the outputs of the original projects.

use std::path::{Path, PathBuf};

use burn::tensor::{DType, Device, Tensor, TensorData};
use updraft_kan::{Activation, ImportError, Kan};
use updraft_testing::{Numbers, Tolerance, assert_close, devices};

/// Outputs here are sums of up to some 30 products in f32; there, in f64.
const F32_AGAINST_F64: Tolerance = Tolerance::new(2e-6, 2e-6);

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name)
}

fn bytes(name: &str) -> Vec<u8> {
    std::fs::read(golden(name)).expect("a golden file")
}

fn read(name: &str, device: &Device) -> Result<Kan, ImportError> {
    Kan::from_safetensors(&bytes(&format!("{name}.safetensors")), Activation::Silu, device)
}

fn refused(name: &str) -> String {
    read(name, &devices()[0]).expect_err("it is refused").to_string()
}

/// The inputs and outputs that the original computed.
fn stored(name: &str) -> [Vec<f64>; 2] {
    let numbers: serde_json::Value =
        serde_json::from_slice(&bytes(&format!("{name}.json"))).expect("JSON");
    ["x", "y"].map(|key| {
        let all = numbers[key].as_array().expect("a list");
        all.iter().map(|number| number.as_f64().expect("a number")).collect()
    })
}

#[test]
fn imported_networks_give_the_outputs_of_the_originals() {
    for device in devices() {
        for (name, inputs) in [("efficient_kan", 3), ("efficient_kan_layer", 2), ("pykan", 3)] {
            let network = read(name, &device).unwrap();
            let [x, y] = stored(name);
            let rows = x.len() / inputs;
            let x = Tensor::<2>::from_data(TensorData::new(x, [rows, inputs]), &device);
            println!("{name}");
            assert_close(&network.forward(x).numbers(), &y, F32_AGAINST_F64);
        }
    }
}

#[test]
fn even_knots_are_found_and_uneven_ones_kept() {
    let device = &devices()[0];
    let grids = |name| {
        let network = read(name, device).unwrap();
        network.layers.iter().map(|layer| layer.geometry().grid().clone()).collect::<Vec<_>>()
    };
    let even = grids("efficient_kan");
    assert!(even.iter().all(|grid| grid.is_uniform() && grid.domain(0) == (-1.0, 1.0)));
    let uneven = grids("pykan");
    assert!(!uneven[0].is_uniform() && uneven[1].is_uniform());
    let layer = &grids("efficient_kan_layer")[0];
    assert_eq!((layer.degree(), layer.intervals(), layer.domain(0)), (2, 4, (-2.0, 1.0)));
}

#[test]
fn what_no_layer_of_splines_computes_is_refused_with_its_reason() {
    let symbolic = "`symbolic_fun.0.mask` has edges that are formulae, which no spline is; save \
                    the model before `fix_symbolic`";
    assert_eq!(refused("pykan_symbolic"), symbolic);
    let multiplying = "layer 0 multiplies some of its 4 sums to get 3 nodes; only networks of \
                       sums can be read";
    assert_eq!(refused("pykan_multiplying"), multiplying);
    let gaussian = refused("fast_kan");
    assert!(gaussian.starts_with("`layers.0.rbf.grid` belongs to fast-kan, whose bases are"));
}

#[test]
fn tensors_that_do_not_fit_are_refused_with_their_names() {
    let device = &devices()[0];
    let data = |shape: &[usize]| {
        let count = shape.iter().product();
        TensorData::new(vec![0.0_f32; count], shape.to_vec())
    };
    let knots = |inputs: usize| {
        let line = (0..6_u8).map(f32::from);
        let all: Vec<f32> = std::iter::repeat_n(line, inputs).flatten().collect();
        TensorData::new(all, [inputs, 6])
    };
    // Degree 1, 3 intervals.
    let layer = |prefix: &str, inputs: usize, outputs: usize| {
        vec![
            (format!("{prefix}spline_weight"), data(&[outputs, inputs, 4])),
            (format!("{prefix}base_weight"), data(&[outputs, inputs])),
            (format!("{prefix}grid"), knots(inputs)),
        ]
    };
    let import = |tensors: Vec<(String, TensorData)>| {
        Kan::import(tensors, Activation::Silu, device).map_err(|error| error.to_string())
    };
    assert!(import([layer("a.0.", 2, 3), layer("a.1.", 3, 1)].concat()).is_ok());
    assert!(["", "head.", "model.3."].iter().all(|name| import(layer(name, 2, 3)).is_ok()));
    let chain = "expected `a.1.spline_weight` for the 3 outputs of the layer before it, got 2 \
                 inputs";
    let chained = import([layer("a.0.", 2, 3), layer("a.1.", 2, 1)].concat());
    assert_eq!(chained.unwrap_err(), chain);
    let several = import([layer("a.0.", 2, 3), layer("b.0.", 2, 3)].concat()).unwrap_err();
    assert!(several.starts_with("`a.0.` and `b.0.` are not numbered layers of one network"));
    let gap = import([layer("a.0.", 2, 3), layer("a.2.", 3, 1)].concat()).unwrap_err();
    assert_eq!(gap, "there is no tensor `a.1.`");

    let with = |index: usize, data: TensorData| {
        let mut tensors = layer("", 2, 3);
        tensors[index].1 = data;
        import(tensors).unwrap_err()
    };
    let shape = "expected `base_weight` of shape [3, 2], got [2, 3]";
    assert_eq!(with(1, data(&[2, 3])), shape);
    assert_eq!(with(0, data(&[6, 4])), "expected `spline_weight` of shape [0, 0, 0], got [6, 4]");
    assert_eq!(with(2, data(&[2, 20])), "expected `grid` of shape [2, 0], got [2, 20]");
    assert_eq!(with(2, data(&[2, 6])), "the knots in `grid` make no grid");
    let whole = data(&[3, 2]).convert_dtype(DType::I32);
    assert_eq!(with(1, whole), "expected floating-point numbers in `base_weight`, got I32");
    let missing = import(layer("", 2, 3).split_off(1)).unwrap_err();
    assert!(missing.contains("got 2 others"), "{missing}");
    assert!(import(vec![]).unwrap_err().contains("got 0 others"));
    assert!(import(layer("", 0, 3)).is_err() && import(layer("", 2, 0)).is_err());
}

#[test]
fn a_cut_file_is_refused() {
    let device = &devices()[0];
    let whole = bytes("efficient_kan.safetensors");
    for length in [0, 7, 8, 100, whole.len() - 1] {
        let error = Kan::from_safetensors(&whole[..length], Activation::Silu, device).unwrap_err();
        assert_eq!(error.to_string(), "the bytes are not a safetensors file");
    }
}
