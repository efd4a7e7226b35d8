//! The passes of a linear layer on burn's tensors on GPUs.

use burn::tensor::{DType, Shape, TensorData};
use burn_cubecl::kernel::into_contiguous;
use burn_cubecl::ops::numeric::empty_device_contiguous_dtype;
use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::BufferArg;

use super::expanded::Expanded;
use super::pass::Pass;
use crate::grid::Grid;
use crate::kernels::CubeForm;
#[cfg(feature = "autodiff")]
use crate::kernels::cube::WeightGradients;
use crate::kernels::cube::{self, ConvImages, CubeLayer, Inputs, LayerGrid, Rows, Sizes};
#[cfg(feature = "autodiff")]
use crate::ops::extension::Wanted;
use crate::ops::extension::{Forms, Geometry};

/// A linear layer with an input; its tensors are contiguous.
#[derive(Clone)]
pub(super) struct Linear {
    /// `[batch, in_features]`, or images, of which all groups are computed.
    pub(super) x: CubeTensor,
    /// Where samples are in images, for the forms that read them. Outputs and gradients are in images,
    /// too.
    images: Option<(ConvImages, Rows)>,
    /// `[in_features, bases, out_features]`; in images the inputs of all groups, and the outputs of
    /// each.
    spline: CubeTensor,
    base: Option<CubeTensor>,
    scaler: Option<CubeTensor>,
    /// The knots of all inputs, if intervals are not equal.
    knots: Option<CubeTensor>,
    geometry: Geometry,
}

/// The gradients of a layer's parameters, but for the bias.
#[cfg(feature = "autodiff")]
pub(super) struct OfWeights {
    pub(super) spline: CubeTensor,
    pub(super) base: Option<CubeTensor>,
}

impl Linear {
    pub(super) fn new(
        x: CubeTensor,
        spline: CubeTensor,
        [base, scaler]: [Option<CubeTensor>; 2],
        geometry: &Geometry,
    ) -> Self {
        let [x, spline] = [x, spline].map(into_contiguous);
        let [base, scaler] = [base, scaler].map(|edges| edges.map(into_contiguous));
        let knots = cube::input_knots(geometry.grid()).map(|knots| {
            let (client, device) = (x.client.clone(), x.device.clone());
            let shape = [knots.len()];
            let handle = client.create_from_slice(TensorData::new(knots, shape).as_bytes());
            CubeTensor::new_contiguous(client, device, Shape::new(shape), handle, DType::F32)
        });
        Self { x, images: None, spline, base, scaler, knots, geometry: geometry.clone() }
    }

    /// The same layer with another input, contiguous.
    pub(super) fn with_input(&self, x: CubeTensor) -> Self {
        Self { x, ..self.clone() }
    }

    /// The same layer whose samples are some rows of images.
    pub(super) fn of_images(&self, images: ConvImages, rows: Rows) -> Self {
        Self { images: Some((images, rows)), ..self.clone() }
    }

    /// The outputs, `[batch, out_features]`.
    pub(super) fn forward(&self, bias: Option<CubeTensor>, forms: Forms) -> CubeTensor {
        let y = self.empty([self.batch(), self.outputs()]);
        self.run_chosen(Pass::Forward { bias, y: y.clone() }, forms);
        y
    }

    /// Runs a pass in the form that is forced, else the one that is measured as the fastest, else
    /// that of the rule.
    pub(super) fn run_chosen(&self, pass: Pass, forms: Forms) {
        #[cfg(feature = "autotune")]
        let Some(pass) = super::tune::run_fastest(self, pass, forms) else {
            return;
        };
        self.run(&pass, self.form(forms));
    }

    /// The form that is forced, else that of the rule.
    pub(super) fn form(&self, forms: Forms) -> CubeForm {
        cube::chosen(&self.x.client, forms.forced, forms.of_input, self.layer(false))
    }

    /// Runs a pass in a form, which writes all numbers of its destinations.
    pub(super) fn run(&self, pass: &Pass, form: CubeForm) {
        let layer = self.layer(matches!(pass, Pass::Forward { bias: Some(_), .. }));
        let (sizes, client) = (self.sizes(layer), &self.x.client);
        match pass {
            Pass::Forward { bias, y } => match Expanded::new(self, layer, form) {
                Some(expanded) => expanded.forward(bias.as_ref(), y),
                None => cube::forward(
                    client,
                    form,
                    self.layer_grid(),
                    layer,
                    sizes,
                    self.inputs(),
                    self.packed(form, layer),
                    self.or_any(bias.as_ref()),
                    buffer(y),
                ),
            },
            #[cfg(feature = "autodiff")]
            Pass::InputGradient { dy, dx } => {
                let (grid, packed) = (self.layer_grid(), self.packed(form, layer));
                let (inputs, dy, dx) = (self.inputs(), buffer(dy), buffer(dx));
                cube::input_gradient(client, form, grid, layer, sizes, inputs, packed, dy, dx);
            }
            #[cfg(feature = "autodiff")]
            Pass::WeightGradient { dy, spline, base } => {
                let base = self.or_empty(base.as_ref());
                let gradients = WeightGradients { spline: buffer(spline), base };
                let (grid, x, dy) = (self.layer_grid(), buffer(&self.x), buffer(dy));
                cube::weight_gradient(client, form, grid, layer, sizes, x, dy, gradients);
            }
        }
    }

    /// Samples.
    pub(super) fn batch(&self) -> usize {
        self.images.map_or_else(|| self.x.meta.shape()[0], |(_, rows)| rows.count as usize)
    }

    /// Taps of the window where samples are in images, else 0.
    #[cfg(feature = "autotune")]
    pub(super) fn window_taps(&self) -> u32 {
        self.images.map_or(0, |(images, _)| images.taps())
    }

    /// Groups of channels where samples are in images, else 1.
    #[cfg(any(feature = "autodiff", feature = "autotune"))]
    pub(super) fn groups(&self) -> u32 {
        self.images.map_or(1, |(images, _)| images.groups())
    }

    pub(super) fn in_features(&self) -> usize {
        self.spline.meta.shape()[0]
    }

    pub(super) fn outputs(&self) -> usize {
        self.spline.meta.shape()[2]
    }

    pub(super) fn layer(&self, has_bias: bool) -> CubeLayer {
        let activation = self.base.as_ref().map(|_| self.geometry.activation());
        CubeLayer::new(self.grid(), activation, self.scaler.is_some(), has_bias)
    }

    pub(super) fn sizes(&self, layer: CubeLayer) -> Sizes {
        match self.images {
            Some((images, rows)) => Sizes::of_images(layer, images, rows),
            None => Sizes::new(layer, self.batch(), self.in_features(), self.outputs()),
        }
    }

    pub(super) fn grid(&self) -> &Grid {
        self.geometry.grid()
    }

    fn layer_grid(&self) -> LayerGrid<'_> {
        LayerGrid { grid: self.grid(), knots: self.or_any(self.knots.as_ref()) }
    }

    pub(super) fn inputs(&self) -> Inputs {
        Inputs {
            x: buffer(&self.x),
            spline: buffer(&self.spline),
            base: self.or_any(self.base.as_ref()),
            scaler: self.or_any(self.scaler.as_ref()),
        }
    }

    /// A buffer of the layer if there is no such parameter: kernels have a fixed number of buffers.
    fn or_any(&self, parameter: Option<&CubeTensor>) -> BufferArg {
        buffer(parameter.unwrap_or(&self.spline))
    }

    /// A result, not yet written.
    pub(super) fn empty(&self, shape: impl Into<Shape>) -> CubeTensor {
        self.empty_of(shape, DType::F32)
    }

    pub(super) fn empty_of(&self, shape: impl Into<Shape>, dtype: DType) -> CubeTensor {
        empty_like(&self.x, shape, dtype)
    }

    /// Room for the weights as a form lays them out, if it does: to write it, and to read it.
    fn packed(&self, form: CubeForm, layer: CubeLayer) -> Option<[BufferArg; 2]> {
        let packed = cube::packed_len(form, layer, self.sizes(layer))?;
        let dtype = if form == CubeForm::F16 { DType::F16 } else { DType::BF16 };
        let room = self.empty_of([packed], dtype);
        Some([buffer(&room), buffer(&room)])
    }
}

#[cfg(feature = "autodiff")]
impl Linear {
    /// The gradient of the input, and those of the parameters without their splines' factors, if
    /// they are wanted.
    pub(super) fn gradients(
        &self,
        dy: &CubeTensor,
        wanted: Wanted,
        forms: Forms,
    ) -> (Option<CubeTensor>, Option<OfWeights>) {
        let dx = wanted.x.then(|| self.empty(self.x.meta.shape().clone()));
        let of_weights = wanted.parameters.then(|| self.empty_weights());
        if let Some(expanded) = Expanded::new(self, self.layer(false), self.form(forms)) {
            expanded.gradients(dy, dx.as_ref(), of_weights.as_ref());
            return (dx, of_weights);
        }
        if let Some(dx) = &dx {
            self.run_chosen(Pass::InputGradient { dy: dy.clone(), dx: dx.clone() }, forms);
        }
        if let Some(of_weights) = &of_weights {
            self.weight_gradient(dy, of_weights, forms);
        }
        (dx, of_weights)
    }

    /// Room for the gradients of the weights.
    pub(super) fn empty_weights(&self) -> OfWeights {
        let like = |tensor: &CubeTensor| self.empty(tensor.meta.shape().clone());
        OfWeights { spline: like(&self.spline), base: self.base.as_ref().map(like) }
    }

    /// Writes the gradients of coefficients without their splines' factors, and of base weights, in
    /// another form than the expanded ones.
    pub(super) fn weight_gradient(&self, dy: &CubeTensor, of: &OfWeights, forms: Forms) {
        let (dy, spline, base) = (dy.clone(), of.spline.clone(), of.base.clone());
        self.run_chosen(Pass::WeightGradient { dy, spline, base }, forms);
    }

    /// The gradients of the splines' factors, if there are any; those of the coefficients without
    /// factors are multiplied by them.
    pub(super) fn scaler_gradient(&self, of_spline: &CubeTensor) -> Option<CubeTensor> {
        let scaler = self.scaler.as_ref()?;
        let of_scaler = self.empty(scaler.meta.shape().clone());
        let layer = self.layer(false);
        let [spline, scaler, of_spline, of_factor] =
            [&self.spline, scaler, of_spline, &of_scaler].map(buffer);
        let (client, inputs) = (&self.x.client, self.in_features());
        // Those of all groups, whose edges follow each other.
        let sizes = Sizes::new(layer, self.batch(), inputs, self.outputs());
        cube::scaler_gradient(client, layer, sizes, spline, scaler, of_spline, of_factor);
        Some(of_scaler)
    }

    /// The gradient of the bias, `[out_features]` of all groups.
    pub(super) fn bias_gradient(&self, dy: &CubeTensor) -> CubeTensor {
        let of_bias = self.empty([self.groups() as usize * self.outputs()]);
        let sizes = self.sizes(self.layer(true));
        cube::bias_gradient(&self.x.client, sizes, buffer(dy), buffer(&of_bias));
        of_bias
    }

    /// A buffer for a result that the layer does not have: it may not be bound twice for writing.
    pub(super) fn or_empty(&self, result: Option<&CubeTensor>) -> BufferArg {
        result.map_or_else(|| buffer(&self.empty([1])), buffer)
    }
}

/// A tensor as an argument of kernels.
pub(super) fn buffer(tensor: &CubeTensor) -> BufferArg {
    tensor.clone().into_buffer_arg()
}

/// A contiguous tensor on another's device, not yet written.
pub(super) fn empty_like(other: &CubeTensor, shape: impl Into<Shape>, dtype: DType) -> CubeTensor {
    let (client, device) = (other.client.clone(), other.device.clone());
    empty_device_contiguous_dtype(client, device, shape.into(), dtype)
}
