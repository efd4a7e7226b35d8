//! The fraction of a device's measured peak that the model reaches.

use burn::tensor::{DType, Device, FloatDType};
use serde_json::{Value, json};
use updraft_device::{MatmulRate, measure};
use updraft_precision::{Policy, Products};
use updraft_simd::Bf16Unit;

use crate::error::RunError;
use crate::plain::runs_kernels;

/// Floating-point operations of a training step for each multiply-add of its forward pass: two,
/// and as many again for each of the two products of the backward pass.
///
/// Recomputed activations are not counted. Chowdhery et al. 2022, arXiv:2204.02311, appendix B.
const FLOP_A_MULTIPLY_ADD: f64 = 6.0;

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
        device: &Device,
        policy: Policy,
        multiply_adds: u64,
    ) -> Result<Self, RunError> {
        let measured = measure(device)?;
        let mut found = Self::new(&measured.matmul, policy, multiply_adds)?;
        // What is measured are burn's products, which the kernels of transformers do not use.
        let unit = Bf16Unit::detect();
        let has_unit = unit.is_fast() && runs_kernels(device);
        if policy.products == Products::Bf16 && has_unit {
            found.summary += if unit.has_tiles() {
                "; linear layers of transformers and splines, and convolutions of images, multiply \
                 bf16 with AMX"
            } else {
                "; linear layers of transformers and splines multiply bf16 with AVX-512"
            };
        } else if policy.compute == FloatDType::BF16 && has_unit {
            found.summary += "; `bf16-products` multiplies in kernels and converts no tensors";
        }
        Ok(found)
    }

    fn new(rates: &[MatmulRate], policy: Policy, multiply_adds: u64) -> Result<Self, RunError> {
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
            let ratio = peak / wide_peak;
            let advice = match ratio {
                ratio if ratio >= 1.1 => "expect shorter steps",
                ratio if ratio > 0.9 => "expect less memory, not shorter steps",
                _ => "expect longer steps",
            };
            summary += &format!(", {ratio:.2} times {}'s rate: {advice}", wide.dtype);
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

    #[test]
    fn the_share_of_the_peak_has_its_value_by_hand() {
        // 6·10⁶ multiply-adds are 0.036 GFLOP an image; 100 images in half a second 7.2 GFLOP/s.
        let found = Utilization::new(&rates(72.0, 50.0), Policy::F32, 6_000_000).expect("measured");
        let [(_, rate), (_, share)] = found.fields(100.0, 500_000);
        assert!((rate.as_f64().expect("a number") - 7.2).abs() < 1e-9);
        assert!((share.as_f64().expect("a number") - 0.1).abs() < 1e-9);
        assert_eq!(Utilization::line(&Ok(found)), "f32 multiplies at 72 GFLOP/s");
    }

    #[test]
    fn a_narrow_dtype_says_what_its_measured_rate_promises() {
        for (bf16, advice) in [(150.0, "shorter"), (100.0, "less memory"), (20.0, "longer")] {
            let found = Utilization::new(&rates(100.0, bf16), Policy::BF16_MIXED, 1).expect("both");
            assert!(found.summary.contains(advice), "{}", found.summary);
        }
        let error = Utilization::new(&rates(1.0, 1.0), Policy::F16_MIXED, 1).expect_err("no f16");
        assert!(error.to_string().contains("f16"), "{error}");
        let line = Utilization::line(&Err(error));
        assert!(line.starts_with("not known: "), "{line}");
    }
}
