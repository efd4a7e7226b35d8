//! The memory of a convolution's passes, computed before they run.

use updraft_simd::Isa;

use super::backward::Cut;
use super::error::ConvError;
use super::forward::by_winograd;
use super::geometry::{BaseBranch, ConvGeometry, Shapes};
use super::line::Lines;
use super::pass::base_alone;
use super::view::{PLANE, View};
use crate::kernels::cpu::{LINE_PITCH, MOST_PIXELS, numbers_of_conv};
use crate::kernels::geometry::Weights;
use crate::kernels::memory::LayerMemory;
use crate::kernels::scratch::{Taps, Workspace};

const FLOAT: usize = size_of::<f32>();

impl LayerMemory {
    /// Bytes of a convolution on the kernels, for a batch of so many images of a shape, on so many
    /// threads.
    ///
    /// Only the presence of parameters matters, not their values: slices may be empty. A scratch
    /// that is used for both passes takes at most the sum of both, and a thread to which the others
    /// leave no work takes less. With
    /// [`BaseBranch::ActivationOfConv`] the passes hold the sums of the base branch, as many numbers
    /// as the outputs, and the backward pass a second gradient of the input: they count as scratch.
    ///
    /// # Errors
    /// [`ConvError`] if the shape does not fit the geometry.
    ///
    /// # Example
    /// ```
    /// use updraft_kan::slices::{
    ///     Activation, BaseBranch, ConvAxis, ConvGeometry, Grid, Isa, LayerMemory, Weights,
    /// };
    ///
    /// let grid = Grid::uniform(-1.0, 1.0, 5, 3)?;
    /// let (axes, base) = ([ConvAxis::new(3); 2], BaseBranch::ConvOfActivation);
    /// let conv = ConvGeometry::try_new(grid, [2, 3], 1, &axes, Activation::Silu, base)?;
    /// let weights = Weights::default();
    /// let memory = LayerMemory::of_conv(Isa::detect(), &conv, &weights, 4, &[6, 6], 1)?;
    /// assert_eq!((memory.parameters, memory.outputs), (4 * 18 * 8 * 3, 4 * 4 * 3 * 16));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn of_conv(
        isa: Isa,
        geometry: &ConvGeometry,
        weights: &Weights<'_>,
        batch: usize,
        shape: &[usize],
        threads: usize,
    ) -> Result<Self, ConvError> {
        let shapes = geometry.shapes_of(batch, shape)?;
        let parts = usize::from(weights.base.is_some()) + usize::from(weights.scaler.is_some());
        let bias = if weights.bias.is_some() { geometry.out_channels() } else { 0 };
        let parameters = geometry.edges() * (geometry.grid().bases() + parts) + bias;
        let inputs = batch * geometry.in_channels() * shapes.in_pixels();
        let outputs = batch * geometry.out_channels() * shapes.out_pixels();
        let threads = updraft_simd::threads(threads);
        let pass = |weights: &Weights<'_>, has_spline: bool| {
            Pass::new(isa, geometry, weights, has_spline, shapes, threads)
        };
        let workspaces = threads * size_of::<Workspace>();

        let (mut more_forward, mut more_backward) = (0, 0);
        let [forward, backward] =
            if weights.base.is_some() && geometry.base_branch() == BaseBranch::ActivationOfConv {
                let splines = pass(&Weights { base: None, ..*weights }, true);
                let base = pass(&base_alone(*weights), false);
                more_forward = FLOAT * outputs;
                more_backward = FLOAT * (outputs + inputs) + base.bytes[0];
                splines.and(base)
            } else {
                pass(weights, true).bytes
            };
        Ok(Self {
            parameters: FLOAT * parameters,
            outputs: FLOAT * outputs,
            packed: 0,
            gradients: FLOAT * (inputs + parameters),
            forward_scratch: workspaces + forward + more_forward,
            backward_scratch: workspaces + backward + more_backward,
        })
    }
}

/// A forward and a backward pass.
struct Pass {
    is_winograd: bool,
    /// Of both.
    bytes: [usize; 2],
}

impl Pass {
    fn new(
        isa: Isa,
        geometry: &ConvGeometry,
        weights: &Weights<'_>,
        has_spline: bool,
        shapes: Shapes,
        threads: usize,
    ) -> Self {
        let plan = by_winograd(isa, geometry, weights, has_spline, shapes);
        let bytes = match &plan {
            Some((plan, _)) => [plan.forward_bytes(threads), plan.backward_bytes(threads, 0)],
            None => direct(isa, geometry, weights, shapes, threads),
        };
        Self { is_winograd: plan.is_some(), bytes }
    }

    /// The bytes of both in one scratch, of which passes of one kind use the same parts.
    fn and(self, other: Self) -> [usize; 2] {
        let is_shared = self.is_winograd == other.is_winograd;
        [0, 1].map(|pass| match [self.bytes[pass], other.bytes[pass]] {
            [a, b] if is_shared => a.max(b),
            [a, b] => a + b,
        })
    }
}

/// Bytes of a forward and a backward pass that compute the products of every tap.
fn direct(
    isa: Isa,
    geometry: &ConvGeometry,
    weights: &Weights<'_>,
    shapes: Shapes,
    threads: usize,
) -> [usize; 2] {
    let batch = shapes.batch;
    let columns = geometry.pixel.out_features().next_multiple_of(isa.lanes());
    let of_channel = numbers_of_conv(isa, geometry, weights);
    let taps = geometry.pixel.taps(weights);

    let view = View::new(geometry, shapes);
    let most = view.cut.iter().product::<usize>().next_multiple_of(MOST_PIXELS);
    let column = PLANE.max(isa.lanes() * most);
    let planes = geometry.grid().degree() + 3;
    // Positions, windows, a column, the planes, and the sums.
    let of_thread = most + PLANE + column + planes * PLANE + most * columns;
    let slabs = shapes.out_pixels().div_ceil(view.slab_pixels().max(1));
    let used = threads.min(batch * geometry.groups() * slabs);
    let forward = FLOAT * geometry.in_channels() * of_channel
        + used * (FLOAT * of_thread + size_of::<Taps>());

    let lines = Lines::new(geometry, shapes);
    let cut = Cut::new(geometry, shapes);
    let of_dy = batch * geometry.groups() * lines.boxes() * lines.region() * columns;
    let pixels = lines.pixels_of_line();
    // Columns, windows, order and places, values and slopes, lanes, and where the pixels are.
    let of_thread = FLOAT * LINE_PITCH * (4 + 2 * taps + isa.lanes())
        + size_of::<Taps>()
        + pixels * (size_of::<usize>() + size_of::<u32>());
    let used = threads.min(cut.pieces * cut.blocks);
    let channels = geometry.in_channels();
    let of_sums = FLOAT * of_channel * threads.min(channels);
    let shared = of_dy + channels * of_channel * (1 + cut.pieces);
    let backward = FLOAT * shared + used * of_thread + of_sums;

    [forward, backward]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grid::Grid;
    use crate::kernels::conv::{ConvAxis, conv_backward, conv_forward};
    use crate::kernels::{Activation, Gradients, Scratch};

    #[test]
    fn the_scratch_of_both_passes_is_what_was_estimated() {
        let same = [ConvAxis { padding: 1, ..ConvAxis::new(3) }; 2];
        let strided = [ConvAxis { stride: 2, ..ConvAxis::new(2) }; 2];
        let cases = [([16, 40], 1, &same, [3, 20, 24]), ([12, 6], 3, &strided, [2, 31, 60])];
        let branches = [BaseBranch::ConvOfActivation, BaseBranch::ActivationOfConv];
        let runs = Isa::BASES
            .into_iter()
            .filter(|isa| isa.is_available())
            .flat_map(|isa| [1, 3].map(|threads| (isa, threads)))
            .flat_map(|(isa, threads)| branches.map(|base| (isa, threads, base)));
        for ((channels, groups, axes, [batch, height, width]), (isa, threads, base)) in
            cases.into_iter().flat_map(|case| runs.clone().map(move |run| (case, run)))
        {
            let grid = Grid::uniform(-1.0, 1.0, 5, 3).unwrap();
            let geometry =
                ConvGeometry::try_new(grid, channels, groups, axes, Activation::Silu, base)
                    .unwrap();
            let edges = vec![0.5; geometry.edges()];
            let spline = vec![0.5; geometry.edges() * geometry.grid().bases()];
            let weights =
                Weights { spline: &spline, base: Some(&edges), scaler: Some(&edges), bias: None };
            let shape = [height, width];
            let x = vec![0.3; batch * channels[0] * height * width];
            let output = geometry.output_shape(&shape).unwrap();
            let mut y = vec![0.0; batch * channels[1] * output[0] * output[1]];
            let estimate =
                LayerMemory::of_conv(isa, &geometry, &weights, batch, &shape, threads).unwrap();
            let near = |estimate: usize, scratch: &Scratch| {
                let ratio = estimate as f64 / scratch.bytes() as f64;
                // A base branch alone reuses parts of the scratch, which are counted for both. A thread
                // to which the others leave no work takes no memory.
                let most = match base {
                    _ if threads > 1 => f64::INFINITY,
                    BaseBranch::ConvOfActivation => 1.1,
                    BaseBranch::ActivationOfConv => 1.3,
                };
                assert!(
                    (0.9..most).contains(&ratio),
                    "{isa}, {threads} threads, {base:?}: {ratio}"
                );
            };

            let mut scratch = Scratch::new();
            conv_forward(isa, &geometry, weights, &x, &shape, &mut y, &mut scratch, threads)
                .unwrap();
            // Sums of a base branch alone are vectors outside of the scratch.
            let of_sums = match base {
                BaseBranch::ConvOfActivation => [0; 2],
                BaseBranch::ActivationOfConv => [FLOAT * y.len(), FLOAT * (y.len() + x.len())],
            };
            near(estimate.forward_scratch - of_sums[0], &scratch);

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
            let pass = &mut scratch;
            conv_backward(isa, &geometry, weights, &x, &shape, &y, gradients, pass, threads)
                .unwrap();
            near(estimate.backward_scratch - of_sums[1], &scratch);
        }
    }
}
