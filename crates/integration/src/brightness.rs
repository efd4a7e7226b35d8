//! The brightness of an RGB image by a standard, also of a normalized image.

use burn::tensor::{Tensor, TensorData, assert_shape};
use serde::{Deserialize, Serialize};

use crate::config::Normalization;
use crate::wide::wide;

/// The weights of red, green and blue in the brightness.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LumaStandard {
    /// ITU-R BT.709, the primaries of HDTV and sRGB.
    #[default]
    Bt709,
    /// ITU-R BT.601, the primaries of standard-definition television and of JPEG's luma.
    Bt601,
}

impl LumaStandard {
    /// The weights of red, green and blue; they sum to one.
    ///
    /// # Source
    /// ITU-R BT.709-6, table 3, and ITU-R BT.601-7, section 2.5.1.
    pub const fn weights(self) -> [f64; 3] {
        match self {
            Self::Bt709 => [0.2126, 0.7152, 0.0722],
            Self::Bt601 => [0.299, 0.587, 0.114],
        }
    }
}

/// Computes the brightness pathway's input from the color pathway's.
///
/// The input `x` is RGB normalized as `x = (rgb − mean) / std`. With the standard's weights `w`,
/// the brightness on the original scale is `Y = Σ_c w_c·(std_c·x_c + mean_c)`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Brightness {
    standard: LumaStandard,
    normalization: Normalization,
}

impl Brightness {
    /// The brightness of images that were normalized in a known way.
    pub const fn new(standard: LumaStandard, normalization: Normalization) -> Self {
        Self { standard, normalization }
    }

    /// The brightness on the original scale, `Y` above: for an image in [0, 1], in [0, 1].
    ///
    /// # Shapes
    /// - `rgb`: `[batch, 3, height, width]`
    /// - returns: `[batch, 1, height, width]`, in the dtype of `rgb`
    ///
    /// # Panics
    /// If the second axis of `rgb` is not 3.
    pub fn luminance(&self, rgb: Tensor<4>) -> Tensor<4> {
        let Normalization { mean, std } = self.normalization;
        let weights = self.standard.weights();
        let offset = weights.iter().zip(mean).map(|(w, mean)| w * mean).sum();
        weighted_sum(rgb, [0, 1, 2].map(|c| weights[c] * std[c]), offset)
    }

    /// The brightness standardized like the colors are: `(Y − Σ w·mean) / Σ w·std`.
    ///
    /// `Σ w·std` is the standard deviation of `Y` if the three channels are fully correlated and an
    /// upper bound otherwise, so the result has at most the deviation of the colors. It equals
    /// `Y` for images that were not normalized.
    ///
    /// # Shapes
    /// - `rgb`: `[batch, 3, height, width]`
    /// - returns: `[batch, 1, height, width]`, in the dtype of `rgb`
    ///
    /// # Panics
    /// If the second axis of `rgb` is not 3.
    pub fn forward(&self, rgb: Tensor<4>) -> Tensor<4> {
        let std = self.normalization.std;
        let weights = self.standard.weights();
        let spread: f64 = (0..3).map(|c| weights[c] * std[c]).sum();
        // The means cancel: Y − Σ w·mean is Σ w·std·x.
        weighted_sum(rgb, [0, 1, 2].map(|c| weights[c] * std[c] / spread), 0.0)
    }
}

/// `Σ_c weights_c·rgb_c + offset`, computed in at least f32.
fn weighted_sum(rgb: Tensor<4>, weights: [f64; 3], offset: f64) -> Tensor<4> {
    assert_shape!(rgb, [_, 3, _, _]);
    let (dtype, device) = (rgb.dtype(), rgb.device());
    let weights = TensorData::new(weights.to_vec(), [1, 3, 1, 1]);
    let weights = Tensor::<4>::from_data(weights, (&device, wide(dtype).into()));
    (rgb.cast(wide(dtype)) * weights).sum_dim(1).add_scalar(offset).cast(dtype)
}

#[cfg(test)]
mod tests {
    use burn::tensor::FloatDType;
    use updraft_testing::{assert_close, devices, tolerance};

    use super::*;

    const CIFAR: Normalization =
        Normalization { mean: [0.4914, 0.4822, 0.4465], std: [0.2470, 0.2435, 0.2616] };

    /// Pixels red, green, blue, gray.
    const PIXELS: [[f64; 4]; 3] =
        [[1.0, 0.0, 0.0, 0.5], [0.0, 1.0, 0.0, 0.5], [0.0, 0.0, 1.0, 0.5]];

    fn image(device: &burn::tensor::Device) -> Tensor<4> {
        Tensor::<2>::from_data(PIXELS, device).reshape([1, 3, 2, 2])
    }

    fn normalized(image: Tensor<4>, by: Normalization) -> Tensor<4> {
        let device = image.device();
        let row = |values: [f64; 3]| {
            Tensor::<4>::from_data(TensorData::new(values.to_vec(), [1, 3, 1, 1]), &device)
        };
        (image - row(by.mean)) / row(by.std)
    }

    #[test]
    fn the_primaries_have_the_weights_of_the_standard() {
        for device in devices() {
            for (standard, expected) in [
                (LumaStandard::Bt709, [0.2126, 0.7152, 0.0722, 0.5]),
                (LumaStandard::Bt601, [0.299, 0.587, 0.114, 0.5]),
            ] {
                let brightness = Brightness::new(standard, Normalization::default());
                assert_close(&brightness.luminance(image(&device)), &expected, tolerance::F32);
                assert_close(&brightness.forward(image(&device)), &expected, tolerance::F32);
            }
        }
    }

    #[test]
    fn normalization_does_not_change_the_luminance() {
        for device in devices() {
            let brightness = Brightness::new(LumaStandard::Bt709, CIFAR);
            let luminance = brightness.luminance(normalized(image(&device), CIFAR));
            assert_close(&luminance, &[0.2126, 0.7152, 0.0722, 0.5], tolerance::F32);
        }
    }

    #[test]
    fn the_standardized_brightness_comes_from_the_original_scale() {
        for device in devices() {
            let brightness = Brightness::new(LumaStandard::Bt709, CIFAR);
            let actual = brightness.forward(normalized(image(&device), CIFAR));
            // Σ w·mean and Σ w·std, by hand.
            let (mean, std) = (0.481_578_38, 0.245_550_92);
            let expected = [0.2126, 0.7152, 0.0722, 0.5].map(|y| (y - mean) / std);
            assert_close(&actual, &expected, tolerance::F32);
        }
    }

    #[test]
    fn the_brightness_keeps_the_dtype_of_the_image() {
        for device in devices() {
            let brightness = Brightness::new(LumaStandard::Bt709, CIFAR);
            for dtype in [FloatDType::F64, FloatDType::F32, FloatDType::BF16] {
                let rgb = image(&device).cast(dtype);
                assert_eq!(brightness.forward(rgb).dtype(), dtype.into());
            }
        }
    }

    #[test]
    #[should_panic(expected = "axis 1 expected 3, got 1")]
    fn a_gray_image_is_refused() {
        let gray = Tensor::<4>::zeros([1, 1, 2, 2], &devices()[0]);
        let _ = Brightness::new(LumaStandard::Bt709, CIFAR).forward(gray);
    }
}
