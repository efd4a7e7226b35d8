//! Layers whose weights are packed once, for inference.

use updraft_simd::{Cut, Isa, over, threads};

use super::convolution::forward_by;
use super::dense::Dense;
use super::direct::TileJob;
use super::elementwise::{Activation, function};
use super::geometry::ConvGeometry;
use super::packing::pack;
use super::sample_end::SampleEnd;
use super::scratch::Scratch;
use super::strategy::{Algorithm, Pass, Strategy, strategy};

/// A convolution with its weights: packed, and transformed for Winograd's algorithm, once.
///
/// The algorithm is chosen once, for the batch of the geometry, so that a sample has the same bits
/// in a batch of any size and with any number of threads.
#[derive(Debug, Clone)]
pub struct PackedConvolution {
    geometry: ConvGeometry,
    strategy: Strategy,
    weights: Weights,
}

#[derive(Debug, Clone)]
enum Weights {
    Packed {
        dense: Box<Dense>,
        packed: Vec<f32>,
        starts: Vec<f32>,
        points: Vec<f32>,
    },
    /// Of one channel a group, which are few, and of products in bf16.
    Plain {
        weights: Vec<f32>,
        bias: Vec<f32>,
    },
}

impl PackedConvolution {
    /// Packs weights `[outputs][inputs / groups][rows][columns]`, and one bias for each output.
    ///
    /// # Panics
    /// If the length of a slice differs from `geometry`.
    #[must_use]
    pub fn new(isa: Isa, geometry: &ConvGeometry, weights: &[f32], bias: &[f32]) -> Self {
        assert_eq!(weights.len(), geometry.weight_len(), "numbers of the weights");
        assert_eq!(bias.len(), geometry.shape().channels[1], "one bias for each output channel");
        let strategy = strategy(isa, geometry, Pass::Forward);
        let weights = match strategy.algorithm {
            Algorithm::DirectByChannel | Algorithm::DirectByPixel | Algorithm::Winograd => {
                let dense = Box::new(Dense::forward(strategy.isa, geometry, strategy.algorithm));
                let [mut packed, mut starts, mut points] =
                    dense.packed_lens().map(|len| vec![0.0; len]);
                dense.pack(weights, Some(bias), &mut packed, &mut starts, &mut points);
                Weights::Packed { dense, packed, starts, points }
            }
            Algorithm::DepthwiseByChannel | Algorithm::DepthwiseByPixel | Algorithm::Bf16Tiles => {
                Weights::Plain { weights: weights.to_vec(), bias: bias.to_vec() }
            }
        };
        Self { geometry: *geometry, strategy, weights }
    }

    /// The algorithm, with the reason.
    #[must_use]
    pub const fn strategy(&self) -> Strategy {
        self.strategy
    }

    /// Bytes of the weights in all forms that are kept.
    #[must_use]
    pub fn bytes(&self) -> usize {
        size_of::<f32>()
            * match &self.weights {
                Weights::Packed { packed, starts, points, .. } => {
                    packed.len() + starts.len() + points.len()
                }
                Weights::Plain { weights, bias } => weights.len() + bias.len(),
            }
    }

    /// Convolves all samples of `x`, then activates.
    ///
    /// # Panics
    /// If a slice is not a whole number of samples, the two differ in it, or the CPU does not have
    /// the instruction set that was packed for.
    pub fn forward(
        &self,
        x: &[f32],
        activation: Activation,
        y: &mut [f32],
        scratch: &mut Scratch,
        asked_threads: usize,
    ) {
        let one = self.geometry.with_batch(1);
        let samples = whole_samples(x, y, [one.input_len(), one.output_len()]);
        if samples == 0 {
            return;
        }
        let y = Cut::new(y, one.output_len());
        match &self.weights {
            Weights::Plain { weights, bias } => forward_by(
                self.strategy,
                &self.geometry.with_batch(samples),
                x,
                weights,
                Some(bias),
                activation,
                y,
                scratch,
                asked_threads,
            ),
            Weights::Packed { dense, packed, starts, points } => {
                let threads = threads(asked_threads).min(samples);
                let dense = dense.as_ref().clone().with_at_most(samples.div_ceil(threads));
                let (_, mut of_threads) = scratch.split(0, threads, dense.own_len());
                let end = SampleEnd::of(activation);
                dense.run(x, [packed, starts, points], end, y, &mut of_threads);
            }
        }
    }
}

/// A product of rows with weights that are packed once, plus biases: a fully connected layer.
///
/// Each row has the same bits with any number of rows and threads.
#[derive(Debug, Clone)]
pub struct PackedProduct {
    isa: Isa,
    outputs: usize,
    taps: Vec<u32>,
    weights: Vec<f32>,
    starts: Vec<f32>,
}

impl PackedProduct {
    /// Packs weights `[outputs][inputs]`, and one bias for each output.
    ///
    /// # Panics
    /// If there is no weight, or their number is no multiple of the number of biases.
    #[must_use]
    pub fn new(isa: Isa, weights: &[f32], bias: &[f32]) -> Self {
        let (isa, outputs) = (isa.base(), bias.len());
        let inputs = weights.len() / outputs.max(1);
        assert!(inputs > 0 && weights.len() == inputs * outputs, "weights for every output");
        let lanes = isa.lanes();
        let mut packed = vec![0.0; outputs.next_multiple_of(lanes) * inputs];
        pack(&mut packed, [inputs, lanes], weights, [outputs, inputs], |tap| tap);
        let mut starts = bias.to_vec();
        starts.resize(outputs.next_multiple_of(lanes), 0.0);
        Self { isa, outputs, taps: (0..inputs as u32).collect(), weights: packed, starts }
    }

    /// Bytes of the packed weights and biases.
    #[must_use]
    pub fn bytes(&self) -> usize {
        size_of::<f32>() * (self.weights.len() + self.starts.len() + self.taps.len())
    }

    /// Multiplies all rows of `x`, then activates. One row is divided over threads by its outputs,
    /// several by rows.
    ///
    /// # Panics
    /// If a slice is not a whole number of rows, the two differ in it, or the CPU does not have the
    /// instruction set that was packed for.
    pub fn forward(
        &self,
        x: &[f32],
        activation: Activation,
        y: &mut [f32],
        scratch: &mut Scratch,
        asked_threads: usize,
    ) {
        let (inputs, lanes) = (self.taps.len(), self.isa.lanes());
        let rows = whole_samples(x, y, [inputs, self.outputs]);
        if rows == 0 {
            return;
        }
        let threads = threads(asked_threads);
        let blocks = self.starts.len() / lanes;
        let vectors = self.isa.vectors();
        let end = |y: &mut [f32]| {
            if activation != Activation::Identity {
                function::values_in_place(vectors, activation, y);
            }
        };
        // An even number of vectors, which are multiplied in pairs.
        let each = match rows {
            1 => blocks.div_ceil(threads).next_multiple_of(2),
            _ => blocks,
        };
        let of_piece = match rows {
            1 => each * lanes,
            _ => rows.div_ceil(threads) * self.outputs,
        };
        let own_len = rows.div_ceil(threads).max(1) * each * lanes;
        let (_, mut of_threads) = scratch.split(0, threads, own_len);
        over(Cut::new(y, of_piece), &mut of_threads, |index, y, own| {
            let (block, x) = match rows {
                1 => (index * each, x),
                _ => (0, &x[index * (of_piece / self.outputs) * inputs..]),
            };
            let blocks = each.min(blocks - block);
            let (width, columns) =
                (blocks * lanes, if rows == 1 { 1 } else { y.len() / self.outputs });
            let job = TileJob {
                image: &x[..columns * inputs],
                origin: 0,
                taps: &self.taps,
                weights: &self.weights[block * inputs * lanes..][..width * inputs],
                start: &self.starts[block * lanes..][..width],
                blocks,
                rows: 1,
                columns,
                row_step: 0,
                column_step: inputs,
                output_row: columns * width,
                output_column: width,
            };
            if y.len() == columns * width {
                job.run(self.isa, y);
            } else {
                let own = &mut own[..columns * width];
                job.run(self.isa, own);
                let outputs = y.len() / columns;
                for (y, own) in y.chunks_exact_mut(outputs).zip(own.chunks_exact(width)) {
                    y.copy_from_slice(&own[..outputs]);
                }
            }
            end(y);
        });
    }
}

/// The number of samples, for the lengths of one sample's input and output.
fn whole_samples(x: &[f32], y: &[f32], [of_x, of_y]: [usize; 2]) -> usize {
    let samples = y.len() / of_y;
    assert_eq!(x.len(), samples * of_x, "numbers of the input");
    assert_eq!(y.len(), samples * of_y, "numbers of the output");
    samples
}

#[cfg(test)]
mod tests {
    use updraft_testing::scattered;

    use super::*;
    use crate::kernels::forward_into;
    use crate::kernels::geometry::ConvShape;

    fn sets() -> impl Iterator<Item = Isa> {
        Isa::BASES.into_iter().filter(|isa| isa.is_available())
    }

    #[test]
    fn weights_packed_once_give_the_bits_of_the_pass_in_any_batch() {
        let shapes = [
            ConvShape { padding: [1; 2], ..ConvShape::new(3, [19, 21], [12, 16], [3; 2]) },
            ConvShape { padding: [1; 2], ..ConvShape::new(40, [32, 32], [16, 16], [3; 2]) },
            ConvShape { stride: [2; 2], ..ConvShape::new(3, [6, 9], [11, 9], [3; 2]) },
            ConvShape {
                padding: [1; 2],
                groups: 24,
                ..ConvShape::new(2, [24, 24], [9, 16], [3; 2])
            },
            ConvShape { groups: 3, ..ConvShape::new(2, [6, 9], [7, 5], [2, 3]) },
            ConvShape::new(3, [33, 17], [5, 5], [1; 2]),
        ];
        let bits = |y: &[f32]| y.iter().map(|y| y.to_bits()).collect::<Vec<_>>();
        for (shape, isa) in shapes.into_iter().flat_map(|shape| sets().map(move |isa| (shape, isa)))
        {
            let geometry = ConvGeometry::try_new(shape).expect("valid");
            let x = scattered(1, geometry.input_len());
            let w = scattered(2, geometry.weight_len());
            let bias = scattered(3, shape.channels[1]);
            let each = geometry.output_len() / shape.batch;
            let mut right = vec![0.0; geometry.output_len()];
            let scratch = &mut Scratch::new();
            let y = Cut::new(&mut right, each);
            forward_into(isa, &geometry, &x, &w, Some(&bias), Activation::Relu, y, scratch, 2);
            let packed = PackedConvolution::new(isa, &geometry, &w, &bias);
            assert_eq!(packed.strategy(), strategy(isa, &geometry, Pass::Forward));
            assert!(packed.bytes() >= size_of_val(&w[..]));
            for (samples, threads) in [(shape.batch, 2), (1, 1), (1, 3), (2, 1)] {
                let mut y = vec![0.0; samples * each];
                let x = &x[..samples * x.len() / shape.batch];
                packed.forward(x, Activation::Relu, &mut y, scratch, threads);
                assert!(bits(&y) == bits(&right[..y.len()]), "{shape:?} {isa} {samples} {threads}");
            }
        }
    }

    #[test]
    fn a_packed_product_is_the_product_of_every_row() {
        for (isa, [rows, inputs, outputs]) in sets()
            .flat_map(|isa| [[1, 7, 3], [5, 40, 33], [4, 64, 32], [1, 50, 100]].map(|s| (isa, s)))
        {
            let (x, w) = (scattered(1, rows * inputs), scattered(2, outputs * inputs));
            let bias = scattered(3, outputs);
            let packed = PackedProduct::new(isa, &w, &bias);
            assert!(packed.bytes() >= size_of_val(&w[..]));
            let right: Vec<f64> = (0..rows * outputs)
                .map(|at| {
                    let (row, output) = (at / outputs, at % outputs);
                    let products = x[row * inputs..].iter().zip(&w[output * inputs..][..inputs]);
                    let sum: f64 = products.map(|(&x, &w)| f64::from(x) * f64::from(w)).sum();
                    (sum + f64::from(bias[output])).max(0.0)
                })
                .collect();
            let scratch = &mut Scratch::new();
            let run = |rows: usize, threads: usize, scratch: &mut Scratch| {
                let mut y = vec![0.0; rows * outputs];
                packed.forward(&x[..rows * inputs], Activation::Relu, &mut y, scratch, threads);
                y
            };
            let all = run(rows, 1, scratch);
            // Of sums of numbers of at most 1.
            let tolerance = 4e-7 * inputs as f64;
            for (&given, right) in all.iter().zip(&right) {
                assert!((f64::from(given) - right).abs() <= tolerance, "{given} is not {right}");
            }
            let bits = |y: &[f32]| y.iter().map(|y| y.to_bits()).collect::<Vec<_>>();
            for (rows, threads) in [(rows, 2), (rows, 3), (1, 1), (1, 2)] {
                let y = run(rows, threads, scratch);
                assert!(bits(&y) == bits(&all[..y.len()]), "{isa} {rows} {threads}");
            }
        }
    }
}
