//! The memory of layers and convolutions of functions in closed form, computed before they run.

use updraft_simd::{Isa, MAX_LANES, threads};

use super::conv::{self, DenseConv};
use super::forward::rows_of_piece;
use super::layer::{DenseLayer, PITCH};
use super::plan::{Layout, Plan, Wants};
use super::scratch::DenseSpace;
use crate::kernels::conv::Shapes;
use crate::kernels::memory::{BasisParts, LayerMemory};

const FLOAT: usize = size_of::<f32>();

impl BasisParts {
    /// All gradients.
    const fn wants(&self) -> Wants {
        Wants { weights: true, x: true, seen: self.seen, functions: self.is_trained }
    }

    /// Trained parameters of the functions of an input.
    fn of_input(&self, layer: &DenseLayer) -> usize {
        if self.is_trained { self.functions / layer.groups } else { 0 }
    }
}

impl LayerMemory {
    /// The memory of a layer with the kernels, for a batch size and a number of threads.
    pub(crate) fn of_dense(
        isa: Isa,
        layer: &DenseLayer,
        parts: BasisParts,
        batch: usize,
        asked_threads: usize,
    ) -> Self {
        let &DenseLayer { inputs, outputs, .. } = layer;
        let threads = threads(asked_threads);
        let (count, base) = (layer.count(), usize::from(parts.base));
        let (chunk, width) = (layer.chunk(parts.base), 2 * isa.lanes());
        let terms = chunk * (count + base);
        let columns = chunk * PITCH * (1 + usize::from(parts.base && parts.seen));
        let padded = outputs.next_multiple_of(width);

        let rows = rows_of_piece(batch, threads);
        let last = if outputs.is_multiple_of(width) { 0 } else { rows.min(batch) * width };
        let of_thread = columns + terms * (PITCH + padded) + last;
        let forward = threads.min(batch.div_ceil(rows)) * of_thread;

        let plan = Plan::new(layer, parts.base, batch);
        let layout = Layout::new(isa, layer, parts.base, &plan, parts.wants());
        let tiles = |rows: usize| rows.next_multiple_of(rows_of_tile(isa)) * outputs;
        let packed = tiles(chunk * count) + tiles(chunk * base) + MAX_LANES;
        let trained = parts.of_input(layer);
        let of_thread =
            columns + PITCH * (2 * terms + chunk) + packed + terms * padded + trained * isa.lanes();
        let tasks = plan.pieces * layer.chunks(parts.base).count();
        let sums = size_of::<f64>() * plan.pieces * inputs * trained;
        let backward = FLOAT * (layout.len() + threads.min(tasks) * of_thread) + sums;

        let [parameters, trained] = parts.parameters(inputs * outputs, count, outputs);
        let spaces = threads * size_of::<DenseSpace>();
        Self {
            parameters: FLOAT * parameters,
            outputs: FLOAT * batch * outputs,
            packed: 0,
            gradients: FLOAT * (batch * inputs + trained),
            forward_scratch: spaces + FLOAT * forward,
            backward_scratch: spaces + backward,
        }
    }

    /// The same of a convolution.
    pub(crate) fn of_dense_conv(
        isa: Isa,
        conv: DenseConv<'_>,
        parts: BasisParts,
        shapes: Shapes,
        asked_threads: usize,
    ) -> Self {
        let DenseConv { pixel, geometry } = conv;
        let threads = threads(asked_threads);
        let trained = parts.of_input(pixel);
        let [forward, backward] =
            match conv.plan(isa, parts.functions / pixel.groups, parts.base, shapes) {
                Some(plan) => [plan.forward_bytes(threads), plan.backward_bytes(threads, trained)],
                None => {
                    let sizes = conv::Sizes::new(isa, conv, shapes, parts.base, rows_of_tile(isa));
                    let forward =
                        sizes.packed + threads.min(sizes.forward_tasks) * sizes.of_forward;
                    let of_thread = sizes.of_backward + trained * isa.lanes();
                    let sums = size_of::<f64>() * sizes.pieces * pixel.inputs * trained;
                    let shared = if parts.wants().weights { sizes.of_pieces } else { 0 };
                    let tasks = threads.min(sizes.backward_tasks);
                    [FLOAT * forward, FLOAT * (shared + tasks * of_thread) + sums]
                }
            };

        let (edges, channels) = (geometry.edges(), geometry.out_channels());
        let [parameters, trained] = parts.parameters(edges, pixel.count(), channels);
        let inputs = shapes.batch * geometry.in_channels() * shapes.in_pixels();
        let spaces = threads * size_of::<DenseSpace>();
        Self {
            parameters: FLOAT * parameters,
            outputs: FLOAT * shapes.batch * channels * shapes.out_pixels(),
            packed: 0,
            gradients: FLOAT * (inputs + trained),
            forward_scratch: spaces + forward,
            backward_scratch: spaces + backward,
        }
    }
}

/// Rows of the tallest tile of a product on an instruction set.
const fn rows_of_tile(isa: Isa) -> usize {
    if isa.lanes() == 16 { 12 } else { 6 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::basis::{Basis, Centers};
    use crate::grid::Grid;
    use crate::kernels::activation::Activation;
    use crate::kernels::conv::{BaseBranch, ConvAxis, ConvGeometry};
    use crate::kernels::dense::{
        DenseGradients, DenseInput, DenseScratch, DenseWeights, dense_backward,
        dense_conv_backward, dense_conv_forward, dense_forward,
    };

    /// A layer's or a group's sizes with all parameters.
    struct Case {
        layer: DenseLayer,
        parts: BasisParts,
        coefficients: Vec<f32>,
        functions: Vec<f32>,
        base: Option<Vec<f32>>,
        bias: Option<Vec<f32>>,
    }

    impl Case {
        fn new(basis: Basis, [edges, inputs, outputs, groups]: [usize; 4], is_whole: bool) -> Self {
            let functions: Vec<f32> =
                basis.parameters().repeat(groups).into_iter().map(|number| number as f32).collect();
            let parts = BasisParts {
                base: is_whole,
                bias: is_whole,
                functions: functions.len(),
                is_trained: is_whole && !functions.is_empty(),
                seen: is_whole,
            };
            Self {
                coefficients: vec![0.5; edges * basis.count()],
                functions,
                base: is_whole.then(|| vec![0.5; edges]),
                bias: is_whole.then(|| vec![0.5; outputs]),
                layer: DenseLayer { basis, inputs, outputs, groups, activation: Activation::Silu },
                parts,
            }
        }

        fn weights(&self) -> DenseWeights<'_> {
            DenseWeights {
                coefficients: &self.coefficients,
                functions: &self.functions,
                base: self.base.as_deref(),
                bias: self.bias.as_deref(),
            }
        }
    }

    /// The gradients of a case, as buffers.
    struct Buffers {
        x: Vec<f32>,
        seen: Option<Vec<f32>>,
        coefficients: Vec<f32>,
        functions: Vec<f32>,
        base: Option<Vec<f32>>,
        bias: Option<Vec<f32>>,
    }

    impl Buffers {
        fn of(case: &Case, x: &[f32]) -> Self {
            Self {
                x: x.to_vec(),
                seen: case.parts.seen.then(|| x.to_vec()),
                coefficients: case.coefficients.clone(),
                functions: case.functions.clone(),
                base: case.base.clone(),
                bias: case.bias.clone(),
            }
        }

        fn wanted(&mut self, is_trained: bool) -> DenseGradients<'_> {
            DenseGradients {
                x: Some(&mut self.x),
                seen: self.seen.as_deref_mut(),
                coefficients: Some(&mut self.coefficients),
                functions: is_trained.then_some(&mut self.functions),
                base: self.base.as_deref_mut(),
                bias: self.bias.as_deref_mut(),
            }
        }
    }

    fn near(what: &str, threads: usize, estimate: usize, scratch: &DenseScratch) {
        let ratio = estimate as f64 / scratch.bytes() as f64;
        // A thread to which the others leave no work takes no memory.
        let most = if threads == 1 { 1.1 } else { f64::INFINITY };
        assert!((0.9..most).contains(&ratio), "{what}, {threads} threads: {ratio}");
    }

    fn ways() -> impl Iterator<Item = (Isa, usize)> {
        let there = Isa::BASES.into_iter().filter(|isa| isa.is_available());
        there.flat_map(|isa| [1, 3].map(|threads| (isa, threads)))
    }

    #[test]
    fn the_scratch_of_a_layer_is_what_was_estimated() {
        let gaussian = Basis::Gaussian(Centers { functions: 8, low: -2.0, high: 2.0 });
        for (basis, batch, [inputs, outputs, groups], is_whole) in [
            (gaussian, 256, [784, 64, 1], true),
            (gaussian, 64, [256, 256, 1], false),
            (Basis::Rational, 300, [24, 70, 3], true),
            (Basis::Rational, 1000, [6, 10, 1], true),
            (Basis::Chebyshev { degree: 7 }, 7, [40, 33, 1], true),
            (Basis::Fourier { frequencies: 20 }, 500, [30, 96, 1], false),
        ] {
            let case = Case::new(basis, [inputs * outputs, inputs, outputs, groups], is_whole);
            let x: Vec<f32> = (0..batch * inputs).map(|at| (at as f32).sin()).collect();
            let input = DenseInput { x: &x, seen: case.parts.seen.then_some(&x) };
            let mut y = vec![0.0; batch * outputs];
            for (isa, threads) in ways() {
                let estimate = LayerMemory::of_dense(isa, &case.layer, case.parts, batch, threads);
                let what = format!("{isa}, {basis:?}, {inputs} to {outputs}");
                let (layer, weights) = (&case.layer, &case.weights());
                let mut scratch = DenseScratch::default();
                dense_forward(isa, layer, weights, input, &mut y, &mut scratch, threads);
                near(&format!("forward, {what}"), threads, estimate.forward_scratch, &scratch);

                let (mut scratch, mut buffers) = (DenseScratch::default(), Buffers::of(&case, &x));
                let wanted = buffers.wanted(case.parts.is_trained);
                dense_backward(isa, layer, weights, input, &y, wanted, &mut scratch, threads);
                near(&format!("backward, {what}"), threads, estimate.backward_scratch, &scratch);
            }
        }
    }

    #[test]
    fn the_scratch_of_a_convolution_is_what_was_estimated() {
        let same = [ConvAxis { padding: 1, ..ConvAxis::new(3) }; 2];
        let strided = [ConvAxis { stride: 2, ..ConvAxis::new(2) }; 2];
        let gaussian = Basis::Gaussian(Centers { functions: 8, low: -2.0, high: 2.0 });
        for (basis, channels, groups, axes, [batch, height, width]) in [
            (gaussian, [16, 40], 1, &same, [3, 20, 24]),
            (Basis::Rational, [12, 6], 3, &strided, [2, 31, 60]),
            (Basis::Chebyshev { degree: 3 }, [3, 32], 1, &same, [9, 12, 12]),
        ] {
            let grid = Grid::uniform(-1.0, 1.0, 1, 0).unwrap();
            let (silu, base) = (Activation::Silu, BaseBranch::ConvOfActivation);
            let geometry = ConvGeometry::try_new(grid, channels, groups, axes, silu, base).unwrap();
            let of_group = channels[1] / groups;
            let mut case = Case::new(basis, [geometry.edges(), channels[0], of_group, 1], true);
            case.parts.seen = false;
            case.bias = Some(vec![0.5; channels[1]]);
            let shapes = geometry.shapes_of(batch, &[height, width]).unwrap();
            let x = vec![0.3; batch * channels[0] * shapes.in_pixels()];
            let mut y = vec![0.0; batch * channels[1] * shapes.out_pixels()];
            let conv = DenseConv { pixel: &case.layer, geometry: &geometry };
            for (isa, threads) in ways() {
                let parts = case.parts;
                let estimate = LayerMemory::of_dense_conv(isa, conv, parts, shapes, threads);
                let what = format!("{isa}, {basis:?}, {channels:?} channels");
                let weights = &case.weights();
                let mut scratch = DenseScratch::default();
                let pass = &mut scratch;
                dense_conv_forward(isa, conv, weights, &x, shapes, &mut y, pass, threads);
                near(&format!("forward, {what}"), threads, estimate.forward_scratch, &scratch);

                let (mut scratch, mut buffers) = (DenseScratch::default(), Buffers::of(&case, &x));
                let (wanted, pass) = (buffers.wanted(case.parts.is_trained), &mut scratch);
                dense_conv_backward(isa, conv, weights, &x, &y, shapes, wanted, pass, threads);
                near(&format!("backward, {what}"), threads, estimate.backward_scratch, &scratch);
            }
        }
    }
}
