//! Convolution by its definition, one product after the other, in f64.

use crate::kernels::geometry::{ConvGeometry, ConvShape};

/// The result.
pub fn forward(geometry: &ConvGeometry, x: &[f64], w: &[f64], bias: Option<&[f64]>) -> Vec<f64> {
    let ConvShape { channels, .. } = *geometry.shape();
    let [rows, columns] = geometry.output();
    let mut y: Vec<f64> = (0..geometry.output_len())
        .map(|index| bias.map_or(0.0, |bias| bias[index / (rows * columns) % channels[1]]))
        .collect();
    products(geometry, |output, input, weight| y[output] += x[input] * w[weight]);
    y
}

/// The input's gradient for the loss `Σ y·dy`.
pub fn input_gradient(geometry: &ConvGeometry, dy: &[f64], w: &[f64]) -> Vec<f64> {
    let mut dx = vec![0.0; geometry.input_len()];
    products(geometry, |output, input, weight| dx[input] += dy[output] * w[weight]);
    dx
}

/// The weights' gradient for the loss `Σ y·dy`.
pub fn weight_gradient(geometry: &ConvGeometry, x: &[f64], dy: &[f64]) -> Vec<f64> {
    let mut dw = vec![0.0; geometry.weight_len()];
    products(geometry, |output, input, weight| dw[weight] += dy[output] * x[input]);
    dw
}

/// Visits every product of the convolution by the flat indices of its output, input and weight.
fn products(geometry: &ConvGeometry, mut visit: impl FnMut(usize, usize, usize)) {
    let ConvShape { batch, channels, groups, input, kernel, stride, padding, dilation } =
        *geometry.shape();
    let [height, width] = input;
    let [rows, columns] = geometry.output();
    let inputs = channels[0] / groups;
    let outputs = channels[1] / groups;
    for n in 0..batch {
        for o in 0..channels[1] {
            for row in 0..rows {
                for column in 0..columns {
                    let output = ((n * channels[1] + o) * rows + row) * columns + column;
                    for i in 0..inputs {
                        let channel = o / outputs * inputs + i;
                        for k in 0..kernel[0] {
                            for l in 0..kernel[1] {
                                let y = (row * stride[0] + k * dilation[0]).checked_sub(padding[0]);
                                let x =
                                    (column * stride[1] + l * dilation[1]).checked_sub(padding[1]);
                                let (Some(y), Some(x)) = (y, x) else { continue };
                                if y < height && x < width {
                                    let input =
                                        ((n * channels[0] + channel) * height + y) * width + x;
                                    let weight = ((o * inputs + i) * kernel[0] + k) * kernel[1] + l;
                                    visit(output, input, weight);
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_by_hand() {
        // [1 2 3 4] with the kernel [1 10], padded by 1, stride 2: 10·1, 1·2 + 10·3, 1·4.
        let shape = ConvShape {
            stride: [1, 2],
            padding: [0, 1],
            ..ConvShape::new(1, [1, 1], [1, 4], [1, 2])
        };
        let geometry = ConvGeometry::try_new(shape).expect("valid");
        let (x, w) = ([1.0, 2.0, 3.0, 4.0], [1.0, 10.0]);
        assert_eq!(forward(&geometry, &x, &w, None), [10.0, 32.0, 4.0]);
        let dy = [1.0, 2.0, 3.0];
        assert_eq!(input_gradient(&geometry, &dy, &w), [10.0, 2.0, 20.0, 3.0]);
        assert_eq!(weight_gradient(&geometry, &x, &dy), [16.0, 7.0]);
    }
}
