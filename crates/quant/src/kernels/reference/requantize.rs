//! Conversion of sums to int8 codes, one number at a time.

use crate::scheme::{ActivationScheme, OutputScheme};

/// The code of a sum whose step is `scale` real units.
///
/// # Panics
/// If the sum does not fit 32 bits.
pub fn code(sum: i64, scale: f64, output: OutputScheme) -> u8 {
    let factor = (scale / f64::from(output.scheme().scale())) as f32;
    bounded(i32::try_from(sum).expect("sums fit 32 bits") as f32 * factor, output)
}

/// The code of a sum whose step is `scale` real units, plus the value of another code.
///
/// # Panics
/// If the sum does not fit 32 bits.
pub fn code_plus(
    sum: i64,
    scale: f64,
    code: u8,
    of_code: ActivationScheme,
    output: OutputScheme,
) -> u8 {
    let to = f64::from(output.scheme().scale());
    let factors = [scale / to, f64::from(of_code.scale()) / to].map(|factor| factor as f32);
    let steps = f32::from(i16::from(code) - i16::from(of_code.zero_point()));
    let sum = i32::try_from(sum).expect("sums fit 32 bits") as f32;
    bounded(sum * factors[0] + steps * factors[1], output)
}

/// The code of `a + b`.
pub fn add(codes: [u8; 2], inputs: [ActivationScheme; 2], output: OutputScheme) -> u8 {
    let to = f64::from(output.scheme().scale());
    let factors = inputs.map(|input| f64::from(input.scale()) / to);
    let zeros = inputs.map(|input| f64::from(input.zero_point()));
    let offset = -(factors[0] * zeros[0] + factors[1] * zeros[1]);
    let [a, b] = codes.map(f32::from);
    bounded(a * factors[0] as f32 + b * factors[1] as f32 + offset as f32, output)
}

/// The code of the mean of `count` numbers, of which those not in `codes` are zero.
pub fn mean(codes: &[u8], count: usize, input: ActivationScheme, output: OutputScheme) -> u8 {
    let sum: i32 = codes.iter().map(|&c| i32::from(c) - i32::from(input.zero_point())).sum();
    let ratio = f64::from(input.scale()) / f64::from(output.scheme().scale());
    bounded(sum as f32 * (ratio / count as f64) as f32, output)
}

fn bounded(steps: f32, output: OutputScheme) -> u8 {
    let [least, greatest] = output.bounds().map(f64::from);
    let zero = f64::from(output.scheme().zero_point());
    (f64::from(steps).round_ties_even() + zero).clamp(least, greatest) as u8
}
