//! Our operations on burn's CPU backend.

use std::cell::RefCell;
use std::sync::Arc;

use burn::backend::Flex;
use burn::backend::flex::FlexTensor;
use burn::tensor::{Shape, TensorData};
use updraft_simd::pool_threads;

use super::extension::{Geometry, KanBackend, Operand, PackedBackend, Spec};
#[cfg(feature = "autodiff")]
use super::extension::{KanGradients, LayerGradients, Wanted};
#[cfg(feature = "autodiff")]
use crate::kernels::{Gradients, backward, conv_backward};
use crate::kernels::{PackedLayer, Scratch, Weights, conv_forward, forward};

const HAS_ISA: &str = "operations on the CPU have an instruction set";

thread_local! {
    /// Reused by later operations, so that only the first operation of a size allocates it.
    static SCRATCH: RefCell<Scratch> = const { RefCell::new(Scratch::new()) };
}

impl KanBackend for Flex {
    fn kan_layer(
        x: FlexTensor,
        spline: FlexTensor,
        base: Operand<Self>,
        scaler: Operand<Self>,
        bias: Operand<Self>,
        Spec { geometry, isa, cache, .. }: Spec,
    ) -> FlexTensor {
        let isa = isa.expect(HAS_ISA);
        let x = x.to_contiguous();
        let tensors = [Some(spline), base.given(), scaler.given(), bias.given()];
        let tensors = tensors.map(|tensor| tensor.map(|tensor| tensor.to_contiguous()));
        if let (Some(cache), Geometry::Linear(of)) = (&cache, &geometry)
            && let Some(layer) = cache.packed(isa, of, &tensors)
        {
            return Self::kan_packed(x, layer);
        }
        let [spline, base, scaler, bias] =
            tensors.each_ref().map(|tensor| Some(tensor.as_ref()?.storage()));
        let weights = Weights { spline: spline.unwrap_or_default(), base, scaler, bias };
        let shape = x.layout().shape().to_vec();
        let output = geometry.output_shape(&shape);
        let mut y = vec![0.0; output.iter().product()];
        let (x, y_numbers) = (x.storage(), &mut y[..]);
        with(|scratch, threads| match &geometry {
            Geometry::Linear(of) => told(forward(isa, of, weights, x, y_numbers, scratch, threads)),
            Geometry::Conv(of) => {
                let sides = &shape[2..];
                told(conv_forward(isa, of, weights, x, sides, y_numbers, scratch, threads))
            }
        });
        tensor(y, output)
    }
}

impl PackedBackend for Flex {
    fn kan_packed(x: FlexTensor, layer: Arc<PackedLayer>) -> FlexTensor {
        let x = x.to_contiguous();
        let (batch, outputs) = (x.layout().shape()[0], layer.geometry().out_features());
        let mut y = vec![0.0; batch * outputs];
        with(|scratch, threads| told(layer.forward(x.storage(), &mut y, scratch, threads)));
        tensor(y, [batch, outputs])
    }
}

#[cfg(feature = "autodiff")]
impl KanGradients for Flex {
    fn kan_layer_gradients(
        x: FlexTensor,
        spline: FlexTensor,
        base: Operand<Self>,
        scaler: Operand<Self>,
        has_bias: bool,
        dy: FlexTensor,
        Spec { geometry, isa, .. }: Spec,
        wanted: Wanted,
    ) -> LayerGradients<Self> {
        let isa = isa.expect(HAS_ISA);
        let [x, spline] = [x, spline].map(|tensor| tensor.to_contiguous());
        let [base, scaler] =
            [base, scaler].map(|tensor| tensor.given().map(|tensor| tensor.to_contiguous()));
        let dy = dy.to_contiguous();
        let shapes = [&x, &spline].map(|tensor| tensor.layout().shape().to_vec());
        let edges = [shapes[1][0], shapes[1][2]];
        let outputs = geometry.output_shape(&shapes[0])[1];
        let numbers = |is_wanted: bool, count: usize| is_wanted.then(|| vec![0.0; count]);
        let mut of_x = numbers(wanted.x, shapes[0].iter().product());
        let mut of_spline = numbers(wanted.parameters, shapes[1].iter().product());
        let of_edges = |tensor: &Option<FlexTensor>| {
            numbers(wanted.parameters && tensor.is_some(), edges.iter().product())
        };
        let (mut of_base, mut of_scaler) = (of_edges(&base), of_edges(&scaler));
        let mut of_bias = numbers(wanted.parameters && has_bias, outputs);
        // Only that it is there counts for a gradient.
        let bias = has_bias.then(|| vec![0.0; outputs]);
        let weights = Weights {
            spline: spline.storage(),
            base: base.as_ref().map(FlexTensor::storage),
            scaler: scaler.as_ref().map(FlexTensor::storage),
            bias: bias.as_deref(),
        };
        let gradients = Gradients {
            x: of_x.as_deref_mut(),
            spline: of_spline.as_deref_mut(),
            base: of_base.as_deref_mut(),
            scaler: of_scaler.as_deref_mut(),
            bias: of_bias.as_deref_mut(),
        };
        let (x, dy) = (x.storage(), dy.storage());
        with(|scratch, threads| match &geometry {
            Geometry::Linear(of) => {
                told(backward(isa, of, weights, x, dy, gradients, scratch, threads))
            }
            Geometry::Conv(of) => {
                let sides = &shapes[0][2..];
                told(conv_backward(isa, of, weights, x, sides, dy, gradients, scratch, threads))
            }
        });
        let [of_input, of_coefficients] = shapes;
        let operand = |values: Option<Vec<f32>>, shape: &[usize]| {
            Operand::from(values.map(|values| tensor(values, shape)))
        };
        LayerGradients {
            x: operand(of_x, &of_input),
            spline: operand(of_spline, &of_coefficients),
            base: operand(of_base, &edges),
            scaler: operand(of_scaler, &edges),
            bias: operand(of_bias, &[outputs]),
        }
    }
}

fn with(run: impl FnOnce(&mut Scratch, usize)) {
    // Taken out, not borrowed: while this thread waits for others, rayon may give it another
    // layer to compute.
    let mut scratch = SCRATCH.take();
    run(&mut scratch, pool_threads());
    SCRATCH.set(scratch);
}

fn told<E: std::fmt::Debug>(done: Result<(), E>) {
    done.expect("the operation has checked the shapes and the instruction set");
}

fn tensor(values: Vec<f32>, shape: impl Into<Shape>) -> FlexTensor {
    FlexTensor::from_data(TensorData::new(values, shape.into()))
}
