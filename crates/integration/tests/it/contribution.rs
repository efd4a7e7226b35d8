//! How much each term of an integration adds.

use burn::module::Module;
use updraft_integration::{Contribution, Depth, GateKind, Place};
use updraft_testing::{Numbers, assert_close, autodiff_devices, devices, tolerance};

use crate::gate::{learned, with_values};
use crate::network::{config, floats, images, net};

const KINDS: [GateKind; 2] = [GateKind::Static, GateKind::Adaptive];

fn shares(of: &Contribution) -> Vec<f64> {
    let streams = [of.shares.color, of.shares.brightness].into_iter().chain(of.shares.stream);
    streams.chain([of.mix]).collect()
}

#[test]
fn shares_and_weights_sum_to_one_at_every_place() {
    for device in devices() {
        for kind in KINDS {
            let config = config().with_depth(Depth::Medium).with_gate(kind);
            let net = learned(net(&config, &device));
            let rgb = images(3, 8, &device);
            let places = net.contributions(rgb.clone());
            let (_, weights) = net.forward_with_weights(rgb);
            assert_eq!(places.len(), 4);
            for (index, (place, weights)) in places.iter().zip(weights).enumerate() {
                assert_eq!((place.place, place.samples.len()), (weights.place, 3));
                let mut applied = Vec::new();
                for sample in &place.samples {
                    let shares = shares(sample);
                    assert_eq!(shares.len(), if index == 0 { 3 } else { 4 });
                    assert!(shares.iter().all(|share| (0.0..=1.0).contains(share)), "{shares:?}");
                    assert_close(&shares.iter().sum::<f64>(), &1.0_f64, tolerance::F64);
                    let row = [sample.weights.color, sample.weights.brightness];
                    let row: Vec<f64> = row.into_iter().chain(sample.weights.stream).collect();
                    let entropy: f64 = row.iter().map(|weight| -weight * weight.ln()).sum();
                    assert_close(&sample.entropy, &entropy, tolerance::F64);
                    applied.extend(row);
                }
                assert_close(&applied, &weights.weights, tolerance::F32);
            }
        }
    }
}

#[test]
fn brightness_without_weight_contributes_nothing() {
    for device in devices() {
        for kind in KINDS {
            let net = net(&config().with_gate(kind), &device);
            // The exponential of −10,000 is 0.
            let without = |at: usize| if at == 1 { -1e4 } else { 0.0 };
            let net = with_values(net, "blend.logits", without);
            for place in net.contributions(images(2, 8, &device)) {
                for sample in &place.samples {
                    assert_eq!((sample.weights.brightness, sample.shares.brightness), (0.0, 0.0));
                    assert!(sample.shares.color > 0.0, "{}", place.place);
                    assert_close(&shares(sample).iter().sum::<f64>(), &1.0_f64, tolerance::F64);
                }
            }
        }
    }
}

/// At the first integration every term is visible from outside.
#[test]
fn the_shares_of_the_first_stage_are_those_of_the_terms() {
    for device in devices() {
        for kind in KINDS {
            let net = learned(net(&config().with_gate(kind), &device));
            let rgb = images(2, 8, &device);
            let flow = net.segment(0, net.enter(rgb.clone()));
            let (color, brightness, stream) = net.segment(1, flow);
            let sum = stream.expect("integrated after every stage").numbers();
            let [color, brightness] = [color, brightness].map(|maps| maps.numbers());
            let (_, weights) = net.forward_with_weights(rgb.clone());
            let weights = weights[0].weights.numbers();
            let places = net.contributions(rgb);
            assert_eq!(places[0].place, Place::Stage(0));
            let features = sum.len() / 2;
            for (sample, contribution) in places[0].samples.iter().enumerate() {
                let [alpha, beta] = [0, 1].map(|stream| weights[2 * sample + stream]);
                let mut squares = [0.0; 3];
                for at in sample * features..(sample + 1) * features {
                    let terms = [alpha * color[at], beta * brightness[at]];
                    let mix = sum[at] - terms[0] - terms[1];
                    for (square, term) in squares.iter_mut().zip([terms[0], terms[1], mix]) {
                        *square += term * term;
                    }
                }
                let norms = squares.map(f64::sqrt);
                let expected = norms.map(|norm| norm / norms.iter().sum::<f64>());
                assert_close(&shares(contribution), &expected, tolerance::F32_DEEP);
            }
        }
    }
}

#[test]
fn a_network_in_training_contributes_as_it_is_evaluated_and_does_not_change() {
    for device in autodiff_devices() {
        let net = learned(net(&config().with_gate(GateKind::Adaptive), &device));
        let rgb = images(4, 8, &device);
        let _ = net.forward(rgb.clone());
        // Here the statistics of the pass become those of the network.
        let _ = net.valid();
        let before = floats(&net);
        let contributions = net.contributions(rgb.clone());
        assert_eq!(before, floats(&net));
        assert_eq!(contributions, net.valid().contributions(rgb.without_autodiff()));
    }
}

#[test]
fn the_logits_beside_contributions_are_those_of_the_network_as_evaluated() {
    for device in devices() {
        for kind in KINDS {
            let net = learned(net(&config().with_depth(Depth::Medium).with_gate(kind), &device));
            let rgb = images(3, 8, &device);
            let (logits, places) = net.forward_with_contributions(rgb.clone());
            let expected = net.valid().forward(rgb.clone()).numbers();
            assert_close(&logits, &expected, tolerance::F32);
            assert_eq!(places, net.contributions(rgb));
        }
    }
}
