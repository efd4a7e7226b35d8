//! burn's own layers compute in bf16 while their master weights stay in f32.

use burn::module::Module;
use burn::nn::{BatchNorm, BatchNormConfig, Linear, LinearConfig};
use burn::optim::{GradientsParams, SgdConfig};
use burn::tensor::{DType, Device, Distribution, FloatDType, Tensor};
use updraft_precision::{Policy, islands};
use updraft_testing::alone;

#[derive(Module, Debug)]
struct Net {
    first: Linear,
    norm: BatchNorm,
    second: Linear,
}

impl Net {
    fn new(device: &Device) -> Self {
        Self {
            first: LinearConfig::new(6, 5).init(device),
            norm: BatchNormConfig::new(5).init(device),
            second: LinearConfig::new(5, 2).init(device),
        }
    }

    fn forward(&self, x: Tensor<2>) -> Tensor<2> {
        let dtype: FloatDType = x.dtype().into();
        let x = self.first.forward(x);
        let x = self.norm.forward(x.cast(FloatDType::F32)).cast(dtype);
        self.second.forward(x)
    }
}

fn device() -> Device {
    let device = Device::flex().autodiff();
    device.seed(3);
    device
}

#[test]
fn only_normalizations_are_islands() {
    let _alone = alone();
    let found = islands(&Net::new(&device()));
    let found: Vec<_> = found.iter().collect();
    assert_eq!(found, ["norm.beta", "norm.gamma", "norm.running_mean", "norm.running_var"]);
}

#[test]
fn layers_see_bf16_while_masters_with_gradients_stay_f32() {
    let _alone = alone();
    let device = device();
    let net = Policy::BF16_MIXED.autocast(Net::new(&device));
    assert_eq!(net.first.weight.val().dtype(), DType::BF16);
    assert_eq!(net.first.weight.base().dtype(), DType::F32);
    assert_eq!(net.norm.gamma.val().dtype(), DType::F32);

    let x = Tensor::<2>::random([8, 6], Distribution::Default, &device);
    let y = net.forward(x.cast(FloatDType::BF16));
    assert_eq!(y.dtype(), DType::BF16);
    let loss = y.cast(FloatDType::F32).powf_scalar(2.0).mean();
    let gradients = GradientsParams::from_grads(loss.backward(), &net);
    let gradient = gradients.get::<2>(net.first.weight.id).expect("a gradient");
    assert_eq!(gradient.dtype(), DType::F32);

    let before = net.second.weight.base().into_data();
    let net = SgdConfig::new().init().step(1e-4, net, gradients);
    let after = net.second.weight.base().into_data();
    // 1e-4 of a weight is below bf16's resolution: only an f32 master moves.
    assert_eq!(net.second.weight.base().dtype(), DType::F32);
    assert_ne!(before, after);
}

#[test]
fn a_record_of_an_autocast_model_loads_into_a_plain_one() {
    let _alone = alone();
    let device = device();
    let net = Policy::BF16_MIXED.autocast(Net::new(&device));
    let weight = net.first.weight.base().into_data();
    let plain = Net::new(&device).load_record(net.valid().into_record());
    assert_eq!(plain.first.weight.val().into_data(), weight);
}

#[test]
fn full_precision_leaves_the_module_untouched() {
    let _alone = alone();
    let net = Policy::F32.autocast(Net::new(&device()));
    assert_eq!(net.first.weight.val().dtype(), DType::F32);
    assert_eq!(net.num_params(), Net::new(&device()).num_params());
    assert_eq!(net.first.weight.val().into_data(), net.first.weight.base().into_data());
}
