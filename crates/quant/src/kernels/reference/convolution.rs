//! Sums of products by their definition, in 64-bit integers.

use updraft_conv::slices::{ConvGeometry, ConvShape};

/// `y[m,n] = bias[n] + Σ_k (x[m,k] − zero)·w[n,k]`.
pub fn linear_sums(x: &[u8], zero: u8, w: &[i8], bias: &[i32]) -> Vec<i64> {
    let inputs = w.len() / bias.len();
    let mut y = Vec::new();
    for x in x.chunks_exact(inputs) {
        for (w, &bias) in w.chunks_exact(inputs).zip(bias) {
            let product = |(&x, &w): (&u8, &i8)| (i64::from(x) - i64::from(zero)) * i64::from(w);
            y.push(i64::from(bias) + x.iter().zip(w).map(product).sum::<i64>());
        }
    }
    y
}

/// The sums of a convolution over images `[batch, height, width, channels]`.
///
/// Weights are `[outputs, inputs / groups, kernel height, kernel width]`; padding is zero.
pub fn convolution_sums(
    geometry: &ConvGeometry,
    x: &[u8],
    zero: u8,
    w: &[i8],
    bias: &[i32],
) -> Vec<i64> {
    let ConvShape { batch, channels, groups, input, kernel, stride, padding, dilation } =
        *geometry.shape();
    let [height, width] = input;
    let [rows, columns] = geometry.output();
    let [inputs, outputs] = channels.map(|channels| channels / groups);
    let mut y = Vec::new();
    for n in 0..batch {
        for row in 0..rows {
            for column in 0..columns {
                for o in 0..channels[1] {
                    let mut sum = i64::from(bias[o]);
                    for i in 0..inputs {
                        let channel = o / outputs * inputs + i;
                        for k in 0..kernel[0] {
                            for l in 0..kernel[1] {
                                let y = (row * stride[0] + k * dilation[0]).checked_sub(padding[0]);
                                let x_at =
                                    (column * stride[1] + l * dilation[1]).checked_sub(padding[1]);
                                let (Some(y), Some(x_at)) = (y, x_at) else { continue };
                                if y < height && x_at < width {
                                    let at =
                                        ((n * height + y) * width + x_at) * channels[0] + channel;
                                    let weight = ((o * inputs + i) * kernel[0] + k) * kernel[1] + l;
                                    sum +=
                                        (i64::from(x[at]) - i64::from(zero)) * i64::from(w[weight]);
                                }
                            }
                        }
                    }
                    y.push(sum);
                }
            }
        }
    }
    y
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_product_by_hand() {
        // (3 − 1)·2 + (0 − 1)·(−5) + 7 = 16.
        assert_eq!(linear_sums(&[3, 0], 1, &[2, -5], &[7]), [16]);
    }

    #[test]
    fn a_padded_row_by_hand() {
        let shape = ConvShape { padding: [0, 1], ..ConvShape::new(1, [1, 1], [1, 3], [1, 2]) };
        let geometry = ConvGeometry::try_new(shape).expect("valid");
        // 10·0 + 1·(2 − 2), 10·(2 − 2) + 1·(5 − 2), 10·(5 − 2) + 1·(1 − 2), 10·(1 − 2) + 0.
        let sums = convolution_sums(&geometry, &[2, 5, 1], 2, &[10, 1], &[0]);
        assert_eq!(sums, [0, 3, 29, -10]);
    }
}
