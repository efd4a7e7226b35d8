//! The memory of a layer's passes, computed before they run.

use updraft_simd::Isa;

use super::cpu::{
    FORWARD_INPUTS, GRADIENT_ROWS, INPUTS, PACKED, are_few, forward_tile, layer_tile, line,
    numbers_of_all, pitch, reads_in_place, rows_of_weights,
};
use super::geometry::{LayerGeometry, Weights};
use super::scratch::{Taps, Workspace};
use super::{backward, bf16, forward};

/// The memory of a layer's passes in bytes.
///
/// The kernels keep only the input for the backward pass, and the caller owns it; on the plain
/// path, the tensors that autodiff keeps count as scratch of the backward pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct LayerMemory {
    /// The parameters.
    pub parameters: usize,
    /// The outputs.
    pub outputs: usize,
    /// The packed weights that a `KanLinear` keeps on the CPU from its second pass without gradients
    /// on, and drops in training; 0 for other layers and paths.
    pub packed: usize,
    /// The gradients of the input and of all parameters.
    pub gradients: usize,
    /// The scratch of a forward pass.
    pub forward_scratch: usize,
    /// The scratch of a backward pass to all gradients.
    pub backward_scratch: usize,
}

impl LayerMemory {
    /// The memory with the kernels, for a batch size and a number of threads.
    ///
    /// Only the presence of parameters matters, not their values: slices may be empty. A scratch
    /// that is used for both passes takes at most the sum of both. A thread to which the others leave
    /// no work takes less.
    ///
    /// # Example
    /// ```
    /// use updraft_kan::slices::{Activation, Grid, LayerGeometry, LayerMemory, Isa, Weights};
    ///
    /// let grid = Grid::uniform(-1.0, 1.0, 5, 3)?;
    /// let layer = LayerGeometry::try_new(grid, 2, 3, Activation::Silu)?;
    /// let memory = LayerMemory::of(Isa::detect(), &layer, &Weights::default(), 16, 1);
    /// assert_eq!((memory.parameters, memory.outputs), (4 * 2 * 8 * 3, 4 * 16 * 3));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn of(
        isa: Isa,
        geometry: &LayerGeometry,
        weights: &Weights<'_>,
        batch: usize,
        threads: usize,
    ) -> Self {
        let (inputs, outputs) = (geometry.in_features(), geometry.out_features());
        let edges = geometry.edges();
        let parts = usize::from(weights.base.is_some()) + usize::from(weights.scaler.is_some());
        let bias = if weights.bias.is_some() { outputs } else { 0 };
        let parameters = edges * (geometry.grid().bases() + parts) + bias;
        let layer = Layer { isa, geometry, weights, batch };
        let threads = updraft_simd::threads(threads);
        let [forward_scratch, backward_scratch] =
            match bf16::Plan::of(isa, geometry, weights, batch) {
                Some(plan) => [plan.forward_bytes(threads), plan.backward_bytes(threads)],
                None => [layer.forward(threads), layer.backward(threads)],
            };
        Self {
            parameters: FLOAT * parameters,
            outputs: FLOAT * batch * outputs,
            packed: FLOAT * numbers_of_all(isa, geometry, weights),
            gradients: FLOAT * (batch * inputs + parameters),
            forward_scratch,
            backward_scratch,
        }
    }
}

const FLOAT: usize = size_of::<f32>();

/// What a layer of functions in closed form has besides its coefficients.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BasisParts {
    pub(crate) base: bool,
    pub(crate) bias: bool,
    /// Numbers of the functions' parameters.
    pub(crate) functions: usize,
    /// Whether they are trained.
    pub(crate) is_trained: bool,
    /// Whether the functions see another input than the base branch.
    pub(crate) seen: bool,
}

impl BasisParts {
    /// The numbers of the parameters, and of those that are trained.
    pub(crate) fn parameters(&self, edges: usize, count: usize, outputs: usize) -> [usize; 2] {
        let bias = if self.bias { outputs } else { 0 };
        let trained = edges * (count + usize::from(self.base)) + bias;
        let functions = if self.is_trained { self.functions } else { 0 };
        [trained + self.functions, trained + functions]
    }
}

struct Layer<'a> {
    isa: Isa,
    geometry: &'a LayerGeometry,
    weights: &'a Weights<'a>,
    batch: usize,
}

impl Layer<'_> {
    fn forward(&self, threads: usize) -> usize {
        let line = line(self.isa);
        let rows = forward::rows(self.isa, self.batch, threads);
        let lines = rows.min(self.batch).div_ceil(line);
        let inputs = self.geometry.in_features().min(FORWARD_INPUTS);
        let taps = self.geometry.taps(self.weights);
        let of_line = match are_few(self.geometry, rows.min(self.batch)) {
            // Columns, values and windows.
            true => FORWARD_INPUTS * (1 + rows.min(self.batch) * (taps + 1)),
            // Columns, order and values, and windows.
            false => inputs * pitch(line) * (2 + taps) + pitch(line),
        };
        let width = PACKED.next_multiple_of(forward_tile(self.isa)).min(self.padded());
        let of_tile = match reads_in_place(self.isa, self.geometry, rows.min(self.batch)) {
            true => 0,
            false => inputs * rows_of_weights(self.geometry, self.weights) * width,
        };
        let sums = line * forward_tile(self.isa);
        let used = threads.min(self.batch.div_ceil(rows));
        let of_thread = lines * (size_of::<Taps>() + FLOAT * of_line) + FLOAT * (of_tile + sums);
        threads * size_of::<Workspace>() + used * of_thread
    }

    fn backward(&self, threads: usize) -> usize {
        let line = line(self.isa);
        let most_lines = GRADIENT_ROWS / line;
        let plan = backward::Plan::new(self.isa, self.geometry, self.weights, self.batch);
        let inputs = self.geometry.in_features().min(INPUTS);
        let taps = self.geometry.taps(self.weights);
        let lines = plan.samples.min(self.batch).div_ceil(line).min(most_lines);
        let of_line = inputs * pitch(line) * (2 + 2 * taps) + pitch(line);
        let width = layer_tile(self.isa, self.geometry.out_features()).min(self.padded());
        let of_tile = inputs * rows_of_weights(self.geometry, self.weights) * width;
        let partial = pitch(line) * (self.isa.lanes() + most_lines * INPUTS);
        let of_sums = if plan.pieces == 1 { plan.sums(0..inputs) } else { 0 };
        let of_pieces = if plan.pieces > 1 {
            plan.pieces * plan.sums(0..self.geometry.in_features())
        } else {
            0
        };
        let shared = self.batch * (plan.width() + self.geometry.in_features()) + of_pieces;
        let tasks = plan.pieces * self.geometry.in_features().div_ceil(INPUTS);
        let of_thread = most_lines * size_of::<Taps>()
            + FLOAT * (lines * of_line + of_tile + partial + of_sums);
        threads * size_of::<Workspace>() + threads.min(tasks) * of_thread + FLOAT * shared
    }

    fn padded(&self) -> usize {
        self.geometry.out_features().next_multiple_of(self.isa.lanes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grid::Grid;
    use crate::kernels::{Activation, Gradients, Scratch};

    #[test]
    fn the_scratch_of_both_passes_is_what_was_estimated() {
        let layers = [(256, 784, 64, 5, 3), (64, 256, 256, 5, 3), (300, 20, 70, 20, 2)];
        let ways = Isa::BASES.into_iter().flat_map(|isa| [1, 3].map(|threads| (isa, threads)));
        for ((batch, inputs, outputs, intervals, degree), (isa, threads)) in
            layers.into_iter().flat_map(|layer| ways.clone().map(move |way| (layer, way)))
        {
            if !isa.is_available() {
                continue;
            }
            let grid = Grid::uniform(-1.0, 1.0, intervals, degree).unwrap();
            let geometry = LayerGeometry::try_new(grid, inputs, outputs, Activation::Silu).unwrap();
            let edges = vec![0.5; geometry.edges()];
            let spline = vec![0.5; geometry.edges() * geometry.grid().bases()];
            let weights =
                Weights { spline: &spline, base: Some(&edges), scaler: Some(&edges), bias: None };
            let x: Vec<f32> = (0..batch * inputs).map(|at| (at as f32).sin()).collect();
            let mut y = vec![0.0; batch * outputs];
            let estimate = LayerMemory::of(isa, &geometry, &weights, batch, threads);
            let near = |estimate: usize, scratch: &Scratch| {
                let ratio = estimate as f64 / scratch.bytes() as f64;
                // A thread to which the others leave no work takes no memory.
                let most = if threads == 1 { 1.1 } else { f64::INFINITY };
                let layer = format!("{isa}, {inputs} to {outputs}, {threads} threads");
                assert!((0.9..most).contains(&ratio), "{layer}: {ratio}");
            };

            let mut scratch = Scratch::new();
            forward(isa, &geometry, weights, &x, &mut y, &mut scratch, threads).unwrap();
            near(estimate.forward_scratch, &scratch);

            let (mut of_x, mut of_spline) = (x.clone(), spline.clone());
            let (mut of_base, mut of_scaler) = (edges.clone(), edges.clone());
            let gradients = Gradients {
                x: Some(&mut of_x),
                spline: Some(&mut of_spline),
                base: Some(&mut of_base),
                scaler: Some(&mut of_scaler),
                bias: None,
            };
            let mut scratch = Scratch::new();
            backward(isa, &geometry, weights, &x, &y, gradients, &mut scratch, threads).unwrap();
            near(estimate.backward_scratch, &scratch);
        }
    }
}
