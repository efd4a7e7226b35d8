//! Convolutions that Winograd's algorithm computes.

use updraft_testing::relative_error;

use super::{CLOSE, Case, assert_close, case, cubic, geometry, sets};
use crate::grid::{Grid, Outside};
use crate::kernels::conv::forward::by_winograd;
use crate::kernels::conv::{BaseBranch, ConvAxis, conv_backward};
use crate::kernels::{Gradients, Isa, Scratch};

fn axes(padding: [usize; 2]) -> [ConvAxis; 2] {
    padding.map(|padding| ConvAxis { padding, ..ConvAxis::new(3) })
}

/// Fails if a set computes the products of every tap.
fn assert_is_winograd(case: &Case) {
    let Case { geometry, shape, x, .. } = case;
    let shapes = geometry.shapes(x, shape).unwrap();
    for isa in sets() {
        let plan = by_winograd(isa, geometry, &case.weights(), true, shapes);
        assert!(plan.is_some(), "{isa}: {shape:?}");
    }
}

/// Several images in a box.
fn small() -> Case {
    let geometry = geometry(cubic(), [16, 18], 1, &axes([1, 1]), BaseBranch::default());
    case(geometry, 17, &[8, 7], [true; 3], 1)
}

#[test]
fn outputs_and_gradients_are_those_in_f64() {
    let grid = |degree: usize, outside: Outside| {
        Grid::uniform(-1.0, 1.0, 4, degree).unwrap().with_outside(outside)
    };
    let of = |grid, channels, groups, padding, branch| {
        geometry(grid, channels, groups, &axes(padding), branch)
    };
    let branch = BaseBranch::ConvOfActivation;
    let cases = [
        small(),
        // Channels that do not fill vectors, groups, and strips of rows.
        case(
            of(grid(2, Outside::Extend), [34, 40], 2, [0, 2], branch),
            1,
            &[34, 30],
            [true, false, true],
            2,
        ),
        // Rows of more tiles than a box has.
        case(
            of(grid(3, Outside::Clamp), [16, 33], 1, [1, 1], branch),
            3,
            &[4, 103],
            [false, true, false],
            3,
        ),
        case(
            of(grid(3, Outside::Zero), [17, 16], 1, [2, 1], BaseBranch::ActivationOfConv),
            4,
            &[14, 16],
            [true; 3],
            4,
        ),
    ];
    for case in &cases {
        assert_is_winograd(case);
        assert_close(case);
    }
}

#[test]
fn threads_and_scratch_change_no_bit() {
    let case = small();
    for isa in sets() {
        let mut scratch = Scratch::new();
        let once = case.run(isa, &mut scratch, 1);
        for threads in [2, 3, 8] {
            let again = case.run(isa, &mut scratch, threads);
            for (once, again) in once.iter().flatten().zip(again.iter().flatten()) {
                assert_eq!(once.to_bits(), again.to_bits(), "{isa}, {threads} threads");
            }
        }
    }
}

#[test]
fn what_is_not_finite_reaches_what_sees_it_alone() {
    for bad in [f32::NAN, f32::INFINITY] {
        let mut case = small();
        // Pixel (3, 2) of channel 5 of image 2.
        let image = 16 * 56;
        case.x[2 * image + 5 * 56 + 3 * 7 + 2] = bad;
        let [y, dx, spline, ..] = case.expected();
        for isa in sets() {
            let [own_y, own_dx, own_spline, ..] = case.run(isa, &mut Scratch::new(), 1);
            for (own, expected) in [(&own_y, &y), (&own_dx, &dx), (&own_spline, &spline)] {
                let error = relative_error(own, expected);
                assert!(error <= CLOSE, "{isa}, {bad}: {error}");
            }
        }
    }
}

#[test]
fn far_outside_of_the_domain_splines_and_their_slopes_are_zero() {
    let geometry = geometry(cubic(), [16, 18], 1, &axes([1, 1]), BaseBranch::default());
    let mut case = case(geometry, 17, &[8, 7], [false, true, true], 5);
    let far = [f32::INFINITY, 1e20, 3e38, 50.0];
    for (index, far) in far.into_iter().flat_map(|far| [far, -far]).enumerate() {
        case.x[index * 97 + 30] = far;
    }
    assert_is_winograd(&case);
    assert_close(&case);
    for isa in sets() {
        let [_, dx, ..] = case.run(isa, &mut Scratch::new(), 1);
        assert!((0..2 * far.len()).all(|index| dx[index * 97 + 30] == 0.0), "{isa}");
    }
}

#[test]
fn a_gradient_that_is_not_finite_reaches_what_it_belongs_to_alone() {
    let mut case = small();
    // Pixel (3, 2) of output 4 of image 2.
    let image = 18 * 56;
    case.dy[2 * image + 4 * 56 + 3 * 7 + 2] = f32::INFINITY;
    for isa in sets() {
        let [_, dx, spline, ..] = case.run(isa, &mut Scratch::new(), 1);
        for (at, dx) in dx.iter().enumerate() {
            let (row, column) = (at / 7 % 8, at % 7);
            let sees = at / (16 * 56) == 2 && (2..5).contains(&row) && (1..4).contains(&column);
            assert!(sees || dx.is_finite(), "{isa}: dx {at}");
        }
        for (at, spline) in spline.iter().enumerate() {
            assert!(at % 18 == 4 || spline.is_finite(), "{isa}: d spline {at}");
        }
    }
}

#[test]
fn only_the_gradients_asked_for_are_computed() {
    let case = small();
    let isa = Isa::detect().base();
    let [_, of_x, spline, ..] = case.run(isa, &mut Scratch::new(), 1);
    let mut lone = [vec![0.0; of_x.len()], vec![0.0; spline.len()]];
    let [x, s] = &mut lone;
    for gradients in [
        Gradients { x: Some(x), ..Gradients::default() },
        Gradients { spline: Some(s), ..Gradients::default() },
        Gradients::default(),
    ] {
        let Case { geometry, shape, x, dy, .. } = &case;
        let (weights, scratch) = (case.weights(), &mut Scratch::new());
        conv_backward(isa, geometry, weights, x, shape, dy, gradients, scratch, 1).unwrap();
    }
    assert!(lone == [of_x, spline]);
}
