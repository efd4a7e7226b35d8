//! Requantization: converts dot products back to int8 codes.

/// The last step of a requantization: `zero + round(min(max(v, low), high))`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Clamp {
    /// The smallest value, relative to the zero point.
    pub low: f32,
    /// The largest value, relative to the zero point.
    pub high: f32,
    /// The zero point of the output.
    pub zero: i32,
}

impl Clamp {
    /// Clamps to the codes from `least` to `greatest`, with the given zero point.
    #[must_use]
    pub fn new(zero: u8, least: u8, greatest: u8) -> Self {
        let from_zero = |bound: u8| f32::from(i16::from(bound) - i16::from(zero));
        Self { low: from_zero(least), high: from_zero(greatest), zero: zero.into() }
    }

    /// Rounds half to even, as IEEE 754 does by default.
    #[must_use]
    #[inline(always)]
    pub fn apply(self, value: f32) -> u8 {
        // Adding 1.5·2²³ leaves no fraction bits: the low bits of the sum are the rounded integer.
        const WHOLE: f32 = 12_582_912.0;
        // `f32::max` and `f32::min` take three instructions each, because of a NaN that is not here.
        let above = if value > self.low { value } else { self.low };
        let bounded = if above < self.high { above } else { self.high };
        let rounded = (bounded + WHOLE).to_bits().wrapping_sub(WHOLE.to_bits()) as i32;
        // The sum of two small integers cannot overflow; a checked addition would prevent
        // vectorization in builds with overflow checks.
        rounded.wrapping_add(self.zero) as u8
    }
}

/// Adds a second operand to a scaled sum: `(code − zero)·factor`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Plus {
    /// The zero point of the codes.
    pub zero: i32,
    /// The step of the codes divided by the step of the output.
    pub factor: f32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_go_to_the_even_neighbour() {
        let clamp = Clamp::new(10, 0, 255);
        let cases =
            [(0.5, 10), (1.5, 12), (2.5, 12), (-0.5, 10), (-1.5, 8), (2.500_001, 13), (0.0, 10)];
        for (value, right) in cases {
            assert_eq!(clamp.apply(value), right, "{value}");
        }
    }

    #[test]
    fn values_outside_the_bounds_become_the_bound() {
        let clamp = Clamp::new(10, 3, 200);
        for (value, right) in
            [(-7.6, 3), (-1e30, 3), (190.4, 200), (f32::INFINITY, 200), (f32::NEG_INFINITY, 3)]
        {
            assert_eq!(clamp.apply(value), right, "{value}");
        }
    }
}
