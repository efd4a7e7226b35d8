//! The three dtypes of a computation.

use burn::backend::{Backend as _, DTypeUsage, Dispatch};
use burn::module::Module;
use burn::tensor::{Device, FloatDType};
use updraft_simd::{Bf16Unit, Products};

use crate::cast::Autocast;
use crate::error::PrecisionError;
use crate::islands::{Norm, islands, norms};
use crate::loss_scale::LossScale;
use crate::unit::multiplies_bf16;

/// The dtypes of stored parameters, of computation and of outputs, and what products multiply.
///
/// The text form is `p=f32,c=bf16,o=f32`, or one of the names `f32`, `bf16-products`,
/// `bf16-mixed`, `f16-mixed` and `bf16`.
///
/// # Source
/// The three dtypes follow jmp (github.com/google-deepmind/jmp); f32 masters are from Micikevicius
/// et al. 2017, arXiv:1710.03740, section 3.1.
///
/// # Example
/// ```
/// use updraft_precision::Policy;
///
/// let policy: Policy = "p=f32,c=bf16,o=f32".parse()?;
/// assert_eq!(policy, Policy::BF16_MIXED);
/// assert_eq!(policy.to_string(), "bf16-mixed");
/// # Ok::<(), updraft_precision::PrecisionError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Policy {
    /// The dtype of stored parameters.
    pub param: FloatDType,
    /// The dtype that layers compute in, apart from the f32 [islands](crate::islands()).
    pub compute: FloatDType,
    /// The dtype of the model's outputs, and so of the loss.
    pub output: FloatDType,
    /// What kernels on the CPU round the factors of products to, of tensors in f32; sums are in f32.
    pub products: Products,
}

/// How a device computes in a dtype.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arithmetic {
    /// By units for matrix products: expect a narrow dtype to be faster.
    TensorCores,
    /// By general units: a narrow dtype saves memory; measure whether it saves time.
    General,
}

impl Policy {
    /// Everything in f32.
    pub const F32: Self = Self::uniform(FloatDType::F32);
    /// Everything in bf16; for inference.
    pub const BF16: Self = Self::uniform(FloatDType::BF16);
    /// Tensors in f32, multiplied as bf16 by kernels on processors that have a unit for it.
    pub const BF16_PRODUCTS: Self = Self { products: Products::Bf16, ..Self::F32 };
    /// f32 masters and outputs, bf16 in between.
    pub const BF16_MIXED: Self = Self { compute: FloatDType::BF16, ..Self::F32 };
    /// f32 masters and outputs, f16 in between.
    pub const F16_MIXED: Self = Self { compute: FloatDType::F16, ..Self::F32 };

    const fn uniform(dtype: FloatDType) -> Self {
        Self { param: dtype, compute: dtype, output: dtype, products: Products::F32 }
    }

    /// Whether a model can be trained under this policy without a loss scale.
    ///
    /// # Errors
    /// [`PrecisionError`] naming what is missing.
    pub fn check_training(&self) -> Result<(), PrecisionError> {
        self.check_training_scaled(&LossScale::None)
    }

    /// Whether a model can be trained under this policy with this loss scale.
    ///
    /// # Errors
    /// [`PrecisionError`] naming what is missing, or what is out of its range.
    pub fn check_training_scaled(&self, loss_scale: &LossScale) -> Result<(), PrecisionError> {
        loss_scale.validate()?;
        let policy = || self.to_string();
        let is_wide = |dtype| matches!(dtype, FloatDType::F32 | FloatDType::F64);
        if !is_wide(self.param) {
            return Err(PrecisionError::NarrowMasters {
                policy: policy(),
                param: self.param.into(),
            });
        }
        if !is_wide(self.output) {
            return Err(PrecisionError::NarrowOutput {
                policy: policy(),
                output: self.output.into(),
            });
        }
        if self.compute == FloatDType::F16 && *loss_scale == LossScale::None {
            return Err(PrecisionError::NeedsLossScale { policy: policy() });
        }
        Ok(())
    }

    /// Whether every normalization of a model works under this policy.
    ///
    /// The parameters of normalizations stay wide, and burn's own layers panic if their input is
    /// narrower. Whether a model casts around a layer cannot be detected, so `is_cast` returns it
    /// for each.
    ///
    /// # Errors
    /// [`PrecisionError::UncastNorm`] naming the first layer for which `is_cast` returns `false`.
    ///
    /// # Example
    /// ```
    /// use burn::nn::BatchNormConfig;
    /// use updraft_precision::Policy;
    ///
    /// let norm = BatchNormConfig::new(8).init(&burn::tensor::Device::flex());
    /// assert!(Policy::F32.check_norms(&norm, |_| false).is_ok());
    /// assert!(Policy::BF16_MIXED.check_norms(&norm, |_| false).is_err());
    /// assert!(Policy::BF16_MIXED.check_norms(&norm, |norm| norm.path == "head").is_err());
    /// ```
    pub fn check_norms<M: Module>(
        &self,
        module: &M,
        is_cast: impl Fn(&Norm) -> bool,
    ) -> Result<(), PrecisionError> {
        if self.compute == self.param {
            return Ok(());
        }
        match norms(module).into_iter().find(|norm| !is_cast(norm)) {
            None => Ok(()),
            Some(Norm { path, container }) => Err(PrecisionError::UncastNorm {
                policy: self.to_string(),
                path,
                container,
                compute: self.compute.into(),
            }),
        }
    }

    /// The fastest policy that every model can be trained under on a device, with the reason; f32 where
    /// most networks would gain nothing.
    ///
    /// # Example
    /// ```
    /// use updraft_precision::Policy;
    ///
    /// let device = burn::tensor::Device::flex();
    /// let (policy, _) = Policy::of_device(&device);
    /// assert!(policy.check_device(&device).is_ok() && policy.check_training().is_ok());
    /// ```
    #[must_use]
    pub fn of_device(device: &Device) -> (Self, &'static str) {
        // Without AMX, convolutions stay in f32 and most networks gain nothing.
        if Bf16Unit::detect().has_tiles() && Self::BF16_PRODUCTS.check_device(device).is_ok() {
            return (Self::BF16_PRODUCTS, "the processor multiplies bf16 with AMX");
        }
        match Self::BF16_MIXED.check_device(device) {
            Ok(Arithmetic::TensorCores) => {
                (Self::BF16_MIXED, "the device has units for matrix products of bf16")
            }
            _ if Bf16Unit::detect().is_fast() && multiplies_bf16(device) => {
                (Self::F32, "products of bf16 would be faster in few layers only")
            }
            _ => (Self::F32, "the device has no unit for matrix products of bf16"),
        }
    }

    /// How a device computes under this policy.
    ///
    /// # Errors
    /// [`PrecisionError::UnsupportedDtype`] naming the first of the three dtypes that the device
    /// has no arithmetic for; [`PrecisionError::NoBf16Unit`] for products in bf16 on a device
    /// without kernels for them, or on a processor that would compute them slower than in f32.
    pub fn check_device(&self, device: &Device) -> Result<Arithmetic, PrecisionError> {
        for dtype in [self.param, self.compute, self.output] {
            if !device.supports_dtype(dtype) {
                return Err(PrecisionError::UnsupportedDtype {
                    policy: self.to_string(),
                    dtype: dtype.into(),
                    device: named(device),
                });
            }
        }
        if self.products == Products::Bf16 {
            return match multiplies_bf16(device) {
                true => Ok(Arithmetic::TensorCores),
                false => {
                    let (policy, device) = (self.to_string(), named(device));
                    Err(PrecisionError::NoBf16Unit { policy, device })
                }
            };
        }
        let usage = Dispatch::dtype_usage(device.as_dispatch(), self.compute.into());
        Ok(if usage.contains(DTypeUsage::Accelerated) {
            Arithmetic::TensorCores
        } else {
            Arithmetic::General
        })
    }

    /// Runs a forward pass under this policy: kernels multiply what its `products` are, also in the
    /// gradients of what they compute, and also in a backward pass within the scope that computes
    /// activations again.
    ///
    /// On a processor without a unit for bf16, products are in f32, so that a model that was trained
    /// on another one can be used; [`check_device`](Self::check_device) refuses to train there.
    ///
    /// # Example
    /// ```
    /// use updraft_precision::Policy;
    /// use updraft_simd::{Bf16Unit, Products};
    ///
    /// let inside = Policy::BF16_PRODUCTS.scope(Products::current);
    /// assert_eq!(inside == Products::Bf16, Bf16Unit::detect().is_fast());
    /// ```
    pub fn scope<T>(&self, run: impl FnOnce() -> T) -> T {
        let products = match Bf16Unit::detect().is_fast() {
            true => self.products,
            false => Products::F32,
        };
        products.scope(run)
    }

    /// Returns a module whose layers get their parameters in the compute dtype.
    ///
    /// The stored parameters keep their dtype, in the optimizer and in records, and so do their
    /// gradients. Parameters of normalizations stay wide. If parameters and computation have the
    /// same dtype, the module is returned unchanged.
    ///
    /// The module must not carry reparameterizations already: burn does not nest them.
    #[must_use]
    pub fn autocast<M: Module>(&self, module: M) -> M {
        if self.compute == self.param {
            return module;
        }
        let islands = islands(&module);
        module.apply_reparameterization(Autocast::new(self.compute, islands))
    }
}

/// A device's name, the same with and without autodiff.
fn named(device: &Device) -> String {
    format!("{:?}", device.clone().without_autodiff())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loss_scale::DynamicScale;

    #[test]
    fn training_refuses_what_would_lose_updates_by_name() {
        assert_eq!(Policy::F32.check_training(), Ok(()));
        assert_eq!(Policy::BF16_MIXED.check_training(), Ok(()));
        let refused = |policy: Policy| policy.check_training().expect_err("refused").to_string();
        assert!(refused(Policy::F16_MIXED).contains("loss scale"));
        let dynamic = LossScale::Dynamic(DynamicScale::default());
        assert_eq!(Policy::F16_MIXED.check_training_scaled(&dynamic), Ok(()));
        let broken = LossScale::Static { scale: -1.0 };
        assert!(Policy::F16_MIXED.check_training_scaled(&broken).is_err());
        assert!(refused(Policy::BF16).contains("masters"));
        let narrow = Policy { output: FloatDType::F16, ..Policy::F32 };
        assert!(refused(narrow).contains("p=f32,c=f32,o=f16"));
    }
}
