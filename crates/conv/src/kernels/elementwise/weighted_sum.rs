//! Weighted sums of whole tensors, as gates between feature maps compute.

use updraft_simd::{Cut, Isa, Pieces, dispatch, over, threads};

use super::activation::PIECE;
use crate::kernels::norm::plane;
use crate::kernels::scratch::Scratch;

/// Computes `y = Σ_k weights[k]·inputs[k]` into pieces of [`PIECE`] numbers.
///
/// # Panics
/// If there are no inputs, not as many weights, or the CPU does not have `isa`.
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
        scale(vectors, weights[0], &first[range.clone()], y);
        for (x, &weight) in rest.iter().zip(&weights[1..]) {
            add(vectors, weight, &x[range.clone()], y);
        }
    });
}

/// The gradient of one term of [`weighted_sum_into`] for the loss `Σ y·dy`: fills `dx = weight·dy`
/// and returns that of its weight, `Σ x·dy`.
///
/// The sum is taken in f64 over pieces of 4096 numbers that are summed in f32 by 32 lanes.
///
/// # Panics
/// If the slices differ in length, or the CPU does not have `isa`.
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
        scale(vectors, weight, dy, dx);
        sum[0] = dot(vectors, x, dy);
    });
    sums.iter().sum::<f64>() as f32
}

dispatch! {
    /// `y = weight·x`.
    fn scale(_simd, weight: f32, x: &[f32], y: &mut [f32]) {
        for (&x, y) in x.iter().zip(y) {
            *y = weight * x;
        }
    }

    /// `y += weight·x`.
    fn add(_simd, weight: f32, x: &[f32], y: &mut [f32]) {
        for (&x, y) in x.iter().zip(y) {
            *y += weight * x;
        }
    }

    /// `Σ a·b`, lane by lane in f32, then the lanes in f64.
    fn dot(_simd, a: &[f32], b: &[f32]) -> f64 {
        let [sum] = plane::sums([a, b], |[a, b]| [a * b]);
        sum
    }
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
                    weighted_sum_into(isa, &inputs, &weights, Cut::new(&mut y, PIECE), threads);
                    let mut dx = vec![f32::NAN; count];
                    let s = &mut Scratch::new();
                    let pieces = Cut::new(&mut dx, PIECE);
                    let dw =
                        term_gradient_into(isa, weights[1], inputs[1], &dy, pieces, s, threads);
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
