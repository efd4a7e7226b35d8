//! Several views of an image, over which a model's outputs are averaged.

use std::fmt::{self, Display, Formatter};

use burn::tensor::Tensor;
use burn::tensor::ops::PadMode;
use serde::{Deserialize, Serialize};

/// Test-time augmentation: the views of an image over which outputs are averaged.
///
/// # Source
/// Jordan 2024, arXiv:2404.00498, section 3.5.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Views {
    /// The image and its mirror image: two views of equal weight.
    Flip,
    /// The two of [`Flip`](Self::Flip) with half of the weight, and with the other half both of the
    /// image moved by one pixel up and left, and down and right: six views. Uncovered pixels are
    /// mirrored at the edge.
    FlipTranslate,
}

impl Views {
    /// The number of views, and thereby of forward passes.
    #[must_use]
    pub const fn count(self) -> usize {
        match self {
            Self::Flip => 2,
            Self::FlipTranslate => 6,
        }
    }

    /// The weighted mean of a model's outputs over the views.
    ///
    /// # Shapes
    /// - `images`: `[batch, channels, height, width]`; with translation at least 2 pixels a side
    /// - `model`: from images of that shape to outputs that have one row per image
    ///
    /// # Panics
    /// As the model, and for images that are too small.
    pub fn average<const D: usize>(
        self,
        images: Tensor<4>,
        model: impl Fn(Tensor<4>) -> Tensor<D>,
    ) -> Tensor<D> {
        let mirrored = |images: Tensor<4>| {
            let mirror = images.clone().flip([3]);
            (model(images) + model(mirror)).mul_scalar(0.5)
        };
        let plain = mirrored(images.clone());
        match self {
            Self::Flip => plain,
            Self::FlipTranslate => {
                let [_, _, height, width] = images.dims();
                let padded = images.pad((1, 1, 1, 1), PadMode::Reflect);
                let crop =
                    |from: usize| padded.clone().narrow(2, from, height).narrow(3, from, width);
                let moved = mirrored(crop(0)) + mirrored(crop(2));
                plain.mul_scalar(0.5) + moved.mul_scalar(0.25)
            }
        }
    }
}

impl Display for Views {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Flip => "flip",
            Self::FlipTranslate => "flip-translate",
        })
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use updraft_testing::{assert_close, devices, tolerance};

    use super::*;

    #[test]
    fn outputs_are_averaged_over_every_view_with_its_weight() {
        for device in devices() {
            // Two pixels: a corner, whose neighbors are mirrored, and one inside.
            let calls = Cell::new(0);
            let model = |images: Tensor<4>| -> Tensor<1> {
                calls.set(calls.get() + 1);
                let pixel = |at| images.clone().narrow(2, at, 1).narrow(3, at, 1).flatten(0, 3);
                Tensor::cat(vec![pixel(0), pixel(1)], 0)
            };
            let rows = [
                [1.0, 2.0, 3.0, 4.0],
                [10.0, 20.0, 30.0, 40.0],
                [100.0, 200.0, 300.0, 400.0],
                [5.0, 6.0, 7.0, 8.0],
            ];
            let images = Tensor::<2>::from_floats(rows, &device).unsqueeze::<4>();
            let flip = Views::Flip.average(images.clone(), model);
            assert_close(&flip, &[(1.0 + 4.0) / 2.0, (20.0 + 30.0) / 2.0], tolerance::F32);
            assert_eq!(calls.replace(0), Views::Flip.count());
            let six = Views::FlipTranslate.average(images, model);
            let corner = 0.5 * 2.5 + 0.5 * (20.0 + 30.0 + 20.0 + 30.0) / 4.0;
            let inside = 0.5 * 25.0 + 0.5 * (1.0 + 2.0 + 300.0 + 400.0) / 4.0;
            assert_close(&six, &[corner, inside], tolerance::F32);
            assert_eq!(calls.get(), Views::FlipTranslate.count());
        }
    }
}
