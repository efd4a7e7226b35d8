//! The fraction of a device's measured peak that the model reaches.

use burn::tensor::{DType, Device, FloatDType};
use serde_json::{Value, json};
use updraft_device::{Backend, MatmulRate, measure};
use updraft_precision::{Policy, Products};
use updraft_simd::Bf16Unit;

use crate::error::RunError;
use crate::plain::runs_kernels;

/// Floating-point operations of a training step for each multiply-add of its forward pass: two,
/// and as many again for each of the two products of the backward pass.
///
/// Recomputed activations are not counted. Chowdhery et al. 2022, arXiv:2204.02311, appendix B.
const FLOP_A_MULTIPLY_ADD: f64 = 6.0;

/// What a run in a narrow dtype is advised.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Advice {
    /// By the measured rate of products.
    OfRate,
    /// `f32`: on flex, kernels convert tensors to f32 before they compute, and matrix products are a
    /// part of the work only, so that their rate decides nothing.
    F32,
    /// The same, on a processor whose kernels multiply bf16.
    F32OrProducts,
}

impl Advice {
    fn text(self, policy: Policy, ratio: f64, wide: &str) -> String {
        let instead = match self {
            Self::OfRate => {
                let expected = match ratio {
                    ratio if ratio >= 1.1 => "expect shorter steps",
                    ratio if ratio > 0.9 => "expect less memory, not shorter steps",
                    _ => "expect longer steps",
                };
                return format!(", {ratio:.2} times {wide}'s rate: {expected}");
            }
            Self::F32 => "`f32`",
            Self::F32OrProducts => "`f32`, or `bf16-products` on this processor",
        };
        format!(
            "; layers convert it to f32 on a CPU: expect longer steps with `{policy}`, and more \
             memory for small networks; use {instead}"
        )
    }
}

/// The fraction of a device's measured peak that the model reaches.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Utilization {
    gflop_per_sample: f64,
    peak_gflop_per_s: f64,
    /// The measurement, as text.
    summary: String,
}

impl Utilization {
    /// Measures the device's matrix products in the dtype that the policy computes in.
    ///
    /// Takes about a second on a CPU.
    pub(crate) fn measure(
        (device, backend): (&Device, Backend),
        policy: Policy,
        multiply_adds: u64,
    ) -> Result<Self, RunError> {
        let measured = measure(device)?;
        let unit = Bf16Unit::detect();
        let has_unit = unit.is_fast() && runs_kernels(device);
        let advice = match (backend, has_unit) {
            (Backend::Flex, true) => Advice::F32OrProducts,
            (Backend::Flex, false) => Advice::F32,
            _ => Advice::OfRate,
        };
        let mut found = Self::new(&measured.matmul, (policy, advice), multiply_adds)?;
        // What is measured are burn's products, which the kernels of transformers do not use.
        if policy.products == Products::Bf16 && has_unit {
            found.summary += if unit.has_tiles() {
                "; linear layers of transformers and splines, and convolutions of images, multiply \
                 bf16 with AMX"
            } else {
                "; linear layers of transformers and splines multiply bf16 with AVX-512"
            };
        }
        Ok(found)
    }

    /// The rate of [`peak_gflop_per_s`](Self::peak_gflop_per_s) alone, if it can be measured.
    pub(crate) fn measure_peak(device: &Device, policy: Policy) -> Option<f64> {
        let measured = measure(device).ok()?;
        let found = Self::new(&measured.matmul, (policy, Advice::OfRate), 0).ok()?;
        Some(found.peak_gflop_per_s)
    }

    fn new(
        rates: &[MatmulRate],
        (policy, advice): (Policy, Advice),
        multiply_adds: u64,
    ) -> Result<Self, RunError> {
        let rate = |dtype: FloatDType| {
            let name = format!("{:?}", DType::from(dtype)).to_lowercase();
            let rate = rates.iter().find(|rate| rate.dtype == name);
            rate.ok_or_else(|| RunError::Unusable {
                reason: format!("the device's rate in {name} was not measured"),
            })
        };
        let (compute, wide) = (rate(policy.compute)?, rate(policy.param)?);
        let (peak, wide_peak) = (compute.gflops.median, wide.gflops.median);
        let mut summary = format!("{} multiplies at {peak:.0} GFLOP/s", compute.dtype);
        if policy.compute != policy.param {
            summary += &advice.text(policy, peak / wide_peak, &wide.dtype);
        }
        let gflop_per_sample = 1e-9 * FLOP_A_MULTIPLY_ADD * multiply_adds as f64;
        Ok(Self { gflop_per_sample, peak_gflop_per_s: peak, summary })
    }

    /// The rate of matrix products in the dtype of the computation, in 10⁹ floating-point operations
    /// a second.
    pub(crate) fn peak_gflop_per_s(&self) -> f64 {
        self.peak_gflop_per_s
    }

    /// The measurement, or the reason why there is none, as text.
    pub(crate) fn line(measured: &Result<Self, RunError>) -> String {
        match measured {
            Ok(utilization) => utilization.summary.clone(),
            Err(error) => format!("not known: {error}"),
        }
    }

    /// Fields for a number of samples in a number of microseconds.
    pub(crate) fn fields(&self, samples: f64, us: u64) -> [(&'static str, Value); 2] {
        let gflop_per_s = self.gflop_per_sample * samples / (us.max(1) as f64 * 1e-6);
        [
            ("model_gflop_per_s", json!(gflop_per_s)),
            ("peak_share", json!(gflop_per_s / self.peak_gflop_per_s)),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rates(f32_gflops: f64, bf16_gflops: f64) -> Vec<MatmulRate> {
        let rate = |dtype: &str, median: f64| -> MatmulRate {
            let gflops = json!({ "median": median, "low": median, "high": median, "runs": 3 });
            let rate = json!({ "dtype": dtype, "side": 512, "gflops": gflops });
            serde_json::from_value(rate).expect("a rate")
        };
        vec![rate("f32", f32_gflops), rate("bf16", bf16_gflops)]
    }

    /// A policy on a device whose rate is decisive.
    fn of(policy: Policy) -> (Policy, Advice) {
        (policy, Advice::OfRate)
    }

    #[test]
    fn the_share_of_the_peak_has_its_value_by_hand() {
        // 6·10⁶ multiply-adds are 0.036 GFLOP an image; 100 images in half a second 7.2 GFLOP/s.
        let found =
            Utilization::new(&rates(72.0, 50.0), of(Policy::F32), 6_000_000).expect("measured");
        let [(_, rate), (_, share)] = found.fields(100.0, 500_000);
        assert!((rate.as_f64().expect("a number") - 7.2).abs() < 1e-9);
        assert!((share.as_f64().expect("a number") - 0.1).abs() < 1e-9);
        assert_eq!(Utilization::line(&Ok(found)), "f32 multiplies at 72 GFLOP/s");
    }

    #[test]
    fn a_narrow_dtype_says_what_its_measured_rate_promises() {
        for (bf16, advice) in [(150.0, "shorter"), (100.0, "less memory"), (20.0, "longer")] {
            let found = Utilization::new(&rates(100.0, bf16), of(Policy::BF16_MIXED), 1);
            let found = found.expect("both");
            assert!(found.summary.contains(advice), "{}", found.summary);
        }
        let error =
            Utilization::new(&rates(1.0, 1.0), of(Policy::F16_MIXED), 1).expect_err("no f16");
        assert!(error.to_string().contains("f16"), "{error}");
        let line = Utilization::line(&Err(error));
        assert!(line.starts_with("not known: "), "{line}");
    }

    #[test]
    fn the_advice_on_a_cpu_does_not_depend_on_the_rate_of_products() {
        for (advice, instead) in [
            (Advice::F32, "use `f32`"),
            (Advice::F32OrProducts, "use `f32`, or `bf16-products` on this processor"),
        ] {
            for bf16 in [20.0, 100.0, 600.0] {
                let of_policy = (Policy::BF16_MIXED, advice);
                let found = Utilization::new(&rates(100.0, bf16), of_policy, 1).expect("both");
                let summary = found.summary;
                assert!(summary.contains("expect longer steps with `bf16-mixed`"), "{summary}");
                assert!(summary.ends_with(instead), "{summary}");
                assert!(!summary.contains("times f32's rate"), "{summary}");
            }
        }
    }
}
