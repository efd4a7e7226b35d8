//! Pictures of a network that converts images: input, ground truth, prediction and error of test windows.

use burn::tensor::{Device, Tensor, TensorData};
use updraft_data::{NormalizeChannels, Pixels, Raster, SampleSource, SampleTarget, VolumeWindows};
use updraft_precision::Policy;
use updraft_trainer::MaskActivation;

use super::image_network::ImageNetwork;
use crate::error::RunError;
use crate::task::image_pairs::objective::Objective;
use crate::task::{Picture, Tile};

/// Windows that are shown.
const WINDOWS: usize = 4;

/// Colors of classes, from 1 on; the class 0 is black.
const COLORS: [[u8; 3]; 6] =
    [[0, 114, 178], [230, 159, 0], [0, 158, 115], [204, 121, 167], [240, 228, 66], [213, 94, 0]];

/// Some test windows, evenly spaced: images of three channels in color, of others and of volumes the
/// first channel, of volumes the middle slice.
pub(super) fn pictures<const D: usize, N: ImageNetwork<D>>(
    (network, policy): (&N, Policy),
    objective: &Objective,
    test: &VolumeWindows,
    device: &Device,
) -> Result<Vec<Picture>, RunError> {
    let mut tiles = Vec::new();
    let shown = WINDOWS.min(test.len());
    for at in 0..shown {
        // The middle of each part, because the corners of a field are often empty.
        let index = (2 * at + 1) * test.len() / (2 * shown);
        let sample = test.read(index)?;
        let (spec, sides) = (*sample.raster.spec(), sample.raster.spec().sides());
        let planes = NormalizeChannels::default().planes(&sample.raster)?;
        let dims: [usize; D] = std::array::from_fn(|axis| match axis {
            0 => 1,
            1 => spec.channels,
            axis => sides[axis - 2],
        });
        let input = Tensor::<D>::from_data(TensorData::new(planes.clone(), dims), device);
        let output = policy.scope(|| network.convert(input.cast(policy.compute)));
        let output = output.cast(policy.output);
        let output: Vec<f32> = output.into_data().iter().collect();
        let slice = Slice::of(&sides);
        let mut tile = |rgb: Vec<u8>, caption: &str| -> Result<(), RunError> {
            tiles.push(Tile::try_new(slice.height, slice.width, rgb, caption.to_owned())?);
            Ok(())
        };
        let depth = sides[..sides.len() - 2].iter().product::<usize>();
        let place = if depth > 1 { format!(", slice {}", depth / 2) } else { String::new() };
        tile(slice.shown(&planes, None), &format!("input, {}{place}", test.name(index)))?;
        match (&sample.target, objective) {
            (SampleTarget::Labels(mask), Objective::Masks { activation, classes, .. }) => {
                let target: Vec<usize> = slice.cut(&labels(mask, *classes)).to_vec();
                let predicted = classes_of(&output, *activation, *classes, slice.volume);
                let predicted = slice.cut(&predicted).to_vec();
                tile(colored(&target), "ground truth")?;
                tile(colored(&predicted), "prediction")?;
                let wrong = target.iter().zip(&predicted);
                let wrong = wrong.flat_map(|(a, b)| if a == b { [0; 3] } else { [213, 94, 0] });
                tile(wrong.collect(), "error")?;
            }
            (SampleTarget::Image(image), _) => {
                let target = NormalizeChannels::default().planes(image)?;
                let range = slice.extremes(&target);
                tile(slice.shown(&target, Some(range)), "ground truth")?;
                tile(slice.shown(&output, Some(range)), "prediction")?;
                let errors = target.iter().zip(&output);
                let errors: Vec<f32> = errors.map(|(target, own)| (own - target).abs()).collect();
                tile(slice.shown(&errors, Some([0.0, range[1] - range[0]])), "error")?;
            }
            _ => {}
        }
    }
    let title = "Test windows: input, ground truth, prediction, error".to_owned();
    let per_row = tiles.len().checked_div(shown);
    Ok(vec![Picture::Tiles { title, tiles, per_row }])
}

/// The middle slice of a channel.
struct Slice {
    height: usize,
    width: usize,
    /// Positions of a channel.
    volume: usize,
    first: usize,
}

impl Slice {
    fn of(sides: &[usize]) -> Self {
        let (height, width) = (sides[sides.len() - 2], sides[sides.len() - 1]);
        let depth = if sides.len() == 3 { sides[0] } else { 1 };
        let plane = height * width;
        Self { height, width, volume: depth * plane, first: depth / 2 * plane }
    }

    /// The slice of the first channel.
    fn cut<'a, T>(&self, values: &'a [T]) -> &'a [T] {
        &values[self.first..][..self.height * self.width]
    }

    /// The channels that are shown: red, green and blue if an image has three, else the first.
    fn channels<'a>(&self, values: &'a [f32]) -> Vec<&'a [f32]> {
        let is_image = self.volume == self.height * self.width;
        match values.len() == 3 * self.volume && is_image {
            true => values.chunks_exact(self.volume).collect(),
            false => vec![self.cut(values)],
        }
    }

    fn extremes(&self, values: &[f32]) -> [f32; 2] {
        let each = self.channels(values).into_iter().map(extremes);
        each.reduce(|a, b| [a[0].min(b[0]), a[1].max(b[1])]).unwrap_or([0.0; 2])
    }

    /// The shown channels, from black at the lower to full intensity at the upper end of the range; by
    /// default the range of their values.
    fn shown(&self, values: &[f32], range: Option<[f32; 2]>) -> Vec<u8> {
        let [low, high] = range.unwrap_or_else(|| self.extremes(values));
        let scale = if high > low { 255.0 / (high - low) } else { 0.0 };
        let channels = self.channels(values);
        let level = |channel: usize, at: usize| {
            let of = channels[channel % channels.len()];
            ((of[at] - low) * scale).clamp(0.0, 255.0) as u8
        };
        let positions = 0..self.height * self.width;
        positions.flat_map(|at| [0, 1, 2].map(|channel| level(channel, at))).collect()
    }
}

fn extremes(values: &[f32]) -> [f32; 2] {
    let least = values.iter().copied().fold(f32::INFINITY, f32::min);
    let greatest = values.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    [least, greatest]
}

fn colored(classes: &[usize]) -> Vec<u8> {
    let color = |&class: &usize| match class {
        0 => [0; 3],
        class => COLORS[(class - 1) % COLORS.len()],
    };
    classes.iter().flat_map(color).collect()
}

/// The class of every position of a mask; for objects, labels above 0 are class 1.
fn labels(mask: &Raster<'_>, classes: usize) -> Vec<usize> {
    let label = |value: u16| usize::from(value).min(classes - 1);
    match mask.pixels() {
        Pixels::U8(values) => values.iter().map(|&value| label(value.into())).collect(),
        Pixels::U16(values) => values.iter().map(|&value| label(value)).collect(),
        Pixels::F32(values) => values.iter().map(|&value| label(value as u16)).collect(),
    }
}

/// The predicted class of every position of logits `[channels, positions]`.
fn classes_of(
    logits: &[f32],
    activation: MaskActivation,
    classes: usize,
    positions: usize,
) -> Vec<usize> {
    let of = |at: usize| match activation {
        MaskActivation::Sigmoid => usize::from(logits[at] > 0.0),
        MaskActivation::Softmax => (1..classes).fold(0, |best, class| {
            let is_better = logits[class * positions + at] > logits[best * positions + at];
            if is_better { class } else { best }
        }),
    };
    (0..positions).map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_of_three_channels_are_in_color_and_others_show_their_first_channel() {
        let image = Slice::of(&[1, 2]);
        let three = [0.0, 1.0, 0.5, 0.0, 1.0, 0.25];
        assert_eq!(image.shown(&three, Some([0.0, 1.0])), [0, 127, 255, 255, 0, 63]);
        assert_eq!(image.extremes(&three), [0.0, 1.0]);
        assert_eq!(image.shown(&three[..4], None), [0, 0, 0, 255, 255, 255]);
        // Two slices: the middle one of the first channel, for any number of channels.
        let volume = Slice::of(&[2, 1, 2]);
        let values: Vec<f32> = (0..12).map(|value| value as f32).collect();
        assert_eq!(volume.shown(&values, None), [0, 0, 0, 255, 255, 255]);
        assert_eq!(volume.extremes(&values), [2.0, 3.0]);
    }
}
