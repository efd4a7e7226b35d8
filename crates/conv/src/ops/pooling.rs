//! The maximum or the average of windows.

use burn::tensor::ops::{AvgPoolOptions, MaxPoolOptions};
use burn::tensor::{Tensor, module};
use updraft_simd::{mark_plain, time_operation};

use super::path::LayerPath;
use crate::kernels::{Divisor, PoolGeometry, PoolShape, Pooling};

/// Windows of one size.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Window {
    pub(crate) kernel: [usize; 2],
    pub(crate) stride: [usize; 2],
    /// Padding before and after, on each axis.
    pub(crate) padding: [(usize, usize); 2],
    pub(crate) dilation: [usize; 2],
    /// Whether a last window may reach beyond the padded input.
    pub(crate) ceil_mode: bool,
}

impl Window {
    /// The windows of our kernels: equal padding on both sides, no window beyond it.
    fn geometry(&self, x: &Tensor<4>, divisor: Divisor) -> Option<PoolGeometry> {
        let [batch, channels, height, width] = x.dims();
        let Self { kernel, stride, padding, dilation, ceil_mode } = *self;
        if ceil_mode || padding.iter().any(|(before, after)| before != after) {
            return None;
        }
        let padding = padding.map(|(before, _)| before);
        let (planes, input) = (batch * channels, [height, width]);
        let shape = PoolShape { planes, input, kernel, stride, padding, dilation };
        PoolGeometry::try_new(shape, divisor).ok()
    }
}

pub(crate) fn max_pool(x: Tensor<4>, window: Window, forced: Option<LayerPath>) -> Tensor<4> {
    let geometry = window.geometry(&x, Divisor::Window);
    pool(x, Pooling::Max, geometry, forced, |x| {
        let Window { kernel, stride, padding, dilation, ceil_mode } = window;
        let options = MaxPoolOptions::new(kernel)
            .with_stride(stride)
            .with_padding_pairs(padding)
            .with_dilation(dilation)
            .with_ceil_mode(ceil_mode);
        module::max_pool2d(x, options)
    })
}

pub(crate) fn average_pool(
    x: Tensor<4>,
    window: Window,
    divisor: Divisor,
    forced: Option<LayerPath>,
) -> Tensor<4> {
    let geometry = window.geometry(&x, divisor);
    pool(x, Pooling::Average, geometry, forced, |x| {
        let Window { kernel, stride, padding, ceil_mode, .. } = window;
        let options = AvgPoolOptions::new(kernel)
            .with_stride(stride)
            .with_padding_pairs(padding)
            .with_count_include_pad(divisor == Divisor::Window)
            .with_ceil_mode(ceil_mode);
        module::avg_pool2d(x, options)
    })
}

pub(crate) fn adaptive_average_pool(
    x: Tensor<4>,
    output: [usize; 2],
    forced: Option<LayerPath>,
) -> Tensor<4> {
    let [batch, channels, height, width] = x.dims();
    let geometry = PoolGeometry::adaptive(batch * channels, [height, width], output).ok();
    pool(x, Pooling::Average, geometry, forced, |x| module::adaptive_avg_pool2d(x, output))
}

/// By our kernels if they support it, else by burn's own operation.
fn pool(
    x: Tensor<4>,
    pooling: Pooling,
    geometry: Option<PoolGeometry>,
    forced: Option<LayerPath>,
    plain: impl FnOnce(Tensor<4>) -> Tensor<4>,
) -> Tensor<4> {
    time_operation(pooling.name(), || pool_by(x, pooling, geometry, forced, plain))
}

fn pool_by(
    x: Tensor<4>,
    pooling: Pooling,
    geometry: Option<PoolGeometry>,
    forced: Option<LayerPath>,
    plain: impl FnOnce(Tensor<4>) -> Tensor<4>,
) -> Tensor<4> {
    match (LayerPath::picked(forced, &x.device(), x.dtype()), geometry) {
        #[cfg(feature = "flex")]
        (LayerPath::Kernels(isa), Some(geometry)) => {
            use std::sync::Arc;

            use burn::backend::Dispatch;
            use burn::tensor::FloatDType;

            use super::extension::{ConvBackend, PoolSpec};

            let [batch, channels, ..] = x.dims();
            let dtype = x.dtype();
            let (geometry, planes) = (Arc::new(geometry), [batch, channels]);
            let spec = PoolSpec { pooling, geometry, planes, isa };
            let x = x.cast(FloatDType::F32).into_dispatch();
            Tensor::<4>::from_dispatch(Dispatch::pooling(x, spec)).cast(dtype)
        }
        (_, geometry) => {
            let context =
                "the kernels need padding that is alike on both sides, and no window beyond";
            assert!(!matches!(forced, Some(LayerPath::Kernels(_))), "{context}");
            let _ = (pooling, geometry);
            mark_plain();
            plain(x)
        }
    }
}
