//! The norm of gradients on burn's backend for GPUs: one launch for each gradient, and one for all.

use burn::tensor::Shape;
use burn_cubecl::CubeBackend;
use burn_cubecl::kernel::into_contiguous;
use burn_cubecl::ops::numeric::empty_device_contiguous_dtype;
use burn_cubecl::tensor::CubeTensor;

use super::cube_parts::{Norm, NormBackend};
use crate::kernels::cube::{self, NormBuffers};

impl NormBackend for CubeBackend {
    fn square_parts(parts: CubeTensor, gradient: CubeTensor, row: usize) -> CubeTensor {
        let parts = into_contiguous(parts);
        // The caller has made it for this, and holds no other.
        let parts = if parts.can_mut() { parts } else { into_contiguous(parts.copy()) };
        let gradient = into_contiguous(gradient);
        let len = gradient.meta.shape().num_elements();
        if len > 0 {
            let client = gradient.client.clone();
            let to = parts.clone().into_buffer_arg();
            cube::square_parts(&client, len, gradient.into_buffer_arg(), to, row);
        }
        parts
    }

    fn sums_of_parts(parts: CubeTensor) -> CubeTensor {
        let parts = into_contiguous(parts);
        let gradients = parts.meta.shape()[0];
        let sums = empty(&parts, [gradients]);
        let client = parts.client.clone();
        let to = sums.clone().into_buffer_arg();
        cube::fold(&client, gradients, parts.into_buffer_arg(), to);
        sums
    }

    fn norm_of_parts(parts: CubeTensor, scale: CubeTensor, most: f32) -> Norm<Self> {
        let parts = into_contiguous(parts);
        let [norm, is_finite, factor] = [(); 3].map(|()| empty(&parts, [1_usize]));
        let count = parts.meta.shape().num_elements();
        let client = parts.client.clone();
        let buffers = NormBuffers {
            parts: parts.into_buffer_arg(),
            scale: scale.into_buffer_arg(),
            norm: norm.clone().into_buffer_arg(),
            is_finite: is_finite.clone().into_buffer_arg(),
            factor: factor.clone().into_buffer_arg(),
        };
        cube::norm(&client, count, buffers, most);
        Norm { norm, is_finite, factor }
    }
}

/// A result, not yet written.
fn empty(like: &CubeTensor, shape: impl Into<Shape>) -> CubeTensor {
    empty_device_contiguous_dtype(
        like.client.clone(),
        like.device.clone(),
        shape.into(),
        like.dtype,
    )
}
