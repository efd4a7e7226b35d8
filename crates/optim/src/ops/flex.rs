//! Our operations on burn's CPU backend.

use std::sync::Arc;

use burn::backend::Flex;
use burn::backend::flex::FlexTensor;
use updraft_simd::keep_memory;

use super::extension::{Moved, OptimBackend, Updated};
use crate::kernels::numbers::{AdamWUpdate, Momentum, SgdUpdate};
use crate::kernels::{adamw, sgd};

impl OptimBackend for Flex {
    fn adamw(
        parameter: FlexTensor,
        gradient: FlexTensor,
        first: FlexTensor,
        second: FlexTensor,
        update: AdamWUpdate,
    ) -> Updated<Self> {
        let [mut parameter, gradient, mut first, mut second] =
            [parameter, gradient, first, second].map(contiguous);
        // Memory that another tensor shares, an average of the weights for example, is copied here.
        let moments = [first.storage_mut(), second.storage_mut()];
        adamw::step(update, parameter.storage_mut(), gradient.storage(), moments);
        keep(gradient);
        Updated { parameter, first, second }
    }

    fn sgd(parameter: FlexTensor, gradient: FlexTensor, update: SgdUpdate) -> FlexTensor {
        let [mut parameter, gradient] = [parameter, gradient].map(contiguous);
        sgd::step(update, parameter.storage_mut(), gradient.storage());
        keep(gradient);
        parameter
    }

    fn sgd_with_momentum(
        parameter: FlexTensor,
        gradient: FlexTensor,
        velocity: FlexTensor,
        update: SgdUpdate,
        momentum: Momentum,
    ) -> Moved<Self> {
        let [mut parameter, gradient, mut velocity] =
            [parameter, gradient, velocity].map(contiguous);
        let (numbers, velocities) = (parameter.storage_mut(), velocity.storage_mut());
        sgd::step_with_momentum(update, momentum, numbers, gradient.storage(), velocities);
        keep(gradient);
        Moved { parameter, velocity }
    }
}

/// The tensor, its numbers in order; not held twice, since then it would be copied to be written.
fn contiguous(tensor: FlexTensor) -> FlexTensor {
    let in_order = tensor.to_contiguous();
    drop(tensor);
    in_order
}

/// Keeps the memory of a gradient without other owners for the next backward pass.
fn keep(gradient: FlexTensor) {
    let data = gradient.data_arc();
    drop(gradient);
    let memory = Arc::try_unwrap(data).ok().and_then(|bytes| bytes.try_into_vec().ok());
    memory.into_iter().for_each(keep_memory);
}

#[cfg(test)]
mod tests {
    use burn::tensor::{Device, Tensor, TensorData};
    use updraft_simd::{release_memory, take_memory};

    use super::*;

    #[test]
    fn the_memory_of_a_gradient_is_kept_unless_something_else_owns_it() {
        // A length that no other test uses: the list is shared by the process.
        let len = (1 << 14) + 13_579;
        let tensor =
            || Tensor::<1>::from_data(TensorData::new(vec![1.0_f32; len], [len]), &Device::flex());
        let update = SgdUpdate { penalty: None, rate: 0.5 };
        assert!(take_memory(len).is_empty());
        let gradient = tensor();
        let _ = crate::ops::sgd(tensor(), gradient.clone(), update);
        assert!(take_memory(len).is_empty(), "the test holds it still");
        let _ = crate::ops::sgd(tensor(), gradient, update);
        assert_eq!(take_memory(len).len(), len);
        release_memory();
    }
}
