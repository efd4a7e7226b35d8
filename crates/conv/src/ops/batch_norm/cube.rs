//! Batch normalization on burn's backend for GPUs.

use burn::backend::cubecl::dtype_to_elem_type;
use burn::tensor::{DType, Shape};
use burn_cubecl::CubeBackend;
#[cfg(feature = "autodiff")]
use burn_cubecl::kernel::cast;
use burn_cubecl::kernel::into_contiguous;
use burn_cubecl::ops::numeric::empty_device_contiguous_dtype;
use burn_cubecl::tensor::CubeTensor;

use super::extension::{NormSpec, NormalizationBackend};
#[cfg(feature = "autodiff")]
use super::extension::{NormalizationGradientBackend, NormalizationGradients};
use crate::kernels::BatchNormShape;
#[cfg(feature = "autodiff")]
use crate::kernels::cube::ChannelGradients;
use crate::kernels::cube::{self, Form, Inputs, Sizes};
use crate::ops::operand::Operand;

/// The tensors of a normalization, contiguous.
struct Tensors {
    x: CubeTensor,
    residual: Option<CubeTensor>,
    /// γ, β, mean and variance.
    vectors: [CubeTensor; 4],
}

impl Tensors {
    fn new(x: CubeTensor, residual: Operand<CubeBackend>, vectors: [CubeTensor; 4]) -> Self {
        let residual = residual.given().map(into_contiguous);
        Self { x: into_contiguous(x), residual, vectors: vectors.map(into_contiguous) }
    }

    fn form(&self, spec: NormSpec) -> Form {
        Form {
            numbers: dtype_to_elem_type(self.x.dtype),
            activation: spec.activation,
            has_residual: self.residual.is_some(),
        }
    }

    /// The input again if there is no residual: kernels have a fixed number of buffers.
    fn residual_or_input(&self) -> CubeTensor {
        self.residual.as_ref().unwrap_or(&self.x).clone()
    }

    fn inputs(&self) -> Inputs {
        let [gamma, beta, mean, variance] =
            self.vectors.each_ref().map(|vector| vector.clone().into_buffer_arg());
        Inputs {
            x: self.x.clone().into_buffer_arg(),
            residual: self.residual_or_input().into_buffer_arg(),
            gamma,
            beta,
            mean,
            variance,
        }
    }
}

impl NormalizationBackend for CubeBackend {
    fn normalization(
        x: CubeTensor,
        gamma: CubeTensor,
        beta: CubeTensor,
        residual: Operand<Self>,
        spec: NormSpec,
    ) -> (CubeTensor, CubeTensor, CubeTensor) {
        let x = into_contiguous(x);
        let sizes = sizes(&x);
        let channels = x.meta.shape()[1];
        let [mean, variance] = [(); 2].map(|()| vector(&x, channels));
        let between = vector(&x, sizes.moments_len());
        cube::moments(
            &x.client,
            sizes,
            dtype_to_elem_type(x.dtype),
            x.clone().into_buffer_arg(),
            [between.clone().into_buffer_arg(), between.into_buffer_arg()],
            [&mean, &variance].map(|statistic| statistic.clone().into_buffer_arg()),
        );
        let statistics = (mean.clone(), variance.clone());
        let y = Self::normalization_by(x, gamma, beta, statistics.0, statistics.1, residual, spec);
        (y, mean, variance)
    }

    fn normalization_by(
        x: CubeTensor,
        gamma: CubeTensor,
        beta: CubeTensor,
        mean: CubeTensor,
        variance: CubeTensor,
        residual: Operand<Self>,
        spec: NormSpec,
    ) -> CubeTensor {
        let tensors = Tensors::new(x, residual, [gamma, beta, mean, variance]);
        let y = like(&tensors.x);
        cube::apply(
            &tensors.x.client,
            sizes(&tensors.x),
            tensors.form(spec),
            tensors.inputs(),
            spec.epsilon as f32,
            y.clone().into_buffer_arg(),
        );
        y
    }
}

#[cfg(feature = "autodiff")]
impl NormalizationGradientBackend for CubeBackend {
    fn normalization_gradient(
        x: CubeTensor,
        gamma: CubeTensor,
        beta: CubeTensor,
        mean: CubeTensor,
        variance: CubeTensor,
        residual: Operand<Self>,
        dy: CubeTensor,
        spec: NormSpec,
    ) -> NormalizationGradients<Self> {
        let tensors = Tensors::new(x, residual, [gamma, beta, mean, variance]);
        let dy = into_contiguous(cast(dy, tensors.x.dtype));
        let (x, form, sizes) = (&tensors.x, tensors.form(spec), sizes(&tensors.x));
        let channels = x.meta.shape()[1];
        let [dgamma, dbeta] = [(); 2].map(|()| vector(x, channels));
        let lines = vector(x, 5 * channels);
        let between = vector(x, sizes.gradient_sums_len());
        cube::gradient_sums(
            &x.client,
            sizes,
            form,
            spec.of,
            [tensors.inputs(), tensors.inputs()],
            spec.epsilon as f32,
            dy.clone().into_buffer_arg(),
            [between.clone().into_buffer_arg(), between.into_buffer_arg()],
            ChannelGradients {
                gamma: dgamma.clone().into_buffer_arg(),
                beta: dbeta.clone().into_buffer_arg(),
                lines: lines.clone().into_buffer_arg(),
            },
        );
        let dx = like(x);
        let dresidual = tensors.residual.as_ref().map(like);
        // No buffer may be bound twice for writing.
        let of_residual = dresidual.clone().unwrap_or_else(|| empty(x, Shape::new([1]), x.dtype));
        cube::input_gradient(
            &x.client,
            sizes,
            form,
            x.clone().into_buffer_arg(),
            tensors.residual_or_input().into_buffer_arg(),
            dy.into_buffer_arg(),
            lines.into_buffer_arg(),
            [dx.clone().into_buffer_arg(), of_residual.into_buffer_arg()],
        );
        NormalizationGradients { x: dx, gamma: dgamma, beta: dbeta, residual: dresidual.into() }
    }
}

fn sizes(x: &CubeTensor) -> Sizes {
    let shape = x.meta.shape();
    let pixels = shape.iter().skip(2).product();
    Sizes::new(BatchNormShape { batch: shape[0], channels: shape[1], pixels })
}

/// A result of the size of a tensor, not yet written.
fn like(tensor: &CubeTensor) -> CubeTensor {
    empty(tensor, tensor.meta.shape().clone(), tensor.dtype)
}

/// Numbers of f32 beside a tensor, not yet written.
fn vector(x: &CubeTensor, len: usize) -> CubeTensor {
    empty(x, Shape::new([len]), DType::F32)
}

fn empty(beside: &CubeTensor, shape: Shape, dtype: DType) -> CubeTensor {
    let CubeTensor { client, device, .. } = beside;
    empty_device_contiguous_dtype(client.clone(), device.clone(), shape, dtype)
}
