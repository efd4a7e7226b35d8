//! Degrees and knots that the recursion of Cox and de Boor computes, against the reference in f64.

use burn::tensor::Device;
use updraft_kan::{CubeForm, KanLinearConfig, Outside};
use updraft_testing::gpus;

use super::case::{Case, bits};

const RULES: [Outside; 3] = [Outside::Zero, Outside::Clamp, Outside::Extend];

#[test]
fn every_degree_over_equal_intervals_is_that_of_the_reference() {
    for device in gpus().into_iter().map(Device::autodiff) {
        // Kernels of high degrees take long to compile: all rules at low ones, and at the highest the
        // rule that computes most and the one that rounds most.
        let rules = [
            (0, &[0, 1, 2][..]),
            (4, &[0, 1, 2][..]),
            (5, &[2][..]),
            (8, &[1][..]),
            (12, &[0, 2][..]),
        ];
        for (index, (degree, rules)) in rules.into_iter().enumerate() {
            for &rule in rules {
                let outside = RULES[rule];
                let config = KanLinearConfig::new(7, 13).with_degree(degree).with_outside(outside);
                let config = config.with_scaler(rule != 1).with_bias(rule == 2);
                let intervals = if (index + rule) % 2 == 0 { 5 } else { 20 };
                Case::new(config.with_intervals(intervals), 37).check(&device);
            }
        }
    }
}

#[test]
fn knots_of_each_input_are_those_of_the_reference() {
    for device in gpus().into_iter().map(Device::autodiff) {
        // The recursion is the same for all degrees: each rule at the lowest and at a middle one, and
        // continued polynomials at the highest degree that has them.
        for (degree, rules) in [(0, 0..3), (1, 0..1), (2, 1..2), (3, 0..3), (4, 0..1), (5, 2..3)] {
            for rule in rules {
                let outside = RULES[rule];
                let intervals = if (degree + rule) % 2 == 0 { 5 } else { 20 };
                let config = KanLinearConfig::new(7, 13).with_degree(degree).with_outside(outside);
                let config = config.with_intervals(intervals).with_bias(rule == 0);
                // Polynomials of a short interval, continued over a domain, are the largest numbers.
                let may_coincide = outside != Outside::Extend;
                Case::new(config, 37).uneven(may_coincide).check(&device);
            }
        }
        let config = KanLinearConfig::new(2, 5).with_degree(12).with_outside(Outside::Clamp);
        Case::new(config, 37).uneven(false).check(&device);
    }
}

#[test]
fn odd_sizes_and_many_intervals_are_computed_between_knots() {
    for device in gpus().into_iter().map(Device::autodiff) {
        for (batch, inputs, outputs, intervals) in
            [(1, 1, 1, 1), (33, 17, 63, 5), (129, 9, 65, 95), (300, 3, 35, 400)]
        {
            let config = KanLinearConfig::new(inputs, outputs).with_intervals(intervals);
            let case = Case::new(config.clone(), batch).uneven(false);
            case.check(&device);
            let first = bits(&case.run(&device, CubeForm::Sparse));
            assert!(first == bits(&case.run(&device, CubeForm::Sparse)), "{intervals} intervals");
            Case::new(config.with_degree(4), batch).check(&device);
        }
    }
}

#[test]
fn a_step_is_at_its_knot_to_the_last_bit() {
    for device in gpus().into_iter().map(Device::autodiff) {
        for (low, high, intervals) in [(-1.0, 1.0, 4), (-1.3, 0.9, 5), (-0.7, 1.1, 30)] {
            for outside in RULES {
                let config = KanLinearConfig::new(2, 3).with_degree(0).with_intervals(intervals);
                let config = config.with_domain_low(low).with_domain_high(high);
                let mut case = Case::new(config.with_outside(outside), 51);
                let grid = case.layer(&Device::flex()).geometry().grid().clone();
                for (index, x) in case.x.iter_mut().enumerate() {
                    let knot = index as isize / 3 - 1;
                    // The last knot is the right end up to rounding only.
                    let at =
                        if knot == intervals as isize { high } else { grid.knot(0, knot) as f32 };
                    *x = [at, at.next_up(), at.next_down()][index % 3];
                    if x.is_subnormal() {
                        // Devices may compute with 0 instead.
                        *x = 1e-30_f32.copysign(*x);
                    }
                }
                case.check(&device);
            }
        }
    }
}

#[test]
fn inputs_at_uneven_knots_and_far_outside_have_their_values() {
    for device in gpus().into_iter().map(Device::autodiff) {
        for degree in [0, 3] {
            for outside in [Outside::Zero, Outside::Clamp] {
                let config = KanLinearConfig::new(2, 18).with_degree(degree).with_intervals(6);
                // Splines alone have a bounded value far outside.
                let config = config.with_activation(None).with_outside(outside);
                let mut case = Case::new(config, 64).uneven(true);
                let grid = case.grid.clone().expect("uneven");
                for (index, x) in case.x.iter_mut().enumerate() {
                    let knot = grid.knot(index % 2, (index / 6) as isize - 5) as f32;
                    *x = [knot, knot.next_up(), knot.next_down()][index / 2 % 3];
                }
                case.x[5] = 1e30;
                case.x[6] = -1e30;
                case.check(&device);
            }
        }
    }
}
