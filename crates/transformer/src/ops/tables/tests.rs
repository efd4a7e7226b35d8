//! The operations of tables against burn's own, in values and gradients.

use burn::tensor::{Device, FloatDType, Int, Tensor, TensorData};
use updraft_testing::{Tolerance, assert_close, scattered, tolerance};

use super::{DenseLayer, PeriodicEmbedding, cross_entropy, perceptron, plain, row_features};

/// A leaf of numbers by a seed.
fn leaf<const D: usize>(seed: u32, shape: [usize; D]) -> Tensor<D> {
    let numbers = scattered(seed, shape.iter().product());
    let device = Device::flex().autodiff();
    Tensor::from_data(TensorData::new(numbers, shape), &device).require_grad()
}

/// Compares results, and the gradients of a weighted sum of them.
fn compare(
    matrices: &[Tensor<2>],
    vectors: &[Tensor<1>],
    ours: impl Fn() -> Vec<Tensor<2>>,
    plain: impl Fn() -> Vec<Tensor<2>>,
) {
    let (y, expected) = (ours(), plain());
    assert_eq!(y.len(), expected.len());
    for (y, expected) in y.iter().zip(&expected) {
        assert_eq!(y.dims(), expected.dims());
        assert_close(y, expected, tolerance::F32);
    }
    let [given, right] = [y, expected].map(|all| {
        let weighted = all.into_iter().zip(90..).map(|(y, seed)| {
            let factors = leaf(seed, y.dims()).detach();
            (y * factors).sum()
        });
        weighted.reduce(|sum, more| sum + more).expect("a result").backward()
    });
    let close = Tolerance::new(1e-5, 1e-4);
    for operand in matrices {
        let [given, right] = [&given, &right].map(|by| operand.grad(by).expect("a gradient"));
        assert_eq!(given.dims(), right.dims());
        assert_close(&given, &right, close);
    }
    for operand in vectors {
        let [given, right] = [&given, &right].map(|by| operand.grad(by).expect("a gradient"));
        assert_close(&given, &right, close);
    }
}

fn classes(rows: usize, counts: &[usize]) -> Tensor<2, Int> {
    let all = (0..rows).flat_map(|row| counts.iter().map(move |count| (row * 5 % count) as i32));
    let data = TensorData::new(all.collect::<Vec<_>>(), [rows, counts.len()]);
    Tensor::from_data(data, &Device::flex().autodiff())
}

fn dense(seed: u32, inputs: usize, outputs: usize) -> DenseLayer {
    DenseLayer { weight: leaf(seed, [inputs, outputs]), bias: leaf(seed + 50, [outputs]) }
}

#[test]
fn features_of_rows_are_those_of_burns_operations() {
    let _alone = updraft_testing::alone();
    for (rows, counts, numbers, periodic) in [
        (41, &[5, 3, 9][..], 4, Some([6, 8])),
        (1, &[2], 1, Some([1, 1])),
        (7, &[], 3, Some([3, 5])),
        (9, &[4, 4], 0, None),
        (9, &[], 2, None),
        // More parameters than the two smaller limits.
        (5, &[3; 40], 2, Some([2, 3])),
    ] {
        let embeddings: Vec<_> =
            counts.iter().zip(1..).map(|(&count, seed)| leaf(seed, [count, count + 1])).collect();
        let x = leaf(70, [rows, numbers]);
        let periodic = periodic.map(|[count, size]| PeriodicEmbedding {
            frequencies: leaf(71, [numbers, count]),
            weight: leaf(72, [2 * count, size]),
            bias: leaf(73, [size]),
        });
        let mut matrices = embeddings.clone();
        matrices.extend((numbers > 0).then(|| x.clone()));
        let mut vectors = Vec::new();
        if let Some(PeriodicEmbedding { frequencies, weight, bias }) = &periodic {
            matrices.extend([frequencies.clone(), weight.clone()]);
            vectors.push(bias.clone());
        }
        let by = |run: fn(_, _, _, _) -> Tensor<2>| {
            let (classes, x) = (classes(rows, counts), x.clone());
            let (embeddings, periodic) = (embeddings.clone(), periodic.clone());
            move || vec![run(classes.clone(), x.clone(), embeddings.clone(), periodic.clone())]
        };
        compare(&matrices, &vectors, by(row_features), by(plain::row_features));
    }
}

#[test]
fn perceptrons_are_those_of_burns_operations() {
    let _alone = updraft_testing::alone();
    for (rows, widths, heads) in [
        (101, &[9, 33, 32][..], &[2][..]),
        (3, &[1, 4], &[1, 3, 2]),
        (50, &[6], &[2, 1]),
        (0, &[3, 4], &[2]),
        (5, &[3, 4, 5, 6, 7, 8, 9, 4, 3, 2, 3, 4, 5, 6, 7, 8, 9, 4, 3], &[2]),
    ] {
        let x = leaf(1, [rows, widths[0]]);
        let layers = widths.windows(2).zip(2..);
        let layers: Vec<_> = layers.map(|(pair, seed)| dense(seed, pair[0], pair[1])).collect();
        let inputs = widths[widths.len() - 1];
        let heads = heads.iter().zip(200..);
        let heads: Vec<_> = heads.map(|(&width, seed)| dense(seed, inputs, width)).collect();
        let all = || layers.iter().chain(&heads);
        let mut matrices: Vec<_> = all().map(|layer| layer.weight.clone()).collect();
        matrices.push(x.clone());
        let vectors: Vec<_> = all().map(|layer| layer.bias.clone()).collect();
        let by = |run: fn(_, _, _, _) -> Vec<Tensor<2>>| {
            let (x, layers, heads) = (x.clone(), layers.clone(), heads.clone());
            move || run(x.clone(), layers.clone(), heads.clone(), 0.0)
        };
        compare(&matrices, &vectors, by(perceptron), by(plain::perceptron));
    }
}

#[test]
fn masks_of_dropout_follow_from_the_seed_and_keep_the_mean() {
    let _alone = updraft_testing::alone();
    let device = Device::flex().autodiff();
    // One layer that copies its inputs, which are all 1, and heads that copy them again.
    let width = 40;
    let weight = Tensor::eye(width, &device).require_grad();
    let layer = DenseLayer { weight, bias: Tensor::zeros([width], &device) };
    let x = Tensor::<2>::ones([200, width], &device);
    let run = |seed, run: fn(_, _, _, _) -> Vec<Tensor<2>>| {
        device.seed(seed);
        let y = run(x.clone(), vec![layer.clone()], vec![layer.clone()], 0.2).remove(0);
        y.into_data().iter::<f32>().collect::<Vec<_>>()
    };
    let first = run(3, perceptron);
    assert_eq!(first, run(3, perceptron), "the same seed");
    assert_ne!(first, run(4, perceptron), "another seed");
    assert_eq!(first, run(3, plain::perceptron), "burn's operations");
    for masked in [first, run(4, perceptron)] {
        assert!(masked.iter().all(|&y| y == 0.0 || (y - 1.25).abs() < 1e-6));
        let mean = masked.iter().sum::<f32>() / masked.len() as f32;
        assert!((mean - 1.0).abs() < 0.025, "five standard deviations: {mean}");
    }
}

#[test]
fn parameters_without_a_gradient_are_left_out() {
    let _alone = updraft_testing::alone();
    let (x, layers) = (leaf(1, [4, 5]), vec![dense(2, 5, 3)]);
    let mut heads = vec![dense(3, 3, 2)];
    heads[0].weight = heads[0].weight.clone().detach().set_require_grad(false);
    let y =
        perceptron(x.clone().detach().set_require_grad(false), layers.clone(), heads.clone(), 0.0)
            .remove(0);
    let gradients = y.sum().backward();
    assert!(x.grad(&gradients).is_none() && heads[0].weight.grad(&gradients).is_none());
    assert!(layers[0].weight.grad(&gradients).is_some());
    assert!(heads[0].bias.grad(&gradients).is_some());
}

#[test]
fn tensors_in_f64_take_burns_operations() {
    let _alone = updraft_testing::alone();
    let wide = |layer: DenseLayer| DenseLayer {
        weight: layer.weight.cast(FloatDType::F64),
        bias: layer.bias.cast(FloatDType::F64),
    };
    let x = leaf(1, [3, 5]).cast(FloatDType::F64);
    let (layers, heads) = (vec![wide(dense(2, 5, 4))], vec![wide(dense(3, 4, 2))]);
    let y = perceptron(x.clone(), layers.clone(), heads.clone(), 0.0).remove(0);
    let expected = plain::perceptron(x, layers, heads, 0.0).remove(0);
    assert_close(&y, &expected, tolerance::EXACT);
}

#[test]
#[should_panic(expected = "class 5 in a column of 5 classes")]
fn a_class_that_its_column_does_not_have_panics() {
    let device = Device::flex();
    let classes = Tensor::<2, Int>::from_data([[1], [5]], &device);
    let vectors = Tensor::ones([5, 2], &device);
    let _ = row_features(classes, Tensor::zeros([2, 0], &device), vec![vectors], None);
}

#[test]
#[should_panic(expected = "a layer of 5 inputs and 3 outputs takes no 4 features")]
fn layers_follow_each_other() {
    let _ = perceptron(leaf(1, [2, 4]), vec![dense(2, 5, 3)], vec![dense(3, 3, 1)], 0.0);
}

#[test]
fn cross_entropies_are_those_of_burns_operations() {
    let _alone = updraft_testing::alone();
    let device = Device::flex().autodiff();
    for [rows, classes] in [[1, 2], [7, 3], [64, 30]] {
        let logits = leaf(1, [rows, classes]);
        let labels = (0..rows).map(|row| (row * 7 % classes) as i32).collect::<Vec<_>>();
        let labels = Tensor::<1, Int>::from_data(TensorData::new(labels, [rows]), &device);
        for smoothing in [0.0, 0.2] {
            compare(
                std::slice::from_ref(&logits),
                &[],
                || vec![cross_entropy(logits.clone(), labels.clone(), smoothing).unsqueeze()],
                || {
                    vec![
                        plain::cross_entropy(logits.clone(), labels.clone(), smoothing).unsqueeze(),
                    ]
                },
            );
        }
    }
}

#[test]
#[should_panic(expected = "class 3 in a column of 3 classes")]
fn a_label_above_the_classes_panics() {
    let device = Device::flex();
    let labels = Tensor::<1, Int>::from_ints([0, 3], &device);
    let _ = cross_entropy(Tensor::zeros([2, 3], &device), labels, 0.0);
}
