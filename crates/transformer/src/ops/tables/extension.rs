//! The operations that a backend implements to run the kernels of tables, and their gradients.

use burn::backend::tensor::{FloatTensor, IntTensor};
use burn::backend::{
    Backend, BackendTensor, Dispatch, DispatchAutodiffContext, DispatchTensor, DispatchTensorKind,
    ExtensionType, backend_extension,
};

use crate::kernels::Dropout;

/// The most tensors that an operation has a gradient for.
pub(crate) const MOST_PARENTS: usize = 256;

/// What the parameters of a perceptron are: weight and bias of each hidden layer, then of each head.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PerceptronPlan {
    /// Hidden layers.
    pub(crate) hidden: usize,
    pub(crate) dropout: Option<Dropout>,
}

/// Any number of float tensors as one argument.
#[derive(Debug, Clone)]
pub(crate) struct Parameters<B: Backend>(pub(crate) Vec<FloatTensor<B>>);

impl<B: Backend> ExtensionType<B> for Parameters<B> {
    type Target = Parameters<Dispatch>;

    fn map_to_dispatch<F>(self, map_kind: F, autodiff: DispatchAutodiffContext) -> Self::Target
    where
        F: Fn(BackendTensor<B>) -> DispatchTensorKind,
    {
        let tensors = self.0.into_iter().map(BackendTensor::Float);
        let mapped = tensors.map(|one| DispatchTensor { kind: map_kind(one), autodiff });
        Parameters(mapped.collect())
    }

    fn map_from_dispatch<F>(target: Self::Target, unwrap_kind: F) -> Self
    where
        F: Fn(DispatchTensor) -> BackendTensor<B>,
    {
        Self(target.0.into_iter().map(|one| unwrap_kind(one).float()).collect())
    }

    fn routing_tensor(target: &Self::Target) -> Option<&DispatchTensor> {
        target.0.first()
    }

    fn routing_float_tensor(target: &Self::Target) -> Option<&DispatchTensor> {
        target.0.first()
    }

    fn autodiff_context(target: &Self::Target) -> DispatchAutodiffContext {
        let none = DispatchAutodiffContext::Disabled;
        target.0.iter().fold(none, |context, one| context.merge(one.autodiff))
    }
}

/// Our operations, on f32 tensors.
#[backend_extension(Flex: cfg(feature = "flex"), Autodiff: cfg(feature = "autodiff"))]
pub(crate) trait TableBackend: Backend {
    /// The features of rows, and sines and cosines of their numbers; of the parameters the first
    /// `columns` are embeddings, the others frequencies, weight and bias, if there are any.
    fn row_features(
        classes: IntTensor<Self>,
        numbers: FloatTensor<Self>,
        #[extension_type] parameters: Parameters<Self>,
        columns: usize,
    ) -> (FloatTensor<Self>, FloatTensor<Self>);

    /// The outputs of all heads side by side, and the hidden outputs.
    fn perceptron(
        x: FloatTensor<Self>,
        #[extension_type] parameters: Parameters<Self>,
        plan: PerceptronPlan,
    ) -> (FloatTensor<Self>, FloatTensor<Self>);

    /// The mean cross-entropy of classes, and its gradient.
    fn cross_entropy(
        logits: FloatTensor<Self>,
        labels: IntTensor<Self>,
        smoothing: f32,
    ) -> (FloatTensor<Self>, FloatTensor<Self>);
}

/// The gradients of our operations, on a backend below autodiff: burn differentiates once.
#[cfg(feature = "autodiff")]
pub(crate) trait TableGradients: TableBackend {
    /// The gradients of numbers, if `of_numbers` is true, and parameters, from the features and waves
    /// of the forward pass and the features' gradient.
    fn row_features_gradient(
        classes: IntTensor<Self>,
        numbers: FloatTensor<Self>,
        parameters: Vec<FloatTensor<Self>>,
        columns: usize,
        passed: [FloatTensor<Self>; 3],
        of_numbers: bool,
    ) -> (Option<FloatTensor<Self>>, Vec<FloatTensor<Self>>);

    /// The gradients of inputs, if `of_inputs` is true, and parameters, from inputs and hidden outputs
    /// and the outputs' gradient.
    fn perceptron_gradient(
        parameters: Vec<FloatTensor<Self>>,
        plan: PerceptronPlan,
        passed: [FloatTensor<Self>; 3],
        of_inputs: bool,
    ) -> (Option<FloatTensor<Self>>, Vec<FloatTensor<Self>>);

    /// The gradient of logits, from that of their mean cross-entropy and that of the loss.
    fn cross_entropy_gradient(
        slopes: FloatTensor<Self>,
        dy: FloatTensor<Self>,
    ) -> FloatTensor<Self>;
}
