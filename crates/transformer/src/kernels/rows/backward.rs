//! The gradients of the features of rows.

use std::f32::consts::TAU;
use std::ops::Range;

use updraft_simd::matrix::{Left, Right, Rows, Target, multiply, pack_transposed, width};
use updraft_simd::{Aligned, Isa, Simd, Vectors, dispatch, over, threads};

use super::{PANEL, Periodic, ROWS, RowFeatures};

/// Where the gradients are written.
#[derive(Debug)]
pub(crate) struct RowGradients<'a> {
    /// Of the embeddings of each column, all zeros at first.
    pub(crate) embeddings: Vec<&'a mut [f32]>,
    /// Of frequencies, weight and bias of periodic embeddings.
    pub(crate) periodic: Option<[&'a mut [f32]; 3]>,
    /// Of the numbers, if wanted.
    pub(crate) numbers: Option<&'a mut [f32]>,
}

/// Work space of a thread.
#[derive(Debug, Default, Clone)]
struct Scratch {
    sums: Aligned,
    waves: Aligned,
    /// Gradients of the products of numbers and frequencies.
    slopes: Aligned,
}

/// What a thread computes at a time.
enum Task<'a> {
    /// The sums of some rows for the parameters of periodic embeddings.
    Rows { piece: usize, sums: &'a mut [f32], numbers: Option<&'a mut [f32]> },
    /// The embeddings of a column, `size` features from `start` on.
    Column { column: usize, start: usize, size: usize, to: &'a mut [f32] },
}

impl RowFeatures<'_> {
    /// Computes the gradients from the features, their gradient `dy`, and what the forward pass kept.
    pub(crate) fn backward(
        &self,
        isa: Isa,
        [y, waves, dy]: [&[f32]; 3],
        gradients: RowGradients<'_>,
        asked_threads: usize,
    ) {
        let (vectors, pieces) = (isa.vectors(), self.rows.div_ceil(ROWS));
        let periodic = self.periodic.zip(gradients.periodic);
        let (mut panels, mut partial, mut of_piece) = (Aligned::default(), Vec::new(), 0);
        if let Some((periodic, _)) = &periodic {
            pack_weight(vectors, *periodic, &mut panels);
            of_piece = periodic.frequencies.len() + (2 * periodic.count + 1) * periodic.pitch();
            partial.resize(pieces * of_piece, 0.0);
        }
        let mut numbers = gradients.numbers;
        if periodic.is_none() {
            self.copy_numbers(dy, numbers.take());
        }
        let mut of_numbers = numbers.map(|all| all.chunks_mut(ROWS * self.numbers_of_row()));
        let of_rows = partial.chunks_mut(of_piece.max(1)).enumerate();
        let mut tasks: Vec<_> = of_rows
            .map(|(piece, sums)| Task::Rows {
                piece,
                sums,
                numbers: of_numbers.as_mut().and_then(Iterator::next),
            })
            .collect();
        let mut start = 0;
        for (column, (embeddings, to)) in
            self.embeddings.iter().zip(gradients.embeddings).enumerate()
        {
            tasks.push(Task::Column { column, start, size: embeddings.size, to });
            start += embeddings.size;
        }
        let states = &mut vec![Scratch::default(); threads(asked_threads)];
        over(tasks, states, |_, task, scratch| match (task, self.periodic) {
            (Task::Rows { piece, sums, numbers }, Some(periodic)) => {
                let of = (periodic, &panels);
                self.rows_backward(vectors, of, piece, [y, waves, dy], (sums, numbers), scratch);
            }
            (Task::Column { column, start, size, to }, _) => {
                self.column_backward(column, start..start + size, dy, to);
            }
            (Task::Rows { .. }, None) => unreachable!("rows are divided for periodic embeddings"),
        });
        if let Some((periodic, to)) = periodic {
            add_pieces(periodic, &mut partial, of_piece, to);
        }
    }

    /// Copies the gradient of numbers that are features themselves.
    fn copy_numbers(&self, dy: &[f32], to: Option<&mut [f32]>) {
        let each = self.numbers_of_row();
        if let Some(to) = to.filter(|_| each > 0) {
            for (to, dy) in to.chunks_exact_mut(each).zip(dy.chunks_exact(self.features())) {
                to.copy_from_slice(&dy[self.categories()..]);
            }
        }
    }

    /// Adds the gradients of a column's embeddings, which are some of each row's features.
    fn column_backward(&self, column: usize, place: Range<usize>, dy: &[f32], to: &mut [f32]) {
        let classes = self.classes[column..].iter().step_by(self.embeddings.len());
        for (&class, dy) in classes.zip(dy.chunks_exact(self.features())) {
            let to = &mut to[class as usize * place.len()..][..place.len()];
            for (sum, dy) in to.iter_mut().zip(&dy[place.clone()]) {
                *sum += dy;
            }
        }
    }

    /// Computes the sums of a piece, and the gradients of its numbers if wanted.
    fn rows_backward(
        &self,
        vectors: Vectors,
        (periodic, panels): (Periodic<'_>, &Aligned),
        piece: usize,
        [y, waves, dy]: [&[f32]; 3],
        (sums, dnumbers): (&mut [f32], Option<&mut [f32]>),
        scratch: &mut Scratch,
    ) {
        let count = periodic.count;
        let rows = piece * ROWS..(piece * ROWS + ROWS).min(self.rows);
        self.sums_before(periodic, rows.clone(), [y, dy], &mut scratch.sums);
        let waves = &waves[rows.start * self.waves()..rows.end * self.waves()];
        let numbers = &self.numbers[rows.start * self.numbers_of_row()..];
        let numbers = &numbers[..rows.len() * self.numbers_of_row()];
        piece_backward(vectors, periodic, panels, [numbers, waves], scratch, sums);
        if let Some(dnumbers) = dnumbers {
            let of_numbers = periodic.frequencies.chunks_exact(count).cycle();
            let slopes = scratch.slopes.numbers(numbers.len() * count).chunks_exact(count);
            for (to, (slopes, frequencies)) in dnumbers.iter_mut().zip(slopes.zip(of_numbers)) {
                *to = slopes.iter().zip(frequencies).map(|(slope, f)| slope * f).sum();
            }
        }
    }

    /// Writes the gradients of what is rectified, of some rows, and zeros behind them.
    fn sums_before(
        &self,
        periodic: Periodic<'_>,
        rows: Range<usize>,
        [y, dy]: [&[f32]; 2],
        to: &mut Aligned,
    ) {
        let (of_row, start) = (self.features(), self.categories());
        let (pitch, size) = (periodic.pitch(), periodic.size());
        let to = to.grown(rows.len() * self.numbers_of_row() * pitch);
        to.fill(0.0);
        for (row, to) in rows.zip(to.chunks_exact_mut(self.numbers_of_row() * pitch)) {
            let own = row * of_row + start..(row + 1) * of_row;
            let (y, dy) = (&y[own.clone()], &dy[own]);
            let items = y.chunks_exact(size).zip(dy.chunks_exact(size));
            for ((y, dy), to) in items.zip(to.chunks_exact_mut(pitch)) {
                for ((to, &y), &dy) in to.iter_mut().zip(y).zip(dy) {
                    *to = if y > 0.0 { dy } else { 0.0 };
                }
            }
        }
    }
}

/// Adds the sums of all pieces, in their order.
fn add_pieces(
    periodic: Periodic<'_>,
    partial: &mut [f32],
    of_piece: usize,
    [frequencies, weight, bias]: [&mut [f32]; 3],
) {
    let (first, others) = partial.split_at_mut(of_piece);
    for others in others.chunks_exact(of_piece) {
        for (sum, other) in first.iter_mut().zip(others) {
            *sum += other;
        }
    }
    let (pitch, size) = (periodic.pitch(), periodic.size());
    let (of_frequencies, others) = first.split_at(periodic.frequencies.len());
    frequencies.copy_from_slice(of_frequencies);
    let (of_weight, of_bias) = others.split_at(2 * periodic.count * pitch);
    for (to, from) in weight.chunks_exact_mut(size).zip(of_weight.chunks_exact(pitch)) {
        to.copy_from_slice(&from[..size]);
    }
    bias.copy_from_slice(&of_bias[..size]);
}

dispatch! {
    fn pack_weight(simd, periodic: Periodic<'_>, panels: &mut Aligned) {
        transposed_panels(simd, periodic, panels);
    }

    /// Computes the sums of a piece, of frequencies, weight and bias in this order, and the gradients
    /// of the products of its numbers with frequencies.
    fn piece_backward(simd,
        periodic: Periodic<'_>,
        panels: &Aligned,
        inputs: [&[f32]; 2],
        scratch: &mut Scratch,
        sums: &mut [f32],
    ) {
        of_piece(simd, periodic, panels, inputs, scratch, sums);
    }
}

#[inline(always)]
fn transposed_panels<S: Simd>(simd: S, periodic: Periodic<'_>, panels: &mut Aligned) {
    let (terms, size) = (2 * periodic.count, periodic.size());
    let rows = Rows { numbers: periodic.weight, pitch: size, count: terms, len: size };
    let to = panels.grown(terms.next_multiple_of(PANEL) * size);
    pack_transposed(simd, width::<S>(), rows, to);
}

#[inline(always)]
fn of_piece<S: Simd>(
    simd: S,
    periodic: Periodic<'_>,
    panels: &Aligned,
    [numbers, waves]: [&[f32]; 2],
    scratch: &mut Scratch,
    sums: &mut [f32],
) {
    let (count, size, pitch) = (periodic.count, periodic.size(), periodic.pitch());
    let (items, terms, width) = (numbers.len(), 2 * count, width::<S>());
    let before = scratch.sums.numbers(items * pitch);
    let (of_frequencies, others) = sums.split_at_mut(periodic.frequencies.len());
    let (weight, bias) = others.split_at_mut(terms * pitch);
    let left = Left::new(waves, [1, terms]);
    let right = Right { panels: before, pitch: [width, pitch] };
    multiply(simd, [terms, items, size], left, right, weight, pitch, Target::Replaced);
    for before in before.chunks_exact(pitch) {
        for (sum, before) in bias.iter_mut().zip(before) {
            *sum += before;
        }
    }
    let wave_pitch = terms.next_multiple_of(PANEL);
    let dwaves = scratch.waves.grown(items * wave_pitch);
    let right = Right { panels: panels.numbers(wave_pitch * size), pitch: [size * width, width] };
    let left = Left::new(before, [pitch, 1]);
    multiply(simd, [items, size, terms], left, right, dwaves, wave_pitch, Target::Replaced);
    let of_row = periodic.frequencies.len() / count;
    let slopes = scratch.slopes.grown(items * count);
    let places = numbers.iter().zip(slopes.chunks_exact_mut(count)).enumerate();
    let items = waves.chunks_exact(terms).zip(dwaves.chunks_exact(wave_pitch));
    for ((item, (&x, slopes)), (waves, dwaves)) in places.zip(items) {
        let sums = &mut of_frequencies[item % of_row * count..][..count];
        let (sines, cosines) = waves.split_at(count);
        let (of_sines, of_cosines) = dwaves[..terms].split_at(count);
        let waves = sines.iter().zip(cosines).zip(of_sines.iter().zip(of_cosines));
        let to = sums.iter_mut().zip(slopes);
        for ((sum, slope), ((sine, cosine), (of_sine, of_cosine))) in to.zip(waves) {
            *slope = TAU * (of_sine * cosine - of_cosine * sine);
            *sum += *slope * x;
        }
    }
}
