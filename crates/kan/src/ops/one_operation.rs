//! A layer whose gradients burn computes, as one operation of the graph of gradients, to time them.

use burn::tensor::Tensor;

/// The input and the parameters of a layer.
#[derive(Debug, Clone)]
pub(crate) struct Operands<const D: usize> {
    pub(crate) x: Tensor<D>,
    pub(crate) coefficients: Tensor<3>,
    /// Parameters of the functions.
    pub(crate) functions: Option<Tensor<2>>,
    /// Weights of the base branch.
    pub(crate) base: Option<Tensor<2>>,
    pub(crate) bias: Option<Tensor<1>>,
}

/// The outputs of a layer by burn's operations.
///
/// While a [`LayerTimer`](updraft_simd::LayerTimer) records on a CPU, they have a graph of their own,
/// whose gradients are computed at once and timed; the numbers are the same, bit for bit.
pub(crate) fn as_one_operation<const D: usize>(
    operands: Operands<D>,
    run: impl FnOnce(Operands<D>) -> Tensor<D>,
) -> Tensor<D> {
    #[cfg(all(feature = "flex", feature = "autodiff"))]
    if recorded::is_wanted(&operands) {
        return recorded::run(operands, run);
    }
    run(operands)
}

#[cfg(all(feature = "flex", feature = "autodiff"))]
mod recorded {
    use std::marker::PhantomData;

    use burn::backend::autodiff::checkpoint::base::Checkpointer;
    use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
    use burn::backend::autodiff::grads::Gradients;
    use burn::backend::autodiff::ops::{Backward, Ops, OpsKind};
    use burn::backend::flex::FlexTensor;
    use burn::backend::ops::FloatTensorOps;
    use burn::backend::tensor::FloatTensor;
    use burn::backend::{Autodiff, Backend, Dispatch, ExtensionType, Flex, backend_extension};
    use burn::tensor::Tensor;
    use updraft_simd::{NodeLayer, times_layers};

    use super::Operands;
    use crate::ops::extension::Operand;
    use crate::ops::listed::{Kernels, kernels_of};

    /// The tensors of [`Operands`], in its order.
    #[derive(ExtensionType)]
    pub(crate) struct Tensors<B: Backend> {
        x: FloatTensor<B>,
        coefficients: FloatTensor<B>,
        #[extension_type]
        functions: Operand<B>,
        #[extension_type]
        base: Operand<B>,
        #[extension_type]
        bias: Operand<B>,
    }

    impl<B: Backend> Tensors<B> {
        fn into_list(self) -> Vec<FloatTensor<B>> {
            let others = [self.functions, self.base, self.bias].map(Operand::given);
            [self.x, self.coefficients].into_iter().chain(others.into_iter().flatten()).collect()
        }

        fn map<A: Backend>(self, to: impl Fn(FloatTensor<B>) -> FloatTensor<A>) -> Tensors<A> {
            let optional = |operand: Operand<B>| Operand::from(operand.given().map(&to));
            Tensors {
                x: to(self.x),
                coefficients: to(self.coefficients),
                functions: optional(self.functions),
                base: optional(self.base),
                bias: optional(self.bias),
            }
        }
    }

    #[backend_extension(Flex, Autodiff)]
    pub(crate) trait OneOperation: Backend {
        /// The same tensors at the start of a graph of their own.
        fn at_start(#[extension_type] operands: Tensors<Self>) -> Tensors<Self>;

        /// The result of an operation of `operands`, which a graph that starts at `starts` computed.
        fn joined(
            #[extension_type] operands: Tensors<Self>,
            #[extension_type] starts: Tensors<Self>,
            result: FloatTensor<Self>,
        ) -> FloatTensor<Self>;
    }

    impl OneOperation for Flex {
        fn at_start(operands: Tensors<Self>) -> Tensors<Self> {
            operands
        }

        fn joined(_: Tensors<Self>, _: Tensors<Self>, result: FlexTensor) -> FlexTensor {
            result
        }
    }

    impl<B: Backend, C: CheckpointStrategy> OneOperation for Autodiff<B, C> {
        fn at_start(operands: Tensors<Self>) -> Tensors<Self> {
            operands.map(|tensor| {
                let is_tracked = tensor.is_tracked();
                let start = <FloatTensor<Self>>::new(tensor.into_primitive());
                if is_tracked { start.require_grad() } else { start }
            })
        }

        fn joined(
            operands: Tensors<Self>,
            starts: Tensors<Self>,
            result: FloatTensor<Self>,
        ) -> FloatTensor<Self> {
            let (operands, starts) = (operands.into_list(), starts.into_list());
            match operands.len() {
                2 => join::<B, C, 2>(&operands, starts, result),
                3 => join::<B, C, 3>(&operands, starts, result),
                4 => join::<B, C, 4>(&operands, starts, result),
                _ => join::<B, C, 5>(&operands, starts, result),
            }
        }
    }

    fn join<B: Backend, C: CheckpointStrategy, const N: usize>(
        operands: &[FloatTensor<Autodiff<B, C>>],
        starts: Vec<FloatTensor<Autodiff<B, C>>>,
        result: FloatTensor<Autodiff<B, C>>,
    ) -> FloatTensor<Autodiff<B, C>> {
        let nodes = std::array::from_fn(|index| operands[index].node());
        let operation = Inner::<C> { layer: NodeLayer::current(), strategy: PhantomData };
        let y = result.primitive().clone();
        match Backward::<B, N>::prepare::<C>(operation, nodes).compute_bound().stateful() {
            OpsKind::Tracked(prep) => prep.finish((starts, result), y),
            OpsKind::UnTracked(prep) => prep.finish(y),
        }
    }

    /// The gradients of an operation that has a graph of its own.
    #[derive(Debug)]
    struct Inner<C> {
        layer: NodeLayer,
        strategy: PhantomData<C>,
    }

    impl<B: Backend, C: CheckpointStrategy, const N: usize> Backward<B, N> for Inner<C> {
        /// Where the graph starts, and the result.
        type State = (Vec<FloatTensor<Autodiff<B, C>>>, FloatTensor<Autodiff<B, C>>);

        fn backward(
            self,
            ops: Ops<Self::State, N>,
            gradients: &mut Gradients,
            _: &mut Checkpointer,
        ) {
            let mut parents = ops.parents.iter().map(Option::is_some);
            let of_x = parents.next() == Some(true);
            let of_parameters = parents.any(|is_tracked| is_tracked);
            let _pass = self.layer.time_backward(u64::from(of_x) + u64::from(of_parameters));
            let dy = <FloatTensor<Autodiff<B, C>>>::new(gradients.consume::<B>(&ops.node));
            let (starts, result) = ops.state;
            // The gradient of this sum for the result is `dy`, exactly.
            let sum = Autodiff::<B, C>::float_sum(Autodiff::<B, C>::float_mul(result, dy));
            let mut inner = sum.backward();
            for (parent, start) in ops.parents.into_iter().zip(starts) {
                if let Some(node) = parent
                    && let Some(gradient) = start.grad_remove(&mut inner)
                {
                    gradients.register::<B>(node.id, gradient);
                }
            }
        }
    }

    /// Whether gradients are recorded, on a CPU.
    pub(super) fn is_wanted<const D: usize>(operands: &Operands<D>) -> bool {
        let device = operands.coefficients.device();
        times_layers() && device.is_autodiff() && kernels_of(&device) == Ok(Kernels::Cpu)
    }

    pub(super) fn run<const D: usize>(
        operands: Operands<D>,
        run: impl FnOnce(Operands<D>) -> Tensor<D>,
    ) -> Tensor<D> {
        let starts = Operands::of(Dispatch::at_start(operands.clone().into_tensors()));
        let result = run(starts.clone()).into_dispatch();
        Tensor::from_dispatch(Dispatch::joined(
            operands.into_tensors(),
            starts.into_tensors(),
            result,
        ))
    }

    impl<const D: usize> Operands<D> {
        fn of(tensors: Tensors<Dispatch>) -> Self {
            let Tensors { x, coefficients, functions, base, bias } = tensors;
            Self {
                x: Tensor::from_dispatch(x),
                coefficients: Tensor::from_dispatch(coefficients),
                functions: functions.given().map(Tensor::from_dispatch),
                base: base.given().map(Tensor::from_dispatch),
                bias: bias.given().map(Tensor::from_dispatch),
            }
        }

        fn into_tensors(self) -> Tensors<Dispatch> {
            fn optional<const D: usize>(tensor: Option<Tensor<D>>) -> Operand<Dispatch> {
                Operand::from(tensor.map(Tensor::into_dispatch))
            }
            Tensors {
                x: self.x.into_dispatch(),
                coefficients: self.coefficients.into_dispatch(),
                functions: optional(self.functions),
                base: optional(self.base),
                bias: optional(self.bias),
            }
        }
    }
}
