//! Scaled losses, and gradients without the scale: clipped, or skipped.

use burn::module::Module;
use burn::optim::GradientsParams;
use burn::tensor::Tensor;

use crate::clip::{clipped_by, multiply, norm_of, read_square_sums};
use crate::error::PrecisionError;
use crate::finite::first_non_finite;
use crate::loss_scale::LossScaler;

/// The gradients of a step, or its skip.
pub enum Unscaled {
    /// They are finite: pass them to the optimizer.
    Update {
        /// The gradients without the scale, clipped.
        gradients: GradientsParams,
        /// Their global norm before clipping.
        norm: f64,
    },
    /// They overflowed: this step changes nothing, and the next one has a lower scale.
    Skip {
        /// The scale of the next step.
        scale: f64,
    },
}

impl LossScaler {
    /// The loss times the scale, to run the backward pass from.
    #[must_use]
    pub fn scale_loss<const D: usize>(&self, loss: Tensor<D>) -> Tensor<D> {
        if self.scale() == 1.0 { loss } else { loss.mul_scalar(self.scale()) }
    }

    /// Divides a step's gradients by the scale, clips them, and updates the scale.
    ///
    /// The finite check and the norm use the same number, so the device is read once; unscaling and
    /// clipping are one factor, so each tensor is multiplied once, or not at all if it is 1.
    /// Sums are taken in module order. A sum of squares too large for f32 is an overflow too: a
    /// lower scale avoids it.
    ///
    /// To skip a step without any change, run it on [`attempt`](crate::attempt()).
    ///
    /// # Errors
    /// [`PrecisionError::TooManySkips`] if a dynamic scale skipped more steps in a row than its
    /// settings allow. Without a dynamic scale, the errors of
    /// [`clip_global_norm`](crate::clip_global_norm).
    pub fn unscale<M: Module>(
        &mut self,
        gradients: GradientsParams,
        module: &M,
        max_norm: Option<f64>,
    ) -> Result<Unscaled, PrecisionError> {
        let sums = read_square_sums(&gradients, module);
        self.unscale_measured(gradients, module, max_norm, &sums)
    }

    /// [`unscale`](Self::unscale) without a read of the device: `square_sums` are the numbers of
    /// [`square_sums`](crate::square_sums) of these gradients, which the caller has read.
    ///
    /// # Errors
    /// As [`unscale`](Self::unscale).
    pub fn unscale_measured<M: Module>(
        &mut self,
        mut gradients: GradientsParams,
        module: &M,
        max_norm: Option<f64>,
        square_sums: &[f64],
    ) -> Result<Unscaled, PrecisionError> {
        let scale = self.scale();
        let norm = norm_of(square_sums) / scale;
        if norm.is_finite() {
            self.follow_good();
            multiply(&mut gradients, module, clipped_by(norm, max_norm) / scale);
            return Ok(Unscaled::Update { gradients, norm });
        }
        let is_borne = self.follow_overflow();
        if is_borne {
            return Ok(Unscaled::Skip { scale: self.scale() });
        }
        let path = first_non_finite(&gradients, module);
        Err(match path {
            Some(path) if self.is_dynamic() => {
                PrecisionError::TooManySkips { skips: self.state().skips, path, scale }
            }
            Some(path) => PrecisionError::NonFiniteGradient { path },
            None => PrecisionError::NormOverflow,
        })
    }
}
