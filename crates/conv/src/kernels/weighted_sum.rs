//! Weighted sums of whole tensors, as gates between feature maps compute them.

use updraft_simd::{Cut, Isa, Pieces, over, threads};

use super::activation::PIECE;
use super::cpu::sum;
use super::scratch::Scratch;

/// Computes `y = Σ_k weights[k]·inputs[k]`.
///
/// # Panics
/// If there are no inputs, not as many weights, the slices differ in length, or the CPU
/// does not have `isa`.
pub fn weighted_sum(isa: Isa, inputs: &[&[f32]], weights: &[f32], y: &mut [f32], threads: usize) {
    assert!(inputs.iter().all(|x| x.len() == y.len()), "numbers of inputs and result");
    weighted_sum_into(isa, inputs, weights, Cut::new(y, PIECE), threads);
}

/// [`weighted_sum`] into pieces of [`PIECE`] numbers.
pub(crate) fn weighted_sum_into<'a>(
    isa: Isa,
    inputs: &[&[f32]],
    weights: &[f32],
    y: impl Pieces<Piece = &'a mut [f32]>,
    asked_threads: usize,
) {
    assert_eq!(inputs.len(), weights.len(), "one weight for each input");
    let (first, rest) = inputs.split_first().expect("a sum has terms");
    let vectors = isa.vectors();
    over(y, &mut vec![(); threads(asked_threads)], |index, y, ()| {
        let range = index * PIECE..index * PIECE + y.len();
        sum::scale(vectors, weights[0], &first[range.clone()], y);
        for (x, &weight) in rest.iter().zip(&weights[1..]) {
            sum::add(vectors, weight, &x[range.clone()], y);
        }
    });
}

/// The gradient of one term of [`weighted_sum`] for the loss `Σ y·dy`: fills `dx = weight·dy` and
/// returns that of its weight, `Σ x·dy`.
///
/// The sum is taken in f64 over pieces of 4096 numbers that are summed in f32 by 32 lanes.
///
/// # Panics
/// If the slices differ in length, or the CPU does not have `isa`.
pub fn weighted_sum_gradient(
    isa: Isa,
    weight: f32,
    x: &[f32],
    dy: &[f32],
    dx: &mut [f32],
    scratch: &mut Scratch,
    threads: usize,
) -> f32 {
    assert!(x.len() == dy.len() && x.len() == dx.len(), "numbers of input and gradients");
    term_gradient_into(isa, weight, x, dy, Cut::new(dx, PIECE), scratch, threads)
}

/// [`weighted_sum_gradient`] into pieces of [`PIECE`] numbers.
pub(crate) fn term_gradient_into<'a>(
    isa: Isa,
    weight: f32,
    x: &[f32],
    dy: &[f32],
    dx: impl Pieces<Piece = &'a mut [f32]>,
    scratch: &mut Scratch,
    asked_threads: usize,
) -> f32 {
    assert_eq!(x.len(), dy.len(), "numbers of input and gradient");
    let vectors = isa.vectors();
    let sums = scratch.wide(dx.count());
    let both = (dx, Cut::new(&mut *sums, 1));
    over(both, &mut vec![(); threads(asked_threads)], |index, (dx, sum), ()| {
        let range = index * PIECE..index * PIECE + dx.len();
        let (x, dy) = (&x[range.clone()], &dy[range]);
        sum::scale(vectors, weight, dy, dx);
        sum[0] = sum::dot(vectors, x, dy);
    });
    sums.iter().sum::<f64>() as f32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(seed: usize, count: usize) -> Vec<f32> {
        (0..count).map(|i| ((i * 31 + seed * 977) as f32 * 0.618).sin()).collect()
    }

    #[test]
    fn sums_and_gradients_are_those_of_the_definition_for_any_number_of_threads() {
        for count in [1, 31, PIECE, 2 * PIECE + 77] {
            let tensors = [0, 1, 2].map(|seed| numbers(seed, count));
            let (inputs, dy) = (tensors.each_ref().map(|x| &x[..]), numbers(3, count));
            let weights = [0.25, -1.5, 0.75];
            for isa in Isa::BASES.into_iter().filter(|isa| isa.is_available()) {
                let run = |threads: usize| {
                    let mut y = vec![f32::NAN; count];
                    weighted_sum(isa, &inputs, &weights, &mut y, threads);
                    let mut dx = vec![f32::NAN; count];
                    let s = &mut Scratch::new();
                    let dw =
                        weighted_sum_gradient(isa, weights[1], inputs[1], &dy, &mut dx, s, threads);
                    (y, dx, dw)
                };
                let (y, dx, dw) = run(1);
                let wide = |v: &[f32], i: usize| f64::from(v[i]);
                for i in 0..count {
                    let right: f64 =
                        (0..3).map(|k| f64::from(weights[k]) * wide(inputs[k], i)).sum();
                    assert!((wide(&y, i) - right).abs() < 1e-6, "{isa}");
                    assert_eq!(dx[i], weights[1] * dy[i], "{isa}");
                }
                let right: f64 = (0..count).map(|i| wide(inputs[1], i) * wide(&dy, i)).sum();
                assert!((f64::from(dw) - right).abs() < 1e-4, "{isa}: {dw} {right}");
                assert_eq!(run(3), (y, dx, dw), "{isa}");
            }
        }
    }
}
