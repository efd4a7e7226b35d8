//! The gradients of a batch normalization: sums over the batch, then one pass over the tensors.

use updraft_simd::{Cut, Isa, Pieces, Vectors, over};

use super::batch_norm::{BatchNormShape, Normalization, StatisticsOf, check, lines};
use super::columns;
use super::plane::{self, Line};
use super::row::{self, Columns};
use crate::kernels::scratch::Scratch;

/// The sums of the gradients before the last pass over the tensors.
pub(crate) struct GradientPass<'a> {
    vectors: Vectors,
    shape: BatchNormShape,
    lines: Vec<Line>,
    /// The lines of feature maps of few pixels.
    columns: Option<Columns>,
    /// For each channel the sums whose means over `count` values are subtracted from the gradient.
    sums: Vec<[f64; 2]>,
    count: f64,
    x: &'a [f32],
    residual: Option<&'a [f32]>,
    dy: &'a [f32],
    threads: usize,
}

impl<'a> GradientPass<'a> {
    /// Computes the gradients of the factors and the summands.
    #[expect(clippy::too_many_arguments, reason = "all that a normalization knew")]
    pub(crate) fn new(
        isa: Isa,
        shape: BatchNormShape,
        by: Normalization<'a>,
        of: StatisticsOf,
        [mean, variance]: [&[f32]; 2],
        [x, dy]: [&'a [f32]; 2],
        [dgamma, dbeta]: [&mut [f32]; 2],
        scratch: &mut Scratch,
        threads: usize,
    ) -> Self {
        check(shape, &by, &[x.len(), dy.len()]);
        for (length, name) in [
            (mean.len(), "mean"),
            (variance.len(), "variance"),
            (dgamma.len(), "dgamma"),
            (dbeta.len(), "dbeta"),
        ] {
            assert_eq!(length, shape.channels, "one {name} for each channel");
        }
        let vectors = isa.vectors();
        let lines = lines(&by, mean, variance);
        let threads = updraft_simd::threads(threads);
        let residual = by.residual;
        let (columns, mut sums) = if shape.has_few_pixels() {
            let columns = Columns::new(&lines, by.activation, shape.pixels);
            let inputs = ([x, dy], residual);
            let sums = columns::gradient_sums(vectors, shape, &columns, inputs, threads);
            (Some(columns), sums)
        } else {
            let partial = scratch.wide(2 * shape.batch * shape.channels);
            over(Cut::new(partial, 2), &mut vec![(); threads], |plane, partial, ()| {
                let range = shape.range(plane);
                let line = lines[plane % shape.channels];
                let (x, dy) = (&x[range.clone()], &dy[range.clone()]);
                let residual = residual.map(|residual| &residual[range]);
                partial.copy_from_slice(&plane::gradient_sums(vectors, line, x, residual, dy));
            });
            let mut sums = vec![[0.0; 2]; shape.channels];
            for partial in partial.chunks_exact(2 * shape.channels) {
                for (sums, partial) in sums.iter_mut().zip(partial.as_chunks::<2>().0) {
                    sums[0] += partial[0];
                    sums[1] += partial[1];
                }
            }
            (None, sums)
        };
        for (channel, sums) in sums.iter_mut().enumerate() {
            let [first, second] = *sums;
            let inverse = 1.0 / (f64::from(variance[channel]) + by.epsilon);
            dbeta[channel] = first as f32;
            dgamma[channel] = (second * inverse.sqrt()) as f32;
            *sums = match of {
                StatisticsOf::Batch => [first, second * inverse],
                StatisticsOf::Others => [0.0; 2],
            };
        }
        let count = shape.count() as f64;
        Self { vectors, shape, lines, columns, sums, count, x, residual, dy, threads }
    }

    /// For each channel the two sums whose means over the batch are subtracted from the gradient.
    #[cfg(all(feature = "flex", feature = "autodiff"))]
    pub(crate) fn sums(&self) -> &[[f64; 2]] {
        &self.sums
    }

    /// The same pass with the sums over more than this batch, of `count` values per channel.
    #[cfg(all(feature = "flex", feature = "autodiff"))]
    pub(crate) fn with_sums(self, sums: Vec<[f64; 2]>, count: f64) -> Self {
        assert_eq!(sums.len(), self.shape.channels, "two sums for each channel");
        Self { sums, count, ..self }
    }

    /// What is subtracted from the gradient of a channel.
    fn means(&self, channel: usize) -> [f32; 2] {
        self.sums[channel].map(|sum| (sum / self.count) as f32)
    }

    /// The means of every number of a sample.
    fn repeated_means(&self) -> [Vec<f32>; 2] {
        [0, 1].map(|which| {
            let means = (0..self.shape.channels).map(|channel| self.means(channel)[which]);
            row::repeated(means, self.shape.pixels)
        })
    }

    /// The input's gradient, of a normalization without a residual.
    pub(crate) fn input<'b>(&self, dx: impl Pieces<Piece = &'b mut [f32]>) {
        assert!(self.residual.is_none(), "a residual has a gradient");
        let (vectors, mut states) = (self.vectors, vec![(); self.threads]);
        let inputs = |piece| {
            let range = self.shape.range(piece);
            [&self.x[range.clone()], &self.dy[range]]
        };
        if let Some(columns) = &self.columns {
            let means = self.repeated_means();
            return over(dx, &mut states, |sample, dx, ()| {
                let [x, dy] = inputs(sample);
                row::gradient(vectors, columns, means.each_ref().map(Vec::as_slice), x, dy, dx);
            });
        }
        over(dx, &mut states, |plane, dx, ()| {
            let channel = plane % self.shape.channels;
            let (line, [x, dy]) = (self.lines[channel], inputs(plane));
            plane::gradient(vectors, line, self.means(channel), x, dy, dx);
        });
    }

    /// The gradients of input and residual.
    pub(crate) fn input_and_residual<'b>(
        &self,
        both: impl Pieces<Piece = (&'b mut [f32], &'b mut [f32])>,
    ) {
        let residual = self.residual.expect("a gradient is asked for where there is a residual");
        let (vectors, mut states) = (self.vectors, vec![(); self.threads]);
        let inputs = |piece| {
            let range = self.shape.range(piece);
            [self.x, residual, self.dy].map(|tensor| &tensor[range.clone()])
        };
        if let Some(columns) = &self.columns {
            let means = self.repeated_means();
            return over(both, &mut states, |sample, (dx, dresidual), ()| {
                let means = means.each_ref().map(Vec::as_slice);
                row::gradient_of_both(vectors, columns, means, inputs(sample), dx, dresidual);
            });
        }
        over(both, &mut states, |plane, (dx, dresidual), ()| {
            let channel = plane % self.shape.channels;
            let (line, means) = (self.lines[channel], self.means(channel));
            plane::gradient_of_both(vectors, line, means, inputs(plane), dx, dresidual);
        });
    }
}
