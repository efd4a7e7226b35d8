//! The features of rows.

use updraft_simd::matrix::{Left, Right, Rows, Target, multiply, pack, wave, width};
use updraft_simd::{Aligned, Isa, Pieces, Simd, dispatch, over, threads};

use super::{PANEL, Periodic, ROWS, RowFeatures};

impl RowFeatures<'_> {
    /// Computes the features, `[rows,` [`features`](Self::features)`]`, and what the gradient of
    /// periodic embeddings needs, `[rows,` [`waves`](Self::waves)`]`, in pieces of [`ROWS`] rows.
    ///
    /// # Panics
    /// If a class is not one of its column.
    pub(crate) fn forward<'a>(
        &self,
        isa: Isa,
        features: impl Pieces<Piece = &'a mut [f32]>,
        waves: impl Pieces<Piece = &'a mut [f32]>,
        asked_threads: usize,
    ) {
        let (vectors, of_row) = (isa.vectors(), self.features());
        let mut states = vec![Aligned::default(); threads(asked_threads)];
        match self.periodic {
            None => over(features, &mut states, |piece, features, _| {
                let first = piece * ROWS;
                for (row, features) in features.chunks_exact_mut(of_row).enumerate() {
                    let numbers = self.embed(first + row, features);
                    let from = (first + row) * numbers.len();
                    numbers.copy_from_slice(&self.numbers[from..][..numbers.len()]);
                }
            }),
            Some(periodic) => {
                let mut panels = Aligned::default();
                pack_weight(vectors, periodic, &mut panels);
                over((features, waves), &mut states, |piece, (features, waves), scratch| {
                    let numbers = &self.numbers[piece * ROWS * self.numbers_of_row()..];
                    embed_numbers(vectors, periodic, &panels, numbers, waves, scratch);
                    let each = self.numbers_of_row() * periodic.pitch();
                    let items =
                        scratch.numbers(waves.len() / (2 * periodic.count) * periodic.pitch());
                    let rows = features.chunks_exact_mut(of_row).zip(items.chunks_exact(each));
                    for (row, (features, items)) in rows.enumerate() {
                        let own = self.embed(piece * ROWS + row, features);
                        let own = own.chunks_exact_mut(periodic.size());
                        for (own, item) in own.zip(items.chunks_exact(periodic.pitch())) {
                            own.copy_from_slice(&item[..periodic.size()]);
                        }
                    }
                });
            }
        }
    }

    /// Writes the embeddings of a row's categories, and returns the place of its numbers' features.
    fn embed<'f>(&self, row: usize, mut features: &'f mut [f32]) -> &'f mut [f32] {
        let classes = &self.classes[row * self.embeddings.len()..];
        for (column, &class) in self.embeddings.iter().zip(classes) {
            let (own, others) = features.split_at_mut(column.size);
            own.copy_from_slice(&column.vectors[class as usize * column.size..][..column.size]);
            features = others;
        }
        features
    }
}

dispatch! {
    fn pack_weight(simd, periodic: Periodic<'_>, panels: &mut Aligned) {
        weight_panels(simd, periodic, panels);
    }

    /// Writes sines and cosines of numbers, and the outputs of the linear layer.
    fn embed_numbers(simd,
        periodic: Periodic<'_>,
        panels: &Aligned,
        numbers: &[f32],
        waves: &mut [f32],
        outputs: &mut Aligned,
    ) {
        rectified_sums(simd, periodic, panels, numbers, waves, outputs);
    }
}

#[inline(always)]
fn weight_panels<S: Simd>(_: S, periodic: Periodic<'_>, panels: &mut Aligned) {
    let (terms, size) = (2 * periodic.count, periodic.size());
    let rows = Rows { numbers: periodic.weight, pitch: size, count: terms, len: size };
    pack(width::<S>(), rows, panels.grown(terms * periodic.pitch()));
}

#[inline(always)]
fn rectified_sums<S: Simd>(
    simd: S,
    periodic: Periodic<'_>,
    panels: &Aligned,
    numbers: &[f32],
    waves: &mut [f32],
    outputs: &mut Aligned,
) {
    let Periodic { frequencies, count, bias, .. } = periodic;
    let items = waves.len() / (2 * count);
    let of_numbers = frequencies.chunks_exact(count).cycle();
    for ((waves, &x), frequencies) in waves.chunks_exact_mut(2 * count).zip(numbers).zip(of_numbers)
    {
        let x = simd.splat(x);
        let (sines, cosines) = waves.split_at_mut(count);
        let places = sines.chunks_mut(S::LANES).zip(cosines.chunks_mut(S::LANES));
        for ((sines, cosines), frequencies) in places.zip(frequencies.chunks(S::LANES)) {
            let [sine, cosine] = wave(simd, x, simd.read(frequencies));
            simd.write(sines, sine);
            simd.write(cosines, cosine);
        }
    }
    let (pitch, size) = (periodic.pitch(), bias.len());
    let outputs = outputs.grown(items * pitch);
    for item in outputs.chunks_exact_mut(pitch) {
        item[..size].copy_from_slice(bias);
        item[size..].fill(0.0);
    }
    let (width, terms) = (width::<S>(), 2 * count);
    let right = Right { panels: panels.numbers(terms * pitch), pitch: [terms * width, width] };
    let left = Left::new(waves, [terms, 1]);
    multiply(simd, [items, terms, size], left, right, outputs, pitch, Target::Sum);
    for output in outputs {
        // NaN stays what it is.
        *output = if *output < 0.0 { 0.0 } else { *output };
    }
}

const _: () = assert!(PANEL >= 2 * updraft_simd::MAX_LANES, "a panel of the widest vectors");
