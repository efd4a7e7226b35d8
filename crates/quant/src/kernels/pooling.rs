//! The maximum and the mean of windows, channel by channel.

use serde::{Deserialize, Serialize};
use updraft_simd::{Clamp, Int8Vectors, Isa, Uneven, over, threads};

use updraft_conv::slices::{ConvGeometry, ConvShape};

use super::cpu::{Accumulate, Maximum, MaximumAlong, Rescale};
use super::scratch::Scratch;
use crate::scheme::{ActivationScheme, OutputScheme};

/// The reduction of a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Pooling {
    /// The maximum; padding is ignored.
    Maximum,
    /// The mean over the pixels of the image; padding does not count.
    MeanOfImage,
    /// The mean, with the padding counted as zeros.
    MeanWithPadding,
}

/// Pooling of images `[batch, height, width, channels]`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct QuantizedPooling {
    geometry: ConvGeometry,
    pooling: Pooling,
    input: ActivationScheme,
    output: OutputScheme,
}

impl QuantizedPooling {
    /// Windows as of a depthwise convolution; the geometry's batch is ignored.
    ///
    /// A maximum keeps its input's codes: the scheme of `output` must be `input`.
    ///
    /// # Panics
    /// If the geometry is not depthwise, or a maximum changes the scheme.
    pub(crate) fn new(
        geometry: &ConvGeometry,
        pooling: Pooling,
        input: ActivationScheme,
        output: OutputScheme,
    ) -> Self {
        let ConvShape { channels, groups, .. } = *geometry.shape();
        assert_eq!(channels, [groups; 2], "pooling treats channels apart");
        let is_same = pooling != Pooling::Maximum || output == OutputScheme::new(input);
        assert!(is_same, "a maximum has its input's scheme");
        Self { geometry: *geometry, pooling, input, output }
    }

    /// Bytes of one image, before and after.
    pub(crate) fn image_lens(&self) -> [usize; 2] {
        let batch = self.geometry.shape().batch;
        [self.geometry.input_len() / batch, self.geometry.output_len() / batch]
    }

    /// Pools all images of `x`.
    ///
    /// # Panics
    /// If a slice holds no whole number of images or the two differ, or the CPU does not have `isa`.
    pub(crate) fn run(
        &self,
        isa: Isa,
        x: &[u8],
        y: &mut [u8],
        scratch: &mut Scratch,
        asked_threads: usize,
    ) {
        let [input_len, output_len] = self.image_lens();
        let batch = x.len() / input_len;
        assert_eq!(x.len(), batch * input_len, "whole images of the input");
        assert_eq!(y.len(), batch * output_len, "numbers of the output");
        let ConvShape { channels: [channels, _], input, .. } = *self.geometry.shape();
        let [rows, columns] = self.geometry.output();
        let line = input[1] * channels;
        let sums = if self.is_of_image() { line } else { channels };
        let (_, states) = scratch.split(0, threads(asked_threads), line, sums);
        let line_of_y = columns * channels;
        let vectors = isa.int8_vectors();
        over(Uneven::new(y, batch * rows, |item| item * line_of_y), states, |item, y, own| {
            let (image, row) = (item / rows, item % rows);
            let x = &x[image * input_len..][..input_len];
            if self.pooling == Pooling::Maximum {
                self.maxima(vectors, row, x, y, own.bytes.numbers_mut(line));
                return;
            }
            for (column, y) in y.chunks_exact_mut(channels).enumerate() {
                self.mean(vectors, [row, column], x, y, &mut own.sums[..sums]);
            }
        });
    }

    /// The greatest codes of a row of windows: first of every column, into `line`.
    fn maxima(&self, vectors: Int8Vectors, row: usize, x: &[u8], y: &mut [u8], line: &mut [u8]) {
        let ConvShape { channels, kernel, stride, padding, dilation, .. } = *self.geometry.shape();
        // A window that lies in the padding has no larger value.
        line.fill(0);
        for row in self.inside(0, row) {
            let from = &x[row * line.len()..][..line.len()];
            vectors.run(Maximum { from, to: line });
        }
        vectors.run(MaximumAlong {
            line,
            channels: channels[0],
            kernel: kernel[1],
            stride: stride[1],
            padding: padding[1],
            dilation: dilation[1],
            to: y,
        });
    }

    fn mean(&self, vectors: Int8Vectors, at: [usize; 2], x: &[u8], y: &mut [u8], sums: &mut [i32]) {
        let channels = y.len();
        sums.fill(0);
        let mut pixels = 0;
        if self.is_of_image() {
            pixels = (x.len() / channels) as i32;
            // Of whole lines, then of the pixels of a line.
            for from in x.chunks_exact(sums.len()) {
                vectors.run(Accumulate { from, to: sums });
            }
            let (first, others) = sums.split_at_mut(channels);
            for pixel in others.chunks_exact(channels) {
                first
                    .iter_mut()
                    .zip(pixel)
                    .for_each(|(sum, other)| *sum = sum.wrapping_add(*other));
            }
        } else {
            let width = self.geometry.shape().input[1];
            for row in self.inside(0, at[0]) {
                for column in self.inside(1, at[1]) {
                    pixels += 1;
                    let from = &x[(row * width + column) * channels..][..channels];
                    vectors.run(Accumulate { from, to: sums });
                }
            }
        }
        let [rows, columns] = self.geometry.shape().kernel;
        let count = match self.pooling {
            Pooling::MeanWithPadding => rows * columns,
            _ => pixels.max(1) as usize,
        };
        let [least, greatest] = self.output.bounds();
        let scheme = self.output.scheme();
        let ratio = f64::from(self.input.scale()) / f64::from(scheme.scale());
        vectors.run(Rescale {
            from: &sums[..channels],
            offset: -pixels * i32::from(self.input.zero_point()),
            factor: (ratio / count as f64) as f32,
            clamp: Clamp::new(scheme.zero_point(), least, greatest),
            to: y,
        });
    }

    /// Whether the only window is the image.
    fn is_of_image(&self) -> bool {
        let ConvShape { input, kernel, padding, dilation, .. } = *self.geometry.shape();
        kernel == input && padding == [0, 0] && dilation == [1, 1]
    }

    /// The rows or columns of the image in a window.
    fn inside(&self, axis: usize, at: usize) -> impl Iterator<Item = usize> {
        let ConvShape { input, kernel, stride, padding, dilation, .. } = *self.geometry.shape();
        (0..kernel[axis]).filter_map(move |entry| {
            let place = at * stride[axis] + entry * dilation[axis];
            place.checked_sub(padding[axis]).filter(|&place| place < input[axis])
        })
    }
}

/// The mean of every channel of an image `[pixels, channels]`; its sums are exact.
///
/// # Panics
/// If there is no whole number of pixels, or the CPU does not have `isa`.
pub(crate) fn means(
    isa: Isa,
    scheme: ActivationScheme,
    codes: &[u8],
    sums: &mut [i32],
    y: &mut [f32],
) {
    let channels = y.len();
    assert!(codes.len().is_multiple_of(channels), "whole pixels");
    sums.fill(0);
    let vectors = isa.int8_vectors();
    for from in codes.chunks_exact(channels) {
        vectors.run(Accumulate { from, to: sums });
    }
    let pixels = codes.len() / channels;
    let zeros = pixels as i32 * i32::from(scheme.zero_point());
    let factor = (f64::from(scheme.scale()) / pixels as f64) as f32;
    for (y, sum) in y.iter_mut().zip(sums) {
        *y = (*sum - zeros) as f32 * factor;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::reference;

    fn paths() -> impl Iterator<Item = Isa> {
        Isa::DOTS.into_iter().filter(|isa| isa.is_available())
    }

    /// All windows by the definition; no window lies in the padding alone.
    fn right(pooling: &QuantizedPooling, x: &[u8]) -> Vec<u8> {
        let shape = *pooling.geometry.shape();
        let [rows, columns] = pooling.geometry.output();
        let channels = shape.channels[0];
        let mut y = Vec::new();
        for (row, column) in (0..rows).flat_map(|row| (0..columns).map(move |column| (row, column)))
        {
            for channel in 0..channels {
                let mut codes = Vec::new();
                for k in 0..shape.kernel[0] {
                    for l in 0..shape.kernel[1] {
                        let row = (row * shape.stride[0] + k * shape.dilation[0]) as isize
                            - shape.padding[0] as isize;
                        let column = (column * shape.stride[1] + l * shape.dilation[1]) as isize
                            - shape.padding[1] as isize;
                        let [height, width] = shape.input.map(|side| side as isize);
                        if (0..height).contains(&row) && (0..width).contains(&column) {
                            codes.push(x[(row * width + column) as usize * channels + channel]);
                        }
                    }
                }
                let area = shape.kernel[0] * shape.kernel[1];
                let mean = |count| reference::mean(&codes, count, pooling.input, pooling.output);
                y.push(match pooling.pooling {
                    Pooling::Maximum => *codes.iter().max().expect("a pixel"),
                    Pooling::MeanOfImage => mean(codes.len()),
                    Pooling::MeanWithPadding => mean(area),
                });
            }
        }
        y
    }

    #[test]
    fn every_pooling_is_exact_on_every_path_and_number_of_threads() {
        let input = ActivationScheme::try_new(0.1, 30).expect("valid");
        let other = ActivationScheme::try_new(0.07, 128).expect("valid");
        let base = ConvShape { groups: 21, ..ConvShape::new(1, [21, 21], [7, 9], [3, 2]) };
        for shape in [
            base,
            ConvShape { stride: [2, 3], padding: [1, 1], ..base },
            ConvShape { dilation: [2, 3], padding: [1, 0], ..base },
            ConvShape { kernel: [7, 9], ..base },
        ] {
            let geometry = ConvGeometry::try_new(shape).expect("valid");
            let x: Vec<u8> = (0..geometry.input_len()).map(|i| (i * 7919 % 253) as u8).collect();
            for (pooling, output) in [
                (Pooling::Maximum, OutputScheme::new(input)),
                (Pooling::MeanOfImage, OutputScheme::new(input)),
                (Pooling::MeanOfImage, OutputScheme::rectified(other)),
                (Pooling::MeanWithPadding, OutputScheme::new(other)),
            ] {
                let layer = QuantizedPooling::new(&geometry, pooling, input, output);
                let right = right(&layer, &x);
                let both: Vec<u8> = x.iter().chain(&x).copied().collect();
                for (isa, threads) in paths().flat_map(|isa| [(isa, 1), (isa, 3)]) {
                    let mut y = vec![0; 2 * right.len()];
                    layer.run(isa, &both, &mut y, &mut Scratch::new(), threads);
                    assert_eq!(y[..right.len()], right, "{isa} {pooling:?} {shape:?}");
                    assert_eq!(y[right.len()..], right, "{isa} {pooling:?} {shape:?}");
                }
            }
        }
    }

    #[test]
    #[should_panic(expected = "a maximum has its input's scheme")]
    fn a_maximum_keeps_its_scheme() {
        let scheme = |zero| ActivationScheme::try_new(1.0, zero).expect("valid");
        let shape = ConvShape::new(1, [1, 1], [2, 2], [2, 2]);
        let geometry = ConvGeometry::try_new(shape).expect("valid");
        let output = OutputScheme::new(scheme(1));
        let _ = QuantizedPooling::new(&geometry, Pooling::Maximum, scheme(0), output);
    }
}
