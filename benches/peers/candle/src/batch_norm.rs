//! Batch normalization with the batch's statistics, as the layer computes it in training.

use burn::backend::{Autodiff, Candle};
use burn::module::{Module, Param};
use burn::nn::{BatchNorm as Layer, BatchNormConfig};
use burn::tensor::Tensor;
use burn::tensor::backend::Backend;

use crate::worker::Compute;
use crate::{formula, load, numbers};

type Training = Autodiff<Candle>;

/// Images of `[batch, channels, side, side]`.
pub(crate) struct BatchNorm {
    pub(crate) batch: usize,
    pub(crate) channels: usize,
    pub(crate) side: usize,
}

impl BatchNorm {
    fn image<B: Backend>(&self, name: &str) -> Tensor<B, 4> {
        let shape = [self.batch, self.channels, self.side, self.side];
        load(formula::tensor(name, shape.iter().product(), 1.0), shape)
    }

    /// The layer; it takes the batch's statistics only where gradients may be asked for.
    fn layer(&self) -> Layer<Training> {
        let mut layer = BatchNormConfig::new(self.channels).init(&Default::default());
        let vector = |name| load::<Training, 1>(formula::tensor(name, self.channels, 0.5), [self.channels]);
        layer.gamma = Param::from_tensor(vector("gamma") + 1.0);
        layer.beta = Param::from_tensor(vector("beta"));
        layer
    }

    pub(crate) fn forward(&self) -> Compute {
        // Without autodiff; the batch's statistics are used nevertheless.
        let layer = self.layer().no_grad();
        let x = self.image::<Training>("x");
        Box::new(move |read| {
            let y = std::hint::black_box(layer.forward(x.clone()));
            if read { vec![("y".into(), numbers(y.inner()))] } else { Vec::new() }
        })
    }

    pub(crate) fn training(&self) -> Compute {
        let layer = self.layer();
        let (x, g) = (self.image::<Training>("x"), self.image::<Training>("g"));
        Box::new(move |read| {
            let x = x.clone().require_grad();
            let y = layer.forward(x.clone());
            let mut gradients = (y.clone() * g.clone()).sum().backward();
            let takes_part = "it takes part in the loss";
            let dx = x.grad_remove(&mut gradients).expect(takes_part);
            let dgamma = layer.gamma.grad_remove(&mut gradients).expect(takes_part);
            let dbeta = layer.beta.grad_remove(&mut gradients).expect(takes_part);
            if !read {
                return Vec::new();
            }
            let vectors = [("dgamma", numbers(dgamma)), ("dbeta", numbers(dbeta))];
            let images = [("y", numbers(y.inner())), ("dx", numbers(dx))];
            images.into_iter().chain(vectors).map(|(name, values)| (name.into(), values)).collect()
        })
    }
}
