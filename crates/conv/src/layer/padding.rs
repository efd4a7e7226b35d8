//! The padding before and after each axis for burn's padding configurations.

use burn::nn::{PaddingConfig1d, PaddingConfig2d, PaddingConfig3d};

/// Before and after an axis that keeps its size at stride 1; an odd one goes after.
///
/// Like burn, it ignores the dilation.
fn same(input: usize, kernel: usize, stride: usize) -> (usize, usize) {
    let outputs = input.div_ceil(stride);
    let all = (outputs.saturating_sub(1) * stride + kernel).saturating_sub(input);
    (all / 2, all - all / 2)
}

pub(super) fn on_one_axis(
    padding: &PaddingConfig1d,
    input: usize,
    kernel: usize,
    stride: usize,
) -> (usize, usize) {
    match *padding {
        PaddingConfig1d::Valid => (0, 0),
        PaddingConfig1d::Same => same(input, kernel, stride),
        PaddingConfig1d::Explicit(left, right) => (left, right),
    }
}

pub(super) fn on_both_axes(
    padding: &PaddingConfig2d,
    input: [usize; 2],
    kernel: [usize; 2],
    stride: [usize; 2],
) -> [(usize, usize); 2] {
    match *padding {
        PaddingConfig2d::Valid => [(0, 0); 2],
        PaddingConfig2d::Same => [0, 1].map(|axis| same(input[axis], kernel[axis], stride[axis])),
        PaddingConfig2d::Explicit(top, left, bottom, right) => [(top, bottom), (left, right)],
    }
}

pub(super) fn on_all_axes(
    padding: &PaddingConfig3d,
    input: [usize; 3],
    kernel: [usize; 3],
    stride: [usize; 3],
) -> [(usize, usize); 3] {
    match *padding {
        PaddingConfig3d::Valid => [(0, 0); 3],
        PaddingConfig3d::Same => {
            [0, 1, 2].map(|axis| same(input[axis], kernel[axis], stride[axis]))
        }
        PaddingConfig3d::Explicit(depth, height, width) => {
            [depth, height, width].map(|zeros| (zeros, zeros))
        }
    }
}
