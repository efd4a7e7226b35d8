//! Our operations on burn's backend for GPUs: one launch for each parameter, in its memory.

use burn_cubecl::CubeBackend;
use burn_cubecl::kernel::into_contiguous;
use burn_cubecl::ops::numeric::empty_device_contiguous_dtype;
use burn_cubecl::tensor::CubeTensor;

use super::extension::{ControlledBackend, Moved, OptimBackend, Updated};
use crate::kernels::cube::{self, AdamWBuffers, CONTROL, CorrectionBuffers, SgdBuffers};
use crate::kernels::numbers::{AdamWUpdate, Momentum, SgdUpdate};

impl OptimBackend for CubeBackend {
    fn adamw(
        parameter: CubeTensor,
        gradient: CubeTensor,
        first: CubeTensor,
        second: CubeTensor,
        update: AdamWUpdate,
    ) -> Updated<Self> {
        adamw([parameter, first, second], gradient, None, update)
    }

    fn sgd(parameter: CubeTensor, gradient: CubeTensor, update: SgdUpdate) -> CubeTensor {
        sgd(parameter, gradient, None, update)
    }

    fn sgd_with_momentum(
        parameter: CubeTensor,
        gradient: CubeTensor,
        velocity: CubeTensor,
        update: SgdUpdate,
        momentum: Momentum,
    ) -> Moved<Self> {
        sgd_with_momentum([parameter, velocity], gradient, None, update, momentum)
    }
}

impl ControlledBackend for CubeBackend {
    fn adamw_control(
        factor: CubeTensor,
        is_applied: CubeTensor,
        applied: CubeTensor,
        missed: CubeTensor,
        beta: [f32; 2],
    ) -> CubeTensor {
        let control = empty_device_contiguous_dtype(
            factor.client.clone(),
            factor.device.clone(),
            [CONTROL].into(),
            factor.dtype,
        );
        let client = factor.client.clone();
        let [factor, is_applied, applied, missed] =
            [factor, is_applied, applied, missed].map(CubeTensor::into_buffer_arg);
        let buffers = CorrectionBuffers { factor, is_applied, applied, missed };
        cube::correct(&client, buffers, beta, control.clone().into_buffer_arg());
        control
    }

    fn adamw_controlled(
        parameter: CubeTensor,
        gradient: CubeTensor,
        first: CubeTensor,
        second: CubeTensor,
        control: CubeTensor,
        update: AdamWUpdate,
    ) -> Updated<Self> {
        adamw([parameter, first, second], gradient, Some(control), update)
    }

    fn sgd_controlled(
        parameter: CubeTensor,
        gradient: CubeTensor,
        factor: CubeTensor,
        is_applied: CubeTensor,
        update: SgdUpdate,
    ) -> CubeTensor {
        sgd(parameter, gradient, Some([factor, is_applied]), update)
    }

    fn sgd_with_momentum_controlled(
        parameter: CubeTensor,
        gradient: CubeTensor,
        velocity: CubeTensor,
        factor: CubeTensor,
        is_applied: CubeTensor,
        update: SgdUpdate,
        momentum: Momentum,
    ) -> Moved<Self> {
        let control = Some([factor, is_applied]);
        sgd_with_momentum([parameter, velocity], gradient, control, update, momentum)
    }
}

fn adamw(
    changed: [CubeTensor; 3],
    gradient: CubeTensor,
    control: Option<CubeTensor>,
    update: AdamWUpdate,
) -> Updated<CubeBackend> {
    let [parameter, first, second] = changed.map(owned);
    let len = parameter.meta.shape().num_elements();
    if len > 0 {
        let gradient = into_contiguous(gradient);
        let client = parameter.client.clone();
        let is_controlled = control.is_some();
        // A kernel has a fixed number of buffers: one that is only read may be bound twice.
        let control = control.unwrap_or_else(|| gradient.clone()).into_buffer_arg();
        let [first_arg, second_arg] =
            [&first, &second].map(|moment| moment.clone().into_buffer_arg());
        let buffers = AdamWBuffers {
            parameter: parameter.clone().into_buffer_arg(),
            gradient: gradient.into_buffer_arg(),
            moments: [first_arg, second_arg],
        };
        cube::adamw(&client, len, buffers, control, is_controlled, update);
    }
    Updated { parameter, first, second }
}

fn sgd(
    parameter: CubeTensor,
    gradient: CubeTensor,
    control: Option<[CubeTensor; 2]>,
    update: SgdUpdate,
) -> CubeTensor {
    let parameter = owned(parameter);
    let len = parameter.meta.shape().num_elements();
    if len > 0 {
        let client = parameter.client.clone();
        cube::sgd(&client, len, buffers(&parameter, gradient, control), update);
    }
    parameter
}

fn sgd_with_momentum(
    changed: [CubeTensor; 2],
    gradient: CubeTensor,
    control: Option<[CubeTensor; 2]>,
    update: SgdUpdate,
    momentum: Momentum,
) -> Moved<CubeBackend> {
    let [parameter, velocity] = changed.map(owned);
    let len = parameter.meta.shape().num_elements();
    if len > 0 {
        let client = parameter.client.clone();
        let buffers = buffers(&parameter, gradient, control);
        let velocity = velocity.clone().into_buffer_arg();
        cube::sgd_with_momentum(&client, len, buffers, velocity, update, momentum);
    }
    Moved { parameter, velocity }
}

fn buffers(
    parameter: &CubeTensor,
    gradient: CubeTensor,
    control: Option<[CubeTensor; 2]>,
) -> SgdBuffers {
    let gradient = into_contiguous(gradient);
    let is_controlled = control.is_some();
    let control = control.unwrap_or_else(|| [gradient.clone(), gradient.clone()]);
    SgdBuffers {
        parameter: parameter.clone().into_buffer_arg(),
        gradient: gradient.into_buffer_arg(),
        control: control.map(CubeTensor::into_buffer_arg),
        is_controlled,
    }
}

/// The tensor, its numbers in order, in memory that nothing else holds: an average of the weights
/// for example keeps its numbers.
fn owned(tensor: CubeTensor) -> CubeTensor {
    let tensor = into_contiguous(tensor);
    let len = tensor.meta.shape().num_elements();
    if tensor.can_mut() || len == 0 {
        return tensor;
    }
    let copy = empty_device_contiguous_dtype(
        tensor.client.clone(),
        tensor.device.clone(),
        tensor.meta.shape().clone(),
        tensor.dtype,
    );
    let client = tensor.client.clone();
    cube::copy(&client, len, tensor.into_buffer_arg(), copy.clone().into_buffer_arg());
    copy
}
