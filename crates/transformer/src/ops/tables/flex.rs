//! The operations of tables on burn's CPU backend.

use std::borrow::Cow;
use std::cell::RefCell;

use burn::backend::Flex;
use burn::backend::flex::FlexTensor;
use burn::tensor::DType;
#[cfg(feature = "autodiff")]
use updraft_simd::Cut;
use updraft_simd::pool_threads;

#[cfg(feature = "autodiff")]
use super::extension::TableGradients;
use super::extension::{Parameters, PerceptronPlan, TableBackend};
use crate::kernels::{
    Embeddings, Layer, Perceptron, PerceptronScratch, Periodic, ROWS, RowFeatures, cross_entropy,
};
#[cfg(feature = "autodiff")]
use crate::kernels::{Passed, RowGradients};
#[cfg(feature = "autodiff")]
use crate::ops::flex::zeros;
use crate::ops::flex::{contiguous, dims, isa, keep, result, tensor};

thread_local! {
    /// Kept between operations, so that only the first one of a size allocates.
    static SCRATCH: RefCell<PerceptronScratch> = RefCell::default();
}

impl TableBackend for Flex {
    fn row_features(
        classes: FlexTensor,
        numbers: FlexTensor,
        Parameters(parameters): Parameters<Self>,
        columns: usize,
    ) -> (FlexTensor, FlexTensor) {
        let rows = dims(&numbers)[0];
        with_features(classes, &numbers, &parameters, columns, |features| {
            let (width, of_waves) = (features.features(), features.waves());
            let mut waves = Vec::new();
            let y = result(rows * width, ROWS * width, |y| {
                waves = result(rows * of_waves, (ROWS * of_waves).max(1), |waves| {
                    features.forward(isa(), y, waves, pool_threads());
                });
            });
            (tensor(y, [rows, width]), tensor(waves, [rows, of_waves]))
        })
    }

    fn perceptron(
        x: FlexTensor,
        Parameters(parameters): Parameters<Self>,
        plan: PerceptronPlan,
    ) -> (FlexTensor, FlexTensor) {
        let x = contiguous(x);
        let rows = dims(&x)[0];
        with_layers(&parameters, plan, |perceptron, outputs, scratch| {
            let mut y = vec![0.0; rows * outputs];
            let (pitch, piece) = (perceptron.hidden_pitch(), perceptron.hidden_piece());
            let hidden = result(rows * pitch, piece, |hidden| {
                perceptron.forward(isa(), x.storage(), &mut y, hidden, scratch, pool_threads());
            });
            (tensor(y, [rows, outputs]), tensor(hidden, [rows, pitch]))
        })
    }

    fn cross_entropy(
        logits: FlexTensor,
        labels: FlexTensor,
        smoothing: f32,
    ) -> (FlexTensor, FlexTensor) {
        let logits = contiguous(logits);
        let shape = dims(&logits);
        let labels = checked(contiguous(labels), &shape[1..]);
        let mut slopes = vec![0.0; shape.iter().product()];
        let loss = cross_entropy(logits.storage(), &labels, smoothing, &mut slopes);
        (tensor(vec![loss], [1]), tensor(slopes, shape))
    }
}

#[cfg(feature = "autodiff")]
impl TableGradients for Flex {
    fn row_features_gradient(
        classes: FlexTensor,
        numbers: FlexTensor,
        parameters: Vec<FlexTensor>,
        columns: usize,
        passed: [FlexTensor; 3],
        of_numbers: bool,
    ) -> (Option<FlexTensor>, Vec<FlexTensor>) {
        let passed = passed.map(contiguous);
        let mut all: Vec<Vec<f32>> =
            parameters.iter().map(|one| zeros(dims(one).iter().product())).collect();
        let mut dnumbers = of_numbers.then(|| vec![0.0; dims(&numbers).iter().product()]);
        with_features(classes, &numbers, &parameters, columns, |features| {
            let (embeddings, periodic) = all.split_at_mut(columns);
            let periodic = <&mut [_; 3]>::try_from(periodic).ok();
            let gradients = RowGradients {
                embeddings: embeddings.iter_mut().map(|one| &mut one[..]).collect(),
                periodic: periodic.map(|all| all.each_mut().map(|one| &mut one[..])),
                numbers: dnumbers.as_deref_mut(),
            };
            let [y, waves, dy] = passed.each_ref().map(|one| one.storage());
            features.backward(isa(), [y, waves, dy], gradients, pool_threads());
        });
        keep(passed);
        let dnumbers = dnumbers.map(|numbers_of| tensor(numbers_of, dims(&numbers)));
        let shaped = all.into_iter().zip(&parameters);
        (dnumbers, shaped.map(|(values, of)| tensor(values, dims(of))).collect())
    }

    fn perceptron_gradient(
        parameters: Vec<FlexTensor>,
        plan: PerceptronPlan,
        passed: [FlexTensor; 3],
        of_inputs: bool,
    ) -> (Option<FlexTensor>, Vec<FlexTensor>) {
        let passed = passed.map(contiguous);
        let of_x = dims(&passed[0]);
        let [dx, gradients] = with_layers(&parameters, plan, |perceptron, _, scratch| {
            let [x, hidden, dy] = passed.each_ref().map(|one| one.storage());
            let passed = Passed { x, hidden, dy };
            let mut gradients: Vec<[Vec<f32>; 2]> = perceptron
                .layers
                .iter()
                .map(|layer| [layer.weight, layer.bias].map(|of| zeros(of.len())))
                .collect();
            let threads = pool_threads();
            let dx = if of_inputs {
                let dx = result(x.len(), perceptron.input_piece(), |dx| {
                    perceptron.backward(isa(), passed, Some(dx), &mut gradients, scratch, threads);
                });
                vec![dx]
            } else {
                let none = None::<Cut<'_, f32>>;
                perceptron.backward(isa(), passed, none, &mut gradients, scratch, threads);
                Vec::new()
            };
            [dx, gradients.into_iter().flatten().collect()]
        });
        keep(passed);
        let dx = dx.into_iter().next().map(|dx| tensor(dx, of_x));
        (dx, apart(gradients, &parameters))
    }

    fn cross_entropy_gradient(slopes: FlexTensor, dy: FlexTensor) -> FlexTensor {
        let factor = contiguous(dy).storage::<f32>()[0];
        let gradient = slopes.storage::<f32>().iter().map(|slope| slope * factor).collect();
        tensor(gradient, dims(&slopes))
    }
}

/// Runs with the features of rows.
fn with_features<T>(
    classes: FlexTensor,
    numbers: &FlexTensor,
    parameters: &[FlexTensor],
    columns: usize,
    run: impl FnOnce(RowFeatures<'_>) -> T,
) -> T {
    let numbers = contiguous(numbers.clone());
    let parameters: Vec<_> = parameters.iter().cloned().map(contiguous).collect();
    let (embeddings, periodic) = parameters.split_at(columns);
    let counts: Vec<usize> = embeddings.iter().map(|one| dims(one)[0]).collect();
    let embeddings: Vec<_> = embeddings
        .iter()
        .map(|one| Embeddings { vectors: one.storage(), size: dims(one)[1] })
        .collect();
    let classes = checked(contiguous(classes), &counts);
    let periodic = match periodic {
        [frequencies, weight, bias] => Some(Periodic {
            count: dims(frequencies)[1],
            frequencies: frequencies.storage(),
            weight: weight.storage(),
            bias: bias.storage(),
        }),
        _ => None,
    };
    run(RowFeatures {
        classes: &classes,
        numbers: numbers.storage(),
        rows: dims(&numbers)[0],
        embeddings: &embeddings,
        periodic,
    })
}

/// The classes of all columns, row by row.
///
/// # Panics
/// If one is not less than its column's number.
fn checked(classes: FlexTensor, counts: &[usize]) -> Vec<u32> {
    let check = |at: usize, class: i64| {
        let count = counts[at % counts.len()];
        let is_class = usize::try_from(class).is_ok_and(|class| class < count);
        assert!(is_class, "class {class} in a column of {count} classes");
        class as u32
    };
    match classes.dtype() {
        DType::I32 => {
            let all = classes.storage::<i32>().iter().enumerate();
            all.map(|(at, &class)| check(at, i64::from(class))).collect()
        }
        _ => {
            let all = classes.storage::<i64>().iter().enumerate();
            all.map(|(at, &class)| check(at, class)).collect()
        }
    }
}

/// Runs with the layers of a perceptron, all heads as one, whose outputs are counted.
fn with_layers<T>(
    parameters: &[FlexTensor],
    plan: PerceptronPlan,
    run: impl FnOnce(Perceptron<'_>, usize, &mut PerceptronScratch) -> T,
) -> T {
    let parameters: Vec<_> = parameters.iter().cloned().map(contiguous).collect();
    let (hidden, heads) = parameters.split_at(2 * plan.hidden);
    let (weight, bias, inputs) = joined(heads);
    let mut layers: Vec<_> = hidden
        .chunks_exact(2)
        .map(|layer| {
            let (weight, bias) = (layer[0].storage(), layer[1].storage());
            Layer { weight, bias, inputs: dims(&layer[0])[0] }
        })
        .collect();
    layers.push(Layer { weight: &weight, bias: &bias, inputs });
    // Taken out, not borrowed: while this thread waits for others, rayon may give it another one.
    let mut scratch = SCRATCH.take();
    let perceptron = Perceptron { layers: &layers, dropout: plan.dropout };
    let found = run(perceptron, bias.len(), &mut scratch);
    SCRATCH.set(scratch);
    found
}

/// Weights and biases of all heads side by side, and the number of their inputs.
fn joined(heads: &[FlexTensor]) -> (Cow<'_, [f32]>, Cow<'_, [f32]>, usize) {
    let inputs = dims(&heads[0])[0];
    if let [weight, bias] = heads {
        return (Cow::Borrowed(weight.storage()), Cow::Borrowed(bias.storage()), inputs);
    }
    let (mut weight, mut bias) = (Vec::new(), Vec::new());
    for row in 0..inputs {
        for head in heads.chunks_exact(2) {
            let outputs = dims(&head[1])[0];
            weight.extend_from_slice(&head[0].storage::<f32>()[row * outputs..][..outputs]);
        }
    }
    for head in heads.chunks_exact(2) {
        bias.extend_from_slice(head[1].storage::<f32>());
    }
    (weight.into(), bias.into(), inputs)
}

/// The gradients of each parameter, from those of each layer with all heads as one.
#[cfg(feature = "autodiff")]
fn apart(mut gradients: Vec<Vec<f32>>, parameters: &[FlexTensor]) -> Vec<FlexTensor> {
    let shaped = |values: Vec<f32>, of: &FlexTensor| tensor(values, dims(of));
    if gradients.len() == parameters.len() {
        return gradients.into_iter().zip(parameters).map(|(own, of)| shaped(own, of)).collect();
    }
    let (bias, weight) = (gradients.pop(), gradients.pop());
    let (weight, bias) = weight.zip(bias).expect("a perceptron has a head");
    let heads = &parameters[gradients.len()..];
    let hidden = gradients.into_iter().zip(parameters);
    let mut all: Vec<_> = hidden.map(|(own, of)| shaped(own, of)).collect();
    let mut start = 0;
    for head in heads.chunks_exact(2) {
        let outputs = dims(&head[1])[0];
        let rows = weight.chunks_exact(bias.len());
        let own = rows.flat_map(|row| &row[start..start + outputs]).copied().collect();
        all.push(shaped(own, &head[0]));
        all.push(shaped(bias[start..start + outputs].to_vec(), &head[1]));
        start += outputs;
    }
    all
}
