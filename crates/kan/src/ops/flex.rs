//! Our operations on burn's CPU backend.

use std::cell::RefCell;
use std::sync::Arc;

use burn::backend::Flex;
use burn::backend::flex::FlexTensor;
use burn::tensor::TensorData;
use updraft_simd::pool_threads;

use super::conv_flex;
use super::extension::{ConvSpec, KanBackend, Parts, Spec, Wanted};
use crate::kernels::{Gradients, PackedLayer, Scratch, Weights, backward, forward};

thread_local! {
    /// Reused by later operations, so that only the first operation of a size allocates it.
    static SCRATCH: RefCell<Scratch> = const { RefCell::new(Scratch::new()) };
}

impl KanBackend for Flex {
    fn kan_layer(
        x: FlexTensor,
        spline: FlexTensor,
        base: FlexTensor,
        scaler: FlexTensor,
        bias: FlexTensor,
        spec: Spec,
    ) -> FlexTensor {
        let [x, spline, base, scaler, bias] =
            [x, spline, base, scaler, bias].map(|tensor| tensor.to_contiguous());
        let Spec { geometry, parts, isa } = spec;
        let weights = weights(&spline, &base, &scaler, parts);
        let weights = Weights { bias: parts.bias.then(|| bias.storage()), ..weights };
        let batch = x.layout().shape()[0];
        let mut y = vec![0.0; batch * geometry.out_features()];
        with(|scratch, threads| {
            forward(isa, &geometry, weights, x.storage(), &mut y, scratch, threads)
        });
        tensor(y, [batch, geometry.out_features()])
    }

    fn kan_layer_gradient(
        x: FlexTensor,
        spline: FlexTensor,
        base: FlexTensor,
        scaler: FlexTensor,
        dy: FlexTensor,
        spec: Spec,
        wanted: Wanted,
    ) -> (FlexTensor, FlexTensor, FlexTensor, FlexTensor, FlexTensor) {
        let [x, spline, base, scaler, dy] =
            [x, spline, base, scaler, dy].map(|tensor| tensor.to_contiguous());
        let Spec { geometry, parts, isa } = spec;
        let (inputs, outputs) = (geometry.in_features(), geometry.out_features());
        let batch = x.layout().shape()[0];
        let edges = [inputs, outputs];
        let numbers = |is_there: bool, count: usize| is_there.then(|| vec![0.0; count]);
        let mut of_x = numbers(wanted.x, batch * inputs);
        let mut of_spline = numbers(wanted.parameters, geometry.edges() * geometry.grid().bases());
        let mut of_base = numbers(wanted.parameters && parts.base, geometry.edges());
        let mut of_scaler = numbers(wanted.parameters && parts.scaler, geometry.edges());
        let mut of_bias = numbers(wanted.parameters && parts.bias, outputs);
        // Only the presence matters for a gradient.
        let bias = parts.bias.then(|| vec![0.0; outputs]);
        let weights = Weights { bias: bias.as_deref(), ..weights(&spline, &base, &scaler, parts) };
        let gradients = Gradients {
            x: of_x.as_deref_mut(),
            spline: of_spline.as_deref_mut(),
            base: of_base.as_deref_mut(),
            scaler: of_scaler.as_deref_mut(),
            bias: of_bias.as_deref_mut(),
        };
        with(|scratch, threads| {
            let (x, dy) = (x.storage(), dy.storage());
            backward(isa, &geometry, weights, x, dy, gradients, scratch, threads)
        });
        (
            optional(of_x, [batch, inputs]),
            optional(of_spline, [inputs, geometry.grid().bases(), outputs]),
            optional(of_base, edges),
            optional(of_scaler, edges),
            optional(of_bias, [outputs]),
        )
    }

    fn kan_conv(
        x: FlexTensor,
        spline: FlexTensor,
        base: FlexTensor,
        scaler: FlexTensor,
        bias: FlexTensor,
        spec: ConvSpec,
    ) -> FlexTensor {
        conv_flex::conv([x, spline, base, scaler, bias], &spec)
    }

    fn kan_conv_gradient(
        x: FlexTensor,
        spline: FlexTensor,
        base: FlexTensor,
        scaler: FlexTensor,
        dy: FlexTensor,
        spec: ConvSpec,
        wanted: Wanted,
    ) -> (FlexTensor, FlexTensor, FlexTensor, FlexTensor, FlexTensor) {
        conv_flex::gradient([x, spline, base, scaler, dy], &spec, wanted).into()
    }

    fn kan_packed(x: FlexTensor, layer: Arc<PackedLayer>) -> FlexTensor {
        let x = x.to_contiguous();
        let (batch, outputs) = (x.layout().shape()[0], layer.geometry().out_features());
        let mut y = vec![0.0; batch * outputs];
        with(|scratch, threads| layer.forward(x.storage(), &mut y, scratch, threads));
        tensor(y, [batch, outputs])
    }
}

pub(super) fn weights<'a>(
    spline: &'a FlexTensor,
    base: &'a FlexTensor,
    scaler: &'a FlexTensor,
    parts: Parts,
) -> Weights<'a> {
    Weights {
        spline: spline.storage(),
        base: parts.base.then(|| base.storage()),
        scaler: parts.scaler.then(|| scaler.storage()),
        bias: None,
    }
}

pub(super) fn with<E: std::fmt::Debug>(run: impl FnOnce(&mut Scratch, usize) -> Result<(), E>) {
    // Taken out, not borrowed: while this thread waits for others, rayon may give it another
    // layer to compute.
    let mut scratch = SCRATCH.take();
    let done = run(&mut scratch, pool_threads());
    SCRATCH.set(scratch);
    done.expect("the operation has checked the shapes and the instruction set");
}

pub(super) fn tensor(values: Vec<f32>, shape: impl Into<burn::tensor::Shape>) -> FlexTensor {
    FlexTensor::from_data(TensorData::new(values, shape.into()))
}

/// Gradients that were not computed are a single zero, which is not read.
pub(super) fn optional(
    values: Option<Vec<f32>>,
    shape: impl Into<burn::tensor::Shape>,
) -> FlexTensor {
    match values {
        Some(values) => tensor(values, shape),
        None => tensor(vec![0.0], [1]),
    }
}
