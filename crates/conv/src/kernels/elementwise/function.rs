//! The activations on vectors.

use updraft_simd::dispatch;
use updraft_simd::normal::{DENSITY_AT_0, MILLS_RATIO, MILLS_SLOPE};

use super::activation::Activation;

/// The value of an activation, and the gradient through it.
pub(in crate::kernels) trait Function: Copy {
    fn value(self, z: f32) -> f32;

    /// `dy` times the slope at `z`.
    fn pass(self, z: f32, dy: f32) -> f32;
}

#[derive(Clone, Copy)]
pub(in crate::kernels) struct Identity;

#[derive(Clone, Copy)]
pub(in crate::kernels) struct Relu;

#[derive(Clone, Copy)]
pub(in crate::kernels) struct Silu;

#[derive(Clone, Copy)]
pub(in crate::kernels) struct Elu;

impl Function for Identity {
    #[inline(always)]
    fn value(self, z: f32) -> f32 {
        z
    }

    #[inline(always)]
    fn pass(self, _z: f32, dy: f32) -> f32 {
        dy
    }
}

impl Function for Relu {
    #[inline(always)]
    fn value(self, z: f32) -> f32 {
        // Not `max`, which would turn NaN into 0.
        if z <= 0.0 { 0.0 } else { z }
    }

    /// NaN passes, as it does in the forward pass.
    #[inline(always)]
    fn pass(self, z: f32, dy: f32) -> f32 {
        if z <= 0.0 { 0.0 } else { dy }
    }
}

impl Function for Silu {
    #[inline(always)]
    fn value(self, z: f32) -> f32 {
        z / (1.0 + Exponential::of(-z).value())
    }

    #[inline(always)]
    fn pass(self, z: f32, dy: f32) -> f32 {
        let sigmoid = 1.0 / (1.0 + Exponential::of(-z).value());
        dy * (sigmoid * (1.0 + z * (1.0 - sigmoid)))
    }
}

impl Function for Elu {
    #[inline(always)]
    fn value(self, z: f32) -> f32 {
        let below = Exponential::of(z).minus_one();
        if z > 0.0 { z } else { below }
    }

    #[inline(always)]
    fn pass(self, z: f32, dy: f32) -> f32 {
        let below = Exponential::of(z).value();
        if z > 0.0 { dy } else { dy * below }
    }
}

#[derive(Clone, Copy)]
pub(in crate::kernels) struct LeakyRelu {
    pub(in crate::kernels) slope: f32,
}

impl Function for LeakyRelu {
    #[inline(always)]
    fn value(self, z: f32) -> f32 {
        if z < 0.0 { self.slope * z } else { z }
    }

    /// NaN passes, as it does in the forward pass.
    #[inline(always)]
    fn pass(self, z: f32, dy: f32) -> f32 {
        if z < 0.0 { self.slope * dy } else { dy }
    }
}

#[derive(Clone, Copy)]
pub(in crate::kernels) struct Relu6;

impl Function for Relu6 {
    #[inline(always)]
    fn value(self, z: f32) -> f32 {
        let z = if z <= 0.0 { 0.0 } else { z };
        if z >= 6.0 { 6.0 } else { z }
    }

    /// NaN passes, as it does in the forward pass.
    #[inline(always)]
    fn pass(self, z: f32, dy: f32) -> f32 {
        let dy = if z <= 0.0 { 0.0 } else { dy };
        if z >= 6.0 { 0.0 } else { dy }
    }
}

#[derive(Clone, Copy)]
pub(in crate::kernels) struct HardSwish;

impl Function for HardSwish {
    #[inline(always)]
    fn value(self, z: f32) -> f32 {
        // Selected, not multiplied: an infinite `z` times a gate of 0 would be NaN.
        let inner = z * ((z + 3.0) * (1.0 / 6.0));
        let below = if z <= -3.0 { 0.0 } else { inner };
        if z >= 3.0 { z } else { below }
    }

    #[inline(always)]
    fn pass(self, z: f32, dy: f32) -> f32 {
        let inner = dy * (z * (1.0 / 3.0) + 0.5);
        let below = if z <= -3.0 { 0.0 } else { inner };
        if z >= 3.0 { dy } else { below }
    }
}

#[derive(Clone, Copy)]
pub(in crate::kernels) struct Gelu;

impl Function for Gelu {
    #[inline(always)]
    fn value(self, z: f32) -> f32 {
        z * Normal::of(z).distribution
    }

    #[inline(always)]
    fn pass(self, z: f32, dy: f32) -> f32 {
        let normal = Normal::of(z);
        dy * (normal.distribution + z * normal.density)
    }
}

/// `Φ` and its slope.
struct Normal {
    distribution: f32,
    density: f32,
}

impl Normal {
    /// `Φ(−|z|)` is the density times the ratio of Mills, so that both tails keep their relative
    /// precision.
    #[inline(always)]
    fn of(z: f32) -> Self {
        let size = z.abs();
        let t = 1.0 / (1.0 + MILLS_SLOPE * size);
        let mut ratio = MILLS_RATIO[0];
        for &term in &MILLS_RATIO[1..] {
            ratio = ratio * t + term;
        }
        let density = DENSITY_AT_0 * exponential_of_half_square(size);
        let tail = density * ratio;
        let distribution = if z < 0.0 { tail } else { 1.0 - tail };
        Self { distribution, density }
    }
}

/// `exp(−size²/2)`. The square is the exact one of the upper bits and a small rest: its rounding
/// error would be one of the result's digits.
#[inline(always)]
fn exponential_of_half_square(size: f32) -> f32 {
    /// The square is below the smallest power of two from here on; infinity has no rest.
    const LARGEST: f32 = 16.0;

    let size = if size > LARGEST { LARGEST } else { size };
    let upper = f32::from_bits(size.to_bits() & 0xffff_f000);
    let rest = (size - upper) * (size + upper);
    Exponential::of_sum(-0.5 * (upper * upper), -0.5 * rest).value()
}

/// `exp(x) = 2^n·(1 + rest)`.
///
/// `n` is the whole number next to `x/ln 2`, and `rest` is Taylor's series of `exp(r) − 1` for
/// the remainder, `|r| ≤ ln 2 / 2`; the terms after `r⁷/7!` are below 6·10⁻⁹.
struct Exponential {
    power: f32,
    rest: f32,
}

impl Exponential {
    #[inline(always)]
    fn of(x: f32) -> Self {
        Self::of_sum(x, 0.0)
    }

    /// The exponential of `x + small`, where `small` changes `x/ln 2` by less than a half.
    #[inline(always)]
    fn of_sum(x: f32, small: f32) -> Self {
        /// Adding it rounds to an integer in the lowest bits.
        const ROUNDER: f32 = 12_582_912.0;
        /// `ln 2` in two parts; products of the first with whole numbers to 2⁹ are exact.
        const LN_2: [f32; 2] = [0.693_359_4, -2.121_944_4e-4];

        // Outside of it the power is 0 or infinite; NaN passes the comparisons.
        let x = if x > 89.0 { 89.0 } else { x };
        let x = if x < -88.0 { -88.0 } else { x };
        let rounded = x * std::f32::consts::LOG2_E + ROUNDER;
        let n = rounded - ROUNDER;
        let r = (x - n * LN_2[0]) - n * LN_2[1] + small;
        let mut series = 1.0 / 5040.0;
        for term in [1.0 / 720.0, 1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5, 1.0] {
            series = series * r + term;
        }
        let exponent = (rounded.to_bits() << 23).wrapping_add(1.0_f32.to_bits());
        Self { power: f32::from_bits(exponent), rest: series * r }
    }

    #[inline(always)]
    fn value(&self) -> f32 {
        // An infinite power times a negative remainder, added to it, would be NaN.
        (1.0 + self.rest) * self.power
    }

    /// `exp(x) − 1` without cancellation around 0.
    #[inline(always)]
    fn minus_one(&self) -> f32 {
        self.power * self.rest + (self.power - 1.0)
    }
}

/// Runs code with the function of an activation.
macro_rules! with_function {
    ($activation:expr, $function:ident => $code:expr) => {
        match $activation {
            $crate::kernels::Activation::Identity => {
                let $function = $crate::kernels::elementwise::function::Identity;
                $code
            }
            $crate::kernels::Activation::Relu => {
                let $function = $crate::kernels::elementwise::function::Relu;
                $code
            }
            $crate::kernels::Activation::Silu => {
                let $function = $crate::kernels::elementwise::function::Silu;
                $code
            }
            $crate::kernels::Activation::Elu => {
                let $function = $crate::kernels::elementwise::function::Elu;
                $code
            }
            $crate::kernels::Activation::LeakyRelu(slope) => {
                let slope = slope.get();
                let $function = $crate::kernels::elementwise::function::LeakyRelu { slope };
                $code
            }
            $crate::kernels::Activation::Relu6 => {
                let $function = $crate::kernels::elementwise::function::Relu6;
                $code
            }
            $crate::kernels::Activation::HardSwish => {
                let $function = $crate::kernels::elementwise::function::HardSwish;
                $code
            }
            $crate::kernels::Activation::Gelu => {
                let $function = $crate::kernels::elementwise::function::Gelu;
                $code
            }
        }
    };
}
pub(in crate::kernels) use with_function;

dispatch! {
    /// Writes `activation(x)`.
    pub(crate) fn values(_simd, activation: Activation, x: &[f32], y: &mut [f32]) {
        with_function!(activation, function => for (&x, y) in x.iter().zip(y) {
            *y = function.value(x);
        });
    }

    /// The same in place.
    pub(crate) fn values_in_place(_simd, activation: Activation, y: &mut [f32]) {
        with_function!(activation, function => for y in y {
            *y = function.value(*y);
        });
    }

    /// Multiplies `dy` by `activation'(x)`.
    pub(crate) fn slopes(_simd, activation: Activation, x: &[f32], dy: &mut [f32]) {
        with_function!(activation, function => for (&x, dy) in x.iter().zip(dy) {
            *dy = function.pass(x, *dy);
        });
    }
}
