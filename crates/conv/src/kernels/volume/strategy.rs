//! The choice of the algorithm for a pass of a convolution of volumes, with the reason.

use updraft_simd::Isa;

use super::geometry::{Conv3dGeometry, Conv3dShape};
use super::plan::Plan;
use crate::kernels::strategy::{Algorithm, Pass, Strategy};

/// The choice of the algorithm for a pass of a convolution of volumes, with the reason.
///
/// The algorithm of [`Conv3dGeometry::with_algorithm`] is used in every pass that it can compute.
#[must_use]
pub fn strategy_3d(isa: Isa, geometry: &Conv3dGeometry, pass: Pass) -> Strategy {
    let isa = isa.base();
    let chosen = |algorithm, reason| Strategy { algorithm, isa, reason };
    if let Some(algorithm) = geometry.forced()
        && refusal(algorithm, geometry, pass).is_none()
        && (algorithm != Algorithm::DirectByPixel || fills(isa, geometry, pass))
    {
        return chosen(algorithm, "asked for");
    }
    if gains_from_winograd(geometry, pass) {
        return chosen(Algorithm::Winograd, "many channels: a quarter of the products");
    }
    match pass {
        Pass::WeightGradient => chosen(Algorithm::DirectByChannel, "lanes are output channels"),
        _ if is_by_pixel(isa, &plan(geometry, pass)) => {
            chosen(Algorithm::DirectByPixel, "rows of voxels fill vectors")
        }
        _ => chosen(Algorithm::DirectByChannel, "channels fill vectors better than rows of voxels"),
    }
}

fn plan(geometry: &Conv3dGeometry, pass: Pass) -> Plan {
    match pass {
        Pass::InputGradient => Plan::input_gradient(geometry),
        Pass::Forward | Pass::WeightGradient => Plan::forward(geometry),
    }
}

/// Whether rows of results are at least a vector long.
fn fills(isa: Isa, geometry: &Conv3dGeometry, pass: Pass) -> bool {
    plan(geometry, pass).results[2] >= isa.lanes()
}

/// The requirement that a pass does not meet; `None` if the algorithm can compute it.
pub(super) fn refusal(
    algorithm: Algorithm,
    geometry: &Conv3dGeometry,
    pass: Pass,
) -> Option<&'static str> {
    let Conv3dShape { kernel, stride, dilation, .. } = *geometry.shape();
    let (needs, is_met) = match algorithm {
        Algorithm::DirectByChannel => return None,
        Algorithm::DirectByPixel => (
            "windows that lie side by side, in a pass that sums over them",
            pass != Pass::WeightGradient && plan(geometry, pass).is_side_by_side(),
        ),
        Algorithm::Winograd => (
            "a kernel of 3×3 in each slice with stride and dilation 1 there, and for the input's \
             gradient along the depth",
            kernel[1..] == [3, 3]
                && stride[1..] == [1, 1]
                && dilation[1..] == [1, 1]
                && (pass != Pass::InputGradient || stride[0] == 1),
        ),
        Algorithm::DepthwiseByChannel | Algorithm::DepthwiseByPixel => ("an image", false),
    };
    (!is_met).then_some(needs)
}

/// Whether the products that Winograd's algorithm saves take longer than its transforms.
fn gains_from_winograd(geometry: &Conv3dGeometry, pass: Pass) -> bool {
    let Conv3dShape { channels, groups, .. } = *geometry.shape();
    let [_, height, width] = geometry.output();
    let tiles = height.div_ceil(4) * width.div_ceil(4);
    refusal(Algorithm::Winograd, geometry, pass).is_none()
        && channels.iter().all(|channels| channels / groups >= 16)
        // Tiles of results reach over the slice.
        && 16 * tiles * 5 <= 8 * height * width
}

/// Whether sums over voxels fill vectors better than sums over channels.
pub(super) fn is_by_pixel(isa: Isa, plan: &Plan) -> bool {
    let filled = |count: usize| count as f64 / count.next_multiple_of(isa.lanes()) as f64;
    let (columns, channels) = (plan.results[2], plan.channels[1]);
    plan.is_side_by_side()
        && columns >= isa.lanes()
        // With lanes full, sums over voxels take three quarters of the time of sums over channels.
        && filled(columns) >= 0.75 * filled(channels)
}
