//! Pictures of masked images: visible patches, prediction and truth of test windows.

use burn::tensor::{Device, Tensor, TensorData};
use updraft_data::{NormalizeChannels, SampleSource, VolumeWindows};
use updraft_models::{MaskedAutoencoder, PatchMasks, images_of_patches, patches_of_images};
use updraft_precision::Policy;

use super::masks::Masks;
use super::model::PatchTarget;
use super::predict::as_pixels;
use super::reconstruct::Reconstruct;
use crate::error::RunError;
use crate::task::{Picture, Tile};

/// Windows that are shown.
const WINDOWS: usize = 4;

/// The gray of masked patches.
const MASKED: u8 = 128;

/// Some test windows, evenly spaced: the middle slice of volumes, the first channel of images.
pub(super) fn pictures(
    (network, policy): (&MaskedAutoencoder, Policy),
    (task, masks): (&Reconstruct, Masks),
    test: &VolumeWindows,
    device: &Device,
) -> Result<Vec<Picture>, RunError> {
    let mut tiles = Vec::new();
    let shown = WINDOWS.min(test.len());
    for at in 0..shown {
        // The middle of each part, because the corners of a field are often empty.
        let index = (2 * at + 1) * test.len() / (2 * shown);
        let sample = test.read(index)?;
        let (channels, sides) = (sample.raster.spec().channels, sample.raster.spec().sides());
        let planes = NormalizeChannels::default().planes(&sample.raster)?;
        let order = masks.order(None, index);
        let own = PatchMasks::new(std::slice::from_ref(&order), task.visible, device);
        let window = Window { channels, sides, patch: &task.patch };
        let patches = window.patches(planes.clone(), device);
        let visible = own.take_visible(patches.clone());
        let input = visible.clone().cast(policy.compute);
        let predicted = policy.scope(|| network.forward(input, &own));
        let predicted = as_pixels(task.target, predicted.cast(policy.output), &visible);
        // In the order of the window: the visible patches, and the others as predicted.
        let mut place = vec![0_i64; order.len()];
        for (at, &patch) in order.iter().enumerate() {
            place[patch] = at as i64;
        }
        let place = Tensor::<1, burn::tensor::Int>::from_data(place.as_slice(), device);
        let whole = Tensor::cat(vec![visible, predicted], 1).select(1, place);
        let whole = window.values(whole);
        let is_masked =
            order[task.visible..].iter().fold(vec![false; order.len()], |mut all, &at| {
                all[at] = true;
                all
            });
        let hidden = window.values(window.marked(&is_masked, device));
        let slice = window.slice();
        let range = extremes(&planes[slice.clone()]);
        let gray = |values: &[f32]| levels(values, range);
        let mut seen = gray(&planes[slice.clone()]);
        for (pixel, hidden) in seen.iter_mut().zip(&hidden[slice.clone()]) {
            if *hidden > 0.5 {
                *pixel = MASKED;
            }
        }
        let (predicted, truth) = (gray(&whole[slice.clone()]), gray(&planes[slice]));
        let name = test.name(index);
        for (levels, caption) in [
            (seen, "visible patches"),
            (predicted, "visible and predicted patches"),
            (truth, "truth"),
        ] {
            let rgb = levels.into_iter().flat_map(|level| [level; 3]).collect();
            let [.., height, width] = window.sides[..] else { continue };
            tiles.push(Tile::try_new(height, width, rgb, format!("{caption}, {name}"))?);
        }
    }
    let scaled = match task.target {
        PatchTarget::Pixels => "",
        PatchTarget::NormalizedPixels => {
            " (normalized predictions are scaled by the mean and the mean variance of the visible \
             patches of their window, not by the truth)"
        }
    };
    let title = format!("Test windows: visible patches, prediction of the others, truth{scaled}");
    Ok(vec![Picture::Tiles { title, tiles, per_row: Some(3) }])
}

/// The shape of a window.
struct Window<'a> {
    channels: usize,
    sides: Vec<usize>,
    patch: &'a [usize],
}

impl Window<'_> {
    /// The patches of the window's values.
    fn patches(&self, values: Vec<f32>, device: &Device) -> Tensor<3> {
        let shape = [&[1, self.channels], &self.sides[..]].concat();
        let data = TensorData::new(values, shape);
        match self.sides.len() {
            2 => patches_of_images(Tensor::<4>::from_data(data, device), self.patch),
            _ => patches_of_images(Tensor::<5>::from_data(data, device), self.patch),
        }
    }

    /// The values of a window's patches.
    fn values(&self, patches: Tensor<3>) -> Vec<f32> {
        let data = match self.sides.len() {
            2 => images_of_patches::<4>(patches, &self.sides, self.patch).into_data(),
            _ => images_of_patches::<5>(patches, &self.sides, self.patch).into_data(),
        };
        data.iter().collect()
    }

    /// Patches of ones where a mark is set, and of zeros elsewhere.
    fn marked(&self, marks: &[bool], device: &Device) -> Tensor<3> {
        let numbers = self.channels * self.patch.iter().product::<usize>();
        let values = marks.iter().flat_map(|&mark| vec![f32::from(u8::from(mark)); numbers]);
        let shape = [1, marks.len(), numbers];
        Tensor::from_data(TensorData::new(values.collect::<Vec<_>>(), shape), device)
    }

    /// The middle slice of the first channel.
    fn slice(&self) -> std::ops::Range<usize> {
        let plane = self.sides.iter().rev().take(2).product::<usize>();
        let depth = if self.sides.len() == 3 { self.sides[0] } else { 1 };
        let first = depth / 2 * plane;
        first..first + plane
    }
}

fn extremes(values: &[f32]) -> [f32; 2] {
    let least = values.iter().copied().fold(f32::INFINITY, f32::min);
    let greatest = values.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    [least, greatest]
}

/// Values as gray levels, from black at the lower to white at the upper end of the range.
fn levels(values: &[f32], [low, high]: [f32; 2]) -> Vec<u8> {
    let scale = if high > low { 255.0 / (high - low) } else { 0.0 };
    values.iter().map(|value| ((value - low) * scale).clamp(0.0, 255.0) as u8).collect()
}
