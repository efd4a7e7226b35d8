//! The passes of a convolution on burn's tensors on GPUs: those of a linear layer whose samples are
//! patches of the images.
//!
//! The forms `Sparse` and `Dense` read and write the images, and compute all groups of channels in a
//! launch. For the others the patches of a part of the pixels are in memory at a time, of one group
//! after the other. Nothing is kept for the backward pass but the images.

use std::sync::Arc;

#[cfg(feature = "autodiff")]
use burn::backend::ops::FloatTensorOps;
use burn::tensor::{DType, Shape};
#[cfg(feature = "autodiff")]
use burn_cubecl::CubeBackend;
use burn_cubecl::kernel::{into_contiguous, slice};
use burn_cubecl::tensor::CubeTensor;

#[cfg(feature = "autodiff")]
use super::linear::OfWeights;
use super::linear::{Linear, buffer, empty_like};
use super::pass::Pass;
use crate::kernels::cube::{ConvImages, Rows, gather_patches, rows_of_part, scatter_rows};
#[cfg(feature = "autodiff")]
use crate::kernels::cube::{add_part, fold, gather_rows};
#[cfg(feature = "autodiff")]
use crate::kernels::cube_cost::convolution::ROWS_OF_SUM;
use crate::kernels::{ConvGeometry, CubeForm};
use crate::ops::extension::{Forms, Geometry};
#[cfg(feature = "autodiff")]
use crate::ops::extension::{LayerGradients, Operand, Wanted};

/// A convolution with its images.
pub(super) struct Convolution {
    /// `[batch, in_channels, ...]`, contiguous.
    x: CubeTensor,
    /// `[in_channels·taps, bases, out_channels / groups]`.
    spline: CubeTensor,
    /// `[in_channels·taps, out_channels / groups]`, as the factors.
    edges: [Option<CubeTensor>; 2],
    geometry: Arc<ConvGeometry>,
    images: ConvImages,
    forms: Forms,
    /// Rows of a part, instead of those that follow from the layer.
    most_rows: Option<usize>,
}

impl Convolution {
    /// # Panics
    /// If the grid has knots of each channel, which no layer of burn's tensors has.
    pub(super) fn new(
        x: CubeTensor,
        spline: CubeTensor,
        edges: [Option<CubeTensor>; 2],
        geometry: &Arc<ConvGeometry>,
        forms: Forms,
    ) -> Self {
        assert!(geometry.grid().is_uniform(), "convolutions on GPUs have one grid");
        let shape = x.meta.shape();
        let images = ConvImages::new(geometry, shape[0], &shape[2..]);
        let geometry = Arc::clone(geometry);
        let x = into_contiguous(x);
        Self { x, spline, edges, geometry, images, forms, most_rows: None }
    }

    /// The outputs, `[batch, out_channels, ...]`.
    pub(super) fn forward(&self, bias: Option<&CubeTensor>) -> CubeTensor {
        let y = empty_like(&self.x, self.output_shape(), DType::F32);
        if let Some(layer) = self.with_images() {
            let bias = bias.cloned().map(into_contiguous);
            layer.run_chosen(Pass::Forward { bias, y: y.clone() }, self.forms);
            return y;
        }
        for group in 0..self.geometry.groups() {
            let layer = self.group(group);
            let outputs = layer.outputs();
            let bias = bias.map(|bias| rows_of(bias, group * outputs, outputs));
            for rows in self.parts_of_patches(group, &layer) {
                let part = layer.with_input(self.patches(rows, &layer));
                let of_rows = part.forward(bias.clone(), self.forms);
                scatter_rows(&self.x.client, self.images, rows, buffer(&of_rows), buffer(&y));
            }
        }
        y
    }

    fn output_shape(&self) -> Shape {
        let geometry = Geometry::Conv(Arc::clone(&self.geometry));
        Shape::from(geometry.output_shape(&self.x.meta.shape()[..]))
    }

    /// All groups as a linear layer whose samples are in the images, if its form reads and writes
    /// them; the others take patches.
    fn with_images(&self) -> Option<Linear> {
        let geometry = Geometry::Conv(Arc::clone(&self.geometry));
        let layer = Linear::new(self.x.clone(), self.spline.clone(), self.edges.clone(), &geometry);
        matches!(layer.form(self.forms), CubeForm::Sparse | CubeForm::Dense)
            .then(|| layer.of_images(self.images, self.all_rows(0, &layer)))
    }

    /// A group of channels as a linear layer; its input is the images, which are not read.
    fn group(&self, group: usize) -> Linear {
        let inputs = self.spline.meta.shape()[0] / self.geometry.groups();
        let own = |tensor: &CubeTensor| rows_of(tensor, group * inputs, inputs);
        let edges = self.edges.each_ref().map(|edges| edges.as_ref().map(own));
        let geometry = Geometry::Conv(Arc::clone(&self.geometry));
        Linear::new(self.x.clone(), own(&self.spline), edges, &geometry)
    }

    /// The rows of all images.
    fn all_rows(&self, group: usize, layer: &Linear) -> Rows {
        Rows {
            first: 0,
            count: number(self.images.rows()),
            group: number(group),
            channels: number(self.geometry.in_channels() / self.geometry.groups()),
            outputs: number(layer.outputs()),
        }
    }

    /// Parts of all rows whose patches are in memory at a time.
    fn parts_of_patches(&self, group: usize, layer: &Linear) -> impl Iterator<Item = Rows> + use<> {
        let most = rows_of_part(layer.in_features(), layer.outputs());
        parts(self.all_rows(group, layer), self.most_rows.unwrap_or(most))
    }

    /// The patches of some rows, `[rows.count, in_features]`.
    fn patches(&self, rows: Rows, layer: &Linear) -> CubeTensor {
        let patches = layer.empty([rows.count as usize, layer.in_features()]);
        gather_patches(&self.x.client, self.images, rows, buffer(&self.x), buffer(&patches));
        patches
    }
}

#[cfg(feature = "autodiff")]
impl Convolution {
    /// The gradients that are wanted, of the bias if there is one.
    pub(super) fn gradients(
        &self,
        dy: &CubeTensor,
        of_bias: bool,
        wanted: Wanted,
    ) -> LayerGradients<CubeBackend> {
        let dx = wanted.x.then(|| empty_like(&self.x, self.x.meta.shape().clone(), DType::F32));
        if let Some(layer) = self.with_images() {
            let [spline, base, bias] =
                self.gradients_from_images(&layer, dy, dx.as_ref(), of_bias, wanted);
            let scaler = spline.as_ref().and_then(|spline| layer.scaler_gradient(spline));
            let [spline, base, scaler, bias] = [spline, base, scaler, bias].map(Operand::from);
            return LayerGradients { x: Operand::from(dx), spline, base, scaler, bias };
        }
        let mut of_groups = [(); 4].map(|()| Vec::new());
        for group in 0..self.geometry.groups() {
            let layer = self.group(group);
            let [spline, base, bias] =
                self.gradients_from_patches(group, &layer, dy, dx.as_ref(), of_bias, wanted);
            let scaler = spline.as_ref().and_then(|spline| layer.scaler_gradient(spline));
            for (all, own) in of_groups.iter_mut().zip([spline, base, scaler, bias]) {
                all.extend(own);
            }
        }
        let [spline, base, scaler, bias] = of_groups.map(|of| Operand::from(joined(of)));
        LayerGradients { x: Operand::from(dx), spline, base, scaler, bias }
    }

    /// Writes the gradient of the images, and returns those of coefficients without factors, base
    /// weights and bias.
    fn gradients_from_images(
        &self,
        layer: &Linear,
        dy: &CubeTensor,
        dx: Option<&CubeTensor>,
        of_bias: bool,
        wanted: Wanted,
    ) -> [Option<CubeTensor>; 3] {
        if let Some(dx) = dx {
            let (dy, dx) = (dy.clone(), dx.clone());
            layer.run_chosen(Pass::InputGradient { dy, dx }, self.forms);
        }
        let all = self.all_rows(0, layer);
        let mut total: Option<[Option<CubeTensor>; 3]> = None;
        if wanted.parameters {
            for rows in parts(all, self.most_rows.unwrap_or(ROWS_OF_SUM)) {
                let part = layer.of_images(self.images, rows);
                let of_weights = layer.empty_weights();
                part.weight_gradient(dy, &of_weights, self.forms);
                let bias = of_bias.then(|| part.bias_gradient(dy));
                self.add(&mut total, [Some(of_weights.spline), of_weights.base, bias]);
            }
        }
        total.unwrap_or_default()
    }

    /// The same for a group of channels, in the forms that take patches.
    fn gradients_from_patches(
        &self,
        group: usize,
        layer: &Linear,
        dy: &CubeTensor,
        dx: Option<&CubeTensor>,
        of_bias: bool,
        wanted: Wanted,
    ) -> [Option<CubeTensor>; 3] {
        let mut total: Option<[Option<CubeTensor>; 3]> = None;
        for rows in self.parts_of_patches(group, layer) {
            let part = layer.with_input(self.patches(rows, layer));
            let of_rows = layer.empty([rows.count as usize, layer.outputs()]);
            gather_rows(&self.x.client, self.images, rows, buffer(dy), buffer(&of_rows));
            let (of_patches, of_weights) = part.gradients(&of_rows, wanted, self.forms);
            if let (Some(of_patches), Some(dx)) = (&of_patches, dx) {
                let (of_patches, dx) = (buffer(of_patches), buffer(dx));
                fold(&self.x.client, self.images, rows, of_patches, dx);
            }
            let (spline, base) =
                of_weights.map(|OfWeights { spline, base }| (spline, base)).unzip();
            let bias = of_bias.then(|| part.bias_gradient(&of_rows));
            self.add(&mut total, [spline, base.flatten(), bias]);
        }
        total.unwrap_or_default()
    }

    /// Adds the gradients of a part to the total, which those of the first part are.
    fn add(&self, total: &mut Option<[Option<CubeTensor>; 3]>, part: [Option<CubeTensor>; 3]) {
        match total {
            None => *total = Some(part),
            Some(total) => {
                for (total, part) in total.iter().zip(&part) {
                    if let (Some(total), Some(part)) = (total, part) {
                        let count = total.meta.shape().num_elements();
                        add_part(&self.x.client, count, buffer(part), buffer(total));
                    }
                }
            }
        }
    }
}

/// All rows in parts of at most so many.
fn parts(all: Rows, most: usize) -> impl Iterator<Item = Rows> {
    let most = number(most);
    let firsts = (0..all.count).step_by(most as usize);
    firsts.map(move |first| Rows { first, count: most.min(all.count - first), ..all })
}

fn number(size: usize) -> u32 {
    u32::try_from(size).expect("at most 2^32 pixels and channels")
}

/// Some rows of the first axis, contiguous.
fn rows_of(tensor: &CubeTensor, first: usize, count: usize) -> CubeTensor {
    let shape = tensor.meta.shape();
    if count == shape[0] {
        return into_contiguous(tensor.clone());
    }
    let others = (1..tensor.meta.num_dims()).map(|axis| 0..shape[axis]);
    let ranges: Vec<_> = std::iter::once(first..first + count).chain(others).collect();
    into_contiguous(slice(tensor.clone(), &ranges))
}

/// The tensors one after the other along the first axis; `None` if there are none.
#[cfg(feature = "autodiff")]
fn joined(mut tensors: Vec<CubeTensor>) -> Option<CubeTensor> {
    match tensors.len() {
        0 | 1 => tensors.pop(),
        _ => Some(CubeBackend::float_cat(tensors, 0)),
    }
}

#[cfg(all(test, feature = "autodiff"))]
mod tests {
    use burn::backend::DispatchDevice;
    use burn::tensor::TensorData;
    use burn_cubecl::CubeDevice;
    use burn_cubecl::ops::into_data_sync;
    use updraft_testing::gpus;

    use super::*;
    use crate::grid::Grid;
    use crate::kernels::{Activation, BaseBranch, ConvAxis};

    /// Pseudorandom numbers between -1 and 1.
    fn tensor<const D: usize>(shape: [usize; D], seed: u32, device: &CubeDevice) -> CubeTensor {
        let numbers = (0..shape.iter().product::<usize>() as u32).map(|at| {
            let bits =
                (at + 1).wrapping_mul(0x9E37_79B9).wrapping_add(seed.wrapping_mul(0x85EB_CA6B));
            (bits >> 8) as f32 / 8_388_608.0 - 1.0
        });
        CubeBackend::float_from_data(TensorData::new(numbers.collect::<Vec<_>>(), shape), device)
    }

    fn numbers(tensor: CubeTensor) -> Vec<f32> {
        into_data_sync(tensor).try_to_vec().expect("f32")
    }

    /// The outputs and all gradients in a form, with so many rows a part.
    fn results(device: &CubeDevice, form: CubeForm, most_rows: Option<usize>) -> Vec<Vec<f32>> {
        let grid = Grid::uniform(-1.0, 1.0, 5, 3).expect("a grid");
        let axis = ConvAxis { stride: 2, padding: 1, ..ConvAxis::new(3) };
        let branch = BaseBranch::ConvOfActivation;
        let geometry = ConvGeometry::try_new(grid, [4, 6], 2, &[axis; 2], Activation::Silu, branch);
        let geometry = Arc::new(geometry.expect("a convolution"));
        let edges = [2, 3].map(|seed| Some(tensor([36, 3], seed, device)));
        let (x, spline) = (tensor([3, 4, 7, 6], 1, device), tensor([36, 8, 3], 4, device));
        let forms = Forms { forced: Some(form), of_input: None };
        let mut conv = Convolution::new(x, spline, edges, &geometry, forms);
        conv.most_rows = most_rows;
        let (bias, dy) = (tensor([6], 5, device), tensor([3, 6, 4, 3], 6, device));
        let y = conv.forward(Some(&bias));
        let wanted = Wanted { x: true, parameters: true };
        let of = conv.gradients(&dy, true, wanted);
        let of = [of.x, of.spline, of.base, of.scaler, of.bias].map(Operand::given);
        let all = std::iter::once(y).chain(of.into_iter().flatten());
        all.map(numbers).collect()
    }

    /// burn's products may be of TF32, in other orders for other shapes.
    fn tolerance(form: CubeForm) -> f64 {
        if form == CubeForm::Expanded { 2e-3 } else { 1e-5 }
    }

    #[test]
    fn parts_of_the_pixels_give_the_results_of_all_at_once() {
        for device in gpus() {
            let DispatchDevice::Cube(device) = device.as_dispatch() else { panic!("a GPU") };
            for form in [CubeForm::Dense, CubeForm::Sparse, CubeForm::Expanded] {
                let whole = results(device, form, None);
                assert_eq!(whole.len(), 6);
                // Parts within an image, and across several.
                for most_rows in [5, 17] {
                    let parts = results(device, form, Some(most_rows));
                    for (parts, whole) in parts.iter().zip(&whole) {
                        let error = updraft_testing::relative_error(parts, whole);
                        assert!(error <= tolerance(form), "{form}: {error}");
                    }
                }
            }
        }
    }
}
