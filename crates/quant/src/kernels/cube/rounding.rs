//! The conversion of sums to codes with the bits of IEEE 754, by operations on integers.
//!
//! Shaders may fuse a product with an addition and may round f32 in either direction, and then some
//! codes would differ. Numbers of f32 are here their bits: zero, or normal numbers, which is all
//! that occurs below factors of 2⁶⁴. Numbers below 2⁻¹²⁶ are zero, which changes no code.

use cubecl::prelude::*;

use super::reason::DeviceReason;
use crate::scheme::OutputScheme;

/// Factors from here on could overflow f32.
const LARGEST: f32 = 18_446_744_073_709_551_616.0;

const SIGN: u32 = 0x8000_0000;
/// The bits of a mantissa but the first, and the first.
const FRACTION: u32 = 0x007F_FFFF;
const FIRST: u32 = 0x0080_0000;

/// The zero point of the output, and the codes that its bounds are.
#[derive(CubeType, CubeLaunch, Clone)]
#[expand(derive(Clone))]
pub(super) struct Bounds {
    zero: i32,
    least: i32,
    greatest: i32,
}

/// The zero point of codes that are added, and the bits of their factor.
#[derive(CubeType, CubeLaunch, Clone)]
#[expand(derive(Clone))]
pub(super) struct Plus {
    zero: i32,
    factor: u32,
}

/// The bounds of an output as an argument of kernels.
pub(super) fn bounds(output: OutputScheme) -> BoundsLaunch {
    let [least, greatest] = output.bounds();
    BoundsLaunch::new(output.scheme().zero_point().into(), least.into(), greatest.into())
}

/// The zero point and the bits of the factor of added codes as an argument of kernels.
pub(super) fn plus((zero, factor): (i32, u32)) -> PlusLaunch {
    PlusLaunch::new(zero, factor)
}

/// The bits of a factor as kernels read them.
pub(super) fn factor_bits(factor: f32) -> Result<u32, DeviceReason> {
    match factor {
        _ if factor.is_nan() || factor >= LARGEST => Err(DeviceReason::Factor { factor }),
        // Times any sum it is below half a step.
        _ if factor < f32::MIN_POSITIVE => Ok(0),
        _ => Ok(factor.to_bits()),
    }
}

/// `kept`, or the next number if `rest`, the `cut` bits after it, is more than a half, or is one and
/// `kept` is odd.
#[cube]
fn nearest(kept: u32, rest: u32, cut: u32) -> u32 {
    select(rest * 2u32 + (kept & 1u32) > (1u32 << cut), kept + 1u32, kept)
}

/// `sum as f32 · factor`.
#[cube]
pub(super) fn multiplied(sum: i32, factor: u32) -> u32 {
    let bits = u32::reinterpret(sum);
    let sign = bits & SIGN;
    let size = select(sign == 0u32, bits, 0u32 - bits);
    // To 24 bits.
    let cut = 8u32 - min(size.leading_zeros(), 8u32);
    let number = nearest(size >> cut, size & ((1u32 << cut) - 1u32), cut);
    let mantissa = (factor & FRACTION) | FIRST;
    let low = number * mantissa;
    let high = number.mul_hi(mantissa);
    let zeros = select(high == 0u32, 32u32 + low.leading_zeros(), high.leading_zeros());
    // The product of 24 to 48 bits, to 24 again.
    let excess = 40u32 - min(zeros, 40u32);
    let kept = (high << ((32u32 - excess) & 31u32)) | (low >> excess);
    let rounded = nearest(kept, low & ((1u32 << excess) - 1u32), excess);
    // The first bit of the mantissa adds one to the exponent.
    let exponent = (factor >> 23u32) + cut + excess - 1u32;
    let product = sign | ((exponent << 23u32) + rounded);
    select(size == 0u32 || factor == 0u32, 0u32, product)
}

/// `a + b`.
#[cube]
pub(super) fn added(a: u32, b: u32) -> u32 {
    let is_first = (a & 0x7FFF_FFFFu32) >= (b & 0x7FFF_FFFFu32);
    let large = select(is_first, a, b);
    let small = select(is_first, b, a);
    let exponent = (large >> 23u32) & 255u32;
    let distance = min(exponent - ((small >> 23u32) & 255u32), 31u32);
    // Three more bits, the last of which is set if any beyond it is.
    let whole = mantissa_of(large) << 3u32;
    let part = mantissa_of(small) << 3u32;
    let lost = part & ((1u32 << distance) - 1u32);
    let part = (part >> distance) | min(lost, 1u32);
    let total = select((a ^ b) & SIGN == 0u32, whole + part, whole - part);
    let length = 32u32 - total.leading_zeros();
    let cut = max(length, 24u32) - 24u32;
    let rounded = nearest(total >> cut, total & ((1u32 << cut) - 1u32), cut);
    let mantissa = rounded << (24u32 - min(length, 24u32));
    let sum = (large & SIGN) | (((exponent + length - 28u32) << 23u32) + mantissa);
    select(total == 0u32 || exponent + length < 28u32, 0u32, sum)
}

/// The mantissa of a number with its first bit.
#[cube]
fn mantissa_of(number: u32) -> u32 {
    select((number >> 23u32) & 255u32 == 0u32, 0u32, (number & FRACTION) | FIRST)
}

/// The code of a number of steps: rounded, halves to even, within the bounds.
#[cube]
pub(super) fn code(number: u32, bounds: &Bounds) -> u32 {
    let exponent = (number >> 23u32) & 255u32;
    // From 1/2 to below 512; what is smaller is 0, and what is larger beyond all codes.
    let cut = 150u32 - max(min(exponent, 135u32), 126u32);
    let mantissa = (number & FRACTION) | FIRST;
    let whole = nearest(mantissa >> cut, mantissa & ((1u32 << cut) - 1u32), cut);
    let whole = select(exponent < 126u32, 0u32, select(exponent > 135u32, 512u32, whole));
    let size = i32::cast_from(whole);
    let steps = select(number & SIGN == 0u32, size, 0i32 - size);
    u32::cast_from(max(min(steps + bounds.zero, bounds.greatest), bounds.least))
}

/// The code of `sum · factor`, or of `sum · factor + (code − zero)·factor` with the code of another
/// tensor in the same byte of `others`, in byte `lane` of a word.
#[cube]
pub(super) fn finished(
    sum: i32,
    factor: u32,
    others: u32,
    plus: &Plus,
    bounds: &Bounds,
    #[comptime] is_summed: bool,
    #[comptime] lane: u32,
) -> u32 {
    let mut number = multiplied(sum, factor);
    if comptime!(is_summed) {
        let steps = i32::cast_from((others >> comptime!(8 * lane)) & 255u32) - plus.zero;
        let other = multiplied(steps, plus.factor);
        number = added(number, other);
    }
    code(number, bounds) << comptime!(8 * lane)
}

#[cfg(test)]
mod tests {
    use super::super::on_devices::{on_each, words};
    use super::super::tiles::{cubes, unit_index, units};
    use super::super::words::Words;
    use super::*;
    use crate::scheme::ActivationScheme;
    use updraft_simd::Clamp;

    #[cube(launch)]
    fn conversions(
        sums: &[u32],
        factors: &[u32],
        steps: &[u32],
        more: &[u32],
        y: &mut [u32],
        bounds: Bounds,
        all: u32,
    ) {
        let at = unit_index();
        if at < all {
            let product = multiplied(i32::reinterpret(sums[at as usize]), factors[at as usize]);
            let other = multiplied(i32::reinterpret(steps[at as usize]), more[at as usize]);
            let sum = added(product, other);
            y[at as usize] = product;
            y[(all + at) as usize] = sum;
            y[(2u32 * all + at) as usize] = code(product, &bounds) | (code(sum, &bounds) << 8u32);
        }
    }

    /// Sums around powers of two, where they are rounded, and others of every size.
    fn sums(count: usize) -> Vec<i32> {
        let near = (0..31).flat_map(|bit| (-3..4).map(move |by| (1_i64 << bit) + by));
        let near = near.chain([i64::from(i32::MAX), i64::from(i32::MAX) - 64]);
        let near = near.flat_map(|sum| [sum, -sum]).chain([i64::from(i32::MIN)]);
        let near = near.filter_map(|sum| i32::try_from(sum).ok());
        let all = words(1, count).into_iter().enumerate();
        near.chain(all.map(|(at, word)| (word as i32) >> (at % 31))).take(count).collect()
    }

    #[test]
    fn every_number_has_the_bits_of_ieee_754() {
        const COUNT: usize = 1 << 14;
        let sums = sums(COUNT);
        // Exact powers, whose products have halves, and factors of any mantissa.
        let of = |seed: u32, low: i32, high: i32| -> Vec<f32> {
            let factor = |(at, word): (usize, u32)| {
                let exponent = low + (word >> 24) as i32 % (high - low);
                let fraction = if at % 3 == 0 { 0 } else { word & FRACTION };
                f32::from_bits((((127 + exponent) as u32) << 23) | fraction)
            };
            words(seed, COUNT).into_iter().enumerate().map(factor).collect()
        };
        let (factors, more) = (of(2, -34, 3), of(3, -10, 6));
        let steps: Vec<i32> =
            words(4, COUNT).into_iter().map(|word| (word % 511) as i32 - 255).collect();
        let scheme = ActivationScheme::try_new(1.0, 117).expect("valid");
        for output in [OutputScheme::new(scheme), OutputScheme::clipped(scheme, -7.0, 99.0)] {
            let [least, greatest] = output.bounds();
            let clamp = Clamp::new(117, least, greatest);
            on_each(|client| {
                let signed = |numbers: &[i32]| -> Words {
                    let words: Vec<u32> = numbers.iter().map(|&it| it as u32).collect();
                    Words::upload(client, &words)
                };
                let real = |numbers: &[f32]| -> Words {
                    let words: Vec<u32> =
                        numbers.iter().map(|&factor| factor_bits(factor).expect("small")).collect();
                    Words::upload(client, &words)
                };
                let y = Words::empty(client, 3 * COUNT);
                conversions::launch(
                    client,
                    cubes(COUNT),
                    units(),
                    signed(&sums).arg(),
                    real(&factors).arg(),
                    signed(&steps).arg(),
                    real(&more).arg(),
                    y.arg(),
                    bounds(output),
                    COUNT as u32,
                );
                let y = y.read(client).expect("the device works");
                for at in 0..COUNT {
                    let product = sums[at] as f32 * factors[at];
                    let sum = product + steps[at] as f32 * more[at];
                    let case = (sums[at], factors[at], steps[at], more[at]);
                    assert_eq!(f32::from_bits(y[at]), product, "{case:?}");
                    assert_eq!(f32::from_bits(y[COUNT + at]), sum, "{case:?}");
                    let codes = [clamp.apply(product), clamp.apply(sum)].map(u32::from);
                    assert_eq!(y[2 * COUNT + at], codes[0] | codes[1] << 8, "{case:?}");
                }
            });
        }
    }

    #[test]
    fn factors_that_could_overflow_are_refused_and_tiny_ones_are_zero() {
        for factor in [f32::NAN, f32::INFINITY, LARGEST] {
            assert!(matches!(factor_bits(factor), Err(DeviceReason::Factor { .. })), "{factor}");
        }
        assert_eq!(factor_bits(1e-40), Ok(0));
        assert_eq!(factor_bits(0.5), Ok(0.5_f32.to_bits()));
    }
}
