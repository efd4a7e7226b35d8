//! A network from named tensors.

use burn::tensor::{Device, TensorData};

use super::error::ImportError;
use super::parts::Parts;
use super::state::State;
use super::{efficient_kan, fast_kan, pykan};
use crate::kernels::Activation;
use crate::layer::Kan;

impl Kan {
    /// The network whose weights efficient-kan or pykan 0.2 has saved, found by their names; all
    /// other tensors are ignored.
    ///
    /// The layers, numbered from 0, may lie at any depth of a larger model, but of one network only;
    /// a single layer of efficient-kan may have any name. `activation` is the function of the base
    /// branch, which the files do not contain; the default of both projects is
    /// [`Activation::Silu`]. The sources' rule outside the grid is
    /// [`Outside::Zero`](crate::Outside::Zero). Knots within rounding of an even grid become an
    /// even grid. A mask and the affine maps of pykan's nodes are multiplied into the weights.
    ///
    /// # Errors
    /// [`ImportError`] if there is no such network, its tensors do not fit each other, or it
    /// computes what spline layers cannot represent: formulas on edges, multiplications, and
    /// fast-kan's Gaussians over normalized inputs, which
    /// [`BasisKan::import`](crate::BasisKan::import) reads.
    pub fn import(
        tensors: impl IntoIterator<Item = (String, TensorData)>,
        activation: Activation,
        device: &Device,
    ) -> Result<Self, ImportError> {
        let parts = parts(&State::new(tensors))?;
        for pair in parts.windows(2) {
            let (expected, actual) = (pair[0].outputs, pair[1].inputs);
            if expected != actual {
                return Err(ImportError::Chain { name: pair[1].name.clone(), expected, actual });
            }
        }
        let layers = parts.into_iter().map(|parts| parts.layer(activation, device));
        Ok(Self { layers: layers.collect::<Result<_, _>>()? })
    }
}

/// The layers, from the input to the output.
fn parts(state: &State) -> Result<Vec<Parts>, ImportError> {
    let original = state.prefixes(pykan::COEFFICIENTS);
    if !original.is_empty() {
        let (network, count) = numbered(&original)?;
        let Some(prefix) = network.strip_suffix("act_fun.") else {
            return Err(ImportError::Missing { name: "act_fun.0.coef".to_owned() });
        };
        return (0..count).map(|number| pykan::layer(state, prefix, number)).collect();
    }
    match state.prefixes(efficient_kan::COEFFICIENTS).as_slice() {
        [] => Err(match state.names().find(|name| name.ends_with(fast_kan::CENTERS)) {
            Some(name) => ImportError::Gaussian { name: name.to_owned() },
            None => ImportError::NoLayers { tensors: state.names().len() },
        }),
        [prefix] => Ok(vec![efficient_kan::layer(state, prefix)?]),
        prefixes => {
            let (network, count) = numbered(prefixes)?;
            let prefix = |number| format!("{network}{number}.");
            (0..count).map(|number| efficient_kan::layer(state, &prefix(number))).collect()
        }
    }
}

/// The common beginning of the prefixes `{beginning}{number}.`, whose numbers count from 0,
/// and how many there are.
pub(super) fn numbered<'a>(prefixes: &[&'a str]) -> Result<(&'a str, usize), ImportError> {
    let beginning = |prefix: &'a str| {
        let without_dot = prefix.strip_suffix('.').unwrap_or(prefix);
        without_dot.trim_end_matches(|symbol: char| symbol.is_ascii_digit())
    };
    let first = beginning(prefixes[0]);
    for number in 0..prefixes.len() {
        let wanted = format!("{first}{number}.");
        if !prefixes.contains(&wanted.as_str()) {
            let stranger = prefixes.iter().find(|prefix| beginning(prefix) != first);
            return Err(match stranger {
                Some(stranger) => ImportError::Layers {
                    first: prefixes[0].to_owned(),
                    second: (*stranger).to_owned(),
                },
                None => ImportError::Missing { name: wanted },
            });
        }
    }
    Ok((first, prefixes.len()))
}
