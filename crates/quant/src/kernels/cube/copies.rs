//! Codes that move: turned axes, blocks of pixels, nearest pixels, and joined tensors.

use cubecl::prelude::*;

use super::device_kernel::DeviceKernel;
use super::layout::{packed_table, words_of};
use super::table::entry_of;
use super::tiles::{cubes, unit_index, units};
use super::words::Words;

/// The place of a byte of the output that no code of the input becomes.
const NOWHERE: u32 = u32::MAX;

/// The places of the codes of a block of the output in a block of one input, in bytes of words.
///
/// The blocks of all samples follow each other, in the output and in the input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Places {
    /// A place for each byte.
    places: Vec<u32>,
    /// Bytes from a block of the input to the next one.
    step: usize,
}

impl Places {
    /// Each code of a sample of the output, `[pixels, channels]`, is one of a sample of the input,
    /// `[pixels of x, channels of x]`, by its place there.
    pub(crate) fn of_samples(
        channels: usize,
        [pixels_of_x, channels_of_x]: [usize; 2],
        places: impl Iterator<Item = usize>,
    ) -> Self {
        let (pitch, pitch_of_x) = (4 * words_of(channels), 4 * words_of(channels_of_x));
        let place = |at: usize| at / channels_of_x * pitch_of_x + at % channels_of_x;
        let mut all = Vec::new();
        for (at, from) in places.enumerate() {
            if at > 0 && at % channels == 0 {
                all.resize(all.len().next_multiple_of(pitch), NOWHERE);
            }
            all.push(place(from) as u32);
        }
        all.resize(all.len().next_multiple_of(pitch), NOWHERE);
        Self { places: all, step: pixels_of_x * pitch_of_x }
    }

    /// The channels of one tensor are some of each pixel's, from `first` on.
    pub(crate) fn of_channels(channels: usize, first: usize, channels_of_x: usize) -> Self {
        let place = |at: usize| match at.checked_sub(first) {
            Some(own) if own < channels_of_x => own as u32,
            _ => NOWHERE,
        };
        let places = (0..4 * words_of(channels)).map(place).collect();
        Self { places, step: 4 * words_of(channels_of_x) }
    }

    /// The pixels of a block of one tensor are some of the output's block, from `first` on.
    pub(crate) fn of_pixels(
        channels: usize,
        pixels: usize,
        first: usize,
        pixels_of_x: usize,
    ) -> Self {
        let pitch = 4 * words_of(channels);
        let place = |at: usize| match at.checked_sub(first * pitch) {
            Some(own) if own < pixels_of_x * pitch => own as u32,
            _ => NOWHERE,
        };
        Self { places: (0..pixels * pitch).map(place).collect(), step: pixels_of_x * pitch }
    }
}

/// One input of copies.
#[derive(Debug)]
struct Part {
    places: Words,
    step: usize,
    /// Converts its codes to the scheme of the output.
    table: Option<Words>,
}

/// Copies codes of one or several tensors to their places.
#[derive(Debug)]
pub(crate) struct CubeCopies {
    parts: Vec<Part>,
    /// Words of a block of the output, and of a sample.
    block: usize,
    words: usize,
}

impl CubeCopies {
    /// From each input by its places, which have the same block, and its table if it has one; for an
    /// output of `[channels, pixels]`.
    pub(crate) fn new(
        client: &Client,
        [channels, pixels]: [usize; 2],
        parts: &[(Places, Option<[u8; 256]>)],
    ) -> Self {
        let part = |(Places { places, step }, table): &(Places, Option<[u8; 256]>)| Part {
            places: Words::upload(client, places),
            step: *step,
            table: table.map(|codes| Words::upload(client, &packed_table(&codes))),
        };
        let block = parts.first().map_or(1, |(places, _)| places.places.len() / 4);
        let words = pixels * words_of(channels);
        Self { parts: parts.iter().map(part).collect(), block, words }
    }
}

impl DeviceKernel for CubeCopies {
    fn run(&self, client: &Client, x: &[&Words], y: &Words, samples: usize) {
        let all = samples * self.words;
        for (at, (Part { places, step, table }, x)) in self.parts.iter().zip(x).enumerate() {
            codes_of_places::launch(
                client,
                cubes(all),
                units(),
                AddressType::U32,
                x.arg(),
                places.arg(),
                table.as_ref().unwrap_or(places).arg(),
                y.arg(),
                all as u32,
                self.block as u32,
                *step as u32,
                table.is_some(),
                at > 0,
            );
        }
    }
}

#[cube(launch, address_type = "dynamic")]
fn codes_of_places(
    x: &[u32],
    places: &[u32],
    table: &[u32],
    y: &mut [u32],
    all: u32,
    block: u32,
    step: u32,
    #[comptime] has_table: bool,
    #[comptime] keeps_others: bool,
) {
    let index = unit_index();
    if index < all {
        let within = index % block * 4u32;
        let start = index / block * step;
        let mut codes = 0u32.runtime();
        if comptime!(keeps_others) {
            codes = y[index as usize];
        }
        #[unroll]
        for lane in 0..4usize {
            let place = places[(within + comptime!(lane as u32)) as usize];
            if place != NOWHERE {
                let at = start + place;
                let given = (x[(at / 4u32) as usize] >> (at % 4u32 * 8u32)) & 255u32;
                let code = if comptime!(has_table) { entry_of(given, table) } else { given };
                let others = codes & comptime!(!(255u32 << (8 * lane as u32)));
                codes = others | (code << comptime!(8 * lane as u32));
            }
        }
        y[index as usize] = codes;
    }
}

#[cfg(test)]
mod tests {
    use super::super::on_devices::{bytes, computed, on_each};
    use super::*;

    #[test]
    fn codes_of_each_sample_move_to_their_places() {
        // From 4 pixels of 6 channels to 3 pixels of 5, in an order that repeats some.
        let x = bytes(1, 2 * 24);
        let places: Vec<usize> = (0..15).map(|at| at * 7 % 24).collect();
        let right: Vec<u8> = [0, 24]
            .into_iter()
            .flat_map(|first| places.iter().map(move |place| first + place))
            .map(|at| x[at])
            .collect();
        on_each(|client| {
            let of = Places::of_samples(5, [4, 6], places.iter().copied());
            let kernel = CubeCopies::new(client, [5, 3], &[(of, None)]);
            assert_eq!(computed(client, &kernel, &[(&x, 6)], [3, 5], 2), right);
        });
    }

    #[test]
    fn joined_channels_share_words_and_have_one_scheme() {
        let parts = [bytes(1, 6 * 3), bytes(2, 6), bytes(3, 6 * 6)];
        let table: [u8; 256] = std::array::from_fn(|code| 255 - code as u8);
        let mut right = Vec::new();
        for pixel in 0..6 {
            right.extend(&parts[0][3 * pixel..][..3]);
            right.push(255 - parts[1][pixel]);
            right.extend(&parts[2][6 * pixel..][..6]);
        }
        on_each(|client| {
            let of = [
                (Places::of_channels(10, 0, 3), None),
                (Places::of_channels(10, 3, 1), Some(table)),
                (Places::of_channels(10, 4, 6), None),
            ];
            let kernel = CubeCopies::new(client, [10, 3], &of);
            let x: [(&[u8], usize); 3] = [(&parts[0], 3), (&parts[1], 1), (&parts[2], 6)];
            assert_eq!(computed(client, &kernel, &x, [3, 10], 2), right);
        });
    }

    #[test]
    fn joined_pixels_follow_each_other_in_each_block() {
        // Two samples of two rows: rows of 2 and of 3 pixels, of 5 channels.
        let parts = [bytes(1, 4 * 2 * 5), bytes(2, 4 * 3 * 5)];
        let mut right: Vec<u8> = Vec::new();
        for row in 0..4 {
            right.extend(&parts[0][10 * row..][..10]);
            right.extend(&parts[1][15 * row..][..15]);
        }
        on_each(|client| {
            let of = [(Places::of_pixels(5, 5, 0, 2), None), (Places::of_pixels(5, 5, 2, 3), None)];
            let kernel = CubeCopies::new(client, [5, 10], &of);
            let x: [(&[u8], usize); 2] = [(&parts[0], 5), (&parts[1], 5)];
            assert_eq!(computed(client, &kernel, &x, [10, 5], 2), right);
        });
    }
}
