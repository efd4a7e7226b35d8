//! Convolutions of volumes on GPUs whose strides are longer than their windows, and transposed ones:
//! burn 0.22.1 computes zeros for the latter, which are also the gradient of the former's input.

use burn::tensor::ops::{ConvOptions, ConvTransposeOptions};
use burn::tensor::{Int, Tensor, module};

/// Whether burn's transposed convolution reads no input on an axis: its kernel,
/// `conv_transpose3d_kernel` of burn-cubecl 0.22.1, reads `taps·dilation − stride + 1` inputs for each
/// output.
fn reads_nothing(taps: usize, dilation: usize, stride: usize) -> bool {
    (1..stride).contains(&(taps * dilation))
}

/// The voxels that the windows of such a convolution visit, window by window, and the convolution of
/// these voxels, whose windows touch and have no gaps.
pub(super) fn visited(
    mut x: Tensor<5>,
    kernel: [usize; 3],
    mut options: ConvOptions<3>,
) -> (Tensor<5>, ConvOptions<3>) {
    for (axis, taps) in kernel.into_iter().enumerate() {
        let (dilation, stride) = (options.dilation[axis], options.stride[axis]);
        if !reads_nothing(taps, dilation, stride) {
            continue;
        }
        let (before, after) = options.padding[axis];
        let side = x.dims()[axis + 2] + before + after;
        // burn reports a window that is larger than its input.
        let Some(rest) = side.checked_sub(dilation * (taps - 1) + 1) else { continue };
        let windows = 0..=rest / stride;
        let of_window =
            |window: usize| (0..taps).map(move |tap| (window * stride + tap * dilation) as i32);
        let places: Vec<i32> = windows.flat_map(of_window).collect();
        x = selected(padded(x, axis + 2, [before, after]), axis + 2, &places);
        options.stride[axis] = taps;
        options.dilation[axis] = 1;
        options.padding[axis] = (0, 0);
    }
    (x, options)
}

/// Convolves volumes transposed: the products of each input next to each other, which are then
/// selected, with zeros between them.
///
/// # Panics
/// If there is no output.
pub(super) fn transposed(
    x: Tensor<5>,
    weight: Tensor<5>,
    bias: Option<Tensor<1>>,
    options: ConvTransposeOptions<3>,
) -> Tensor<5> {
    let [_, _, kernel @ ..] = weight.dims();
    let axes = [0, 1, 2].map(|axis: usize| {
        reads_nothing(kernel[axis], options.dilation[axis], options.stride[axis])
    });
    if !axes.contains(&true) {
        return module::conv_transpose3d(x, weight, bias, options);
    }
    let [_, _, sides @ ..] = x.dims();
    let mut dense = options.clone();
    for axis in (0..3).filter(|&axis| axes[axis]) {
        dense.stride[axis] = kernel[axis];
        dense.dilation[axis] = 1;
        (dense.padding[axis], dense.padding_out[axis]) = (0, 0);
    }
    let mut y = module::conv_transpose3d(x, weight, None, dense);
    for axis in (0..3).filter(|&axis| axes[axis]) {
        let (taps, stride, dilation) = (kernel[axis], options.stride[axis], options.dilation[axis]);
        let padding = options.padding[axis];
        let all = sides[axis].saturating_sub(1) * stride + dilation * (taps - 1) + 1;
        let end = all + options.padding_out[axis];
        assert!(end > 2 * padding, "conv_transpose: the padding leaves no output");
        // The zero behind the products, where no input has one.
        let zero = sides[axis] * taps;
        let places: Vec<i32> = (padding..end - padding)
            .map(|place| {
                let (input, rest) = (place / stride, place % stride);
                let tap = rest / dilation;
                let has_product =
                    input < sides[axis] && rest.is_multiple_of(dilation) && tap < taps;
                (if has_product { input * taps + tap } else { zero }) as i32
            })
            .collect();
        y = selected(padded(y, axis + 2, [0, 1]), axis + 2, &places);
    }
    match bias {
        Some(bias) => {
            let channels = y.dims()[1];
            y + bias.reshape([1, channels, 1, 1, 1])
        }
        None => y,
    }
}

/// Zeros before and after the voxels of an axis.
fn padded(x: Tensor<5>, axis: usize, sides: [usize; 2]) -> Tensor<5> {
    if sides == [0, 0] {
        return x;
    }
    let zeros = |side: usize| {
        let mut dims = x.dims();
        dims[axis] = side;
        Tensor::<5>::zeros(dims, &x.device()).cast(x.dtype())
    };
    let [before, after] = sides.map(|side| (side > 0).then(|| zeros(side)));
    Tensor::cat([before, Some(x), after].into_iter().flatten().collect(), axis)
}

fn selected(x: Tensor<5>, axis: usize, places: &[i32]) -> Tensor<5> {
    let places = Tensor::<1, Int>::from_ints(places, &x.device());
    x.select(axis, places)
}
