//! Both kinds of gates: the weights of samples, their gradients, and penalties on them.

use burn::module::{Module, ModuleMapper, Param};
use burn::optim::{GradientsParams, SgdConfig};
use burn::tensor::{Device, FloatDType, Tensor, TensorData};
use updraft_integration::{
    DualPathwayConfig, DualPathwayNet, GateKind, IntegrationPoint, Place, PlaceWeights,
    WeightPenalty,
};
use updraft_testing::{
    Numbers, Tolerance, alone, assert_close, autodiff_devices, devices, in_dtype,
    parameter_gradient_check, parameter_gradients, tolerance,
};

use crate::network::{config, cross_entropy, floats, images, loss, net};

const KINDS: [GateKind; 2] = [GateKind::Static, GateKind::Adaptive];

/// The network with other values in every parameter whose path ends so, as functions of the index.
pub(crate) fn with_values(
    net: DualPathwayNet,
    end: &str,
    value: impl Fn(usize) -> f64,
) -> DualPathwayNet {
    net.map(&mut Replace { path: Vec::new(), end, value: &value })
}

struct Replace<'a> {
    path: Vec<String>,
    end: &'a str,
    value: &'a dyn Fn(usize) -> f64,
}

impl ModuleMapper for Replace<'_> {
    fn enter_module(&mut self, name: &str, _container_type: &str) {
        self.path.push(name.to_string());
    }

    fn exit_module(&mut self, _name: &str, _container_type: &str) {
        self.path.pop();
    }

    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        if !self.path.join(".").ends_with(self.end) {
            return param;
        }
        let (id, tensor, mapper) = param.consume();
        let values: Vec<f64> = (0..tensor.shape().num_elements()).map(self.value).collect();
        let data = TensorData::new(values, tensor.dims());
        let changed = Tensor::<D>::from_data(data, (&tensor.device(), tensor.dtype()));
        let changed = changed.set_require_grad(tensor.is_require_grad());
        Param::from_mapped_value(id, changed, mapper)
    }
}

/// A network whose adaptive gates, if it has them, have learned something.
pub(crate) fn learned(net: DualPathwayNet) -> DualPathwayNet {
    // Positive, because pooled maps mostly are: then the rectifier lets them through.
    let net = with_values(net, "adaptive.hidden.weight", |at| (at % 5) as f64 / 10.0);
    let net = with_values(net, "adaptive.output.weight", |at| (at * 7 % 11) as f64 / 10.0 - 0.5);
    with_values(net, "blend.logits", |at| [0.5, -0.25, 0.125][at])
}

fn config_of(gate: GateKind) -> DualPathwayConfig {
    config().with_gate(gate)
}

/// The mean weight of the stream at each place where one arrives.
fn weights_of_stream(weights: &[PlaceWeights]) -> Vec<f64> {
    let with_stream = weights.iter().filter(|place| place.weights.dims()[1] == 3);
    with_stream.map(|place| place.weights.clone().mean_dim(0).numbers()[2]).collect()
}

#[test]
fn every_parameter_of_an_adaptive_network_receives_a_gradient() {
    for device in autodiff_devices() {
        for points in [vec![IntegrationPoint::All], vec![IntegrationPoint::Late], vec![]] {
            let config = config_of(GateKind::Adaptive).with_integration_points(points.clone());
            let net = learned(net(&config, &device));
            let gradients = loss(&net, images(10, 8, &device)).backward();
            let gradients = parameter_gradients(&net, &gradients);
            let learned: usize =
                gradients.iter().filter_map(|g| g.values.as_ref()).map(Vec::len).sum();
            assert_eq!(learned, net.parameter_count(), "{points:?}");
            for gradient in &gradients {
                let values = gradient.values.as_ref().expect("counted above");
                let largest = values.iter().fold(0.0_f64, |m, x| m.max(x.abs()));
                // Rounding alone leaves about 1e-9.
                assert!(largest > 1e-6, "{}: {largest:e}, {points:?}", gradient.path);
            }
        }
    }
}

#[test]
fn the_gradients_of_an_adaptive_network_with_penalties_are_those_of_the_formula() {
    let penalty = WeightPenalty { entropy: 0.5, balance: 2.0 };
    for device in autodiff_devices() {
        let net = learned(net(&config_of(GateKind::Adaptive), &device));
        let net = in_dtype(net, FloatDType::F64);
        let rgb = images(6, 8, &device).cast(FloatDType::F64);
        // The statistics of six pooled features curve more than those of maps.
        let allowed = Tolerance::new(1e-6, 1e-5);
        parameter_gradient_check(&net, 1, allowed, |net| {
            let (logits, weights) = net.forward_with_weights(rgb.clone());
            cross_entropy(logits) + penalty.forward(&weights)
        });
    }
}

#[test]
fn adaptive_weights_depend_on_the_image_and_sum_to_one() {
    for device in devices() {
        let net = learned(net(&config_of(GateKind::Adaptive), &device));
        assert!(net.weights().is_empty(), "no weights are those of every sample");
        let rgb = images(3, 8, &device);
        let (_, first) = net.forward_with_weights(rgb.clone().narrow(0, 0, 1));
        let (_, weights) = net.forward_with_weights(rgb);
        let places: Vec<Place> = weights.iter().map(|place| place.place).collect();
        assert_eq!(places, [Place::Stage(0), Place::Stage(1), Place::Pooled]);
        assert_eq!(places, net.places());
        for (place, streams) in weights.iter().zip([2, 3, 3]) {
            assert_eq!(place.weights.dims(), [3, streams]);
            assert_close(&place.weights.clone().sum_dim(1), &[1.0; 3], tolerance::F32);
            let rows = place.weights.numbers();
            let far = (rows[0] - rows[streams]).abs();
            assert!(far > 1e-4, "{}: the first two images differ by {far}", place.place);
        }
        // Not on the other images of a batch.
        for (first, place) in first.iter().zip(&weights) {
            assert_close(&first.weights, &place.weights.clone().narrow(0, 0, 1), tolerance::F32);
        }
    }
}

#[test]
fn weights_of_a_static_gate_are_those_reported_for_every_image() {
    for device in devices() {
        let net = learned(net(&config(), &device));
        let (_, weights) = net.forward_with_weights(images(3, 8, &device));
        let reported = net.weights();
        assert_eq!(weights.len(), reported.len());
        for (place, reported) in weights.iter().zip(&reported) {
            assert_eq!(place.place, reported.stage);
            let row = [reported.color, reported.brightness].into_iter().chain(reported.stream);
            let rows: Vec<f64> = row.collect::<Vec<f64>>().repeat(3);
            assert_eq!(place.weights.numbers(), rows);
        }
    }
}

#[test]
fn segments_with_weights_are_the_forward_pass() {
    fn check(net: &DualPathwayNet, rgb: &Tensor<4>) {
        let plain = net.forward(rgb.clone());
        let (logits, weights) = net.forward_with_weights(rgb.clone());
        assert_eq!(logits.numbers(), plain.numbers());
        let flow = net.enter(rgb.clone());
        let flow = (0..net.segments()).fold(flow, |flow, index| net.segment(index, flow));
        assert_eq!(net.leave(flow).numbers(), plain.numbers());
        let mut flow = net.enter_with_weights(rgb.clone());
        for index in 0..net.segments() {
            flow = net.segment_with_weights(index, flow);
            // The stems integrate nothing, and every stage here does.
            assert_eq!(flow.1.len(), index);
        }
        let (again, parts) = net.leave_with_weights(flow);
        assert_eq!(again.numbers(), plain.numbers());
        for (place, part) in weights.iter().zip(&parts) {
            assert_eq!(place.weights.numbers(), part.weights.numbers());
        }
    }
    for device in devices() {
        for kind in KINDS {
            check(&learned(net(&config_of(kind), &device)), &images(3, 8, &device));
        }
    }
    for device in autodiff_devices() {
        for kind in KINDS {
            check(&learned(net(&config_of(kind), &device)), &images(3, 8, &device));
        }
    }
}

#[test]
#[should_panic(expected = "weights of each integration")]
fn a_flow_without_the_weights_of_its_segments_is_refused() {
    let _alone = alone();
    let device = Device::flex();
    let net = net(&config(), &device);
    let entering = net.enter(images(2, 8, &device));
    let flow = (0..net.segments()).fold(entering, |flow, index| net.segment(index, flow));
    let _ = net.leave_with_weights((flow, Vec::new()));
}

#[test]
fn training_lowers_the_loss_of_an_adaptive_network() {
    for device in autodiff_devices() {
        let mut net = net(&config_of(GateKind::Adaptive), &device);
        let rgb = images(10, 8, &device);
        let first = loss(&net, rgb.clone()).into_scalar::<f32>();
        let mut optimizer = SgdConfig::new().init();
        for _ in 0..30 {
            let gradients = loss(&net, rgb.clone()).backward();
            let gradients = GradientsParams::from_grads(gradients, &net);
            net = optimizer.step(0.1, net, gradients);
        }
        let last = loss(&net, rgb).into_scalar::<f32>();
        assert!(last < 0.8 * first, "{first} {last}");
        let output: Vec<f64> = floats(&net)
            .into_iter()
            .filter(|(path, _)| path.ends_with("adaptive.output.weight"))
            .flat_map(|(_, values)| values)
            .collect();
        assert!(output.iter().all(|weight| weight.is_finite()));
        assert!(output.iter().any(|weight| *weight != 0.0), "the gates stayed static");
    }
}

#[test]
fn a_step_on_a_penalty_alone_moves_the_weights_in_its_direction() {
    // In a new network the stream has the smallest weight, 0.23 of three.
    let decisive = WeightPenalty { entropy: 1.0, balance: 0.0 };
    let balanced = WeightPenalty { entropy: 0.0, balance: 1.0 };
    for device in autodiff_devices() {
        let rgb = images(6, 8, &device);
        for kind in KINDS {
            for (penalty, direction) in [(decisive, -1.0), (balanced, 1.0)] {
                let mut net = net(&config_of(kind), &device);
                let (_, weights) = net.forward_with_weights(rgb.clone());
                let before = penalty.forward(&weights);
                let start = weights_of_stream(&weights);
                assert_eq!(start.len(), 2);
                let gradients = GradientsParams::from_grads(before.backward(), &net);
                net = SgdConfig::new().init().step(1.0, net, gradients);
                let (_, weights) = net.forward_with_weights(rgb.clone());
                let after = penalty.forward(&weights);
                let [before, after] = [before, after].map(|penalty| penalty.numbers()[0]);
                assert!(after < before, "{kind:?} {penalty:?}: {before} {after}");
                for (start, moved) in start.iter().zip(weights_of_stream(&weights)) {
                    let far = direction * (moved - start);
                    assert!(far > 1e-4, "{kind:?} {penalty:?}: {start} {moved}");
                }
            }
        }
    }
}

#[test]
fn a_penalty_on_static_weights_has_gradients_for_them_only() {
    let penalty = WeightPenalty { entropy: 1.0, balance: 1.0 };
    for device in autodiff_devices() {
        let net = learned(net(&config(), &device));
        let (_, weights) = net.forward_with_weights(images(3, 8, &device));
        let gradients = penalty.forward(&weights).backward();
        for gradient in parameter_gradients(&net, &gradients) {
            let is_logit = gradient.path.ends_with("blend.logits");
            assert_eq!(gradient.values.is_some(), is_logit, "{}", gradient.path);
        }
    }
}
