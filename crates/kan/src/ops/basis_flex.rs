//! Layers of functions in closed form on burn's CPU backend.

use std::cell::RefCell;

use burn::backend::Flex;
use burn::backend::flex::FlexTensor;
use burn::tensor::{Shape, TensorData};
use updraft_simd::pool_threads;

use super::basis_extension::{BasisBackend, BasisSpec};
#[cfg(feature = "autodiff")]
use super::basis_extension::{BasisGradients, BasisGradientsBackend, BasisWanted};
use super::extension::Operand;
use crate::kernels::{
    ConvGeometry, DenseConv, DenseInput, DenseScratch, DenseWeights, Shapes, dense_conv_forward,
    dense_forward,
};
#[cfg(feature = "autodiff")]
use crate::kernels::{DenseGradients, dense_backward, dense_conv_backward};

thread_local! {
    /// Reused by later operations, so that only the first operation of a size allocates it.
    static SCRATCH: RefCell<DenseScratch> = RefCell::default();
}

impl BasisBackend for Flex {
    fn basis_layer(
        x: FlexTensor,
        seen: Operand<Self>,
        coefficients: FlexTensor,
        functions: Operand<Self>,
        base: Operand<Self>,
        bias: Operand<Self>,
        BasisSpec { layer, conv, isa }: BasisSpec,
    ) -> FlexTensor {
        let [x, coefficients] = [x, coefficients].map(|tensor| tensor.to_contiguous());
        let others = [seen, functions, base, bias].map(contiguous);
        let [seen, functions, base, bias] = others.each_ref().map(numbers);
        let weights = DenseWeights {
            coefficients: coefficients.storage(),
            functions: functions.unwrap_or_default(),
            base,
            bias,
        };
        let of_x = shape(&x);
        let Some(geometry) = conv else {
            let input = DenseInput { x: x.storage(), seen };
            let mut y = vec![0.0; of_x[0] * layer.outputs];
            with(|scratch, threads| {
                dense_forward(isa, &layer, &weights, input, &mut y, scratch, threads);
            });
            return tensor(y, [of_x[0], layer.outputs]);
        };
        let shapes = shapes(&geometry, &of_x);
        let mut of_y = geometry.output_shape(&of_x[2..]).expect(CHECKED);
        of_y.splice(..0, [of_x[0], geometry.out_channels()]);
        let mut y = vec![0.0; of_y.iter().product()];
        let conv = DenseConv { pixel: &layer, geometry: &geometry };
        with(|scratch, threads| {
            let x = x.storage();
            dense_conv_forward(isa, conv, &weights, x, shapes, &mut y, scratch, threads);
        });
        tensor(y, of_y)
    }
}

#[cfg(feature = "autodiff")]
impl BasisGradientsBackend for Flex {
    fn basis_layer_gradients(
        x: FlexTensor,
        seen: Operand<Self>,
        coefficients: FlexTensor,
        functions: Operand<Self>,
        base: Operand<Self>,
        has_bias: bool,
        dy: FlexTensor,
        BasisSpec { layer, conv, isa }: BasisSpec,
        wanted: BasisWanted,
    ) -> BasisGradients<Self> {
        let [x, coefficients, dy] = [x, coefficients, dy].map(|tensor| tensor.to_contiguous());
        let others = [seen, functions, base].map(contiguous);
        let [of_seen, of_functions, of_base] = others.each_ref().map(numbers);
        let weights = DenseWeights {
            coefficients: coefficients.storage(),
            functions: of_functions.unwrap_or_default(),
            base: of_base,
            bias: None,
        };
        let input = DenseInput { x: x.storage(), seen: of_seen };
        let outputs = conv.as_ref().map_or(layer.outputs, |conv| conv.out_channels());
        let like = |is_wanted: bool, like: Option<&[f32]>| {
            like.filter(|_| is_wanted).map(|like| vec![0.0; like.len()])
        };
        let mut gradients = [
            like(wanted.x, Some(x.storage())),
            like(wanted.seen, of_seen),
            like(wanted.weights, Some(coefficients.storage())),
            like(wanted.functions, of_functions),
            like(wanted.weights, of_base),
            (wanted.weights && has_bias).then(|| vec![0.0; outputs]),
        ];
        let [dx, dseen, dcoefficients, dfunctions, dbase, dbias] =
            gradients.each_mut().map(|gradient| gradient.as_deref_mut());
        let targets = DenseGradients {
            x: dx,
            seen: dseen,
            coefficients: dcoefficients,
            functions: dfunctions,
            base: dbase,
            bias: dbias,
        };
        with(|scratch, threads| {
            let dy = dy.storage();
            let Some(geometry) = &conv else {
                dense_backward(isa, &layer, &weights, input, dy, targets, scratch, threads);
                return;
            };
            let shapes = shapes(geometry, &shape(&x));
            let conv = DenseConv { pixel: &layer, geometry };
            let x = input.x;
            dense_conv_backward(isa, conv, &weights, x, dy, shapes, targets, scratch, threads);
        });
        let [dx, dseen, dcoefficients, dfunctions, dbase, dbias] = gradients;
        let shaped = |gradient: Option<Vec<f32>>, like: &Option<FlexTensor>| {
            let pair = gradient.zip(like.as_ref());
            Operand::from(pair.map(|(gradient, like)| tensor(gradient, shape(like))))
        };
        let [seen, functions, base] = others;
        BasisGradients {
            x: shaped(dx, &Some(x)),
            seen: shaped(dseen, &seen),
            coefficients: shaped(dcoefficients, &Some(coefficients)),
            functions: shaped(dfunctions, &functions),
            base: shaped(dbase, &base),
            bias: Operand::from(dbias.map(|bias| tensor(bias, [outputs]))),
        }
    }
}

fn with(run: impl FnOnce(&mut DenseScratch, usize)) {
    // Taken out, not borrowed: while this thread waits for others, rayon may give it another
    // layer to compute.
    let mut scratch = SCRATCH.take();
    run(&mut scratch, pool_threads());
    SCRATCH.set(scratch);
}

fn contiguous(tensor: Operand<Flex>) -> Option<FlexTensor> {
    tensor.given().map(|tensor| tensor.to_contiguous())
}

fn numbers(tensor: &Option<FlexTensor>) -> Option<&[f32]> {
    tensor.as_ref().map(|tensor| tensor.storage())
}

/// The sizes of a convolution's images, `[batch, channels, ...]`.
fn shapes(geometry: &ConvGeometry, of_x: &[usize]) -> Shapes {
    geometry.shapes_of(of_x[0], &of_x[2..]).expect(CHECKED)
}

const CHECKED: &str = "the operation has checked it";

fn shape(tensor: &FlexTensor) -> Vec<usize> {
    tensor.layout().shape().to_vec()
}

fn tensor(values: Vec<f32>, shape: impl Into<Shape>) -> FlexTensor {
    FlexTensor::from_data(TensorData::new(values, shape.into()))
}
