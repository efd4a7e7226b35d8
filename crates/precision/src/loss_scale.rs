//! The loss scale, and how it changes on overflows.

use serde::{Deserialize, Serialize};

use crate::error::PrecisionError;

/// Whether and how the loss is multiplied before the backward pass.
///
/// Gradients below 6·10⁻⁸ are zero in f16; scaling the loss enlarges all of them, and the scale is
/// divided out in f32. bf16 has the range of f32 and needs no scale.
///
/// # Source
/// Micikevicius et al. 2017, arXiv:1710.03740, section 3.2.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum LossScale {
    /// No scale.
    #[default]
    None,
    /// A constant factor.
    Static {
        /// The factor.
        scale: f64,
    },
    /// A factor that decreases on overflow and grows otherwise.
    Dynamic(DynamicScale),
}

/// How a dynamic loss scale changes.
///
/// The defaults of the first four are those of `PyTorch`'s `GradScaler`, which has no bounds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DynamicScale {
    /// The first factor: 2¹⁶.
    pub initial: f64,
    /// Its multiplier after `interval` good steps in a row: 2.
    pub growth: f64,
    /// Its multiplier on overflow: ½.
    pub backoff: f64,
    /// Good steps in a row before it grows: 2000.
    pub interval: u64,
    /// The smallest factor: 1; a smaller one would reduce the gradients.
    pub floor: f64,
    /// The largest factor: 2²⁴, as in NVIDIA's Apex.
    pub ceiling: f64,
    /// Skipped steps in a row before an error: 24, the halvings from the ceiling to the floor.
    pub longest_skips: u64,
}

impl Default for DynamicScale {
    fn default() -> Self {
        Self {
            initial: f64::from(1 << 16),
            growth: 2.0,
            backoff: 0.5,
            interval: 2000,
            floor: 1.0,
            ceiling: f64::from(1 << 24),
            longest_skips: 24,
        }
    }
}

impl LossScale {
    /// Checks the range of every number.
    ///
    /// # Errors
    /// [`PrecisionError::LossScaleSetting`] naming the number that is out of range.
    pub fn validate(&self) -> Result<(), PrecisionError> {
        const FACTOR: &str = "a finite number above 0 in the range of f32, 1.2e-38 to 3.4e38";
        let require = |name, value: f64, holds: bool, expected| {
            if value.is_finite() && holds {
                return Ok(());
            }
            Err(PrecisionError::LossScaleSetting { name, value, expected })
        };
        // The loss is multiplied in f32, where a smaller factor is 0 and a larger one infinite.
        let is_factor = |value: f64| value > 0.0 && (value as f32).is_normal();
        match *self {
            Self::None => Ok(()),
            Self::Static { scale } => require("scale", scale, is_factor(scale), FACTOR),
            Self::Dynamic(dynamic) => {
                let DynamicScale { initial, growth, backoff, floor, ceiling, .. } = dynamic;
                let count = |name, count: u64| require(name, count as f64, count > 0, "at least 1");
                require("floor", floor, is_factor(floor), FACTOR)?;
                let is_ceiling = ceiling >= floor && is_factor(ceiling);
                let expected = "at least the floor, and finite: at most 3.4e38";
                require("ceiling", ceiling, is_ceiling, expected)?;
                let is_between = (floor..=ceiling).contains(&initial);
                require("initial", initial, is_between, "between the floor and the ceiling")?;
                require("growth", growth, growth > 1.0, "a finite number above 1")?;
                let is_fraction = backoff > 0.0 && backoff < 1.0;
                require("backoff", backoff, is_fraction, "above 0 and below 1")?;
                count("interval", dynamic.interval)?;
                count("longest_skips", dynamic.longest_skips)
            }
        }
    }
}

/// The state of a loss scale, for a checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LossScaleState {
    /// The factor of the next step; written as its bits, because readers may round a decimal.
    #[serde(rename = "scale_bits", with = "bits")]
    pub scale: f64,
    /// Good steps since the factor last changed.
    pub good_steps: u64,
    /// Steps skipped since the last good one.
    pub skips: u64,
}

/// A number as its bits, in hexadecimal digits.
mod bits {
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    #[allow(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
    pub(super) fn serialize<S: Serializer>(number: &f64, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{:016x}", number.to_bits()))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
        let digits = String::deserialize(deserializer)?;
        let is_hex = digits.len() == 16 && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        let bits = u64::from_str_radix(&digits, 16).ok().filter(|_| is_hex);
        let expected = || D::Error::custom(format!("`{digits}` is not 16 hexadecimal digits"));
        bits.map(f64::from_bits).ok_or_else(expected)
    }
}

/// The loss scale of a run.
///
/// # Example
/// ```
/// use updraft_precision::{DynamicScale, LossScale, LossScaler};
///
/// let scaler = LossScaler::try_new(LossScale::Dynamic(DynamicScale::default()))?;
/// assert_eq!(scaler.scale(), 65536.0);
/// # Ok::<(), updraft_precision::PrecisionError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LossScaler {
    settings: LossScale,
    state: LossScaleState,
}

impl LossScaler {
    /// A scale before its first step.
    ///
    /// # Errors
    /// [`PrecisionError::LossScaleSetting`] if a setting is out of its range.
    pub fn try_new(settings: LossScale) -> Result<Self, PrecisionError> {
        let scale = match settings {
            LossScale::None => 1.0,
            LossScale::Static { scale } => scale,
            LossScale::Dynamic(dynamic) => dynamic.initial,
        };
        Self::resume(settings, LossScaleState { scale, good_steps: 0, skips: 0 })
    }

    /// A scaler that does not change losses and gradients.
    #[must_use]
    pub const fn none() -> Self {
        let state = LossScaleState { scale: 1.0, good_steps: 0, skips: 0 };
        Self { settings: LossScale::None, state }
    }

    /// A scale that continues from a saved state.
    ///
    /// # Errors
    /// [`PrecisionError::LossScaleSetting`] if a setting, or the state's scale, is out of its
    /// range.
    pub fn resume(settings: LossScale, state: LossScaleState) -> Result<Self, PrecisionError> {
        settings.validate()?;
        let is_allowed = match settings {
            LossScale::None => state.scale == 1.0,
            LossScale::Static { scale } => state.scale == scale,
            LossScale::Dynamic(dynamic) => (dynamic.floor..=dynamic.ceiling).contains(&state.scale),
        };
        if !is_allowed {
            return Err(PrecisionError::LossScaleSetting {
                name: "state.scale",
                value: state.scale,
                expected: "a scale that these settings can reach",
            });
        }
        Ok(Self { settings, state })
    }

    /// The state for a checkpoint.
    #[must_use]
    pub fn state(&self) -> LossScaleState {
        self.state
    }

    /// The factor of the next step.
    #[must_use]
    pub fn scale(&self) -> f64 {
        self.state.scale
    }

    /// Whether an overflow lowers the scale and skips the step.
    #[must_use]
    pub fn is_dynamic(&self) -> bool {
        matches!(self.settings, LossScale::Dynamic(_))
    }

    /// Whether losses and gradients are not scaled.
    #[must_use]
    pub fn is_none(&self) -> bool {
        self.settings == LossScale::None
    }

    /// Records a step that a [`DeviceLossScale`](crate::DeviceLossScale) has decided about: whether
    /// its gradients were finite. Returns whether the run may continue: `false` if more steps in a
    /// row were skipped than the settings allow, or one without a dynamic scale.
    #[must_use = "a scale that skips for ever trains nothing"]
    pub fn follow(&mut self, is_finite: bool) -> bool {
        if is_finite {
            self.follow_good();
            return true;
        }
        self.follow_overflow()
    }

    /// Records a step with finite gradients that was decided without
    /// [`unscale`](Self::unscale), such as on the device.
    pub fn follow_good(&mut self) {
        self.state.skips = 0;
        let LossScale::Dynamic(dynamic) = self.settings else { return };
        self.state.good_steps += 1;
        if self.state.good_steps >= dynamic.interval {
            self.state.good_steps = 0;
            self.state.scale = (self.state.scale * dynamic.growth).min(dynamic.ceiling);
        }
    }

    /// Records a step whose gradients were not finite, as [`follow_good`](Self::follow_good);
    /// `false` if it is an error: after too many skipped steps in a row, or because the scale is not
    /// dynamic.
    #[must_use]
    pub fn follow_overflow(&mut self) -> bool {
        let LossScale::Dynamic(dynamic) = self.settings else { return false };
        self.state.good_steps = 0;
        self.state.skips += 1;
        self.state.scale = (self.state.scale * dynamic.backoff).max(dynamic.floor);
        self.state.skips <= dynamic.longest_skips
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The scale after each step, with overflows planted at `bad`.
    fn trajectory(settings: DynamicScale, bad: &[usize], steps: usize) -> Vec<f64> {
        let mut scaler = LossScaler::try_new(LossScale::Dynamic(settings)).expect("valid");
        (0..steps)
            .map(|step| {
                if bad.contains(&step) {
                    assert!(scaler.follow_overflow(), "step {step}");
                } else {
                    scaler.follow_good();
                }
                scaler.scale()
            })
            .collect()
    }

    /// Runs of equal values as (value, how often).
    fn spelled_out(runs: &[(f64, usize)]) -> Vec<f64> {
        runs.iter().flat_map(|&(value, times)| std::iter::repeat_n(value, times)).collect()
    }

    // The three sequences below were recorded from torch 2.15.0: for each step,
    // `scaler.scale((p * 0.01).sum()).backward()`, a NaN (even step) or an infinity (odd step)
    // written into `p.grad` at the planted steps, `scaler.step(sgd)`, `scaler.update()`, and
    // `scaler.get_scale()` noted; the scaler is `torch.amp.GradScaler("cpu", init_scale,
    // growth_factor, backoff_factor, growth_interval)` with the numbers of each test.

    #[test]
    fn the_trajectory_is_that_of_torch_with_overflows_alone_and_in_rows() {
        let settings = DynamicScale { interval: 5, ..DynamicScale::default() };
        let recorded = [
            (65536.0, 2),
            (32768.0, 1),
            (16384.0, 5),
            (32768.0, 3),
            (16384.0, 1),
            (8192.0, 1),
            (4096.0, 5),
            (8192.0, 5),
            (16384.0, 2),
            (8192.0, 5),
            (16384.0, 5),
            (32768.0, 5),
            (16384.0, 5),
            (32768.0, 3),
        ];
        let found = trajectory(settings, &[2, 3, 11, 12, 13, 25, 40], 48);
        assert_eq!(found, spelled_out(&recorded));
    }

    #[test]
    fn the_trajectory_is_that_of_torch_with_other_factors_far_below_one() {
        let settings = DynamicScale {
            initial: 4.0,
            growth: 3.0,
            backoff: 0.25,
            interval: 3,
            floor: f64::from(f32::MIN_POSITIVE),
            ..DynamicScale::default()
        };
        let recorded = [
            (4.0, 1),
            (1.0, 1),
            (0.25, 1),
            (0.0625, 1),
            (0.015625, 1),
            (0.00390625, 1),
            (0.0009765625, 1),
            (0.000244140625, 1),
            (6.103515625e-05, 3),
            (0.00018310546875, 3),
            (0.00054931640625, 3),
            (0.00164794921875, 3),
            (0.00494384765625, 3),
            (0.01483154296875, 1),
        ];
        let found = trajectory(settings, &[1, 2, 3, 4, 5, 6, 7, 8], 24);
        assert_eq!(found, spelled_out(&recorded));
    }

    #[test]
    fn the_trajectory_is_that_of_torch_at_the_largest_power_of_two_in_f32() {
        // torch does not grow to infinity; our ceiling has the same effect.
        let settings = DynamicScale {
            initial: 2.0_f64.powi(120),
            interval: 1,
            ceiling: 2.0_f64.powi(127),
            ..DynamicScale::default()
        };
        let exponents = [121, 122, 123, 124, 123, 124, 125, 126, 127, 127, 127, 127];
        let recorded = exponents.map(|exponent| 2.0_f64.powi(exponent));
        assert_eq!(trajectory(settings, &[4], 12), recorded);
    }

    #[test]
    fn the_scale_stays_between_floor_and_ceiling() {
        let settings = DynamicScale {
            initial: 4.0,
            interval: 1,
            floor: 2.0,
            ceiling: 8.0,
            ..DynamicScale::default()
        };
        assert_eq!(trajectory(settings, &[0, 1, 2], 7), [2.0, 2.0, 2.0, 4.0, 8.0, 8.0, 8.0]);
    }

    #[test]
    fn too_many_skips_in_a_row_are_reported_and_a_good_step_resets_them() {
        let settings = DynamicScale { longest_skips: 2, ..DynamicScale::default() };
        let mut scaler = LossScaler::try_new(LossScale::Dynamic(settings)).expect("valid");
        assert!(scaler.follow_overflow() && scaler.follow_overflow());
        scaler.follow_good();
        assert!(scaler.follow_overflow() && scaler.follow_overflow());
        assert!(!scaler.follow_overflow());
    }

    #[test]
    fn a_scale_resumes_exactly_from_its_saved_state() {
        let settings = LossScale::Dynamic(DynamicScale { interval: 3, ..DynamicScale::default() });
        let mut whole = LossScaler::try_new(settings).expect("valid");
        let mut stopped = whole;
        for step in 0..20 {
            if step == 7 {
                let json = serde_json::to_string(&stopped.state()).expect("plain data");
                let state = serde_json::from_str(&json).expect("what was written");
                stopped = LossScaler::resume(settings, state).expect("reachable");
            }
            for scaler in [&mut whole, &mut stopped] {
                if step % 6 == 4 {
                    assert!(scaler.follow_overflow());
                } else {
                    scaler.follow_good();
                }
            }
            assert_eq!(whole, stopped);
        }
    }

    proptest::proptest! {
        #[test]
        fn a_scale_stays_in_bounds_and_resumes_exactly_at_any_step(
            overflows in proptest::collection::vec(proptest::bool::weighted(0.2), 1..200),
            stop in 0..200_usize,
            interval in 1..10_u64,
        ) {
            let dynamic = DynamicScale {
                interval,
                floor: 256.0,
                longest_skips: u64::MAX,
                ..DynamicScale::default()
            };
            let settings = LossScale::Dynamic(dynamic);
            let mut whole = LossScaler::try_new(settings).expect("valid");
            let mut stopped = whole;
            for (step, &overflow) in overflows.iter().enumerate() {
                if step == stop {
                    stopped = LossScaler::resume(settings, stopped.state()).expect("reachable");
                }
                for scaler in [&mut whole, &mut stopped] {
                    if overflow {
                        proptest::prop_assert!(scaler.follow_overflow());
                    } else {
                        scaler.follow_good();
                    }
                }
                proptest::prop_assert!((dynamic.floor..=dynamic.ceiling).contains(&whole.scale()));
                proptest::prop_assert_eq!(whole, stopped);
            }
        }
    }

    #[test]
    fn numbers_out_of_range_are_refused_by_name() {
        let dynamic = DynamicScale::default();
        let cases = [
            (LossScale::Static { scale: 0.0 }, "`scale` is 0"),
            (LossScale::Static { scale: f64::INFINITY }, "`scale` is inf"),
            (LossScale::Dynamic(DynamicScale { floor: -1.0, ..dynamic }), "`floor`"),
            (LossScale::Dynamic(DynamicScale { ceiling: 0.5, ..dynamic }), "`ceiling`"),
            (LossScale::Dynamic(DynamicScale { initial: f64::NAN, ..dynamic }), "`initial`"),
            (LossScale::Dynamic(DynamicScale { growth: 1.0, ..dynamic }), "`growth`"),
            (LossScale::Dynamic(DynamicScale { backoff: 1.0, ..dynamic }), "`backoff`"),
            (LossScale::Dynamic(DynamicScale { interval: 0, ..dynamic }), "`interval`"),
            (LossScale::Dynamic(DynamicScale { longest_skips: 0, ..dynamic }), "`longest_skips`"),
        ];
        for (settings, named) in cases {
            let message = LossScaler::try_new(settings).expect_err(named).to_string();
            assert!(message.contains(named), "{message}");
        }
        let state = LossScaleState { scale: f64::NAN, good_steps: 0, skips: 0 };
        let refused = LossScaler::resume(LossScale::Dynamic(dynamic), state);
        assert!(refused.expect_err("not a number").to_string().contains("`state.scale`"));
    }

    #[test]
    fn settings_survive_as_text_and_what_is_not_named_has_its_default() {
        let dynamic = LossScale::Dynamic(DynamicScale { interval: 7, ..DynamicScale::default() });
        for settings in [LossScale::None, LossScale::Static { scale: 1024.0 }, dynamic] {
            let json = serde_json::to_string(&settings).expect("plain data");
            assert_eq!(serde_json::from_str::<LossScale>(&json).expect("text"), settings);
        }
        let short = r#"{"kind": "dynamic", "interval": 7}"#;
        assert_eq!(serde_json::from_str::<LossScale>(short).expect("text"), dynamic);
        let unknown = r#"{"kind": "dynamic", "intervall": 7}"#;
        assert!(serde_json::from_str::<LossScale>(unknown).is_err());
    }
}
