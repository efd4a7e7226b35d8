//! Numbers rounded to the codes of a quantization and back, with gradients of numbers and steps.

use updraft_simd::{Cut, Isa, Pieces, dispatch, over, threads};

use super::activation::PIECE;
use crate::kernels::norm::plane;
use crate::kernels::scratch::Scratch;

/// The codes `lowest..=lowest + levels` of a quantization, and the numbers of each step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Codes {
    pub(crate) lowest: f32,
    pub(crate) levels: f32,
    /// Consecutive numbers that have one step; with a single step that of all of them.
    pub(crate) each: usize,
}

impl Codes {
    /// The codes of a tensor whose first axis is that of the steps, if there are several.
    #[cfg(feature = "flex")]
    pub(crate) fn of(dims: &[usize], lowest: &[f32], levels: u32) -> Self {
        let each = dims.iter().skip(1).product();
        Self { lowest: lowest[0], levels: levels as f32, each }
    }

    /// Numbers that one thread computes at a time: of one step only.
    pub(crate) fn piece(&self, steps: usize) -> usize {
        if steps == 1 { PIECE } else { self.each.max(1) }
    }
}

/// Computes `y = code(x)·step` into pieces of [`Codes::piece`] numbers.
///
/// `code(x)` is `x/step`, rounded to even and clipped.
pub(crate) fn fake_quantize_into<'a>(
    isa: Isa,
    codes: Codes,
    steps: &[f32],
    x: &[f32],
    y: impl Pieces<Piece = &'a mut [f32]>,
    asked_threads: usize,
) {
    let vectors = isa.vectors();
    let piece = codes.piece(steps.len());
    over(y, &mut vec![(); threads(asked_threads)], |index, y, ()| {
        let step = if steps.len() == 1 { steps[0] } else { steps[index] };
        rounded(vectors, [step, codes.lowest, codes.levels], &x[index * piece..][..y.len()], y);
    });
}

/// The gradients of [`fake_quantize_into`] from its input: fills `dx` in pieces and `dsteps`.
///
/// `dx` is `dy` where the code is not clipped, else 0. The gradient of a step sums
/// `dy·(code − x/step)` where it is not clipped and `dy·code` where it is, in f64 over pieces that
/// are summed in f32 by 32 lanes.
///
/// # Source
/// Esser et al. 2020, arXiv:1902.08153, equations 3 and 5.
#[expect(clippy::too_many_arguments, reason = "what a gradient is computed from")]
pub(crate) fn fake_quantize_gradient_into<'a>(
    isa: Isa,
    codes: Codes,
    steps: &[f32],
    [x, dy]: [&[f32]; 2],
    dx: impl Pieces<Piece = &'a mut [f32]>,
    dsteps: &mut [f32],
    scratch: &mut Scratch,
    asked_threads: usize,
) {
    let vectors = isa.vectors();
    let piece = codes.piece(steps.len());
    let sums = scratch.wide(dx.count());
    let both = (dx, Cut::new(&mut *sums, 1));
    over(both, &mut vec![(); threads(asked_threads)], |index, (dx, sum), ()| {
        let step = if steps.len() == 1 { steps[0] } else { steps[index] };
        let range = index * piece..index * piece + dx.len();
        let by = [step, codes.lowest, codes.levels];
        sum[0] = passed(vectors, by, &x[range.clone()], &dy[range], dx);
    });
    if let [dstep] = dsteps {
        *dstep = sums.iter().sum::<f64>() as f32;
    } else {
        dsteps.iter_mut().zip(&*sums).for_each(|(dstep, &sum)| *dstep = sum as f32);
    }
}

/// Adding it rounds numbers below 2²² to integers, ties to even.
const ROUNDER: f32 = 12_582_912.0;

/// Levels above the lowest code, not rounded and not clipped.
#[inline(always)]
fn level(x: f32, step: f32, lowest: f32) -> f32 {
    x / step - lowest
}

#[inline(always)]
fn clipped(level: f32, levels: f32) -> f32 {
    // Not `clamp`, which branches; NaN passes the comparisons.
    let level = if level < 0.0 { 0.0 } else { level };
    if level > levels { levels } else { level }
}

#[inline(always)]
fn round(level: f32) -> f32 {
    (level + ROUNDER) - ROUNDER
}

dispatch! {
    fn rounded(_simd, by: [f32; 3], x: &[f32], y: &mut [f32]) {
        let [step, lowest, levels] = by;
        for (&x, y) in x.iter().zip(y) {
            *y = (round(clipped(level(x, step, lowest), levels)) + lowest) * step;
        }
    }

    fn passed(_simd, by: [f32; 3], x: &[f32], dy: &[f32], dx: &mut [f32]) -> f64 {
        let [step, lowest, levels] = by;
        for ((&x, &dy), dx) in x.iter().zip(dy).zip(dx) {
            let level = level(x, step, lowest);
            let above = if level > levels { 0.0 } else { dy };
            *dx = if level < 0.0 { 0.0 } else { above };
        }
        let [sum] = plane::sums([x, dy], |[x, dy]| {
            let level = level(x, step, lowest);
            let clipped = clipped(level, levels);
            // A clipped level is whole: it differs from its code by nothing.
            let rest = if clipped == level { level } else { -lowest };
            [dy * (round(clipped) - rest)]
        });
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(seed: usize, count: usize) -> Vec<f32> {
        (0..count).map(|i| ((i * 31 + seed * 977) as f32 * 0.618).sin() * 2.0).collect()
    }

    /// Value, slope and the gradient of the step in f64, by the equations of the paper.
    fn reference(x: f32, step: f32, codes: Codes) -> [f64; 3] {
        let (lowest, step) = (f64::from(codes.lowest), f64::from(step));
        let greatest = lowest + f64::from(codes.levels);
        let v = f64::from(x) / step;
        let code = v.round_ties_even().clamp(lowest, greatest);
        if v < lowest || v > greatest {
            return [code * step, 0.0, code];
        }
        [code * step, 1.0, code - v]
    }

    #[test]
    fn values_and_gradients_are_those_of_the_paper_for_any_number_of_threads() {
        let per_tensor = |count| (vec![0.011_f32], count);
        let per_channel = |count: usize| ((0..7).map(|c| 0.07 + 0.05 * c as f32).collect(), count);
        let cases = [
            (per_tensor(1), [-128.0, 255.0]),
            (per_tensor(PIECE + 77), [-30.0, 255.0]),
            (per_tensor(3 * PIECE), [0.0, 255.0]),
            (per_channel(7 * 9), [-7.0, 14.0]),
            (per_channel(7 * 111), [-127.0, 254.0]),
        ];
        for ((steps, count), [lowest, levels]) in cases {
            let codes = Codes { lowest, levels, each: count / steps.len() };
            let (x, dy) = (numbers(1, count), numbers(2, count));
            for isa in Isa::BASES.into_iter().filter(|isa| isa.is_available()) {
                let run = |threads: usize| {
                    let (mut y, mut dx) = (vec![f32::NAN; count], vec![f32::NAN; count]);
                    let mut dsteps = vec![f32::NAN; steps.len()];
                    let piece = codes.piece(steps.len());
                    fake_quantize_into(isa, codes, &steps, &x, Cut::new(&mut y, piece), threads);
                    fake_quantize_gradient_into(
                        isa,
                        codes,
                        &steps,
                        [&x, &dy],
                        Cut::new(&mut dx, piece),
                        &mut dsteps,
                        &mut Scratch::new(),
                        threads,
                    );
                    (y, dx, dsteps)
                };
                let (y, dx, dsteps) = run(1);
                let mut right = vec![0.0; steps.len()];
                for i in 0..count {
                    let channel = if steps.len() == 1 { 0 } else { i / codes.each };
                    let [value, slope, of_step] = reference(x[i], steps[channel], codes);
                    assert!((f64::from(y[i]) - value).abs() < 1e-6, "{isa} {i}");
                    assert_eq!(f64::from(dx[i]), slope * f64::from(dy[i]), "{isa} {i}");
                    right[channel] += f64::from(dy[i]) * of_step;
                }
                for (given, right) in dsteps.iter().zip(&right) {
                    let error = (f64::from(*given) - right).abs();
                    assert!(error < 1e-3 * right.abs().max(1.0), "{isa}: {given} {right}");
                }
                assert_eq!(run(3), (y, dx, dsteps), "{isa}");
            }
        }
    }

    #[test]
    fn codes_are_their_own_result_and_halves_go_to_even() {
        let codes = Codes { lowest: -8.0, levels: 15.0, each: 6 };
        let x = [-4.0, 0.25, 0.75, 1.25, 3.5, 99.0];
        for isa in Isa::BASES.into_iter().filter(|isa| isa.is_available()) {
            let mut y = [f32::NAN; 6];
            fake_quantize_into(isa, codes, &[0.5], &x, Cut::new(&mut y, PIECE), 1);
            assert_eq!(y, [-4.0, 0.0, 1.0, 1.0, 3.5, 3.5], "{isa}");
        }
    }
}
