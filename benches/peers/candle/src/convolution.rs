//! Convolution, forward and with its gradients.

use burn::backend::{Autodiff, Candle};
use burn::tensor::Tensor;
use burn::tensor::backend::Backend;
use burn::tensor::module::conv2d;
use burn::tensor::ops::ConvOptions;

use crate::worker::Compute;
use crate::{formula, load, numbers};

/// A square kernel over square images, padded by half the kernel.
pub(crate) struct Convolution {
    pub(crate) batch: usize,
    pub(crate) channels: [usize; 2],
    pub(crate) groups: usize,
    pub(crate) side: usize,
    pub(crate) kernel: usize,
    pub(crate) stride: usize,
}

impl Convolution {
    fn inputs<B: Backend>(&self) -> [Tensor<B, 4>; 3] {
        let [input, output] = self.channels;
        let out = (self.side + 2 * (self.kernel / 2) - self.kernel) / self.stride + 1;
        let inputs = input / self.groups;
        let scale = formula::weight_scale(inputs * self.kernel * self.kernel);
        [
            ("x", [self.batch, input, self.side, self.side], 1.0),
            ("w", [output, inputs, self.kernel, self.kernel], scale),
            ("g", [self.batch, output, out, out], 1.0),
        ]
        .map(|(name, shape, scale)| {
            load(formula::tensor(name, shape.iter().product(), scale), shape)
        })
    }

    fn options(&self) -> ConvOptions<2> {
        ConvOptions::new([self.stride; 2], [self.kernel / 2; 2], [1, 1], self.groups)
    }

    pub(crate) fn forward(&self) -> Compute {
        let [x, w, _] = self.inputs::<Candle>();
        let options = self.options();
        Box::new(move |read| {
            let y = conv2d(x.clone(), w.clone(), None, options.clone());
            let y = std::hint::black_box(y);
            if read { vec![("y".into(), numbers(y))] } else { Vec::new() }
        })
    }

    pub(crate) fn training(&self) -> Compute {
        let [x, w, g] = self.inputs::<Autodiff<Candle>>();
        let options = self.options();
        Box::new(move |read| {
            let (x, w) = (x.clone().require_grad(), w.clone().require_grad());
            let y = conv2d(x.clone(), w.clone(), None, options.clone());
            let mut gradients = (y.clone() * g.clone()).sum().backward();
            let dx = x.grad_remove(&mut gradients).expect("x takes part in the loss");
            let dw = w.grad_remove(&mut gradients).expect("w takes part in the loss");
            if read {
                vec![("y".into(), numbers(y.inner())), ("dx".into(), numbers(dx)), ("dw".into(), numbers(dw))]
            } else {
                Vec::new()
            }
        })
    }
}
