//! The forward pass of a dense or grouped convolution: its weights packed, and run over samples.

use updraft_simd::pixels::transpose;
use updraft_simd::{Isa, Pieces};

use super::convolution::{Samples, planes_of, rows_of};
use super::direct::{LineJob, TileJob};
use super::geometry::ConvGeometry;
use super::packing::{pack, padded_image, padded_len, taps_of};
use super::plan::Windows;
use super::sample_end::SampleEnd;
use super::strategy::{Algorithm, Pass, Rows};
use super::winograd::Winograd;

/// The windows of a forward pass, by one algorithm; the number of samples is left to a run.
#[derive(Debug, Clone)]
pub(super) struct Dense {
    isa: Isa,
    geometry: ConvGeometry,
    windows: Windows,
    taps: Vec<u32>,
    /// Vectors of a group's output channels.
    blocks: usize,
    rows: Option<Rows>,
    winograd: Option<Winograd>,
}

impl Dense {
    /// A direct algorithm, or Winograd's.
    pub(super) fn forward(isa: Isa, geometry: &ConvGeometry, algorithm: Algorithm) -> Self {
        let windows = Windows::of(geometry);
        Self {
            isa,
            geometry: *geometry,
            taps: taps_of(geometry.shape(), &windows),
            blocks: windows.channels[1].div_ceil(isa.lanes()),
            rows: rows_of(algorithm, isa, geometry, Pass::Forward),
            winograd: (algorithm == Algorithm::Winograd).then(|| Winograd::forward(isa, geometry)),
            windows,
        }
    }

    /// The same with work space for at most so many samples of a thread together.
    pub(super) fn with_at_most(mut self, samples: usize) -> Self {
        self.winograd = self.winograd.map(|winograd| winograd.with_at_most(samples));
        self
    }

    /// Numbers of the packed weights, the initial values of sums, and the transformed weights.
    pub(super) fn packed_lens(&self) -> [usize; 3] {
        let groups = self.geometry.shape().groups;
        [self.weight_len(), self.start_len(), self.lens()[0]].map(|len| groups * len)
    }

    /// Numbers of a thread's work space.
    pub(super) fn own_len(&self) -> usize {
        let by_pixel = match self.rows {
            Some(_) => LineJob::panel_len(self.isa, self.taps.len()),
            None => self.pixels() * self.blocks * self.isa.lanes(),
        };
        self.lens()[1].max(self.padded_len() + by_pixel)
    }

    /// Packs weights and biases, group after group.
    pub(super) fn pack(
        &self,
        w: &[f32],
        bias: Option<&[f32]>,
        packed: &mut [f32],
        starts: &mut [f32],
        points: &mut [f32],
    ) {
        let (lanes, taps, outputs) = (self.isa.lanes(), self.taps.len(), self.windows.channels[1]);
        let (weight_len, start_len) = (self.weight_len(), self.start_len());
        let point_len = self.lens()[0];
        for group in 0..self.geometry.shape().groups {
            let packed = &mut packed[group * weight_len..][..weight_len];
            pack(packed, [taps, lanes], &w[group * outputs * taps..], [outputs, taps], |tap| tap);
            for (lane, start) in starts[group * start_len..][..start_len].iter_mut().enumerate() {
                let channel = group * outputs + lane;
                *start = bias.filter(|_| lane < outputs).map_or(0.0, |bias| bias[channel]);
            }
            if let Some(winograd) = &self.winograd {
                winograd.weights(packed, &mut points[group * point_len..][..point_len]);
            }
        }
    }

    /// Convolves all samples of `x` with what was packed, then ends each.
    pub(super) fn run<'a>(
        &self,
        x: &[f32],
        [packed, starts, points]: [&[f32]; 3],
        end: SampleEnd<'_>,
        y: impl Pieces<Piece = &'a mut [f32]>,
        of_threads: &mut [&mut [f32]],
    ) {
        let Self { isa, geometry, blocks, .. } = self;
        let (isa, blocks, shape) = (*isa, *blocks, geometry.shape());
        let (lanes, pixels, outputs) = (isa.lanes(), self.pixels(), self.windows.channels[1]);
        let (weight_len, padded_len) = (self.weight_len(), self.padded_len());
        let row_step = shape.stride[0] * self.windows.padded.size[1];
        let batch = y.count();
        let samples = Samples {
            of: x,
            batch,
            groups: shape.groups,
            results: outputs * pixels,
            winograd: self.winograd.as_ref(),
            points,
            starts,
            padded_len,
        };
        let directly = |group: usize, x: &[f32], start: &[f32], own: &mut [f32], y: &mut [f32]| {
            let (own_image, by_pixel) = own.split_at_mut(padded_len);
            let weights = &packed[group * weight_len..][..weight_len];
            let image = padded_image(isa, x, shape.input, self.windows.padded, own_image);
            if let Some(rows) = self.rows {
                let job = rows.job(image, &self.taps, weights, start, outputs);
                return job.run(isa, &mut planes_of(y, pixels), by_pixel);
            }
            let job = TileJob {
                image,
                origin: 0,
                taps: &self.taps,
                weights,
                start,
                blocks,
                rows: geometry.output()[0],
                columns: geometry.output()[1],
                row_step,
                column_step: shape.stride[1],
                output_row: geometry.output()[1] * blocks * lanes,
                output_column: blocks * lanes,
            };
            job.run(isa, by_pixel);
            transpose(isa, by_pixel, [pixels, outputs], blocks * lanes, y, pixels);
        };
        let vectors = isa.vectors();
        samples.compute(y, of_threads, directly, |index, y| {
            end.finish(vectors, [index, batch], y);
        });
    }

    fn pixels(&self) -> usize {
        self.geometry.output().iter().product()
    }

    fn padded_len(&self) -> usize {
        padded_len(self.windows.padded, self.geometry.shape().input, self.windows.channels[0])
    }

    const fn weight_len(&self) -> usize {
        self.blocks * self.taps.len() * self.isa.lanes()
    }

    const fn start_len(&self) -> usize {
        self.blocks * self.isa.lanes()
    }

    /// Numbers of a group's transformed weights, and of a thread's work space with them.
    fn lens(&self) -> [usize; 2] {
        self.winograd.as_ref().map_or([0; 2], Winograd::lens)
    }
}
