//! Gradients checked against central differences, and listed by path.

use burn::module::{Module, ModuleMapper, ModuleVisitor, Param, ParamId};
use burn::tensor::{FloatDType, Gradients, Tensor, TensorData};

use crate::closeness::{Numbers, difference};
use crate::{Tolerance, tolerance};

/// The gradient of one trainable parameter.
#[derive(Debug, Clone, PartialEq)]
pub struct ParameterGradient {
    /// Where the parameter lives, as in a record: `stages.0.color.first.weight`.
    pub path: String,
    /// Its gradient's entries, or `None` if the loss does not depend on it.
    pub values: Option<Vec<f64>>,
}

/// Checks the gradient of a scalar function at `point` against central differences.
///
/// The function is evaluated in f64, so it has to follow its input's dtype.
///
/// # Shapes
/// - `point`: any, on any device with an f64 dtype
/// - `function` returns: `[1]`
///
/// # Panics
/// If the function returns more than one value, or does not depend on its input, or an entry of
/// its gradient differs from the difference quotient by more than [`tolerance::GRADIENT`].
///
/// # Example
/// ```
/// use burn::tensor::Tensor;
/// use updraft_testing::{devices, gradient_check};
/// for device in devices() {
///     gradient_check(Tensor::from_floats([0.5, -1.5], &device), |x: Tensor<1>| x.exp().sum());
/// }
/// ```
#[track_caller]
pub fn gradient_check<const D: usize>(point: Tensor<D>, function: impl Fn(Tensor<D>) -> Tensor<1>) {
    let point = point.without_autodiff().autodiff().cast(FloatDType::F64);
    let leaf = point.clone().detach().require_grad();
    let gradients = function(leaf.clone()).backward();
    let analytic = leaf.grad(&gradients).expect("a leaf that was passed to the function").numbers();

    let values = point.numbers();
    let numeric: Vec<f64> = (0..values.len())
        .map(|i| {
            let step = step(values[i]);
            let at = |value: f64| {
                let moved = with_entry(&values, i, value);
                let data = TensorData::new(moved, point.dims());
                let options = (&point.device(), FloatDType::F64.into());
                scalar(&function(Tensor::from_data(data, options)))
            };
            (at(values[i] + step) - at(values[i] - step)) / (2.0 * step)
        })
        .collect();

    if let Some(message) = difference(&analytic, &numeric, tolerance::GRADIENT) {
        panic!("gradient against central differences: {message}");
    }
}

/// Checks the gradients of a module's parameters against central differences.
///
/// At most `entries` entries of each parameter are moved, spread evenly over it, because each
/// costs two evaluations of the loss. The module has to be in f64 (see [`in_dtype`]) and on an
/// autodiff device.
///
/// # Panics
/// If a parameter has no gradient, or an entry differs from its difference quotient by more than
/// `tolerance`; the message names the parameter's path.
#[track_caller]
pub fn parameter_gradient_check<M: Module>(
    module: &M,
    entries: usize,
    tolerance: Tolerance,
    loss: impl Fn(&M) -> Tensor<1>,
) {
    let gradients = loss(module).backward();
    for gradient in parameter_gradients(module, &gradients) {
        let path = &gradient.path;
        let Some(values) = gradient.values else {
            panic!("parameter `{path}` has no gradient");
        };
        let chosen: Vec<usize> = evenly_spread(values.len(), entries);
        let analytic: Vec<f64> = chosen.iter().map(|&i| values[i]).collect();
        let numeric: Vec<f64> = chosen
            .iter()
            .map(|&entry| {
                let at = |shift: f64| {
                    let mut mover = MoveEntry { path: Vec::new(), target: path, entry, shift };
                    scalar(&loss(&module.clone().map(&mut mover)))
                };
                let step = step(0.0);
                (at(step) - at(-step)) / (2.0 * step)
            })
            .collect();
        if let Some(message) = difference(&analytic, &numeric, tolerance) {
            panic!("gradient of `{path}` against central differences: {message}");
        }
    }
}

/// The gradient of every trainable parameter, in module order.
///
/// Statistics that a module keeps without training them are left out.
pub fn parameter_gradients<M: Module>(module: &M, gradients: &Gradients) -> Vec<ParameterGradient> {
    let mut list = ListGradients { path: Vec::new(), gradients, found: Vec::new() };
    module.visit(&mut list);
    list.found
}

/// The module with every floating-point parameter and statistic in another dtype.
pub fn in_dtype<M: Module>(module: M, dtype: FloatDType) -> M {
    module.map(&mut CastTo(dtype))
}

/// The step of a central difference in f64: ∛ε, scaled with the point.
fn step(value: f64) -> f64 {
    f64::EPSILON.cbrt() * value.abs().max(1.0)
}

fn with_entry(values: &[f64], index: usize, value: f64) -> Vec<f64> {
    let mut moved = values.to_vec();
    moved[index] = value;
    moved
}

#[track_caller]
fn scalar(tensor: &Tensor<1>) -> f64 {
    let values = tensor.numbers();
    assert_eq!(values.len(), 1, "a gradient check needs a scalar, got {} values", values.len());
    values[0]
}

fn evenly_spread(length: usize, at_most: usize) -> Vec<usize> {
    let count = at_most.min(length);
    (0..count).map(|k| k * length / count).collect()
}

struct ListGradients<'a> {
    path: Vec<String>,
    gradients: &'a Gradients,
    found: Vec<ParameterGradient>,
}

impl ModuleVisitor for ListGradients<'_> {
    fn enter_module(&mut self, name: &str, _container_type: &str) {
        self.path.push(name.to_string());
    }

    fn exit_module(&mut self, _name: &str, _container_type: &str) {
        self.path.pop();
    }

    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let tensor = param.val();
        if tensor.is_require_grad() {
            let values = tensor.grad(self.gradients).map(|gradient| gradient.numbers());
            self.found.push(ParameterGradient { path: self.path.join("."), values });
        }
    }
}

struct MoveEntry<'a> {
    path: Vec<String>,
    target: &'a str,
    entry: usize,
    shift: f64,
}

impl ModuleMapper for MoveEntry<'_> {
    fn enter_module(&mut self, name: &str, _container_type: &str) {
        self.path.push(name.to_string());
    }

    fn exit_module(&mut self, _name: &str, _container_type: &str) {
        self.path.pop();
    }

    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        if self.path.join(".") != self.target {
            return param;
        }
        let value = param.val();
        let mut values = value.numbers();
        values[self.entry] += self.shift;
        let data = TensorData::new(values, value.dims());
        let moved = Tensor::from_data(data, (&value.device(), value.dtype()));
        Param::initialized(ParamId::new(), moved.require_grad())
    }
}

struct CastTo(FloatDType);

impl ModuleMapper for CastTo {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let (id, tensor, mapper) = param.consume();
        let trains = tensor.is_require_grad();
        let tensor = tensor.cast(self.0).detach().set_require_grad(trains);
        Param::from_mapped_value(id, tensor, mapper)
    }
}

#[cfg(test)]
mod tests {
    use burn::nn::{Linear, LinearConfig};
    use burn::tensor::{DType, Device};

    use super::*;
    use crate::{autodiff_devices, devices};

    fn linear(device: &Device) -> Linear {
        device.seed(3);
        in_dtype(LinearConfig::new(3, 2).init(device), FloatDType::F64)
    }

    fn loss(module: &Linear, device: &Device) -> Tensor<1> {
        let x = [[0.3, -0.7, 1.1], [0.9, 0.2, -0.4]];
        let x = Tensor::<2>::from_data(x, (device, DType::F64));
        module.forward(x).tanh().sum()
    }

    #[test]
    fn a_right_gradient_passes() {
        for device in devices() {
            let point = Tensor::<2>::from_floats([[0.5, -1.5], [2.0, 40.0]], &device);
            gradient_check(point, |x| x.sin().mul_scalar(3.0).sum());
        }
    }

    #[test]
    #[should_panic(expected = "gradient against central differences")]
    fn a_gradient_that_forgets_a_factor_is_found() {
        let point = Tensor::<1>::from_floats([0.5, -1.5], &Device::flex());
        gradient_check(point, |x| (x.clone() * x.detach()).sum());
    }

    #[test]
    fn the_parameters_of_a_module_are_checked() {
        for device in autodiff_devices() {
            let module = linear(&device);
            parameter_gradient_check(&module, 4, tolerance::GRADIENT, |m| loss(m, &device));
        }
    }

    #[test]
    #[should_panic(expected = "gradient of `bias` against central differences")]
    fn a_wrong_parameter_gradient_is_named_by_path() {
        let device = Device::flex().autodiff();
        parameter_gradient_check(&linear(&device), 4, tolerance::GRADIENT, |m| {
            let bias = m.bias.as_ref().expect("the layer has a bias").val();
            loss(m, &device) + (bias.clone() * bias.detach()).sum()
        });
    }

    #[test]
    fn gradients_are_listed_by_path_and_frozen_parameters_left_out() {
        let device = Device::flex().autodiff();
        let mut module = linear(&device);
        module.bias = module.bias.map(|bias| bias.set_require_grad(false));
        let gradients = loss(&module, &device).backward();
        let list = parameter_gradients(&module, &gradients);
        let paths: Vec<&str> = list.iter().map(|g| g.path.as_str()).collect();
        assert_eq!(paths, ["weight"]);
        assert_eq!(list[0].values.as_ref().map(Vec::len), Some(6));
    }

    #[test]
    fn a_parameter_the_loss_ignores_has_no_gradient() {
        let device = Device::flex().autodiff();
        let module = linear(&device);
        let weight = module.weight.val();
        let gradients = weight.sum().backward();
        let list = parameter_gradients(&module, &gradients);
        assert_eq!(list[1].path, "bias");
        assert_eq!(list[1].values, None);
    }
}
