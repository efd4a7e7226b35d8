//! Matrix products: rows of activations times packed weights.

use std::ops::Range;

use updraft_simd::{CACHE_LINE_BYTES, Isa, Uneven, over, threads};

use super::channels::{Addend, Channels};
use super::cpu::{DotJob, Raw, Sink};
use super::packed::{PANEL, Packed, Window};
use super::scratch::Scratch;
use crate::scheme::OutputScheme;
use crate::weights::QuantizedWeights;

/// The most bytes of activations of a block of rows, so that they stay in the second-level cache
/// for all weights.
const BLOCK: usize = 256 << 10;

/// The panels from which the time of copying rows to cache lines is less than what tiles save.
const PANELS_OF_COPIES: usize = 4;

/// A fully connected layer, its weights packed once.
///
/// `y[m,n] = Σ_k (x[m,k] − zero)·w[n,k] + bias[n]`, in real units by the schemes.
#[derive(Debug, Clone, PartialEq)]
pub struct QuantizedLinear {
    packed: Packed,
    window: Window,
    channels: Channels,
    inputs: usize,
}

impl QuantizedLinear {
    /// Packs weights `[outputs][inputs]`.
    #[must_use]
    pub fn new(weights: &QuantizedWeights, output: OutputScheme) -> Self {
        let inputs = weights.each();
        Self {
            packed: Packed::new(weights.values(), weights.channels(), 1, inputs),
            window: Window::new([0].into_iter(), inputs),
            channels: Channels::new(weights, 1, output),
            inputs,
        }
    }

    /// Numbers of a row of the input, and of the output.
    #[must_use]
    pub const fn features(&self) -> [usize; 2] {
        [self.inputs, self.packed.columns]
    }

    /// Bytes of the packed weights.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.packed.bytes()
    }

    /// The weights before packing, restored from the packed ones.
    pub(crate) fn weights(&self) -> QuantizedWeights {
        self.channels.weights(self.packed.unpacked())
    }

    /// The integer sums, before any scale: `[rows][outputs]`.
    ///
    /// # Panics
    /// If a slice holds no whole number of rows or the two differ, or the CPU does not have `isa`.
    pub fn sums(
        &self,
        isa: Isa,
        x: &[u8],
        y: &mut [i32],
        scratch: &mut Scratch,
        asked_threads: usize,
    ) {
        self.product(isa, |_| Raw, x, y, scratch, asked_threads);
    }

    /// The layer's result in its output scheme: `[rows][outputs]`.
    ///
    /// # Panics
    /// If a slice holds no whole number of rows or the two differ, or the CPU does not have `isa`.
    pub fn run(
        &self,
        isa: Isa,
        x: &[u8],
        y: &mut [u8],
        scratch: &mut Scratch,
        asked_threads: usize,
    ) {
        let sink = |_| self.channels.requantized(0);
        self.product(isa, sink, x, y, scratch, asked_threads);
    }

    /// The layer's result and a tensor, added before they are rounded to the output scheme:
    /// `[rows][outputs]`.
    ///
    /// # Panics
    /// If a slice holds no whole number of rows or two differ, or the CPU does not have `isa`.
    pub(crate) fn run_plus(
        &self,
        isa: Isa,
        x: &[u8],
        addend: Addend<'_>,
        y: &mut [u8],
        scratch: &mut Scratch,
        asked_threads: usize,
    ) {
        assert_eq!(addend.codes.len(), y.len(), "codes to add");
        let sink = |places| self.channels.summed(0, addend.part(places));
        self.product(isa, sink, x, y, scratch, asked_threads);
    }

    /// The layer's result in real units, without its activation function: `[rows][outputs]`.
    ///
    /// # Panics
    /// If a slice holds no whole number of rows or the two differ, or the CPU does not have `isa`.
    pub(crate) fn run_f32(
        &self,
        isa: Isa,
        x: &[u8],
        y: &mut [f32],
        scratch: &mut Scratch,
        asked_threads: usize,
    ) {
        let sink = |_| self.channels.scaled(0);
        self.product(isa, sink, x, y, scratch, asked_threads);
    }

    /// Writes each part of the output through a sink.
    fn product<K>(
        &self,
        isa: Isa,
        sink: impl Fn(Range<usize>) -> K + Sync,
        x: &[u8],
        y: &mut [K::Number],
        scratch: &mut Scratch,
        asked_threads: usize,
    ) where
        K: Sink,
        K::Number: Send,
    {
        let [inputs, outputs] = self.features();
        let rows = x.len() / inputs;
        assert_eq!(x.len(), rows * inputs, "whole rows of the input");
        assert_eq!(y.len(), rows * outputs, "numbers of the output");
        if rows == 0 {
            return;
        }
        let threads = threads(asked_threads);
        let panels = outputs.div_ceil(PANEL);
        let job = DotJob {
            image: x,
            origin: 0,
            window: &self.window,
            weights: &self.packed.lines,
            start: self.channels.start(0),
            outputs,
            panels: [0, panels],
            rows: 1,
            columns: rows,
            row_step: 0,
            column_step: inputs,
            output_row: 0,
            output_column: outputs,
        };
        let pitch = self.pitch(isa, rows);
        if rows == 1 {
            let of_copy = if pitch == inputs { 0 } else { pitch };
            let (copy, states) = scratch.split(of_copy, threads, 0, 0);
            let image = if pitch == inputs { x } else { placed(x, inputs, pitch, copy) };
            let share = panels.div_ceil(threads);
            let starts = |part: usize| (part * share * PANEL).min(outputs);
            over(Uneven::new(y, panels.div_ceil(share), starts), states, |part, y, _| {
                let panels = [part * share, ((part + 1) * share).min(panels)];
                let first = starts(part);
                let job = DotJob { panels, image, column_step: pitch, ..job };
                job.run(isa, sink(first..first + y.len()), y);
            });
            return;
        }
        // Tiles are read once for each panel, from two lines if they are not at one.
        let has_tiles = self.has_tiles(isa, rows);
        let is_at_a_line = x.as_ptr().addr().is_multiple_of(CACHE_LINE_BYTES);
        let is_copied = pitch != inputs || has_tiles && panels >= PANELS_OF_COPIES && !is_at_a_line;
        let block = (BLOCK / pitch).max(32).min(rows.div_ceil(threads));
        let of_copies = if is_copied { block * pitch } else { 0 };
        let (_, states) = scratch.split(0, threads, of_copies, 0);
        let starts = |part: usize| (part * block).min(rows) * outputs;
        over(Uneven::new(y, rows.div_ceil(block), starts), states, |part, y, own| {
            let (first, columns) = (starts(part), y.len() / outputs);
            let x = &x[part * block * inputs..][..columns * inputs];
            let image = if is_copied {
                placed(x, inputs, pitch, own.bytes.numbers_mut(columns * pitch))
            } else {
                x
            };
            let job = DotJob { image, columns, column_step: pitch, ..job };
            job.run(isa, sink(first..first + y.len()), y);
        });
    }

    /// Whether tiles compute products of so many rows.
    fn has_tiles(&self, isa: Isa, rows: usize) -> bool {
        isa.dot() == Isa::AmxInt8 && !self.window.tiles().is_empty() && rows > 1
    }

    /// Bytes from a row to the next one as kernels read them: whole groups of four, and whole cache
    /// lines where tiles are read, which takes longer from two of them.
    fn pitch(&self, isa: Isa, rows: usize) -> usize {
        self.inputs.next_multiple_of(if self.has_tiles(isa, rows) { CACHE_LINE_BYTES } else { 4 })
    }
}

/// Copies rows to a distance of `pitch`; what is between them is not specified.
fn placed<'a>(x: &[u8], inputs: usize, pitch: usize, to: &'a mut [u8]) -> &'a [u8] {
    if pitch == inputs {
        to.copy_from_slice(x);
        return to;
    }
    for (row, to) in to.chunks_exact_mut(pitch).enumerate() {
        // Whole lines, which need no call: what follows a row's end is read with it.
        let (whole, rest) = to.as_chunks_mut::<CACHE_LINE_BYTES>();
        let lines = x[row * inputs..].as_chunks::<CACHE_LINE_BYTES>().0;
        if rest.is_empty() && whole.len() <= lines.len() {
            whole.iter_mut().zip(lines).for_each(|(to, from)| *to = *from);
        } else {
            to[..inputs].copy_from_slice(&x[row * inputs..][..inputs]);
        }
    }
    to
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::kernels::reference;
    use crate::scheme::ActivationScheme;

    pub(super) fn paths() -> impl Iterator<Item = Isa> {
        Isa::DOTS.into_iter().filter(|isa| isa.is_available())
    }

    /// Pseudorandom bytes; `extreme` ones are only 0 and 255.
    fn bytes(seed: u32, count: usize, extreme: bool) -> Vec<u8> {
        let mut state = seed.wrapping_mul(2_654_435_761) | 1;
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 17;
            state ^= state << 5;
            let byte = (state >> 11) as u8;
            if extreme { byte % 2 * 255 } else { byte }
        };
        (0..count).map(|_| next()).collect()
    }

    fn signed(seed: u32, count: usize, extreme: bool) -> Vec<i8> {
        let sign = |byte: u8| if byte < 128 { i8::MIN } else { i8::MAX };
        let code = |byte: u8| if extreme { sign(byte) } else { byte as i8 };
        bytes(seed, count, false).into_iter().map(code).collect()
    }

    /// Compares all results of one product with the reference, exactly.
    fn check([rows, inputs, outputs]: [usize; 3], zero: u8, extreme: bool, threads: usize) {
        let x = bytes(1, rows * inputs, extreme);
        let values = signed(2, outputs * inputs, extreme);
        let bias: Vec<i32> = (0..outputs as i32).map(|n| (n - 3) * 1001).collect();
        let scales: Vec<f32> = (0..outputs).map(|n| 0.001 + 0.0001 * n as f32).collect();
        let input = ActivationScheme::try_new(0.02, zero).expect("valid");
        let weights =
            QuantizedWeights::try_new(values.clone(), scales.clone(), bias.clone(), input)
                .expect("sums fit");
        let right = reference::linear_sums(&x, zero, &values, &bias);
        let scheme = ActivationScheme::try_new(0.31, 77).expect("valid");
        let output = OutputScheme::rectified(scheme);
        let layer = QuantizedLinear::new(&weights, output);
        let scale = |index: usize| f64::from(0.02_f32) * f64::from(scales[index % outputs]);
        for isa in paths() {
            let context = format!("{isa} {rows}×{inputs}×{outputs} with {threads} threads");
            let mut scratch = Scratch::new();
            let mut sums = vec![0; rows * outputs];
            layer.sums(isa, &x, &mut sums, &mut scratch, threads);
            let wide: Vec<i64> = sums.iter().map(|&sum| sum.into()).collect();
            assert_eq!(wide, right, "{context}");
            let mut codes = vec![0; rows * outputs];
            layer.run(isa, &x, &mut codes, &mut scratch, threads);
            let mut real = vec![0.0; rows * outputs];
            layer.run_f32(isa, &x, &mut real, &mut scratch, threads);
            let other = ActivationScheme::try_new(0.7, 131).expect("valid");
            let addend = Addend { scheme: other, codes: &bytes(3, rows * outputs, extreme) };
            let mut summed = vec![0xAA; rows * outputs];
            layer.run_plus(isa, &x, addend, &mut summed, &mut scratch, threads);
            for (index, &sum) in right.iter().enumerate() {
                let scale = scale(index);
                assert_eq!(
                    codes[index],
                    reference::code(sum, scale, output),
                    "{context} [{index}]"
                );
                assert_eq!(real[index], sum as f32 * scale as f32, "{context} [{index}]");
                let plus = reference::code_plus(sum, scale, addend.codes[index], other, output);
                assert_eq!(summed[index], plus, "{context} plus [{index}]");
            }
        }
    }

    #[test]
    fn products_of_every_tile_are_exact() {
        for rows in (1..=30).chain([56, 57, 129]) {
            check([rows, 20, 48], 128, false, 1);
        }
        for outputs in (1..=34).chain([63, 64, 65, 100]) {
            check([5, 13, outputs], 3, false, 1);
            check([1, 37, outputs], 200, false, 1);
        }
        for inputs in 1..70 {
            check([3, inputs, 17], 255, false, 1);
            check([1, inputs, 33], 0, false, 1);
        }
    }

    #[test]
    fn the_furthest_codes_neither_saturate_nor_overflow() {
        for zero in [0, 128, 255] {
            check([17, 4096, 33], zero, true, 1);
            check([1, 65_000, 17], zero, true, 1);
        }
    }

    #[test]
    fn the_number_of_threads_changes_no_number() {
        for threads in [2, 3, 8] {
            check([130, 36, 70], 9, false, threads);
            check([1, 36, 200], 9, false, threads);
            check([2, 7, 5], 9, false, threads);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

        #[test]
        fn any_product_is_exact(
            shape in [1_usize..70, 1_usize..150, 1_usize..150],
            zero in any::<u8>(),
            extreme in any::<bool>(),
            threads in 1_usize..4,
        ) {
            check(shape, zero, extreme, threads);
        }
    }

    #[test]
    #[should_panic(expected = "numbers of the output")]
    fn a_slice_of_another_length_is_refused() {
        let input = ActivationScheme::try_new(1.0, 0).expect("valid");
        let weights =
            QuantizedWeights::try_new(vec![1; 8], vec![1.0; 2], vec![0; 2], input).expect("valid");
        let layer = QuantizedLinear::new(&weights, OutputScheme::new(input));
        layer.run(Isa::Portable, &[0; 8], &mut [0; 3], &mut Scratch::new(), 1);
    }
}
