//! Networks of fast-kan.

use burn::module::{Module, Param};
use burn::nn::LayerNormConfig;
use burn::tensor::{Device, Tensor, TensorData};

use super::error::ImportError;
use super::network::numbered;
use super::parts::outputs_last;
use super::state::{State, swapped};
use crate::basis::{Basis, Centers};
use crate::kernels::Activation;
use crate::layer::{BasisKan, BasisLinear};

/// How the name of a layer's centers ends.
pub(super) const CENTERS: &str = "rbf.grid";

impl BasisKan {
    /// The network whose weights fast-kan has saved, found by their names; all other tensors
    /// are ignored.
    ///
    /// The layers, numbered from 0, may lie at any depth of a larger model, but of one network only;
    /// a single layer may have any name. `activation` is the function of the base branch, which the
    /// files do not contain; fast-kan's default is [`Activation::Silu`]. The width of
    /// the Gaussians, which the files do not contain either, is the distance of the centers.
    /// Centers and width are not trained, as in fast-kan.
    ///
    /// # Errors
    /// [`ImportError`] if there is no such network, or its tensors do not fit each other.
    pub fn import(
        tensors: impl IntoIterator<Item = (String, TensorData)>,
        activation: Activation,
        device: &Device,
    ) -> Result<Self, ImportError> {
        let state = State::new(tensors);
        let prefixes = state.prefixes(CENTERS);
        let layer = |prefix: &str| layer(&state, prefix, activation, device);
        let layers = match prefixes.as_slice() {
            [] => return Err(ImportError::NoGaussians { tensors: state.names().len() }),
            [prefix] => vec![layer(prefix)?],
            prefixes => {
                let (network, count) = numbered(prefixes)?;
                let of_number = |number| layer(&format!("{network}{number}."));
                (0..count).map(of_number).collect::<Result<_, _>>()?
            }
        };
        for (index, pair) in layers.windows(2).enumerate() {
            let features = |layer: &BasisLinear| layer.coefficients.dims();
            let ([_, _, expected], [actual, ..]) = (features(&pair[0]), features(&pair[1]));
            if expected != actual {
                let name = format!("{}{CENTERS}", prefixes[index + 1]);
                return Err(ImportError::Chain { name, expected, actual });
            }
        }
        Ok(Self { layers })
    }
}

/// The layer whose names begin with `prefix`.
///
/// # Source
/// <https://github.com/ZiyaoLi/fast-kan> at 01b59f7: `spline_linear.weight` is `[out, in·centers]`,
/// `base_linear.weight` is `[out, in]`, and the base branch sees the input before the norm.
fn layer(
    state: &State,
    prefix: &str,
    activation: Activation,
    device: &Device,
) -> Result<BasisLinear, ImportError> {
    let name = |part: &str| format!("{prefix}{part}");
    let [count] = state.shape(&name(CENTERS))?;
    let centers = state.numbers(&name(CENTERS), [count])?;
    let (low, high) = match centers.as_slice() {
        [first, .., last] if first < last => (f64::from(*first), f64::from(*last)),
        _ => {
            let (name, expected, actual) = (name(CENTERS), vec![0], vec![count]);
            return Err(ImportError::Shape { name, expected, actual });
        }
    };
    let [outputs, columns] = state.shape(&name("spline_linear.weight"))?;
    let inputs = columns / count;
    let weight = state.numbers(&name("spline_linear.weight"), [outputs, inputs * count])?;
    let weight = outputs_last(&swapped(&weight, outputs, inputs, count), outputs, count);
    let width = (high - low) / (count - 1) as f64;
    let mut parameters: Vec<f32> = centers;
    parameters.push((1.0 / width) as f32);

    let base = state.optional(&name("base_linear.weight"), [outputs, inputs])?;
    let base = base.map(|base| swapped(&base, outputs, inputs, 1));
    let bias = state.optional(&name("base_linear.bias"), [outputs])?;
    let norm = match state.optional(&name("layernorm.weight"), [inputs])? {
        Some(weight) => {
            let mut norm = LayerNormConfig::new(inputs).init(device);
            norm.gamma = parameter(weight, [inputs], device);
            let bias = state.numbers(&name("layernorm.bias"), [inputs])?;
            norm.beta = Some(parameter(bias, [inputs], device));
            Some(norm)
        }
        None => None,
    };
    let functions = parameter(parameters, [1, count + 1], device);
    Ok(BasisLinear {
        coefficients: parameter(weight, [inputs, count, outputs], device),
        functions: Some(functions.no_grad()),
        base: base.map(|base| parameter(base, [inputs, outputs], device)),
        bias: bias.map(|bias| parameter(bias, [outputs], device)),
        norm,
        basis: Basis::Gaussian(Centers { functions: count, low, high }),
        activation,
        forced: None,
    })
}

fn parameter<const D: usize>(
    numbers: Vec<f32>,
    shape: [usize; D],
    device: &Device,
) -> Param<Tensor<D>> {
    Param::from_tensor(Tensor::from_data(TensorData::new(numbers, shape), device))
}
