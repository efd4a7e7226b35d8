//! Ranges that clip: by count, by information, by error.

use super::histogram::Histogram;
use crate::scheme::ActivationScheme;

/// Ranges that are tried: equal steps of their furthest end from zero.
const STEPS: u32 = 128;

/// The largest share of the non-zero numbers that a range clips. Without a bound, a range that
/// leaves nearly nothing would represent the rest exactly, at no cost.
const MOST_CUT: f64 = 0.01;

/// The range of the middle `fraction` of all numbers.
pub(super) fn percentile(
    histogram: &Histogram,
    [low, high]: [f32; 2],
    count: u64,
    fraction: f64,
) -> [f32; 2] {
    let outside = (1.0 - fraction) / 2.0 * count as f64;
    let [mut least, mut most] = [f64::from(low), f64::from(high)];
    let mut below = 0.0;
    for ([from, to], bin) in histogram.bins() {
        let bin = bin as f64;
        let place = |target: f64| from + (to - from) * (target - below) / bin;
        if below <= outside && outside < below + bin {
            least = least.max(place(outside));
        }
        let from_above = count as f64 - outside;
        if below < from_above && from_above <= below + bin {
            most = most.min(place(from_above));
        }
        below += bin;
    }
    [least as f32, most as f32]
}

/// Of the ranges that end at one distance from zero, the one of lowest cost; of equal ones the
/// widest.
pub(super) fn best(
    histogram: &Histogram,
    [low, high]: [f32; 2],
    cost: impl Fn(&[Bin], ActivationScheme) -> f64,
) -> [f32; 2] {
    // Zero has an exact code in every scheme, so that it does not change the cost of a range.
    let bins: Vec<Bin> = histogram
        .bins()
        .filter(|([from, to], _)| from < to)
        .map(|([from, to], count)| {
            let middle = ((from + to) / 2.0) as f32;
            Bin { middle: middle.clamp(low, high), count: count as f64 }
        })
        .collect();
    let candidates = (1..=STEPS).rev().filter_map(|step| {
        let furthest = low.abs().max(high.abs()) * (step as f32 / STEPS as f32);
        let range = [low.max(-furthest), high.min(furthest)];
        let scheme = ActivationScheme::try_from_range(range[0], range[1]).ok()?;
        Some((range, cost(&bins, scheme)))
    });
    let better = |best: ([f32; 2], f64), next: ([f32; 2], f64)| {
        if next.1 < best.1 { next } else { best }
    };
    candidates.reduce(better).map_or([low, high], |(range, _)| range)
}

/// Numbers that share a code.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bin {
    middle: f32,
    count: f64,
}

/// The sum of squared errors.
pub(super) fn squared_error(bins: &[Bin], scheme: ActivationScheme) -> f64 {
    let error =
        |bin: &Bin| f64::from(bin.middle) - f64::from(real(scheme, steps(scheme, bin.middle)));
    bins.iter().map(|bin| bin.count * error(bin).powi(2)).sum()
}

/// The divergence `Σ p·ln(p/q)` of the numbers, cut to the range, from what their codes represent.
///
/// A code has the count of its numbers, not their distribution over its bins: they are assumed to
/// be spread evenly over the non-empty bins. Numbers outside the range are counted at its end
/// in `p`, and missing from `q`; a range that clips more than one in a hundred is not considered.
///
/// The caller excludes zeros. In a rectified tensor they are half of all numbers or
/// more, in a single bin; the code of zero would spread them over all bins that it covers, and the
/// range would shrink until it covers one, no matter how many numbers that clips.
///
/// # Source
/// Migacz 2017, 8-bit Inference with `TensorRT`, GTC; here for ranges on both sides of zero, with
/// 256 codes. The authors' later code does not use the bin of zero either: it uses its neighbor's
/// count instead (`pytorch-quantization`, `calib/histogram.py`).
pub(super) fn divergence(bins: &[Bin], scheme: ActivationScheme) -> f64 {
    let [low, high] = scheme.range();
    let inside = |bin: &Bin| low <= bin.middle && bin.middle <= high;
    let first = bins.iter().position(inside);
    let (Some(first), Some(last)) = (first, bins.iter().rposition(inside)) else {
        return f64::INFINITY;
    };
    let total: f64 = bins.iter().map(|bin| bin.count).sum();
    let kept: f64 = bins[first..=last].iter().map(|bin| bin.count).sum();
    if kept < (1.0 - MOST_CUT) * total {
        return f64::INFINITY;
    }
    let below: f64 = bins[..first].iter().map(|bin| bin.count).sum();
    let above: f64 = bins[last + 1..].iter().map(|bin| bin.count).sum();
    let mut sum = 0.0;
    let mut at = first;
    while at <= last {
        let code = steps(scheme, bins[at].middle);
        let of_code = bins[at..=last].iter().take_while(|bin| steps(scheme, bin.middle) == code);
        let (count, bins_of_code) =
            of_code.fold((0.0, 0), |(count, bins), bin| (count + bin.count, bins + 1));
        let q = count / f64::from(bins_of_code) / kept;
        for (index, bin) in bins.iter().enumerate().skip(at).take(bins_of_code as usize) {
            let mut p = bin.count;
            if index == first {
                p += below;
            }
            if index == last {
                p += above;
            }
            let p = p / total;
            sum += p * (p / q).ln();
        }
        at += bins_of_code as usize;
    }
    sum
}

/// The code of a number, as a float.
fn steps(scheme: ActivationScheme, value: f32) -> f32 {
    let zero = f32::from(scheme.zero_point());
    (value / scheme.scale()).round_ties_even().clamp(-zero, 255.0 - zero)
}

fn real(scheme: ActivationScheme, steps: f32) -> f32 {
    steps * scheme.scale()
}
