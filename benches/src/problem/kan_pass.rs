//! A KAN layer on burn's tensors: its result, or its result with the gradients of input and parameters.

use std::rc::Rc;

use anyhow::{Context, Result};
use burn::module::Param;
use burn::tensor::{Device, Gradients, Tensor, TensorData};
use updraft_kan::LayerPath;

use crate::problem::{Outputs, Pass, Repeat, numbers};
use crate::strategy::{Kernels, isa_named};

/// Takes the gradient of a parameter, flattened.
type Taken = Box<dyn Fn(&mut Gradients) -> Option<Tensor<1>>>;

/// The layer with its input on a device.
pub(crate) struct KanPass<const D: usize> {
    layer: Box<dyn Fn(Tensor<D>) -> Tensor<D>>,
    x: Tensor<D>,
    /// The factors of the loss `Σ y·g`.
    g: Tensor<D>,
    parameters: Vec<(&'static str, Taken)>,
    pass: Pass,
    device: Device,
}

impl<const D: usize> KanPass<D> {
    /// The layer's `forward` with its input and the factors of the loss.
    pub(crate) fn new<L: 'static>(
        layer: &Rc<L>,
        forward: fn(&L, Tensor<D>) -> Tensor<D>,
        [x, g]: [(Vec<f32>, [usize; D]); 2],
        (pass, device): (Pass, &Device),
    ) -> Self {
        let load = |(values, shape)| Tensor::from_data(TensorData::new(values, shape), device);
        let (x, g, layer) = (load(x), load(g), Rc::clone(layer));
        let (parameters, device) = (Vec::new(), device.clone());
        Self { layer: Box::new(move |x| forward(&layer, x)), x, g, parameters, pass, device }
    }

    /// In training, the gradient of a parameter is one of the results.
    pub(crate) fn with<const P: usize>(
        mut self,
        name: &'static str,
        parameter: Option<&Param<Tensor<P>>>,
    ) -> Self {
        if let Some(parameter) = parameter {
            let value = parameter.val();
            let take =
                move |of: &mut Gradients| value.grad_remove(of).map(|dw| dw.flatten(0, P - 1));
            self.parameters.push((name, Box::new(take)));
        }
        self
    }

    fn run(&self) -> Result<Vec<(&'static str, Tensor<1>)>> {
        let flat = |tensor: Tensor<D>| tensor.flatten(0, D - 1);
        if self.pass == Pass::Forward {
            return Ok(vec![("y", flat((self.layer)(self.x.clone())))]);
        }
        let x = self.x.clone().require_grad();
        let y = (self.layer)(x.clone());
        let mut of = (y.clone() * self.g.clone()).sum().backward();
        let taken = "takes part in the loss";
        let dx = x.grad_remove(&mut of).context(taken)?;
        let mut all = vec![("y", flat(y.inner())), ("dx", flat(dx))];
        for (name, take) in &self.parameters {
            all.push((name, take(&mut of).context(taken)?));
        }
        Ok(all)
    }
}

impl<const D: usize> Repeat for KanPass<D> {
    fn once(&mut self) -> Result<()> {
        let _outputs = self.run()?;
        Ok(self.device.sync()?)
    }

    fn outputs(&mut self) -> Result<Outputs> {
        let all = self.run()?.into_iter();
        Ok(all.map(|(name, tensor)| (name.to_owned(), numbers(tensor))).collect())
    }
}

/// A parameter of the given values.
pub(crate) fn parameter<const P: usize>(
    values: Vec<f32>,
    shape: [usize; P],
    device: &Device,
) -> Param<Tensor<P>> {
    Param::from_tensor(Tensor::from_data(TensorData::new(values, shape), device))
}

/// How a layer of functions in closed form is forced to run.
pub(crate) fn path_of_basis(kernels: Kernels) -> Result<Option<LayerPath>> {
    Ok(match kernels {
        Kernels::Forced(name) => Some(LayerPath::Kernels(isa_named(name)?)),
        Kernels::Ours => None,
        Kernels::Burn => Some(LayerPath::Plain),
    })
}
