//! Sums of squares of slices.

use updraft_simd::{Isa, Vectors, dispatch, over, pool_threads};

/// Numbers that are summed by one thread: adding them takes longer than waking up another.
const PIECE: usize = 32 << 10;

/// Sums of a piece that run side by side: four vectors of the widest instruction set.
const SUMS: usize = 64;

/// The sum of squares of each slice, on the threads of the pool.
///
/// The terms of a piece are added in f32, in as many sums as [`SUMS`], and those of all pieces in
/// f64, so that neither the instruction set nor the number of threads changes a bit.
pub(crate) fn square_sums(slices: &[&[f32]]) -> Vec<f32> {
    let vectors = Isa::detect().vectors();
    let pieces: usize = slices.iter().map(|slice| slice.len().div_ceil(PIECE)).sum();
    let mut sums = vec![0.0; pieces];
    let tasks: Vec<_> =
        slices.iter().flat_map(|slice| slice.chunks(PIECE)).zip(&mut sums).collect();
    // Small slices together are one piece of work.
    let numbers: usize = slices.iter().map(|slice| slice.len()).sum();
    let threads = pool_threads().min(numbers.div_ceil(PIECE)).max(1);
    over(tasks, &mut vec![(); threads], |_, (piece, sum), ()| *sum = of_piece(vectors, piece));
    let mut sums = &sums[..];
    let of_slice = |slice: &&[f32]| {
        let (own, others) = sums.split_at(slice.len().div_ceil(PIECE));
        sums = others;
        own.iter().sum::<f64>() as f32
    };
    slices.iter().map(of_slice).collect()
}

fn of_piece(vectors: Vectors, numbers: &[f32]) -> f64 {
    let mut sums = [0.0; SUMS];
    add_squares(vectors, numbers, &mut sums);
    sums.iter().map(|&sum| f64::from(sum)).sum()
}

dispatch! {
    /// Adds the squares of numbers to sums, each to that of its place.
    fn add_squares(_simd, numbers: &[f32], sums: &mut [f32; SUMS]) {
        let (rows, rest) = numbers.as_chunks::<SUMS>();
        for row in rows {
            for (sum, x) in sums.iter_mut().zip(row) {
                *sum += x * x;
            }
        }
        for (sum, x) in sums.iter_mut().zip(rest) {
            *sum += x * x;
        }
    }
}

#[cfg(test)]
mod tests {
    use updraft_testing::{assert_close, scattered, tolerance};

    use super::*;

    const LENGTHS: [usize; 10] =
        [0, 1, 63, 64, 65, 997, PIECE - 1, PIECE, PIECE + 1, 3 * PIECE + 5];

    #[test]
    fn sums_are_those_in_f64_for_every_length() {
        let slices: Vec<Vec<f32>> = LENGTHS.iter().map(|&len| scattered(len as u32, len)).collect();
        let found = square_sums(&slices.iter().map(|it| &it[..]).collect::<Vec<_>>());
        let expected: Vec<f64> = slices
            .iter()
            .map(|slice| slice.iter().map(|&x| f64::from(x) * f64::from(x)).sum())
            .collect();
        assert_close(&found, &expected, tolerance::F32);
    }

    #[test]
    fn every_instruction_set_gives_the_same_bits() {
        let numbers = scattered(3, 2 * SUMS + 7);
        let expected = of_piece(Isa::Portable.vectors(), &numbers).to_bits();
        for isa in Isa::BASES.into_iter().filter(|isa| isa.is_available()) {
            assert_eq!(of_piece(isa.vectors(), &numbers).to_bits(), expected, "{isa}");
        }
    }

    #[test]
    fn what_is_not_finite_stays_in_its_own_sum() {
        let slices = [[1.0, f32::NAN], [f32::INFINITY, 1.0], [f32::MAX, 1.0], [3.0, 4.0]];
        let found = square_sums(&slices.each_ref().map(|it| &it[..]));
        assert!(found[0].is_nan());
        assert_eq!(found[1..], [f32::INFINITY, f32::INFINITY, 25.0]);
    }
}
