//! Structured pruning of networks with channels that contribute nothing.

use burn::module::{Module, ModuleMapper, Param};
use burn::tensor::{Device, Distribution, Tensor, TensorData};
use updraft_models::{EfficientNetConfig, MobileNetConfig, SeparableConfig};
use updraft_testing::{Numbers, alone};

/// Sets γ of every second channel of some norms to 0, so that the channel is constant, and β to
/// `constant` there; the other channels and all running statistics get different numbers.
struct MakeConstant<'a> {
    is_constant: &'a dyn Fn(&str) -> bool,
    constant: f32,
    path: Vec<String>,
}

impl ModuleMapper for MakeConstant<'_> {
    fn enter_module(&mut self, name: &str, _: &str) {
        self.path.push(name.to_owned());
    }

    fn exit_module(&mut self, _: &str, _: &str) {
        self.path.pop();
    }

    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let path = self.path.join(".");
        let name = self.path.last().cloned().unwrap_or_default();
        let is_flat = |channel: usize| (self.is_constant)(&path) && channel.is_multiple_of(2);
        let constant = self.constant;
        param.map(|values| {
            let count = values.dims().iter().product::<usize>();
            let spread = |at: usize| 0.3 + (at * 7 % 11) as f32 / 11.0;
            let new: Vec<f32> = match &name[..] {
                "gamma" => {
                    (0..count).map(|at| if is_flat(at) { 0.0 } else { spread(at) }).collect()
                }
                "beta" => {
                    let varied = |at| spread(at) - 0.6;
                    (0..count).map(|at| if is_flat(at) { constant } else { varied(at) }).collect()
                }
                "running_mean" => (0..count).map(|at| spread(at) - 0.5).collect(),
                "running_var" => (0..count).map(spread).collect(),
                _ => return values,
            };
            let data = TensorData::new(new, values.dims());
            Tensor::from_data(data, &values.device())
        })
    }
}

fn with_constants<M: Module>(net: M, constant: f32, is_constant: &dyn Fn(&str) -> bool) -> M {
    net.map(&mut MakeConstant { is_constant, constant, path: Vec::new() })
}

fn images(device: &Device) -> Tensor<4> {
    Tensor::random([3, 3, 16, 16], Distribution::Default, device)
}

/// Compares the logits of a network and of its pruned form.
#[track_caller]
fn assert_same(wide: Tensor<2>, pruned: Tensor<2>) {
    let (wide, pruned) = (wide.numbers(), pruned.numbers());
    let largest = wide.iter().fold(0.0_f64, |largest, value| largest.max(value.abs()));
    assert!(largest > 1e-3, "{largest}");
    for (wide, pruned) in wide.iter().zip(&pruned) {
        assert!((wide - pruned).abs() < 1e-4 * largest, "{wide} {pruned}");
    }
}

#[test]
fn removing_constant_channels_of_a_separable_network_changes_no_output() {
    let _alone = alone();
    let device = Device::flex();
    device.seed(3);
    let config = SeparableConfig::new(5, 8);
    // The norms whose output a pointwise convolution or the classifier reads.
    let is_read = |path: &str| path.contains("depthwise") || path.contains("blocks.4.pointwise");
    let wide = with_constants(config.init(&device), 0.4, &is_read);
    let narrow = config.clone().with_prune_ratio(0.5);
    let pruned = narrow.init(&device).pruned_from(&wide);
    let x = images(&device);
    assert_same(wide.forward(x.clone()), pruned.forward(x));
    // Pointwise convolutions, most of the cost, have a quarter of the products.
    let share = pruned.multiply_adds([32, 32]) as f64 / wide.multiply_adds([32, 32]) as f64;
    assert!((0.25..0.4).contains(&share), "{share}");
    assert!(pruned.num_params() * 2 < wide.num_params());
}

#[test]
fn removing_constant_channels_inside_inverted_residuals_changes_no_output() {
    let _alone = alone();
    let device = Device::flex();
    device.seed(4);
    let config = MobileNetConfig::new(5).with_width(0.25).with_stem_stride(1);
    let is_read = |path: &str| {
        // The first block does not expand, and keeps its channels.
        let is_inside = path.contains("depthwise") && !path.contains("blocks.0.");
        is_inside || path.contains("backbone.top")
    };
    let wide = with_constants(config.init(&device), 0.4, &is_read);
    let pruned = config.with_prune_ratio(0.5).init(&device).pruned_from(&wide);
    let x = images(&device);
    assert_same(wide.forward(x.clone()), pruned.forward(x));
    assert!(pruned.multiply_adds([32, 32]) * 3 < wide.multiply_adds([32, 32]) * 2);
}

#[test]
fn removing_zero_channels_behind_gates_changes_no_output() {
    let _alone = alone();
    let device = Device::flex();
    device.seed(5);
    for hidden in [0, 24] {
        let config = EfficientNetConfig::new(5)
            .with_factors(0.25, 0.4)
            .with_stem_stride(1)
            .with_hidden(hidden);
        // A gate depends on the image, so that only zero times it is a constant.
        let is_read = |path: &str| {
            let is_inside = path.contains("depthwise") && !path.contains("blocks.0.");
            is_inside || hidden == 0 && path.contains("backbone.top")
        };
        let wide = with_constants(config.init(&device), 0.0, &is_read);
        let pruned = config.with_prune_ratio(0.5).init(&device).pruned_from(&wide);
        let x = images(&device);
        assert_same(wide.forward(x.clone()), pruned.forward(x));
        assert!(pruned.num_params() < wide.num_params());
    }
}

#[test]
fn means_of_removed_channels_move_into_the_norms_behind_them() {
    let _alone = alone();
    let device = Device::flex();
    device.seed(6);
    let config = SeparableConfig::new(4, 8);
    let is_read = |path: &str| path.contains("depthwise") || path.contains("blocks.4.pointwise");
    let x = images(&device);
    // The removed channels are those of least deviation, whatever the size of their mean.
    let [small, large] = [0.1, 5.0].map(|constant| {
        let wide = with_constants(config.init(&device), constant, &is_read);
        let pruned = config.clone().with_prune_ratio(0.25).init(&device).pruned_from(&wide);
        let (wide, pruned) =
            (wide.forward(x.clone()).numbers(), pruned.forward(x.clone()).numbers());
        let difference = wide.iter().zip(&pruned).map(|(a, b)| (a - b).abs());
        difference.fold(0.0_f64, f64::max) / wide.iter().fold(0.0_f64, |most, a| most.max(a.abs()))
    });
    assert!(small < 1e-4 && large < 1e-4, "{small} {large}");
}

#[test]
fn a_ratio_of_zero_takes_every_parameter() {
    let _alone = alone();
    let device = Device::flex();
    device.seed(7);
    let config = SeparableConfig::new(4, 6);
    let wide = with_constants(config.init(&device), 0.2, &|_| false);
    let taken = config.init(&device).pruned_from(&wide);
    let x = images(&device);
    assert_eq!(wide.forward(x.clone()).numbers(), taken.forward(x).numbers());
}
