//! The results of a layer by their definition: integers, or f64.

use anyhow::Result;
use updraft_conv::slices::{ConvGeometry, ConvShape};
use updraft_quant::slices::reference;

use super::{INPUT, Int8Layer, LayerKind};

impl Int8Layer {
    fn geometry(&self) -> Result<ConvGeometry> {
        let shape = ConvShape {
            groups: self.groups,
            stride: [self.stride; 2],
            padding: [self.padding(); 2],
            ..ConvShape::new(self.batch, self.channels, [self.side; 2], [self.kernel; 2])
        };
        Ok(ConvGeometry::try_new(shape)?)
    }

    /// The exact sums of a layer with weights.
    pub(super) fn sums(&self, x: &[u8]) -> Result<Vec<i64>> {
        let (weights, bias) = (self.weight_codes(), self.bias_codes());
        Ok(match self.layer {
            LayerKind::Convolution => {
                reference::convolution_sums(&self.geometry()?, x, INPUT.1, &weights, &bias)
            }
            LayerKind::Linear => reference::linear_sums(x, INPUT.1, &weights, &bias),
            _ => self.transposed_sums(x, &weights, &bias),
        })
    }

    fn transposed_sums(&self, x: &[u8], weights: &[i8], bias: &[i32]) -> Vec<i64> {
        let ([inputs, outputs], side) = (self.channels, self.output_side());
        let kernel = self.kernel;
        let mut sums = Vec::new();
        for at in 0..self.batch * side * side * outputs {
            let (pixel, output) = (at / outputs, at % outputs);
            let (image, row, column) = (pixel / side / side, pixel / side % side, pixel % side);
            let from = (image * self.side + row / kernel) * self.side + column / kernel;
            let product = |input: usize| {
                let tap = row % kernel * kernel + column % kernel;
                let weight = weights[(input * outputs + output) * kernel * kernel + tap];
                (i64::from(x[from * inputs + input]) - i64::from(INPUT.1)) * i64::from(weight)
            };
            sums.push(i64::from(bias[output]) + (0..inputs).map(product).sum::<i64>());
        }
        sums
    }

    /// A layer without weights in f64, for each result by its definition.
    pub(super) fn real(&self, x: &[Vec<u8>]) -> Result<Vec<f64>> {
        let ([inputs, outputs], side, out) = (self.channels, self.side, self.output_side());
        let input = Self::input()?;
        let at = |of: usize, image: usize, row: usize, column: usize, channel: usize| {
            let pixel = (image * side + row) * side + column;
            f64::from(input.real(x[of][pixel * inputs + channel]))
        };
        let mut y = Vec::new();
        for index in 0..self.batch * out * out * outputs {
            let (pixel, channel) = (index / outputs, index % outputs);
            let (image, row, column) = (pixel / out / out, pixel / out % out, pixel % out);
            let window = || {
                let inside = move |start: usize| {
                    let entries = start * self.stride..start * self.stride + self.kernel;
                    let place = move |entry: usize| entry.checked_sub(self.padding());
                    entries.filter_map(place).filter(|&place| place < self.side)
                };
                inside(row).flat_map(move |row| inside(column).map(move |column| (row, column)))
            };
            y.push(match self.layer {
                LayerKind::MaxPool => window()
                    .map(|(row, column)| at(0, image, row, column, channel))
                    .fold(f64::NEG_INFINITY, f64::max),
                LayerKind::AveragePool => {
                    let all = window().map(|(row, column)| at(0, image, row, column, channel));
                    all.sum::<f64>() / window().count() as f64
                }
                LayerKind::Mean => {
                    let pixels = (0..side * side).map(|pixel| (pixel / side, pixel % side));
                    let all = pixels.map(|(row, column)| at(0, image, row, column, channel));
                    all.sum::<f64>() / (side * side) as f64
                }
                LayerKind::Add => (0..2).map(|of| at(of, image, row, column, channel)).sum(),
                LayerKind::Concatenate => {
                    at(channel / inputs, image, row, column, channel % inputs)
                }
                LayerKind::Nearest => at(0, image, row / 2, column / 2, channel),
                LayerKind::Bilinear => {
                    let taps = |place: usize| {
                        let position = (place as f64 / 2.0 - 0.25).clamp(0.0, (side - 1) as f64);
                        let low = position.floor() as usize;
                        [
                            (low, 1.0 + low as f64 - position),
                            ((low + 1).min(side - 1), position - low as f64),
                        ]
                    };
                    let products = taps(row).into_iter().flat_map(|(row, of_row)| {
                        taps(column).map(|(column, of_column)| {
                            of_row * of_column * at(0, image, row, column, channel)
                        })
                    });
                    products.sum()
                }
                LayerKind::Sigmoid => sigmoid(at(0, image, row, column, channel)),
                LayerKind::Silu => {
                    let x = at(0, image, row, column, channel);
                    x * sigmoid(x)
                }
                LayerKind::HardSwish => {
                    let x = at(0, image, row, column, channel);
                    x * (x + 3.0).clamp(0.0, 6.0) / 6.0
                }
                LayerKind::Convolution | LayerKind::Linear | LayerKind::Transposed => {
                    unreachable!("its sums are integers")
                }
            });
        }
        Ok(y)
    }
}

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}
