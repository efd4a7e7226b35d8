//! Images as rows of patches, and back.

use burn::tensor::Tensor;

/// Added to the variance of a patch when its values are normalized, as in the published code.
const PATCH_EPSILON: f64 = 1e-6;

/// Cuts images or volumes into patches that do not overlap, in the order of their rows.
///
/// # Shapes
/// - `images`: `[batch, channels, …sides]`, two or three sides, each a multiple of the patch's
/// - returns: `[batch, patches, channels · positions of a patch]`, channel by channel
///
/// # Panics
/// If `images` has another number of sides than `patch`, or a side that is not a multiple.
pub fn patches_of_images<const D: usize>(images: Tensor<D>, patch: &[usize]) -> Tensor<3> {
    let dims = images.dims();
    let (batch, channels) = (dims[0], dims[1]);
    assert_eq!(dims.len(), patch.len() + 2, "images have a side for each of the patch's");
    for (axis, (side, patch)) in dims[2..].iter().zip(patch).enumerate() {
        assert!(side % patch == 0, "side {axis} is {side}; expected a multiple of {patch}");
    }
    let ([depth, height, width], [d, h, w]) = (in_three(&dims[2..]), in_three(patch));
    let count = [depth / d, height / h, width / w];
    images
        .reshape([batch, channels, count[0], d, count[1], h, count[2], w])
        .permute([0, 2, 4, 6, 1, 3, 5, 7])
        .reshape([batch, count.iter().product(), channels * d * h * w])
}

/// The images of which [`patches_of_images`] makes these patches.
///
/// # Panics
/// If the shapes do not fit each other.
pub fn images_of_patches<const D: usize>(
    patches: Tensor<3>,
    sides: &[usize],
    patch: &[usize],
) -> Tensor<D> {
    let [batch, _, numbers] = patches.dims();
    let ([depth, height, width], [d, h, w]) = (in_three(sides), in_three(patch));
    let channels = numbers / (d * h * w);
    let dims: [usize; D] = std::array::from_fn(|axis| match axis {
        0 => batch,
        1 => channels,
        axis => sides[axis - 2],
    });
    patches
        .reshape([batch, depth / d, height / h, width / w, channels, d, h, w])
        .permute([0, 4, 1, 5, 2, 6, 3, 7])
        .reshape(dims)
}

/// Every patch minus its mean, divided by its standard deviation.
///
/// # Shapes
/// - `patches`: `[batch, patches, numbers]`, and the same is returned
///
/// # Source
/// He et al. 2022, arXiv:2111.06377, section 3, "reconstruction target"; with the unbiased variance
/// of the authors' code.
#[must_use]
pub fn normalize_patches(patches: Tensor<3>) -> Tensor<3> {
    let [_, _, numbers] = patches.dims();
    let centered = patches.clone() - patches.mean_dim(2);
    let squares = centered.clone().square().sum_dim(2);
    let variance = squares.div_scalar(numbers.saturating_sub(1).max(1) as f64);
    centered / variance.add_scalar(PATCH_EPSILON).sqrt()
}

/// Two or three sides as depth, height and width.
pub(super) fn in_three(sides: &[usize]) -> [usize; 3] {
    match *sides {
        [height, width] => [1, height, width],
        [depth, height, width] => [depth, height, width],
        _ => panic!("images have two or three sides, not {}", sides.len()),
    }
}

#[cfg(test)]
mod tests {
    use burn::tensor::{Device, TensorData};
    use updraft_testing::{Numbers, assert_close, devices, scattered, tolerance};

    use super::*;

    fn counted<const D: usize>(dims: [usize; D], device: &Device) -> Tensor<D> {
        let numbers: Vec<f32> = (0..dims.iter().product::<usize>()).map(|n| n as f32).collect();
        Tensor::from_data(TensorData::new(numbers, dims), device)
    }

    #[test]
    fn patches_are_those_counted_by_hand_and_become_the_image_again() {
        for device in devices() {
            // Two channels of two rows and four columns, in patches of 2 × 2.
            let images = counted([1, 2, 2, 4], &device);
            let patches = patches_of_images(images.clone(), &[2, 2]);
            assert_eq!(patches.dims(), [1, 2, 8]);
            let expected =
                [[0., 1., 4., 5., 8., 9., 12., 13.], [2., 3., 6., 7., 10., 11., 14., 15.]];
            assert_eq!(patches.numbers(), expected.concat());
            let again = images_of_patches::<4>(patches, &[2, 4], &[2, 2]);
            assert!(again.into_data() == images.into_data());
            let volumes = counted([2, 3, 4, 6, 4], &device);
            let patches = patches_of_images(volumes.clone(), &[2, 3, 1]);
            assert_eq!(patches.dims(), [2, 2 * 2 * 4, 3 * 6]);
            // The second patch is one column further, the first of the next row two further.
            assert_eq!(patches.clone().narrow(1, 1, 1).numbers()[..2], [1.0, 5.0]);
            let again = images_of_patches::<5>(patches, &[4, 6, 4], &[2, 3, 1]);
            assert!(again.into_data() == volumes.into_data());
        }
    }

    #[test]
    fn normalized_patches_have_mean_0_and_an_unbiased_variance_of_1() {
        for device in devices() {
            let data = TensorData::new(scattered(1, 60), [2, 3, 10]);
            let patches = Tensor::<3>::from_data(data, &device).mul_scalar(7.0).add_scalar(3.0);
            let found = normalize_patches(patches);
            assert_close(&found.clone().mean_dim(2), &vec![0.0; 6], tolerance::F32);
            let variance = found.square().sum_dim(2).div_scalar(9.0);
            assert_close(&variance, &vec![1.0; 6], tolerance::F32);
        }
    }

    #[test]
    #[should_panic(expected = "side 1 is 6; expected a multiple of 4")]
    fn an_image_that_patches_do_not_tile_is_refused() {
        let _ = patches_of_images(Tensor::<4>::zeros([1, 1, 4, 6], &Device::flex()), &[2, 4]);
    }
}
