//! Networks whose outputs are a list of tensors.

use burn::module::Module;
use burn::nn::{Linear, LinearConfig};
use burn::tensor::{Tensor, TensorData, activation::relu};
use updraft_quant::slices::Isa;
use updraft_quant::{Calibration, Graph, Port, QuantizedModel, Workspace};
use updraft_testing::{devices, scattered};

/// A layer that two others of different widths read.
#[derive(Module, Debug)]
struct Heads {
    shared: Linear,
    heads: Vec<Linear>,
}

impl Heads {
    fn forward(&self, x: Tensor<2>) -> Vec<Tensor<2>> {
        let shared = relu(self.shared.forward(x));
        self.heads.iter().map(|head| head.forward(shared.clone())).collect()
    }
}

#[test]
fn every_tensor_of_a_list_is_an_output() {
    let device = devices()[0].clone();
    device.seed(1);
    let linear = |inputs, outputs| LinearConfig::new(inputs, outputs).init(&device);
    let module = Heads { shared: linear(6, 8), heads: vec![linear(8, 3), linear(8, 1)] };
    let graph = Graph::try_capture(&module, [6], Heads::forward).expect("a graph");
    let x = scattered(1, 5 * 6);
    let model = QuantizedModel::try_quantize(&graph, [&x[..]], Calibration::MinMax);
    let model = model.expect("a model");
    assert_eq!(model.outputs().map(Port::numbers).collect::<Vec<_>>(), [3, 1]);
    assert!(model.plan().is_int8(), "{}", model.plan());

    let x = Tensor::<2>::from_data(TensorData::new(x, [5, 6]), &device);
    let right = module.forward(x.clone());
    let found: Vec<Tensor<2>> = model.forward(Isa::detect(), x, &mut Workspace::new(), 1);
    let dims: Vec<_> = found.iter().map(Tensor::dims).collect();
    assert_eq!(dims, [[5, 3], [5, 1]]);
    for (found, right) in found.into_iter().zip(right) {
        let greatest = |x: Tensor<2>| x.abs().into_data().iter::<f32>().fold(0.0, f32::max);
        let (most, off) = (greatest(right.clone()), greatest(found - right));
        assert!(off < 0.1 * most, "{off} of {most}");
    }
}
