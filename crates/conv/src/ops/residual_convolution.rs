//! Convolution of images with a residual that is added before the activation.

use burn::tensor::{Tensor, assert_shape};

use super::activation::activate_by;
use super::convolution::{Convolving, convolve};
use super::path::LayerPath;
use crate::kernels::Activation;

/// `activation(conv(x) + residual)`; the residual has the shape of the result, or several times its
/// channels, whose groups are all added in their order.
///
/// # Panics
/// As [`convolve`], and if the residual has another shape.
pub(crate) fn convolve_residual(
    x: Tensor<4>,
    weight: Tensor<4>,
    bias: Option<Tensor<1>>,
    residual: Tensor<4>,
    by: Convolving,
) -> Tensor<4> {
    let forced = by.path;
    let is_even = by.options.padding.iter().all(|(before, after)| before == after);
    let is_one_dtype = x.dtype() == weight.dtype() && x.dtype() == residual.dtype();
    match LayerPath::picked(forced, &x.device(), x.dtype()) {
        // A gradient needs what is activated, so that on a graph there are three operations.
        #[cfg(feature = "flex")]
        LayerPath::Kernels(isa) if is_even && is_one_dtype && !x.device().is_autodiff() => {
            fused::convolve_residual(x, weight, bias, residual, &by, isa)
        }
        LayerPath::Kernels(_) | LayerPath::Cube | LayerPath::Plain => {
            let _ = (is_even, is_one_dtype);
            let activation = by.activation;
            let by = Convolving { activation: Activation::Identity, ..by };
            let y = convolve(x, weight, bias, by);
            let [_, outputs, ..] = y.dims();
            let terms = terms_of(&residual, y.dims());
            let add = |y, term| y + residual.clone().narrow(1, term * outputs, outputs);
            activate_by((0..terms).fold(y, add), activation, forced)
        }
    }
}

/// How many times a residual has the channels of a result of this shape.
///
/// # Panics
/// If it is no whole number of times, or another axis differs.
fn terms_of(residual: &Tensor<4>, result: [usize; 4]) -> usize {
    let [batch, outputs, height, width] = result;
    assert_shape!(residual, [batch, _, height, width]);
    let channels = residual.dims()[1];
    assert!(
        channels > 0 && channels.is_multiple_of(outputs),
        "a residual of {channels} channels is no multiple of the {outputs} of the result"
    );
    channels / outputs
}

#[cfg(feature = "flex")]
mod fused {
    use burn::backend::flex::FlexTensor;
    use burn::backend::tensor::FloatTensor;
    use burn::backend::{Backend, Dispatch, Flex, backend_extension};
    use burn::tensor::{FloatDType, Tensor, assert_shape};
    use updraft_simd::{take_memory, unspecified};

    use super::terms_of;
    use crate::kernels::{Isa, forward_residual};
    use crate::ops::convolution::Convolving;
    use crate::ops::convolution::fused::shape_of;
    use crate::ops::extension::{ConvSpec, Operand};
    use crate::ops::flex::{checked, contiguous, tensor, with};
    use crate::ops::{memory, observe};

    /// The operation without a gradient, on f32 tensors.
    #[backend_extension(Flex)]
    pub(crate) trait ResidualBackend: Backend {
        /// A convolution, a residual and an activation.
        fn convolution_with_residual(
            x: FloatTensor<Self>,
            w: FloatTensor<Self>,
            #[extension_type] bias: Operand<Self>,
            residual: FloatTensor<Self>,
            spec: ConvSpec,
        ) -> FloatTensor<Self>;
    }

    impl ResidualBackend for Flex {
        fn convolution_with_residual(
            x: FlexTensor,
            w: FlexTensor,
            bias: Operand<Self>,
            residual: FlexTensor,
            spec: ConvSpec,
        ) -> FlexTensor {
            let ConvSpec { shape, activation, isa, products } = spec;
            let geometry = checked(shape).with_products(products);
            let [x, w, residual] = [x, w, residual].map(contiguous);
            let bias = bias.given().map(contiguous);
            let bias = bias.as_ref().map(FlexTensor::storage);
            let len = geometry.output_len();
            let mut y = unspecified(take_memory(len), len);
            with(|scratch, threads| {
                let (x, w) = (x.storage(), w.storage());
                let end = (residual.storage(), activation);
                forward_residual(isa, &geometry, x, w, bias, end, &mut y, scratch, threads);
            });
            memory::keep([x, residual]);
            let [rows, columns] = geometry.output();
            tensor(y, [shape.batch, shape.channels[1], rows, columns])
        }
    }

    pub(super) fn convolve_residual(
        x: Tensor<4>,
        weight: Tensor<4>,
        bias: Option<Tensor<1>>,
        residual: Tensor<4>,
        by: &Convolving,
        isa: Isa,
    ) -> Tensor<4> {
        let [outputs, inputs, ..] = weight.dims();
        let channels = inputs * by.options.groups;
        assert_shape!(x, [_, channels, _, _]);
        if let Some(bias) = &bias {
            assert_shape!(bias, [outputs]);
        }
        let shape = shape_of(&x, &weight, &by.options);
        let [height, width] = checked(shape).output();
        terms_of(&residual, [shape.batch, outputs, height, width]);
        observe::note(shape);
        let dtype = x.dtype();
        let [x, weight, residual] =
            [x, weight, residual].map(|tensor| tensor.cast(FloatDType::F32).into_dispatch());
        let bias = Operand::from(bias.map(|bias| bias.cast(FloatDType::F32).into_dispatch()));
        let spec = ConvSpec::new(shape, by.activation, isa);
        let y = Dispatch::convolution_with_residual(x, weight, bias, residual, spec);
        Tensor::<4>::from_dispatch(y).cast(dtype)
    }
}
