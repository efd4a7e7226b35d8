//! Our operations on burn's backend for GPUs.

use burn::tensor::{DType, Shape};
use burn_cubecl::CubeBackend;
use burn_cubecl::kernel::into_contiguous;
use burn_cubecl::ops::numeric::empty_device_contiguous_dtype;
use burn_cubecl::tensor::CubeTensor;

use super::cube_expanded::Expanded;
use super::extension::{Geometry, KanBackend, Operand, Spec};
#[cfg(feature = "autodiff")]
use super::extension::{KanGradients, LayerGradients, Wanted};
#[cfg(feature = "autodiff")]
use crate::kernels::cube::WeightGradients;
use crate::kernels::cube::{self, CubeLayer, Inputs, Sizes};
use crate::kernels::{CubeForm, LayerGeometry};

/// A layer's tensors, contiguous.
pub(super) struct Tensors {
    pub(super) x: CubeTensor,
    spline: CubeTensor,
    base: Option<CubeTensor>,
    scaler: Option<CubeTensor>,
}

impl Tensors {
    fn new(
        x: CubeTensor,
        spline: CubeTensor,
        base: Operand<CubeBackend>,
        scaler: Operand<CubeBackend>,
    ) -> Self {
        let [x, spline] = [x, spline].map(into_contiguous);
        let [base, scaler] = [base, scaler].map(|edges| edges.given().map(into_contiguous));
        Self { x, spline, base, scaler }
    }

    fn layer(&self, geometry: &LayerGeometry, has_bias: bool) -> CubeLayer {
        CubeLayer::new(geometry, self.base.is_some(), self.scaler.is_some(), has_bias)
    }

    pub(super) fn sizes(&self, geometry: &LayerGeometry) -> Sizes {
        Sizes::new(geometry, self.x.meta.shape()[0])
    }

    pub(super) fn inputs(&self) -> Inputs {
        Inputs {
            x: self.x.clone().into_buffer_arg(),
            spline: self.spline.clone().into_buffer_arg(),
            base: self.or_any(self.base.as_ref()),
            scaler: self.or_any(self.scaler.as_ref()),
        }
    }

    /// A buffer of the layer if there is no such parameter: kernels have a fixed number of buffers.
    fn or_any(&self, parameter: Option<&CubeTensor>) -> cubecl::prelude::BufferArg {
        parameter.unwrap_or(&self.spline).clone().into_buffer_arg()
    }

    /// A result, not yet written.
    pub(super) fn empty(&self, shape: impl Into<Shape>) -> CubeTensor {
        self.empty_of(shape, DType::F32)
    }

    pub(super) fn empty_of(&self, shape: impl Into<Shape>, dtype: DType) -> CubeTensor {
        let Self { x, .. } = self;
        empty_device_contiguous_dtype(x.client.clone(), x.device.clone(), shape.into(), dtype)
    }

    /// A buffer for a result that the layer does not have: it may not be bound twice for writing.
    #[cfg(feature = "autodiff")]
    pub(super) fn or_empty(&self, result: Option<&CubeTensor>) -> cubecl::prelude::BufferArg {
        result.cloned().unwrap_or_else(|| self.empty([1])).into_buffer_arg()
    }

    /// Room for the weights as a form lays them out, if it does: to write it, and to read it.
    fn packed(
        &self,
        form: CubeForm,
        layer: CubeLayer,
        geometry: &LayerGeometry,
    ) -> Option<[cubecl::prelude::BufferArg; 2]> {
        let packed = cube::packed_len(form, layer, self.sizes(geometry))?;
        let dtype = if form == CubeForm::F16 { DType::F16 } else { DType::BF16 };
        let buffer = self.empty_of([packed], dtype);
        Some([buffer.clone().into_buffer_arg(), buffer.into_buffer_arg()])
    }
}

impl KanBackend for CubeBackend {
    fn kan_layer(
        x: CubeTensor,
        spline: CubeTensor,
        base: Operand<Self>,
        scaler: Operand<Self>,
        bias: Operand<Self>,
        Spec { geometry, forms, .. }: Spec,
    ) -> CubeTensor {
        let geometry = linear(&geometry);
        let tensors = Tensors::new(x, spline, base, scaler);
        let bias = bias.given().map(into_contiguous);
        let layer = tensors.layer(geometry, bias.is_some());
        let form = cube::chosen(&tensors.x.client, forms.forced, forms.of_input, layer);
        if let Some(expanded) = Expanded::new(&tensors, geometry, layer, form) {
            return expanded.forward(bias.as_ref());
        }
        let y = tensors.empty([tensors.x.meta.shape()[0], geometry.out_features()]);
        cube::forward(
            &tensors.x.client,
            form,
            geometry,
            layer,
            tensors.sizes(geometry),
            tensors.inputs(),
            tensors.packed(form, layer, geometry),
            tensors.or_any(bias.as_ref()),
            y.clone().into_buffer_arg(),
        );
        y
    }
}

#[cfg(feature = "autodiff")]
impl KanGradients for CubeBackend {
    fn kan_layer_gradients(
        x: CubeTensor,
        spline: CubeTensor,
        base: Operand<Self>,
        scaler: Operand<Self>,
        has_bias: bool,
        dy: CubeTensor,
        Spec { geometry, forms, .. }: Spec,
        wanted: Wanted,
    ) -> LayerGradients<Self> {
        let geometry = linear(&geometry);
        let tensors = Tensors::new(x, spline, base, scaler);
        let dy = into_contiguous(dy);
        let layer = tensors.layer(geometry, has_bias);
        let sizes = tensors.sizes(geometry);
        let client = &tensors.x.client;
        let form = cube::chosen(client, forms.forced, forms.of_input, layer);
        let like = |tensor: &CubeTensor| tensors.empty(tensor.meta.shape().clone());
        let dx = wanted.x.then(|| like(&tensors.x));
        let of_spline = wanted.parameters.then(|| like(&tensors.spline));
        let of_base = tensors.base.as_ref().filter(|_| wanted.parameters).map(like);
        if let Some(expanded) = Expanded::new(&tensors, geometry, layer, form) {
            expanded.gradients(&dy, dx.as_ref(), [of_spline.as_ref(), of_base.as_ref()]);
        } else {
            if let Some(dx) = &dx {
                let (dy, dx) = (dy.clone().into_buffer_arg(), dx.clone().into_buffer_arg());
                let packed = tensors.packed(form, layer, geometry);
                let inputs = tensors.inputs();
                cube::input_gradient(client, form, geometry, layer, sizes, inputs, packed, dy, dx);
            }
            if let Some(of_spline) = &of_spline {
                let destinations = WeightGradients {
                    spline: of_spline.clone().into_buffer_arg(),
                    base: tensors.or_empty(of_base.as_ref()),
                };
                let [x, dy] = [&tensors.x, &dy].map(|tensor| tensor.clone().into_buffer_arg());
                cube::weight_gradient(client, form, geometry, layer, sizes, x, dy, destinations);
            }
        }
        let of_scaler =
            of_spline.as_ref().zip(tensors.scaler.as_ref()).map(|(of_spline, scaler)| {
                let of_scaler = like(scaler);
                let [spline, scaler, of_spline, of_factor] =
                    [&tensors.spline, scaler, of_spline, &of_scaler]
                        .map(|tensor| tensor.clone().into_buffer_arg());
                cube::scaler_gradient(client, layer, sizes, spline, scaler, of_spline, of_factor);
                of_scaler
            });
        let of_bias = (has_bias && wanted.parameters).then(|| {
            let of_bias = tensors.empty([geometry.out_features()]);
            let (dy, sums) = (dy.into_buffer_arg(), of_bias.clone().into_buffer_arg());
            cube::bias_gradient(client, sizes, dy, sums);
            of_bias
        });
        LayerGradients {
            x: Operand::from(dx),
            spline: Operand::from(of_spline),
            base: Operand::from(of_base),
            scaler: Operand::from(of_scaler),
            bias: Operand::from(of_bias),
        }
    }
}

/// The layer is linear: other ones are not passed to kernels for GPUs.
fn linear(geometry: &Geometry) -> &LayerGeometry {
    match geometry {
        Geometry::Linear(geometry) => geometry,
        Geometry::Conv(_) => panic!("the kernels for GPUs compute no convolutions"),
    }
}
