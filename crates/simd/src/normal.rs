//! Constants of the normal distribution, for the Gaussian error linear units of several crates.

/// The density at 0, `1/√(2π)`.
pub const DENSITY_AT_0: f32 = 0.398_942_3;

/// The ratio of Mills, `Φ(−x)/φ(x)` for `x ≥ 0`, as a polynomial of `t = 1/(1 + slope·x)`, highest
/// power first: fitted for the smallest relative error, 6.5·10⁻⁸, of `x` up to 14.
pub const MILLS_RATIO: [f32; 9] = [
    0.096_412_54,
    -0.474_413_25,
    0.752_493_1,
    -0.366_679_75,
    0.460_586_84,
    0.192_870_21,
    0.303_359_57,
    0.288_624_1,
    6.067_957_4e-5,
];

/// The slope of [`MILLS_RATIO`].
pub const MILLS_SLOPE: f32 = 0.29;
