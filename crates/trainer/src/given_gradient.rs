//! A scalar with a given gradient, from which the backward pass of a recomputed segment starts.

use burn::tensor::Tensor;

/// A scalar whose gradient with respect to `x` is `gradient`; its value is unspecified.
///
/// On flex, neither `x` nor a second tensor of its size is kept.
///
/// # Shapes
/// - `x`, `gradient`: any, the same; `gradient` without a graph
/// - returns: `[1]`
pub(crate) fn given_gradient<const D: usize>(x: Tensor<D>, gradient: Tensor<D>) -> Tensor<1> {
    #[cfg(feature = "flex")]
    if flex::runs_on(&x.device()) {
        return flex::given_gradient(x, gradient);
    }
    plain(x, gradient)
}

/// `Σ x·gradient`.
fn plain<const D: usize>(x: Tensor<D>, gradient: Tensor<D>) -> Tensor<1> {
    let count = x.shape().num_elements();
    let gradient = Tensor::from_inner(gradient);
    if count == 0 {
        return (x * gradient).sum();
    }
    // A matrix product: its gradient is `gradient` times one number, and neither the products nor a
    // tensor of ones have to be in memory.
    let [row, column] = [(x, [1, count]), (gradient, [count, 1])]
        .map(|(tensor, shape)| tensor.reshape::<2, _>(shape));
    row.matmul(column).reshape([1])
}

#[cfg(feature = "flex")]
mod flex {
    use burn::backend::autodiff::checkpoint::base::Checkpointer;
    use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
    use burn::backend::autodiff::grads::Gradients;
    use burn::backend::autodiff::ops::{Backward, Ops, OpsKind};
    use burn::backend::flex::FlexTensor;
    use burn::backend::tensor::FloatTensor;
    use burn::backend::{Autodiff, Backend, Dispatch, DispatchDevice, Flex, backend_extension};
    use burn::tensor::{Device, Tensor, TensorData};

    /// A scalar whose gradient is given.
    #[backend_extension(Flex, Autodiff)]
    pub(super) trait GivenGradient: Backend {
        /// The scalar.
        fn given_gradient(x: FloatTensor<Self>, gradient: FloatTensor<Self>) -> FloatTensor<Self>;
    }

    impl GivenGradient for Flex {
        fn given_gradient(_: FlexTensor, _: FlexTensor) -> FlexTensor {
            FlexTensor::from_data(TensorData::new(vec![0.0_f32], [1]))
        }
    }

    impl<B: GivenGradient, C: CheckpointStrategy> GivenGradient for Autodiff<B, C> {
        fn given_gradient(x: FloatTensor<Self>, gradient: FloatTensor<Self>) -> FloatTensor<Self> {
            let prepared = Given.prepare::<C>([x.node()]).compute_bound().stateful();
            let gradient = gradient.into_primitive();
            let scalar = B::given_gradient(x.into_primitive(), gradient.clone());
            match prepared {
                OpsKind::Tracked(prepared) => prepared.finish(gradient, scalar),
                OpsKind::UnTracked(prepared) => prepared.finish(scalar),
            }
        }
    }

    /// The gradient is the state: that of the scalar is 1.
    #[derive(Debug)]
    struct Given;

    impl<B: Backend> Backward<B, 1> for Given {
        type State = FloatTensor<B>;

        fn backward(
            self,
            ops: Ops<Self::State, 1>,
            gradients: &mut Gradients,
            _: &mut Checkpointer,
        ) {
            let _ones = gradients.consume::<B>(&ops.node);
            let ([parent], gradient) = (ops.parents, ops.state);
            if let Some(node) = parent {
                gradients.register::<B>(node.id, gradient);
            }
        }
    }

    /// burn panics if an extension runs on a backend that it was not declared for.
    pub(super) fn runs_on(device: &Device) -> bool {
        fn is_flex(device: &DispatchDevice) -> bool {
            match device {
                DispatchDevice::Flex(_) => true,
                DispatchDevice::Autodiff(inner) => is_flex(inner),
                #[allow(unreachable_patterns, reason = "burn's variants depend on its features")]
                _ => false,
            }
        }
        is_flex(device.as_dispatch())
    }

    pub(super) fn given_gradient<const D: usize>(x: Tensor<D>, gradient: Tensor<D>) -> Tensor<1> {
        let [x, gradient] = [x, Tensor::from_inner(gradient)].map(Tensor::into_dispatch);
        Tensor::from_dispatch(<Dispatch as GivenGradient>::given_gradient(x, gradient))
    }
}

#[cfg(test)]
mod tests {
    use burn::tensor::Distribution;

    use super::*;

    #[test]
    fn the_gradient_is_the_given_one_times_what_comes_before() {
        for device in updraft_testing::autodiff_devices() {
            let inner = device.clone().inner();
            for sides in [[2, 3], [1, 1], [0, 4]] {
                let x = Tensor::<2>::random(sides, Distribution::Default, &device).require_grad();
                let gradient = Tensor::<2>::random(sides, Distribution::Default, &inner);
                for scalar in [
                    given_gradient(x.clone() * 3.0, gradient.clone()),
                    plain(x.clone() * 3.0, gradient.clone()),
                ] {
                    let found = x.grad(&scalar.backward()).expect("x is on the graph");
                    found.into_data().assert_approx_eq::<f32>(
                        &(gradient.clone() * 3.0).into_data(),
                        burn::tensor::Tolerance::relative(1e-6),
                    );
                }
            }
        }
    }

    #[test]
    fn a_tensor_without_a_graph_gives_a_scalar_without_one() {
        for device in updraft_testing::autodiff_devices() {
            let x = Tensor::<2>::ones([2, 3], &device);
            let gradient = Tensor::ones([2, 3], &device.clone().inner());
            assert!(!given_gradient(x, gradient).is_tracked());
        }
    }
}
