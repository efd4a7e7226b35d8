//! Generated regression data.

use std::f64::consts::PI;

use crate::error::DataError;
use crate::random::{Purpose, Random};
use crate::source::{InMemoryTensors, Targets};

/// A function to learn from samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Formula {
    /// `10 sin(π x₁ x₂) + 20 (x₃ − ½)² + 10 x₄ + 5 x₅` of ten inputs in `[0, 1]`; the last five do
    /// not matter.
    ///
    /// Source: J. Friedman, "Multivariate adaptive regression splines", 1991, section 4.3.
    Friedman1,
    /// `exp(sin(π x₁) + x₂²)` of two inputs in `[−1, 1]`.
    ///
    /// Source: Z. Liu et al., arXiv:2404.19756, equation 2.12's example, section 3.1.
    ExpSinSquare,
    /// `x₁ x₂` of two inputs in `[−1, 1]`: neither input alone predicts it.
    Product,
}

impl Formula {
    /// How many inputs there are.
    #[must_use]
    pub const fn inputs(self) -> usize {
        match self {
            Self::Friedman1 => 10,
            Self::ExpSinSquare | Self::Product => 2,
        }
    }

    /// The value without noise.
    ///
    /// # Panics
    /// If `x` has fewer than [`inputs`](Self::inputs) numbers.
    #[must_use]
    pub fn value(self, x: &[f64]) -> f64 {
        match self {
            Self::Friedman1 => {
                10.0 * (PI * x[0] * x[1]).sin()
                    + 20.0 * (x[2] - 0.5).powi(2)
                    + 10.0 * x[3]
                    + 5.0 * x[4]
            }
            Self::ExpSinSquare => ((PI * x[0]).sin() + x[1] * x[1]).exp(),
            Self::Product => x[0] * x[1],
        }
    }

    const fn lowest(self) -> f32 {
        match self {
            Self::Friedman1 => 0.0,
            Self::ExpSinSquare | Self::Product => -1.0,
        }
    }
}

/// Draws samples of a formula: uniform inputs, values with noise of the given standard deviation,
/// never beyond 3.47 times it.
///
/// Sample `i` is a function of (seed, i) alone.
///
/// # Shapes
/// Samples `[inputs]`, targets `[1]`.
///
/// # Errors
/// [`DataError::Empty`] for no samples, [`DataError::Setting`] for noise that is negative or not
/// finite.
///
/// # Example
/// ```
/// use updraft_data::{Collate, Formula, formula_samples};
///
/// let set = formula_samples(Formula::Friedman1, 100, 1.0, 7)?;
/// assert_eq!((set.len(), set.sample_shape()), (100, &[10][..]));
/// # Ok::<(), updraft_data::DataError>(())
/// ```
pub fn formula_samples(
    formula: Formula,
    samples: usize,
    noise: f32,
    seed: u64,
) -> Result<InMemoryTensors, DataError> {
    if !(noise >= 0.0 && noise.is_finite()) {
        let expected = "a finite number, 0 or above".to_owned();
        return Err(DataError::Setting { name: "noise", value: noise.to_string(), expected });
    }
    let mut inputs = Vec::with_capacity(samples * formula.inputs());
    let mut values = Vec::with_capacity(samples);
    for index in 0..samples {
        let mut random = Random::new(Purpose::Formula, seed, 0, index as u64);
        let x: Vec<f32> =
            (0..formula.inputs()).map(|_| random.between(formula.lowest(), 1.0)).collect();
        let wide: Vec<f64> = x.iter().map(|&x| f64::from(x)).collect();
        values.push(formula.value(&wide) as f32 + noise * random.bell());
        inputs.extend(x);
    }
    let targets = Targets::Values { shape: vec![1], values };
    InMemoryTensors::from_floats(samples, &[formula.inputs()], inputs, targets)
}
