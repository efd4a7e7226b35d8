//! Windows over padded images, and their weights in the order of the kernels.

use updraft_simd::INT8_LANES as LANES;

use updraft_conv::slices::ConvShape;

use super::packed::{Packed, Window};
use crate::weights::QuantizedWeights;

/// Rows that a kernel spans.
pub(super) const fn span(shape: &ConvShape) -> usize {
    (shape.kernel[0] - 1) * shape.dilation[0] + 1
}

/// Bytes of a row of the padded image.
pub(super) const fn padded_pitch(shape: &ConvShape) -> usize {
    (shape.input[1] + 2 * shape.padding[1]) * shape.channels[0]
}

/// The offset of an entry of the kernel from the window's start.
pub(super) const fn entry_at(shape: &ConvShape, entry: usize) -> u32 {
    let (row, column) = (entry / shape.kernel[1], entry % shape.kernel[1]);
    let across = column * shape.dilation[1] * shape.channels[0];
    (row * shape.dilation[0] * padded_pitch(shape) + across) as u32
}

/// Fills `padded` with rows of the padded image, from its row `first` on.
pub(super) fn pad(shape: &ConvShape, zero: u8, first: usize, x: &[u8], padded: &mut [u8]) {
    let side = shape.padding[1] * shape.channels[0];
    let line = shape.input[1] * shape.channels[0];
    for (index, padded) in padded.chunks_exact_mut(padded_pitch(shape)).enumerate() {
        let row = (first + index).checked_sub(shape.padding[0]).filter(|&r| r < shape.input[0]);
        let Some(row) = row else {
            padded.fill(zero);
            continue;
        };
        padded[..side].fill(zero);
        padded[side..side + line].copy_from_slice(&x[row * line..][..line]);
        padded[side + line..].fill(zero);
    }
}

/// The groups of a dense convolution that are computed as one, whose other weights are zero: as many
/// as have their output channels in one vector.
///
/// The products are as many as of each group alone, where the other lanes are idle, and the output
/// channels are written together.
fn joined_groups(shape: &ConvShape) -> usize {
    let outputs = shape.channels[1] / shape.groups;
    let fits = |&count: &usize| shape.groups.is_multiple_of(count) && count * outputs <= LANES;
    (1..=LANES).rev().find(fits).unwrap_or(1)
}

/// A window, and the weights of each joined group in their order: row, column, channel.
///
/// A row's entries are one run if they are adjacent, else each entry is one.
pub(super) fn pack_dense(shape: &ConvShape, weights: &QuantizedWeights) -> (Window, Vec<Packed>) {
    let [inputs, outputs] = shape.channels.map(|channels| channels / shape.groups);
    let joined = joined_groups(shape);
    let [rows, columns] = shape.kernel;
    let entries = rows * columns;
    let is_one_run = shape.groups == joined && shape.dilation[1] == 1;
    let (segments, of_segment) = if is_one_run { (rows, columns) } else { (entries, 1) };
    let segment = of_segment * inputs * joined;
    let offsets = (0..segments).map(|index| entry_at(shape, index * of_segment));
    let window = Window::new(offsets, segment);
    let of_group = |group: usize| {
        let mut ordered = Vec::with_capacity(outputs * joined * inputs * joined * entries);
        for output in group * joined * outputs..(group + 1) * joined * outputs {
            let own = output / outputs % joined;
            let each = &weights.values()[output * inputs * entries..];
            for entry in 0..entries {
                ordered.extend((0..inputs * joined).map(|input| match input / inputs == own {
                    true => each[input % inputs * entries + entry],
                    false => 0,
                }));
            }
        }
        Packed::new(&ordered, outputs * joined, segments, segment)
    };
    (window, (0..shape.groups / joined).map(of_group).collect())
}

/// The weights of all groups before packing.
pub(super) fn unpack_dense(shape: &ConvShape, groups: &[Packed]) -> Vec<i8> {
    let [inputs, outputs] = shape.channels.map(|channels| channels / shape.groups);
    let joined = joined_groups(shape);
    let entries = shape.kernel[0] * shape.kernel[1];
    let ordered: Vec<i8> = groups.iter().flat_map(Packed::unpacked).collect();
    let mut values = Vec::with_capacity(ordered.len() / joined);
    for (output, each) in ordered.chunks_exact(inputs * joined * entries).enumerate() {
        let first = output / outputs % joined * inputs;
        for input in first..first + inputs {
            values.extend((0..entries).map(|entry| each[entry * inputs * joined + input]));
        }
    }
    values
}

/// `[vectors][taps][lanes]`, zeros beyond the last channel.
pub(super) fn pack_depthwise(weights: &QuantizedWeights) -> Vec<i8> {
    let (channels, taps) = (weights.channels(), weights.each());
    let mut packed = vec![0; channels.next_multiple_of(LANES) * taps];
    let places = depthwise_places(channels * taps, channels);
    places.for_each(|(at, given)| packed[at] = weights.values()[given]);
    packed
}

/// For each weight of a depthwise convolution, its packed and its original index.
pub(super) fn depthwise_places(
    weights: usize,
    channels: usize,
) -> impl Iterator<Item = (usize, usize)> {
    let taps = weights / channels;
    (0..weights).map(move |given| {
        let (channel, tap) = (given / taps, given % taps);
        ((channel / LANES * taps + tap) * LANES + channel % LANES, given)
    })
}
