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
#[cfg(feature = "autodiff")]
use crate::kernels::{DenseGradients, dense_backward};
use crate::kernels::{DenseInput, DenseScratch, DenseWeights, dense_forward};

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
        BasisSpec { layer, isa }: BasisSpec,
    ) -> FlexTensor {
        let [x, coefficients] = [x, coefficients].map(|tensor| tensor.to_contiguous());
        let others = [seen, functions, base, bias].map(contiguous);
        let [seen, functions, base, bias] = others.each_ref().map(numbers);
        let batch = x.layout().shape()[0];
        let weights = DenseWeights {
            coefficients: coefficients.storage(),
            functions: functions.unwrap_or_default(),
            base,
            bias,
        };
        let input = DenseInput { x: x.storage(), seen };
        let mut y = vec![0.0; batch * layer.outputs];
        with(|scratch, threads| {
            dense_forward(isa, &layer, &weights, input, &mut y, scratch, threads);
        });
        tensor(y, [batch, layer.outputs])
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
        BasisSpec { layer, isa }: BasisSpec,
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
        let like = |is_wanted: bool, like: Option<&[f32]>| {
            like.filter(|_| is_wanted).map(|like| vec![0.0; like.len()])
        };
        let mut gradients = [
            like(wanted.x, Some(x.storage())),
            like(wanted.seen, of_seen),
            like(wanted.weights, Some(coefficients.storage())),
            like(wanted.functions, of_functions),
            like(wanted.weights, of_base),
            (wanted.weights && has_bias).then(|| vec![0.0; layer.outputs]),
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
            dense_backward(isa, &layer, &weights, input, dy, targets, scratch, threads);
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
            bias: Operand::from(dbias.map(|bias| tensor(bias, [layer.outputs]))),
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

#[cfg(feature = "autodiff")]
fn shape(tensor: &FlexTensor) -> Vec<usize> {
    tensor.layout().shape().to_vec()
}

fn tensor(values: Vec<f32>, shape: impl Into<Shape>) -> FlexTensor {
    FlexTensor::from_data(TensorData::new(values, shape.into()))
}
