//! Gradients of several batches as one mean over their samples.

use burn::module::{Module, ModuleVisitor, Param};
use burn::optim::GradientsParams;
use burn::tensor::Tensor;

/// The mean of gradients over samples that came in several batches.
///
/// With `gᵢ` the gradient of batch `i`'s mean loss and `nᵢ` its samples, the result is
/// `Σ nᵢ·gᵢ / Σ nᵢ`: the gradient of the mean loss over all samples, however they are split. A
/// parameter that a batch's loss does not depend on counts there with a gradient of zero. The
/// gradients of a single batch are returned unchanged, bit for bit.
///
/// burn's `GradientsAccumulator` takes the sum, which makes the update grow with the number of
/// batches.
#[derive(Debug, Default)]
pub(crate) struct GradientMean {
    gathered: Option<GradientsParams>,
    samples: usize,
    batches: usize,
}

impl GradientMean {
    /// Adds the gradients of a batch's mean loss; `module` determines the order of the tensors.
    pub(crate) fn add<M: Module>(
        &mut self,
        gradients: GradientsParams,
        samples: usize,
        module: &M,
    ) {
        self.batches += 1;
        let gathered = match (self.gathered.take(), self.batches) {
            (None, _) => gradients,
            (Some(mut first), 2) => {
                weigh(&mut first, self.samples as f64, module);
                added(first, gradients, samples as f64, module)
            }
            (Some(sum), _) => added(sum, gradients, samples as f64, module),
        };
        self.gathered = Some(gathered);
        self.samples += samples;
    }

    /// The mean over all added samples; empty if there are none.
    #[must_use]
    pub(crate) fn into_mean<M: Module>(self, module: &M) -> GradientsParams {
        let mut gathered = self.gathered.unwrap_or_default();
        if self.batches > 1 {
            weigh(&mut gathered, 1.0 / self.samples as f64, module);
        }
        gathered
    }
}

fn weigh<M: Module>(gradients: &mut GradientsParams, weight: f64, module: &M) {
    module.visit(&mut Weigh { gradients, weight });
}

fn added<M: Module>(
    mut sum: GradientsParams,
    mut gradients: GradientsParams,
    weight: f64,
    module: &M,
) -> GradientsParams {
    module.visit(&mut Add { sum: &mut sum, gradients: &mut gradients, weight });
    sum
}

struct Weigh<'a> {
    gradients: &'a mut GradientsParams,
    weight: f64,
}

impl ModuleVisitor for Weigh<'_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        if let Some(gradient) = self.gradients.remove::<D>(param.id) {
            self.gradients.register(param.id, gradient.mul_scalar(self.weight));
        }
    }
}

struct Add<'a> {
    sum: &'a mut GradientsParams,
    gradients: &'a mut GradientsParams,
    weight: f64,
}

impl ModuleVisitor for Add<'_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let Some(gradient) = self.gradients.remove::<D>(param.id) else { return };
        let weighted = gradient.mul_scalar(self.weight);
        let sum = match self.sum.remove::<D>(param.id) {
            Some(sum) => sum + weighted,
            None => weighted,
        };
        self.sum.register(param.id, sum);
    }
}

#[cfg(test)]
mod tests {
    use burn::nn::{Linear, LinearConfig};
    use burn::tensor::Device;
    use updraft_testing::{alone, assert_close, autodiff_devices, tolerance};

    use super::*;

    fn images(device: &Device) -> Tensor<2> {
        let values = [[0.3, -0.7], [1.1, 0.9], [0.2, -0.4], [0.5, 0.8], [-1.0, 0.6]];
        Tensor::from_floats(values, device)
    }

    fn gradients(module: &Linear, rows: std::ops::Range<usize>) -> GradientsParams {
        let input = images(&module.weight.val().device()).slice([rows, 0..2]);
        let loss = module.forward(input).powi_scalar(2).sum_dim(1).mean();
        GradientsParams::from_grads(loss.backward(), module)
    }

    #[test]
    fn batches_of_any_size_give_the_gradient_of_all_their_samples() {
        for device in autodiff_devices() {
            device.seed(1);
            let module = LinearConfig::new(2, 3).init(&device);
            let whole = gradients(&module, 0..5);
            for cuts in [vec![0, 5], vec![0, 2, 5], vec![0, 1, 3, 4, 5]] {
                let mut mean = GradientMean::default();
                for cut in cuts.windows(2) {
                    mean.add(gradients(&module, cut[0]..cut[1]), cut[1] - cut[0], &module);
                }
                let mean = mean.into_mean(&module);
                let expected = whole.get::<2>(module.weight.id).expect("a gradient");
                let found = mean.get::<2>(module.weight.id).expect("a gradient");
                assert_close(&found, &expected, tolerance::F32);
            }
        }
    }

    #[test]
    fn a_parameter_missing_from_one_batch_counts_as_zero_there() {
        let _alone = alone();
        let device = Device::flex().autodiff();
        let module = LinearConfig::new(2, 1).init(&device);
        let bias = module.bias.as_ref().expect("a bias");
        let mut mean = GradientMean::default();
        let loss = module.weight.val().sum();
        mean.add(GradientsParams::from_grads(loss.backward(), &module), 3, &module);
        let loss = bias.val().mul_scalar(8.0).sum();
        mean.add(GradientsParams::from_grads(loss.backward(), &module), 1, &module);
        let mean = mean.into_mean(&module);
        assert_close(&mean.get::<2>(module.weight.id).expect("one"), &[0.75, 0.75], tolerance::F32);
        assert_close(&mean.get::<1>(bias.id).expect("one"), &[2.0], tolerance::F32);
    }
}
