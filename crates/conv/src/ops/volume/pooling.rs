//! The maximum or the average of windows of volumes.

use burn::tensor::ops::{AvgPoolOptions, MaxPoolOptions};
use burn::tensor::{Tensor, module};
use updraft_simd::{mark_plain, time_operation};

use crate::kernels::{Divisor, Pooling};
use crate::ops::path::LayerPath;

/// Windows of one size; axes are depth, height and width.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Window3d {
    pub(crate) kernel: [usize; 3],
    pub(crate) stride: [usize; 3],
    pub(crate) padding: [usize; 3],
    pub(crate) dilation: [usize; 3],
}

pub(crate) fn pool_3d(
    x: Tensor<5>,
    pooling: Pooling,
    window: Window3d,
    divisor: Divisor,
    forced: Option<LayerPath>,
) -> Tensor<5> {
    time_operation(pooling.name(), || pool_by(x, pooling, window, divisor, forced))
}

fn pool_by(
    x: Tensor<5>,
    pooling: Pooling,
    window: Window3d,
    divisor: Divisor,
    forced: Option<LayerPath>,
) -> Tensor<5> {
    match LayerPath::picked(forced, &x.device(), x.dtype()) {
        #[cfg(feature = "flex")]
        LayerPath::Kernels(isa) if x.dims()[0] > 0 => {
            use std::sync::Arc;

            use burn::backend::Dispatch;
            use burn::tensor::FloatDType;

            use super::extension::VolumeBackend;
            use crate::kernels::{PoolGeometry, PoolShape};
            use crate::ops::extension::PoolSpec;

            let [batch, channels, input @ ..] = x.dims();
            let Window3d { kernel, stride, padding, dilation } = window;
            let planes = batch * channels;
            let shape = PoolShape { planes, input, kernel, stride, padding, dilation };
            let geometry = PoolGeometry::try_new(shape, divisor)
                .unwrap_or_else(|error| panic!("pooling of volumes: {error}"));
            let (geometry, planes) = (Arc::new(geometry), [batch, channels]);
            let spec = PoolSpec { pooling, geometry, planes, isa };
            let dtype = x.dtype();
            let x = x.cast(FloatDType::F32).into_dispatch();
            Tensor::<5>::from_dispatch(Dispatch::pooling_3d(x, spec)).cast(dtype)
        }
        _ => plain(x, pooling, window, divisor),
    }
}

/// Slices as images, then the depth as the height of an image of all pixels.
fn plain(x: Tensor<5>, pooling: Pooling, window: Window3d, divisor: Divisor) -> Tensor<5> {
    mark_plain();
    let [batch, channels, depth, height, width] = x.dims();
    let Window3d { kernel, stride, padding, dilation } = window;
    let pool = |x: Tensor<4>, axes: [Option<usize>; 2]| {
        let of =
            |sides: [usize; 3], other: usize| axes.map(|axis| axis.map_or(other, |a| sides[a]));
        let pairs = of(padding, 0).map(|zeros| (zeros, zeros));
        match pooling {
            Pooling::Max => {
                let options = MaxPoolOptions::new(of(kernel, 1))
                    .with_stride(of(stride, 1))
                    .with_padding_pairs(pairs)
                    .with_dilation(of(dilation, 1))
                    .with_ceil_mode(false);
                module::max_pool2d(x, options)
            }
            Pooling::Average => {
                let options = AvgPoolOptions::new(of(kernel, 1))
                    .with_stride(of(stride, 1))
                    .with_padding_pairs(pairs)
                    .with_count_include_pad(divisor == Divisor::Window)
                    .with_ceil_mode(false);
                module::avg_pool2d(x, options)
            }
        }
    };
    let x = x.reshape([batch, channels * depth, height, width]);
    let x = pool(x, [Some(1), Some(2)]);
    let [_, _, rows, columns] = x.dims();
    let x = pool(x.reshape([batch, channels, depth, rows * columns]), [Some(0), None]);
    let [_, _, depth, _] = x.dims();
    x.reshape([batch, channels, depth, rows, columns])
}
