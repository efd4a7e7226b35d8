//! Limits of a layer's output, which it applies as it writes.

use serde::{Deserialize, Serialize};

use crate::network::Exact;
use crate::scheme::{ActivationScheme, OutputScheme};

/// `min(max(x, low), high)`: the identity, `ReLU`, `ReLU6`, or any other limits.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Clip {
    low: f32,
    high: f32,
}

impl Clip {
    /// No limits.
    pub(crate) const IDENTITY: Self = Self { low: f32::NEG_INFINITY, high: f32::INFINITY };

    /// `max(x, 0)`.
    pub(crate) const RECTIFIER: Self = Self { low: 0.0, high: f32::INFINITY };

    /// `min(max(x, 0), 6)`.
    pub(crate) const RELU6: Self = Self { low: 0.0, high: 6.0 };

    /// `None` if a limit is NaN, `low > high`, `low` is +∞ or `high` is −∞.
    pub(crate) const fn try_new(low: f32, high: f32) -> Option<Self> {
        let is_range = low <= high && low < f32::INFINITY && high > f32::NEG_INFINITY;
        if is_range { Some(Self { low, high }) } else { None }
    }

    pub(crate) const fn is_identity(self) -> bool {
        self.low == f32::NEG_INFINITY && self.high == f32::INFINITY
    }

    pub(crate) const fn limits(self) -> [f32; 2] {
        [self.low, self.high]
    }

    /// `next(self(x))`.
    pub(crate) const fn then(self, next: Self) -> Self {
        Self { low: next.of(self.low), high: next.of(self.high) }
    }

    const fn of(self, x: f32) -> f32 {
        x.clamp(self.low, self.high)
    }

    /// Clips numbers in place; NaN stays NaN.
    pub(crate) fn apply(self, numbers: &mut [f32]) {
        if !self.is_identity() {
            numbers.iter_mut().for_each(|x| *x = self.of(*x));
        }
    }

    /// Whether each limit is the number of a code, so that clipped codes are those of clipped
    /// numbers that were rounded before.
    pub(crate) fn is_exact(self, scheme: ActivationScheme) -> bool {
        let is_code = |limit: f32| limit.is_infinite() || scheme.real(scheme.code(limit)) == limit;
        self.limits().into_iter().all(is_code)
    }

    /// The codes of a scheme, within the limits.
    pub(crate) fn output(self, scheme: ActivationScheme) -> OutputScheme {
        OutputScheme::clipped(scheme, self.low, self.high)
    }
}

/// The limits as texts, since JSON has no infinities.
impl Serialize for Clip {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.limits().map(Exact).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Clip {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let [Exact(low), Exact(high)] = Deserialize::deserialize(deserializer)?;
        let error = || serde::de::Error::custom(format!("{low} to {high} is no range"));
        Self::try_new(low, high).ok_or_else(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_clipped_as_the_numbers_are() {
        let scheme = ActivationScheme::try_new(0.05, 20).expect("valid");
        for clip in [Clip::IDENTITY, Clip::RECTIFIER, Clip::RELU6, Clip { low: -0.52, high: 3.33 }]
        {
            let [least, greatest] = clip.output(scheme).bounds();
            for at in -2000..4000 {
                let x = at as f32 / 200.0;
                let mut clipped = [x];
                clip.apply(&mut clipped);
                let code = scheme.code(x).clamp(least, greatest);
                assert_eq!(scheme.code(clipped[0]), code, "{x} within {:?}", clip.limits());
            }
        }
    }

    #[test]
    fn limits_on_the_grid_of_a_scheme_are_exact() {
        let scheme = |scale| ActivationScheme::try_new(scale, 20).expect("valid");
        assert!(Clip::RELU6.is_exact(scheme(0.25)) && !Clip::RELU6.is_exact(scheme(0.26)));
        assert!(Clip::RECTIFIER.is_exact(scheme(0.26)) && Clip::IDENTITY.is_exact(scheme(0.26)));
    }

    #[test]
    fn infinities_are_clipped_and_nan_stays() {
        let mut numbers = [f32::NEG_INFINITY, f32::NAN, f32::INFINITY];
        Clip::RELU6.apply(&mut numbers);
        assert!(numbers[0] == 0.0 && numbers[1].is_nan() && numbers[2] == 6.0, "{numbers:?}");
    }

    #[test]
    fn one_clip_after_another_is_one_clip() {
        let wide = Clip { low: -1.0, high: 9.0 };
        assert_eq!(Clip::RECTIFIER.then(wide), Clip { low: 0.0, high: 9.0 });
        assert_eq!(wide.then(Clip::RELU6), Clip::RELU6);
        assert_eq!(Clip { low: -3.0, high: -2.0 }.then(wide).limits(), [-1.0; 2]);
        assert_eq!(Clip::IDENTITY.then(wide), wide);
    }

    #[test]
    fn limits_of_a_file_are_a_range() {
        for clip in [Clip::IDENTITY, Clip::RECTIFIER, Clip::RELU6] {
            let text = serde_json::to_string(&clip).expect("written");
            assert_eq!(serde_json::from_str::<Clip>(&text).expect("read"), clip, "{text}");
        }
        for text in ["[\"1.0\",\"0.0\"]", "[\"NaN\",\"1.0\"]", "[\"inf\",\"inf\"]", "[\"0.0\"]"] {
            assert!(serde_json::from_str::<Clip>(text).is_err(), "{text}");
        }
    }
}
