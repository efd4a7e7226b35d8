//! A layer on burn's tensors: its result, or its result with the gradients of input and parameters.

use anyhow::Result;
use burn::tensor::{DType, Device, Tensor, TensorData};

use crate::problem::{Outputs, Pass, Repeat, numbers};

/// The arguments of a layer: its input, and parameters by name.
#[derive(Clone)]
pub(crate) struct Leaves<const D: usize> {
    pub(crate) x: Tensor<D>,
    /// The weights of a convolution.
    pub(crate) w: Option<Tensor<D>>,
    /// Scale and shift of a normalization.
    pub(crate) affine: Option<[Tensor<1>; 2]>,
}

/// A layer of its leaves.
pub(crate) type Layer<const D: usize> = Box<dyn Fn(Leaves<D>) -> Tensor<D>>;

/// Values and their shape.
pub(crate) type Given<const D: usize> = (Vec<f32>, [usize; D]);

/// The layer with its leaves on a device.
pub(crate) struct LayerPass<const D: usize> {
    layer: Layer<D>,
    leaves: Leaves<D>,
    /// The factors of the loss `Σ y·g`.
    g: Tensor<D>,
    pass: Pass,
    device: Device,
}

impl<const D: usize> LayerPass<D> {
    /// The leaves by their values, in f32 or f64.
    pub(crate) fn new(
        layer: Layer<D>,
        [x, g]: [Given<D>; 2],
        w: Option<Given<D>>,
        affine: Option<[Vec<f32>; 2]>,
        (pass, dtype): (Pass, DType),
        device: &Device,
    ) -> Self {
        let device = pass.device(device);
        let load = |(values, shape): Given<D>| {
            let data = TensorData::new(values, shape).convert_dtype(dtype);
            Tensor::<D>::from_data(data, (&device, dtype))
        };
        let vector = |values: Vec<f32>| {
            let count = values.len();
            let data = TensorData::new(values, [count]).convert_dtype(dtype);
            Tensor::<1>::from_data(data, (&device, dtype))
        };
        let leaves =
            Leaves { x: load(x), w: w.map(load), affine: affine.map(|both| both.map(vector)) };
        Self { layer, leaves, g: load(g), pass, device }
    }

    fn run(&self) -> (Tensor<D>, Option<Leaves<D>>) {
        let Leaves { x, w, affine } = self.leaves.clone();
        if self.pass == Pass::Forward {
            return ((self.layer)(Leaves { x, w, affine }), None);
        }
        let leaves = Leaves {
            x: x.require_grad(),
            w: w.map(Tensor::require_grad),
            affine: affine.map(|both| both.map(Tensor::require_grad)),
        };
        let y = (self.layer)(leaves.clone());
        let mut found = (y.clone() * self.g.clone()).sum().backward();
        let takes_part = "it takes part in the loss";
        let gradients = Leaves {
            x: leaves.x.grad_remove(&mut found).expect(takes_part),
            w: leaves.w.map(|w| w.grad_remove(&mut found).expect(takes_part)),
            affine: leaves
                .affine
                .map(|both| both.map(|v| v.grad_remove(&mut found).expect(takes_part))),
        };
        (y.inner(), Some(gradients))
    }
}

impl<const D: usize> Repeat for LayerPass<D> {
    fn once(&mut self) -> Result<()> {
        std::hint::black_box(self.run());
        self.device.sync()?;
        Ok(())
    }

    fn outputs(&mut self) -> Result<Outputs> {
        let (y, gradients) = self.run();
        let mut outputs = Outputs::from([("y".to_owned(), numbers(y))]);
        if let Some(Leaves { x, w, affine }) = gradients {
            outputs.insert("dx".to_owned(), numbers(x));
            if let Some(w) = w {
                outputs.insert("dw".to_owned(), numbers(w));
            }
            if let Some([gamma, beta]) = affine {
                outputs.insert("dgamma".to_owned(), numbers(gamma));
                outputs.insert("dbeta".to_owned(), numbers(beta));
            }
        }
        Ok(outputs)
    }
}
