//! The forward pass of a layer for a batch.

use updraft_simd::{Isa, over};

use super::bf16;
use super::cpu::{ForwardJob, OUTPUT_LINES, line};
use super::geometry::{LayerError, LayerGeometry, Weights, length};
use super::scratch::Scratch;

/// Computes a layer's outputs `y`, `[batch, out_features]`, from `x`, `[batch, in_features]`.
///
/// On one instruction set, the result is bitwise equal for any number of threads; 0 means 1.
/// Without the feature `rayon` there is one thread.
///
/// NaN in `x` propagates to all outputs of its sample, and so does infinity if the function of the
/// base branch or the rule outside the domain has no finite value there. A coefficient is read only
/// for samples in the intervals where its basis is non-zero: an infinite one does not affect other
/// samples.
///
/// # Errors
/// [`LayerError`] if a slice does not fit the geometry or the CPU lacks the instructions; nothing
/// is written then.
pub fn forward(
    isa: Isa,
    geometry: &LayerGeometry,
    weights: Weights<'_>,
    x: &[f32],
    y: &mut [f32],
    scratch: &mut Scratch,
    threads: usize,
) -> Result<(), LayerError> {
    let batch = geometry.check(&weights, x)?;
    length("y", batch.saturating_mul(geometry.out_features()), y)?;
    if !isa.is_available() {
        return Err(LayerError::Isa { isa });
    }
    if let Some(plan) = bf16::Plan::of(isa, geometry, &weights, batch) {
        bf16::forward(&plan, &weights, x, y, scratch.of_bf16(), threads);
        return Ok(());
    }
    let job = ForwardJob { geometry, weights, packed: None, x };
    in_tasks(isa, &job, y, scratch, threads);
    Ok(())
}

/// Computes a job, divided along the batch.
pub(super) fn in_tasks(
    isa: Isa,
    job: &ForwardJob<'_>,
    y: &mut [f32],
    scratch: &mut Scratch,
    threads: usize,
) {
    let (inputs, outputs) = (job.geometry.in_features(), job.geometry.out_features());
    let threads = updraft_simd::threads(threads);
    let rows = rows(isa, job.x.len() / inputs, threads);
    let (_, spaces) = scratch.split(0, threads);
    let tasks = job.x.chunks(rows * inputs).zip(y.chunks_mut(rows * outputs));
    over(tasks.collect::<Vec<_>>(), spaces, |_, (x, y), space| {
        ForwardJob { x, ..*job }.run(isa, y, space);
    });
}

/// Returns the outputs of [`forward`] in a new vector, computed on one thread with the fastest
/// instruction set of this CPU.
///
/// # Errors
/// [`LayerError`] if a slice does not fit the geometry.
///
/// # Example
/// ```
/// use updraft_kan::slices::{Activation, Grid, LayerGeometry, Weights, evaluate};
///
/// // One input, one output, a linear spline with the values 3, 5 and 4 at 0, 1 and 2.
/// let grid = Grid::uniform(0.0, 2.0, 2, 1)?;
/// let layer = LayerGeometry::try_new(grid, 1, 1, Activation::Silu)?;
/// let weights = Weights { spline: &[3.0, 5.0, 4.0], ..Weights::default() };
/// assert_eq!(evaluate(&layer, weights, &[0.5, 1.5])?, [4.0, 4.5]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn evaluate(
    geometry: &LayerGeometry,
    weights: Weights<'_>,
    x: &[f32],
) -> Result<Vec<f32>, LayerError> {
    let batch = geometry.check(&weights, x)?;
    let mut y = vec![0.0; batch.saturating_mul(geometry.out_features())];
    forward(Isa::detect(), geometry, weights, x, &mut y, &mut Scratch::new(), 1)?;
    Ok(y)
}

/// Samples per task: whole lines if there are enough of them for all threads.
pub(super) fn rows(isa: Isa, batch: usize, threads: usize) -> usize {
    let line = line(isa);
    let share = batch.div_ceil(threads).max(1);
    let tasks = share.div_ceil(OUTPUT_LINES * line) * threads;
    let rows = batch.div_ceil(tasks).max(1);
    if rows > line { rows.next_multiple_of(line) } else { rows }
}
