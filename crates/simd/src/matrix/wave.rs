//! Sine and cosine of vectors, of angles in turns.

use crate::Simd;

/// `[sin 2πxf, cos 2πxf]`, within 3·10⁻⁷ of the exact product `xf` up to 2²⁰ turns in size; NaN of NaN.
///
/// With the whole number `n` next to `2xf`, `r = xf − n/2` is between −1/4 and 1/4 and rounded once, on
/// processors that add to products so; both series are those of Taylor, and odd `n` change the sign.
/// Beyond 2²⁰ turns, where an f32 says little of an angle, the results are some numbers from −1 to 1.
#[inline(always)]
pub fn wave<S: Simd>(simd: S, x: S::Vector, f: S::Vector) -> [S::Vector; 2] {
    /// `(−1)ᵏ (2π)²ᵏ⁺¹ / (2k + 1)!` of falling `k`.
    const SINE: [f32; 6] = [-15.094_643, 42.058_693, -76.705_86, 81.605_25, -41.341_7, 6.283_185_5];
    /// `(−1)ᵏ (2π)²ᵏ / (2k)!` of falling `k`.
    const COSINE: [f32; 7] =
        [7.903_536_3, -26.426_256, 60.244_64, -85.456_82, 64.939_39, -19.739_208, 1.0];

    let (half, quarter) = (simd.splat(0.5), simd.splat(0.25));
    let halves = simd.multiply_add(half, simd.multiply(x, f), simd.splat(2.0));
    let n = simd.floor(halves);
    let r = simd.multiply_add(simd.multiply(n, simd.splat(-0.5)), x, f);
    // Not the other order, which would lose NaN.
    let r = simd.larger(simd.subtract(simd.zero(), quarter), simd.smaller(quarter, r));
    let square = simd.multiply(r, r);
    let (mut sine, mut cosine) = (simd.splat(SINE[0]), simd.splat(COSINE[0]));
    for &term in &SINE[1..] {
        sine = simd.multiply_add(simd.splat(term), sine, square);
    }
    for &term in &COSINE[1..] {
        cosine = simd.multiply_add(simd.splat(term), cosine, square);
    }
    let pairs = simd.floor(simd.multiply(n, half));
    let odd = simd.multiply_add(n, pairs, simd.splat(-2.0));
    let odd = simd.larger(simd.zero(), simd.smaller(simd.splat(1.0), odd));
    let sign = simd.multiply_add(simd.splat(1.0), odd, simd.splat(-2.0));
    [simd.multiply(simd.multiply(sine, r), sign), simd.multiply(cosine, sign)]
}

#[cfg(test)]
mod tests {
    use std::f64::consts::TAU;

    use super::*;
    use crate::{Isa, Kernel};

    struct Of(f32, f32);

    impl Kernel for Of {
        type Output = [f32; 2];

        #[inline(always)]
        fn run<S: Simd>(self, simd: S) -> [f32; 2] {
            wave(simd, simd.splat(self.0), simd.splat(self.1)).map(|all| {
                let mut lane = [0.0];
                simd.write(&mut lane, all);
                lane[0]
            })
        }
    }

    fn of(isa: Isa, x: f32, f: f32) -> [f32; 2] {
        isa.vectors().run(Of(x, f))
    }

    #[test]
    fn waves_are_those_of_the_exact_product_for_every_instruction_set() {
        for isa in Isa::BASES.into_iter().filter(|isa| isa.is_available()) {
            // Without one rounding of the product, its error counts 2π times.
            let rounding = if isa == Isa::Portable { TAU * f64::from(f32::EPSILON) } else { 0.0 };
            for step in -4000..=4000 {
                for f in [0.013, 0.37, 1.0, 3.1] {
                    let x = step as f32 * 0.0031;
                    let turns = f64::from(x) * f64::from(f);
                    let (sine, cosine) = (turns * TAU).sin_cos();
                    let limit = 3e-7 + rounding * turns.abs();
                    for (found, expected) in of(isa, x, f).into_iter().zip([sine, cosine]) {
                        let error = (f64::from(found) - expected).abs();
                        assert!(error <= limit, "{isa}: {x}·{f}: {error}");
                    }
                }
            }
        }
    }

    #[test]
    fn quarters_of_a_turn_are_exact_in_sine_and_what_is_no_angle_stays_no_number() {
        for isa in Isa::BASES.into_iter().filter(|isa| isa.is_available()) {
            for whole in [-1_000_000.0, -7.0, 0.0, 5.0, 1_000_000.0] {
                let [sine, cosine] = of(isa, whole, 1.0);
                assert!(sine == 0.0 && cosine == 1.0, "{isa}: {whole}");
                let [sine, cosine] = of(isa, whole + 0.5, 1.0);
                assert!(sine == 0.0 && cosine == -1.0, "{isa}: {whole} and a half");
            }
            assert!(of(isa, f32::NAN, 1.0).iter().all(|number| number.is_nan()), "{isa}");
            for huge in [1e9, -1e30, f32::MAX] {
                let all = of(isa, huge, 2.0);
                assert!(all.iter().all(|n| n.is_nan() || n.abs() <= 1.0 + 1e-6), "{isa}: {all:?}");
            }
        }
    }
}
