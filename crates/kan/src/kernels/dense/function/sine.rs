//! Sine and cosine of vectors.

use updraft_simd::{MAX_LANES, Simd};

/// Beyond it, parts of π/2 times their count are not exact, and each number is computed in f64.
const LIMIT: f32 = 8192.0;

/// `[sin(x), cos(x)]` within 2·10⁻⁷; NaN of infinity.
#[inline(always)]
pub(super) fn sine_and_cosine<S: Simd>(simd: S, x: S::Vector) -> [S::Vector; 2] {
    let size = simd.larger(x, simd.subtract(simd.zero(), x));
    let is_large = simd.where_below([size, simd.splat(LIMIT)], simd.zero(), simd.splat(1.0));
    let both = of_small(simd, x);
    if simd.is_zero(is_large) { both } else { of_large(simd, x, both) }
}

/// `x` is `n·π/2 + r` with the whole number `n` and `|r| ≤ π/4`, where the series of Taylor are
/// within 3·10⁻⁸.
#[inline(always)]
fn of_small<S: Simd>(simd: S, x: S::Vector) -> [S::Vector; 2] {
    /// `π/2` in parts: products of the first two with whole numbers to 2¹³ are exact.
    const PARTS: [f32; 3] = [1.570_312_5, 4.837_513e-4, 7.549_79e-8];
    /// From the highest power of `r²`.
    const SINE: [f32; 4] = [1.0 / 362_880.0, -1.0 / 5040.0, 1.0 / 120.0, -1.0 / 6.0];
    const COSINE: [f32; 4] = [1.0 / 40_320.0, -1.0 / 720.0, 1.0 / 24.0, -0.5];

    let half = simd.splat(0.5);
    let quarters = simd.splat(std::f32::consts::FRAC_2_PI);
    let n = simd.floor(simd.multiply_add(half, x, quarters));
    let mut r = x;
    for part in PARTS {
        r = simd.multiply_add(r, n, simd.splat(-part));
    }
    let squared = simd.multiply(r, r);
    let series = |terms: [f32; 4]| {
        let mut sum = simd.splat(terms[0]);
        for &term in &terms[1..] {
            sum = simd.multiply_add(simd.splat(term), sum, squared);
        }
        simd.multiply(sum, squared)
    };
    let sine = simd.multiply_add(r, r, series(SINE));
    let cosine = simd.add(simd.splat(1.0), series(COSINE));

    // The quarter of the circle, 0 to 3, and whether it is odd.
    let fours = simd.floor(simd.multiply(n, simd.splat(0.25)));
    let quarter = simd.multiply_add(n, fours, simd.splat(-4.0));
    let twos = simd.floor(simd.multiply(quarter, half));
    let odd = simd.multiply_add(quarter, twos, simd.splat(-2.0));
    let [sine, cosine] =
        [simd.where_below([half, odd], cosine, sine), simd.where_below([half, odd], sine, cosine)];
    let opposite = |vector| simd.subtract(simd.zero(), vector);
    let middle = simd.subtract(quarter, simd.splat(1.5));
    let from_middle = simd.larger(middle, opposite(middle));
    [
        simd.where_below([simd.splat(1.5), quarter], opposite(sine), sine),
        simd.where_below([from_middle, simd.splat(1.0)], opposite(cosine), cosine),
    ]
}

/// Replaces what is not of small numbers; the rest must not depend on the numbers beside it.
#[cold]
#[inline(never)]
fn of_large<S: Simd>(simd: S, x: S::Vector, both: [S::Vector; 2]) -> [S::Vector; 2] {
    let [mut numbers, mut sines, mut cosines] = [[0.0_f32; MAX_LANES]; 3];
    let [sine, cosine] = both;
    for (to, vector) in [(&mut numbers, x), (&mut sines, sine), (&mut cosines, cosine)] {
        simd.write(&mut to[..S::LANES], vector);
    }
    for (number, both) in numbers.iter().zip(sines.iter_mut().zip(&mut cosines)) {
        let is_small = number.abs() < LIMIT;
        if !is_small {
            let (sine, cosine) = f64::from(*number).sin_cos();
            (*both.0, *both.1) = (sine as f32, cosine as f32);
        }
    }
    [sines, cosines].map(|numbers| simd.read(&numbers[..S::LANES]))
}
