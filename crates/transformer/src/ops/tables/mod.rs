//! Networks for the rows of tables as differentiable operations: features of rows, and a perceptron.

#[cfg(all(feature = "flex", feature = "autodiff"))]
mod autodiff;
mod cross_entropy;
#[cfg(feature = "flex")]
mod extension;
#[cfg(feature = "flex")]
mod flex;
pub(crate) mod plain;
#[cfg(all(test, feature = "flex", feature = "autodiff"))]
mod tests;

#[cfg(feature = "flex")]
use burn::backend::Dispatch;
#[cfg(feature = "flex")]
use burn::tensor::DType;
use burn::tensor::{Int, Tensor};
pub use cross_entropy::cross_entropy;
use updraft_simd::{add_operations, time_operation};

#[cfg(feature = "flex")]
use self::extension::{Parameters, PerceptronPlan, TableBackend};
#[cfg(feature = "flex")]
use super::{dropout::key, plain as plain_path, runs_kernels};
#[cfg(feature = "flex")]
use crate::kernels::Dropout;

/// Embeds each number `x` of a row as `relu([sin 2πfx, cos 2πfx]·W + b)`.
#[derive(Debug, Clone)]
pub struct PeriodicEmbedding {
    /// `f`, `[numbers, count]`, separate for each number.
    pub frequencies: Tensor<2>,
    /// `W`, `[2 · count, size]`, the same for all numbers.
    pub weight: Tensor<2>,
    /// `b`, `[size]`.
    pub bias: Tensor<1>,
}

/// A linear layer, `x·weight + bias`, with the weights as burn's `Linear` has them.
#[derive(Debug, Clone)]
pub struct DenseLayer {
    /// `[inputs, outputs]`
    pub weight: Tensor<2>,
    /// `[outputs]`
    pub bias: Tensor<1>,
}

/// The features of a table's rows: the embeddings of the categories of each column, then the numbers or
/// their periodic embeddings.
///
/// On flex in f32 it is one pass over the rows in each direction; elsewhere burn's operations compute
/// the same.
///
/// # Shapes
/// - `classes`: `[rows, columns]`, each less than the classes of its column
/// - `numbers`: `[rows, numbers]`
/// - `embeddings`: for each column `[classes, size]`
/// - result: `[rows, features]`
///
/// # Panics
/// If the shapes do not match, or a class is not one of its column.
///
/// # Source
/// Gorishniy, Rubachev and Babenko 2022, arXiv:2203.05556, section 3.3, for periodic embeddings.
#[must_use]
pub fn row_features(
    classes: Tensor<2, Int>,
    numbers: Tensor<2>,
    embeddings: Vec<Tensor<2>>,
    periodic: Option<PeriodicEmbedding>,
) -> Tensor<2> {
    let ([rows, columns], of_numbers) = (classes.dims(), numbers.dims());
    assert_eq!(columns, embeddings.len(), "a class for each column of categories");
    assert_eq!(rows, of_numbers[0], "rows of classes and of numbers");
    let mut products = 0;
    if let Some(PeriodicEmbedding { frequencies, weight, bias }) = &periodic {
        let ([count, each], [terms, size]) = (frequencies.dims(), weight.dims());
        assert!(
            count == of_numbers[1] && terms == 2 * each && bias.dims() == [size],
            "frequencies [{count}, {each}], weights [{terms}, {size}] and a bias of {:?} for {} numbers",
            bias.dims(),
            of_numbers[1]
        );
        products = rows * count * terms * size;
    }
    time_operation("features of rows", || {
        add_operations(2 * products as u64);
        #[cfg(feature = "flex")]
        if rows > 0
            && takes(&embeddings, periodic.as_ref(), &numbers)
            && matches!(classes.dtype(), DType::I32 | DType::I64)
        {
            let mut parameters: Vec<_> =
                embeddings.into_iter().map(Tensor::into_dispatch).collect();
            if let Some(PeriodicEmbedding { frequencies, weight, bias }) = periodic {
                parameters.extend([frequencies, weight].map(Tensor::into_dispatch));
                parameters.push(bias.into_dispatch());
            }
            let (classes, numbers) = (classes.into_dispatch(), numbers.into_dispatch());
            let (features, _) =
                Dispatch::row_features(classes, numbers, Parameters(parameters), columns);
            return Tensor::from_dispatch(features);
        }
        plain::row_features(classes, numbers, embeddings, periodic)
    })
}

/// A perceptron: layers with `ReLU` and dropout, and a linear head for each result.
///
/// On flex in f32, rows pass through all layers while they are in the cache, and the masks of dropout
/// are a function of a key that is drawn from the device's random state; burn's operations compute the
/// same with the same masks on flex, and with masks that the device draws elsewhere.
///
/// # Shapes
/// - `x`: `[rows, inputs]`
/// - result: for each head `[rows, outputs]`
///
/// # Panics
/// If the shapes do not match, there is no head, or `dropout` is not at least 0 and below 1.
///
/// # Source
/// Srivastava and others 2014, "Dropout: a simple way to prevent neural networks from overfitting".
#[must_use]
pub fn perceptron(
    x: Tensor<2>,
    layers: Vec<DenseLayer>,
    heads: Vec<DenseLayer>,
    dropout: f64,
) -> Vec<Tensor<2>> {
    let [rows, mut inputs] = x.dims();
    let (hidden, mut products) = (layers.len(), 0);
    assert!(!heads.is_empty(), "a perceptron has a head");
    assert!((0.0..1.0).contains(&dropout), "a dropout probability of {dropout}");
    for (index, DenseLayer { weight, bias }) in layers.iter().chain(&heads).enumerate() {
        let [own, outputs] = weight.dims();
        assert!(
            own == inputs && bias.dims() == [outputs],
            "a layer of {own} inputs and {outputs} outputs takes no {inputs} features with a bias of {:?}",
            bias.dims()
        );
        products += rows * inputs * outputs;
        inputs = if index < hidden { outputs } else { inputs };
    }
    time_operation("perceptron", || {
        add_operations(2 * products as u64);
        #[cfg(feature = "flex")]
        if hidden > 0 && products > 0 && all_take_kernels(&x, &layers, &heads) {
            return fused(x, layers, heads, dropout);
        }
        plain::perceptron(x, layers, heads, dropout)
    })
}

#[cfg(feature = "flex")]
fn fused(
    x: Tensor<2>,
    layers: Vec<DenseLayer>,
    heads: Vec<DenseLayer>,
    dropout: f64,
) -> Vec<Tensor<2>> {
    let dropout = (dropout > 0.0).then(|| Dropout::new(key(&x.device()), dropout));
    let plan = PerceptronPlan { hidden: layers.len(), dropout };
    let widths: Vec<usize> = heads.iter().map(|head| head.bias.dims()[0]).collect();
    let parameters = layers.into_iter().chain(heads);
    let parameters = parameters
        .flat_map(|layer| [layer.weight.into_dispatch(), layer.bias.into_dispatch()])
        .collect();
    let (y, _) = Dispatch::perceptron(x.into_dispatch(), Parameters(parameters), plan);
    let y = Tensor::<2>::from_dispatch(y);
    if widths.len() == 1 {
        return vec![y];
    }
    let starts = widths.iter().scan(0, |start, width| {
        *start += width;
        Some(*start - width)
    });
    starts.zip(&widths).map(|(start, &width)| y.clone().narrow(1, start, width)).collect()
}

#[cfg(feature = "flex")]
fn all_take_kernels(x: &Tensor<2>, layers: &[DenseLayer], heads: &[DenseLayer]) -> bool {
    let all = || layers.iter().chain(heads);
    2 * all().count() < extension::MOST_PARENTS
        && is_ours(x)
        && all().all(|layer| is_ours(&layer.weight) && is_ours(&layer.bias))
        // Panels of every head together.
        && all().all(|layer| layer.bias.dims() != [0])
}

/// Whether the kernels take the parameters of features.
#[cfg(feature = "flex")]
fn takes(
    embeddings: &[Tensor<2>],
    periodic: Option<&PeriodicEmbedding>,
    numbers: &Tensor<2>,
) -> bool {
    let sizes = embeddings.iter().map(|vectors| vectors.dims()[1]).sum::<usize>();
    embeddings.len() + 4 < extension::MOST_PARENTS
        && sizes + numbers.dims()[1] > 0
        && is_ours(numbers)
        && embeddings.iter().all(is_ours)
        && periodic.is_none_or(|PeriodicEmbedding { frequencies, weight, bias }| {
            frequencies.dims().iter().chain(&weight.dims()).all(|&len| len > 0)
                && is_ours(frequencies)
                && is_ours(weight)
                && is_ours(bias)
        })
}

#[cfg(feature = "flex")]
fn is_ours<const D: usize>(tensor: &Tensor<D>) -> bool {
    !plain_path::is_default() && tensor.dtype() == DType::F32 && runs_kernels(&tensor.device())
}
