//! The brightness of an RGB image by several definitions, also of a normalized image.

use burn::tensor::activation::relu;
use burn::tensor::{Tensor, TensorData, assert_shape};
use serde::{Deserialize, Serialize};

use crate::config::Normalization;
use crate::wide::wide;

/// A definition of brightness, each from 0 to 1 for colors from 0 to 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BrightnessKind {
    /// ITU-R BT.709, the primaries of HDTV and sRGB: a weighted sum.
    #[default]
    Bt709,
    /// ITU-R BT.601, the primaries of standard-definition television and of JPEG's luma: a weighted
    /// sum.
    Bt601,
    /// The value of the HSV color model: the largest of red, green and blue.
    HsvValue,
    /// The lightness of CIE 1976 L*a*b* for colors in sRGB, divided by 100.
    LabLightness,
}

impl BrightnessKind {
    /// The weights of red, green and blue, which sum to one; `None` if it is not a weighted sum.
    ///
    /// # Source
    /// ITU-R BT.709-6, table 3, and ITU-R BT.601-7, section 2.5.1.
    pub const fn weights(self) -> Option<[f64; 3]> {
        match self {
            Self::Bt709 => Some([0.2126, 0.7152, 0.0722]),
            Self::Bt601 => Some([0.299, 0.587, 0.114]),
            Self::HsvValue | Self::LabLightness => None,
        }
    }
}

/// Computes the brightness pathway's input from the color pathway's.
///
/// The input `x` is RGB normalized as `x = (rgb − mean) / std`; brightness is defined on the
/// original scale, `std·x + mean`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Brightness {
    kind: BrightnessKind,
    normalization: Normalization,
}

impl Brightness {
    /// The brightness of images that were normalized in a known way.
    pub const fn new(kind: BrightnessKind, normalization: Normalization) -> Self {
        Self { kind, normalization }
    }

    /// The brightness on the original scale: for an image in [0, 1], in [0, 1].
    ///
    /// # Shapes
    /// - `rgb`: `[batch, 3, height, width]`
    /// - returns: `[batch, 1, height, width]`, in the dtype of `rgb`
    ///
    /// # Panics
    /// If the second axis of `rgb` is not 3.
    ///
    /// # Source
    /// Smith 1978, "Color gamut transform pairs", for the value; IEC 61966-2-1 for the gamma of
    /// sRGB, and CIE 15:2004, section 8.2.1, for the lightness.
    pub fn luminance(&self, rgb: Tensor<4>) -> Tensor<4> {
        let Normalization { mean, std } = self.normalization;
        if let Some(weights) = self.kind.weights() {
            let offset = weights.iter().zip(mean).map(|(w, mean)| w * mean).sum();
            return weighted_sum(rgb, [0, 1, 2].map(|c| weights[c] * std[c]), offset);
        }
        let dtype = rgb.dtype();
        if self.kind == BrightnessKind::LabLightness {
            return lightness(original(rgb, self.normalization)).cast(dtype);
        }
        // Channels as sums and the larger of two as a rectified difference: networks in int8 have
        // neither slices along channels nor comparisons.
        let channel = |at: usize| {
            let weights = [0, 1, 2].map(|c| if c == at { std[c] } else { 0.0 });
            weighted_sum(rgb.clone().cast(wide(dtype)), weights, mean[at])
        };
        let larger = |left: Tensor<4>, right: Tensor<4>| left.clone() + relu(right - left);
        larger(larger(channel(0), channel(1)), channel(2)).cast(dtype)
    }

    /// The brightness standardized like the colors are.
    ///
    /// A weighted sum `Y` with weights `w` becomes `(Y − Σ w·mean) / Σ w·std`. `Σ w·std` is the
    /// standard deviation of `Y` if the three channels are fully correlated and an upper bound
    /// otherwise, so the result has at most the deviation of the colors. Any other brightness is
    /// standardized by the mean over the channels of `mean` and of `std`. The result is the brightness
    /// itself for images that were not normalized.
    ///
    /// # Shapes
    /// - `rgb`: `[batch, 3, height, width]`
    /// - returns: `[batch, 1, height, width]`, in the dtype of `rgb`
    ///
    /// # Panics
    /// If the second axis of `rgb` is not 3.
    pub fn forward(&self, rgb: Tensor<4>) -> Tensor<4> {
        let Normalization { mean, std } = self.normalization;
        match self.kind.weights() {
            Some(weights) => {
                let spread: f64 = (0..3).map(|c| weights[c] * std[c]).sum();
                // The means cancel: Y − Σ w·mean is Σ w·std·x.
                weighted_sum(rgb, [0, 1, 2].map(|c| weights[c] * std[c] / spread), 0.0)
            }
            None => {
                let dtype = rgb.dtype();
                let brightness = self.luminance(rgb.cast(wide(dtype)));
                let [mean, std] = [mean, std].map(|values| values.iter().sum::<f64>() / 3.0);
                brightness.sub_scalar(mean).div_scalar(std).cast(dtype)
            }
        }
    }
}

/// The colors on the original scale, in at least f32.
fn original(rgb: Tensor<4>, Normalization { mean, std }: Normalization) -> Tensor<4> {
    assert_shape!(rgb, [_, 3, _, _]);
    let (dtype, device) = (wide(rgb.dtype()), rgb.device());
    let row = |values: [f64; 3]| {
        let values = TensorData::new(values.to_vec(), [1, 3, 1, 1]);
        Tensor::<4>::from_data(values, (&device, dtype.into()))
    };
    rgb.cast(dtype) * row(std) + row(mean)
}

/// `L*/100` of colors in sRGB; colors outside of [0, 1] count as its nearer end.
fn lightness(srgb: Tensor<4>) -> Tensor<4> {
    let srgb = srgb.clamp(0.0, 1.0);
    let is_dark = srgb.clone().lower_equal_elem(0.040_45);
    let dark = srgb.clone().div_scalar(12.92);
    let linear = srgb.add_scalar(0.055).div_scalar(1.055).powf_scalar(2.4);
    let linear = linear.mask_where(is_dark, dark);
    let weights = BrightnessKind::Bt709.weights().expect("a weighted sum");
    let luminance = weighted_sum(linear, weights, 0.0);
    // f(Y) of CIE 15: a cube root, and a line below (6/29)³.
    const DELTA: f64 = 6.0 / 29.0;
    let is_low = luminance.clone().lower_equal_elem(DELTA.powi(3));
    let line = luminance.clone().div_scalar(3.0 * DELTA * DELTA).add_scalar(4.0 / 29.0);
    let root = luminance.powf_scalar(1.0 / 3.0).mask_where(is_low, line);
    root.mul_scalar(1.16).sub_scalar(0.16)
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
    fn the_primaries_have_the_brightness_of_each_definition() {
        for device in devices() {
            for (kind, expected) in [
                (BrightnessKind::Bt709, [0.2126, 0.7152, 0.0722, 0.5]),
                (BrightnessKind::Bt601, [0.299, 0.587, 0.114, 0.5]),
                (BrightnessKind::HsvValue, [1.0, 1.0, 1.0, 0.5]),
                // By hand, of 0.2126, 0.7152, 0.0722 and (0.555/1.055)^2.4: 1.16·∛Y − 0.16.
                (BrightnessKind::LabLightness, [0.532_329, 0.877_370, 0.323_026, 0.533_890]),
            ] {
                let brightness = Brightness::new(kind, Normalization::default());
                assert_close(&brightness.luminance(image(&device)), &expected, tolerance::F32);
                assert_close(&brightness.forward(image(&device)), &expected, tolerance::F32);
            }
        }
    }

    #[test]
    fn normalization_does_not_change_the_luminance() {
        for device in devices() {
            let brightness = Brightness::new(BrightnessKind::Bt709, CIFAR);
            let luminance = brightness.luminance(normalized(image(&device), CIFAR));
            assert_close(&luminance, &[0.2126, 0.7152, 0.0722, 0.5], tolerance::F32);
        }
    }

    #[test]
    fn dark_colors_are_on_the_line_of_the_lightness_and_colors_outside_count_as_the_ends() {
        for device in devices() {
            let kind = BrightnessKind::LabLightness;
            let brightness = Brightness::new(kind, Normalization::default());
            let gray = Tensor::<1>::from_floats([0.0, 0.04, -3.0, 2.0], &device);
            let rgb = gray.reshape([1, 1, 2, 2]).repeat(&[1, 3, 1, 1]);
            // 0.04/12.92 is below (6/29)³: 1.16·(Y/(3·(6/29)²) + 4/29) − 0.16.
            let dark = 1.16 * (0.04 / 12.92 / (108.0 / 841.0) + 4.0 / 29.0) - 0.16;
            assert_close(&brightness.luminance(rgb), &[0.0, dark, 0.0, 1.0], tolerance::F32);
        }
    }

    #[test]
    fn a_brightness_that_is_no_weighted_sum_is_standardized_by_means_over_channels() {
        for device in devices() {
            let brightness = Brightness::new(BrightnessKind::HsvValue, CIFAR);
            let rgb = normalized(image(&device), CIFAR);
            let luminance = [1.0, 1.0, 1.0, 0.5];
            assert_close(&brightness.luminance(rgb.clone()), &luminance, tolerance::F32);
            let (mean, std) = ((0.4914 + 0.4822 + 0.4465) / 3.0, (0.2470 + 0.2435 + 0.2616) / 3.0);
            let expected = luminance.map(|value: f64| (value - mean) / std);
            assert_close(&brightness.forward(rgb), &expected, tolerance::F32);
        }
    }

    #[test]
    fn the_standardized_brightness_comes_from_the_original_scale() {
        for device in devices() {
            let brightness = Brightness::new(BrightnessKind::Bt709, CIFAR);
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
            for kind in [BrightnessKind::Bt709, BrightnessKind::LabLightness] {
                let brightness = Brightness::new(kind, CIFAR);
                for dtype in [FloatDType::F64, FloatDType::F32, FloatDType::BF16] {
                    let rgb = image(&device).cast(dtype);
                    assert_eq!(brightness.forward(rgb).dtype(), dtype.into());
                }
            }
        }
    }

    #[test]
    #[should_panic(expected = "axis 1 expected 3, got 1")]
    fn a_gray_image_is_refused() {
        let gray = Tensor::<4>::zeros([1, 1, 2, 2], &devices()[0]);
        let _ = Brightness::new(BrightnessKind::Bt709, CIFAR).forward(gray);
    }
}
