//! Outputs and gradients of the kernels for GPUs against the reference in f64.

use burn::tensor::Device;
use updraft_kan::{Activation, KanLinearConfig, Outside};
use updraft_testing::gpus;

use super::case::Case;

#[test]
fn outputs_and_gradients_are_those_of_the_reference_for_every_kind_of_layer() {
    for device in gpus().into_iter().map(Device::autodiff) {
        for degree in 1..=3 {
            let config = KanLinearConfig::new(7, 13).with_degree(degree);
            let bare = config.clone().with_activation(None).with_scaler(false);
            let kinds = [
                config.clone(),
                bare.clone().with_bias(true),
                config.clone().with_outside(Outside::Clamp).with_activation(Some(Activation::Relu)),
                config.with_outside(Outside::Extend).with_scaler(false).with_bias(true),
                bare.with_scaler(true).with_outside(Outside::Clamp),
            ];
            for (kind, config) in kinds.into_iter().enumerate() {
                // Few and many intervals with every degree and every kind.
                let intervals = if (kind + degree) % 2 == 0 { 5 } else { 20 };
                Case::new(config.with_intervals(intervals), 37).check(&device);
            }
        }
    }
}

#[test]
fn outputs_and_gradients_are_those_of_the_reference_for_odd_sizes() {
    for device in gpus().into_iter().map(Device::autodiff) {
        // Below, at and above the sizes of tiles; one of everything.
        for (batch, inputs, outputs) in [
            (1, 1, 1),
            (1, 9, 65),
            (31, 8, 64),
            (33, 17, 63),
            (128, 3, 32),
            (129, 2, 33),
            (300, 5, 129),
            (129, 31, 260),
            (260, 130, 20),
        ] {
            let config = KanLinearConfig::new(inputs, outputs).with_bias(true);
            Case::new(config.with_domain_low(-1.3).with_domain_high(0.9), batch).check(&device);
        }
        // Weights that do not fit into shared memory, and sums that need several windows.
        for intervals in [36, 37, 94, 95, 400] {
            let config = KanLinearConfig::new(9, 35).with_intervals(intervals).with_bias(true);
            Case::new(config, 70).check(&device);
        }
        // Sums of many terms.
        Case::new(KanLinearConfig::new(96, 40).with_intervals(20), 600).check(&device);
    }
}

#[test]
fn inputs_at_knots_and_far_outside_have_their_values() {
    for device in gpus().into_iter().map(Device::autodiff) {
        for degree in 1..=3 {
            for outside in [Outside::Zero, Outside::Clamp, Outside::Extend] {
                let config = KanLinearConfig::new(2, 18).with_intervals(4).with_degree(degree);
                let mut case = Case::new(config.with_outside(outside), 64);
                for (index, x) in case.x.iter_mut().enumerate() {
                    let knot = -3.0 + 0.5 * (index / 3) as f32;
                    // The slope of degree 1 jumps at knots, and a rounding error decides the side.
                    let beside = [knot, knot.next_up(), knot.next_down()][index % 3];
                    *x = if degree == 1 { knot + 0.125 } else { beside };
                }
                if outside != Outside::Extend {
                    case.x[5] = 1e30;
                    case.x[6] = -80.0;
                }
                case.check(&device);
            }
        }
    }
}

#[test]
fn products_of_expanded_bases_are_those_of_the_reference() {
    for device in gpus().into_iter().map(Device::autodiff) {
        for (degree, outside, activation) in [
            (1, Outside::Clamp, Some(Activation::Relu)),
            (2, Outside::Extend, None),
            (3, Outside::Zero, Some(Activation::Silu)),
        ] {
            let config = KanLinearConfig::new(7, 13).with_degree(degree).with_outside(outside);
            let config = config.with_activation(activation).with_scaler(degree > 1);
            Case::new(config.with_bias(degree != 2), 37).check_expanded(&device);
        }
        for (batch, inputs, outputs, intervals) in
            [(1, 1, 1, 5), (300, 5, 129, 20), (129, 31, 260, 5), (70, 9, 35, 95)]
        {
            let config = KanLinearConfig::new(inputs, outputs).with_intervals(intervals);
            Case::new(config.with_bias(true), batch).check_expanded(&device);
        }
    }
}

#[test]
fn products_of_tensor_cores_are_those_of_the_reference() {
    for device in gpus().into_iter().map(Device::autodiff) {
        for (batch, inputs, outputs, intervals) in
            [(1, 1, 1, 5), (129, 17, 130, 5), (300, 40, 65, 20), (64, 9, 16, 60)]
        {
            let config = KanLinearConfig::new(inputs, outputs).with_intervals(intervals);
            Case::new(config.with_bias(true), batch).check_tensor_cores(&device);
        }
        let config = KanLinearConfig::new(20, 30).with_degree(2).with_activation(None);
        let config = config.with_scaler(false).with_outside(Outside::Clamp);
        Case::new(config, 150).check_tensor_cores(&device);
    }
}
