//! Dropout of numbers, and of the weights of attention.

use burn::nn::Dropout;
use burn::tensor::activation::softmax;
use burn::tensor::{Distribution, Tensor};
#[cfg(feature = "flex")]
use burn::{
    backend::Dispatch,
    tensor::{Device, TensorData},
};
use updraft_simd::{mark_plain, time_operation};

#[cfg(feature = "flex")]
use super::extension::{AttentionPlan, TransformerBackend};
use super::{add_products_of_attention, attention, check_attention};
#[cfg(feature = "flex")]
use super::{all_are_narrow, all_run_kernels, narrow, runs_kernels, wide};
#[cfg(feature = "flex")]
use crate::kernels;

/// The numbers of burn's layer: some at random set to 0 and the others scaled, so that the mean stays.
///
/// On flex the mask is a function of a key that is drawn from the device's random state, and is not
/// stored; elsewhere the device draws it.
///
/// # Shapes
/// - `x`, result: `[…, numbers]`
///
/// # Source
/// Srivastava and others 2014, "Dropout: a simple way to prevent neural networks from overfitting".
#[must_use]
pub fn dropout<const D: usize>(layer: &Dropout, x: Tensor<D>) -> Tensor<D> {
    if !is_active(layer, &x) {
        return x;
    }
    time_operation("dropout", || {
        #[cfg(feature = "flex")]
        if all_run_kernels([&x]) {
            let dropout = of_kernels(layer, &x.device());
            return Tensor::from_dispatch(Dispatch::dropout(x.into_dispatch(), dropout));
        }
        mark_plain();
        let factors = factors(layer, &x);
        x * factors
    })
}

/// [`attention`] with dropout of the weights of each query.
///
/// While dropout is active, which is on an autodiff device alone, its masks are as in [`dropout()`];
/// otherwise this is `attention`.
///
/// # Shapes
/// As those of `attention`.
///
/// # Panics
/// As `attention`.
///
/// # Source
/// Vaswani and others 2017, arXiv:1706.03762, sections 3.2.1 and 3.2.2; dropout of weights as in
/// burn's `MultiHeadAttention`.
#[must_use]
pub fn attention_with_dropout(
    q: Tensor<3>,
    k: Tensor<3>,
    v: Tensor<3>,
    heads: usize,
    dropout: &Dropout,
) -> Tensor<3> {
    if !is_active(dropout, &q) {
        return attention(q, k, v, heads);
    }
    check_attention(&q, &k, &v, heads);
    time_operation("attention", || attend(q, k, v, heads, dropout))
}

fn attend(q: Tensor<3>, k: Tensor<3>, v: Tensor<3>, heads: usize, layer: &Dropout) -> Tensor<3> {
    #[cfg(feature = "flex")]
    if all_are_narrow([&q, &k, &v]) {
        let [q, k, v] = [q, k, v].map(wide);
        return narrow(attend(q, k, v, heads, layer));
    }
    let ([batch, queries, embedding], keys) = (q.dims(), k.dims()[1]);
    add_products_of_attention([batch, queries, keys, embedding]);
    #[cfg(feature = "flex")]
    if all_run_kernels([&q, &k, &v]) {
        let dropout = Some(of_kernels(layer, &q.device()));
        let plan = AttentionPlan { dropout, ..AttentionPlan::new(heads) };
        let [q, k, v] = [q, k, v].map(Tensor::into_dispatch);
        return Tensor::from_dispatch(Dispatch::multi_head_attention(q, k, v, plan).0);
    }
    mark_plain();
    let by_head = |tensor: Tensor<3>| {
        let [batch, tokens, embedding] = tensor.dims();
        tensor.reshape([batch, tokens, heads, embedding / heads]).swap_dims(1, 2)
    };
    let factor = ((embedding / heads) as f64).sqrt().recip();
    let weights = softmax(by_head(q).mul_scalar(factor).matmul(by_head(k).transpose()), 3);
    let factors = factors(layer, &weights);
    let joined = (weights * factors).matmul(by_head(v)).swap_dims(1, 2);
    joined.reshape([batch, queries, embedding])
}

fn is_active<const D: usize>(layer: &Dropout, x: &Tensor<D>) -> bool {
    layer.prob > 0.0 && layer.training.is_enabled() && x.device().is_autodiff()
}

/// 0 for the numbers that are dropped, and the scale of the others.
fn factors<const D: usize>(layer: &Dropout, x: &Tensor<D>) -> Tensor<D> {
    #[cfg(feature = "flex")]
    if runs_kernels(&x.device()) {
        let (shape, device) = (x.dims(), x.device());
        let columns = shape[D - 1].max(1);
        let rows = shape.iter().product::<usize>() / columns;
        let mask = of_kernels(layer, &device).mask(0, [rows, columns]);
        return Tensor::from_data(TensorData::new(mask, shape), (&device, x.dtype()));
    }
    let kept = 1.0 - layer.prob;
    x.random_like(Distribution::Bernoulli(kept)).mul_scalar(kept.recip())
}

/// The masks of the kernels, with a key from the device.
#[cfg(feature = "flex")]
fn of_kernels(layer: &Dropout, device: &Device) -> kernels::Dropout {
    kernels::Dropout::new(key(device), layer.prob)
}

/// The key of a mask, from the random state of the device.
#[cfg(feature = "flex")]
pub(super) fn key(device: &Device) -> [u32; 2] {
    // Whole numbers of an f32.
    let range = Distribution::Uniform(0.0, 16_777_216.0);
    let drawn = Tensor::<1>::random([2], range, device).into_data();
    let mut drawn = drawn.iter::<f32>().map(|number| number as u32);
    [drawn.next().unwrap_or_default(), drawn.next().unwrap_or_default()]
}

#[cfg(all(test, feature = "flex", feature = "autodiff"))]
mod tests {
    use burn::nn::DropoutConfig;
    use burn::tensor::{FloatDType, TensorData};
    use updraft_simd::{LayerPass, LayerTimer};
    use updraft_testing::{assert_close, scattered, tolerance};

    use super::*;
    use crate::attention;

    fn leaf<const D: usize>(seed: u32, shape: [usize; D]) -> Tensor<D> {
        let numbers = scattered(seed, shape.iter().product());
        let device = Device::flex().autodiff();
        Tensor::from_data(TensorData::new(numbers, shape), &device).require_grad()
    }

    /// The result and the gradients of operands in a dtype, with the masks of one seed.
    fn run<const D: usize, const N: usize>(
        operands: &[Tensor<D>; N],
        dtype: FloatDType,
        compute: impl Fn([Tensor<D>; N]) -> Tensor<D>,
    ) -> Vec<Tensor<D>> {
        let of = |tensor: &Tensor<D>| tensor.clone().cast(dtype);
        operands[0].device().seed(7);
        let y = compute(operands.each_ref().map(of));
        let weights = leaf(9, y.dims()).detach().cast(dtype);
        let gradients = (y.clone() * weights).sum().backward();
        let of_operands = operands.iter().map(|it| it.grad(&gradients).expect("a gradient"));
        std::iter::once(y.without_autodiff()).chain(of_operands).collect()
    }

    fn compare<const D: usize, const N: usize>(
        operands: &[Tensor<D>; N],
        compute: impl Fn([Tensor<D>; N]) -> Tensor<D>,
    ) {
        let expected = run(operands, FloatDType::F64, &compute);
        for (found, expected) in run(operands, FloatDType::F32, &compute).iter().zip(&expected) {
            assert_close(found, expected, tolerance::F32);
        }
    }

    #[test]
    fn results_and_gradients_are_those_of_burns_operations_in_f64() {
        let _alone = updraft_testing::alone();
        let dropout = DropoutConfig::new(0.4).init();
        compare(&[leaf(1, [3, 70, 19])], |[x]| super::dropout(&dropout, x));
        let operands = [leaf(1, [2, 5, 12]), leaf(2, [2, 100, 12]), leaf(3, [2, 100, 12])];
        compare(&operands, |[q, k, v]| attention_with_dropout(q, k, v, 3, &dropout));
        let operands = [leaf(1, [1, 70, 8]), leaf(2, [1, 7, 8]), leaf(3, [1, 7, 8])];
        compare(&operands, |[q, k, v]| attention_with_dropout(q, k, v, 2, &dropout));
    }

    #[test]
    fn numbers_are_dropped_on_an_autodiff_device_alone() {
        let _alone = updraft_testing::alone();
        let dropout = DropoutConfig::new(0.4).init();
        let [q, k, v] = [1, 2, 3].map(|seed| leaf(seed, [2, 6, 12]));
        let expected = attention(q.clone(), k.clone(), v.clone(), 3);
        let outside = [&q, &k, &v].map(|tensor| tensor.clone().without_autodiff());
        let [of_q, of_k, of_v] = outside;
        assert_close(&super::dropout(&dropout, of_q.clone()), &of_q, tolerance::EXACT);
        let found = attention_with_dropout(of_q, of_k, of_v, 3, &dropout);
        assert_close(&found, &expected.clone().without_autodiff(), tolerance::EXACT);
        let nothing = DropoutConfig::new(0.0).init();
        let found = attention_with_dropout(q.clone(), k.clone(), v.clone(), 3, &nothing);
        assert_close(&found, &expected, tolerance::EXACT);

        let run = || {
            q.device().seed(7);
            attention_with_dropout(q.clone(), k.clone(), v.clone(), 3, &dropout)
        };
        let plain = run().into_data();
        let mut timer = LayerTimer::start();
        let found = run();
        assert_eq!(found.clone().into_data(), plain, "a timer changes no bit");
        assert_ne!(plain, expected.into_data());
        let of_forward = timer.take();
        drop(found.sum().backward());
        let of_backward = timer.take();
        // Two products of 6 tokens with 6 and 12 numbers, in 2 samples.
        let operations = 2 * 2 * 2 * 6 * 6 * 12;
        for (spans, pass, factor) in
            [(of_forward, LayerPass::Forward, 1), (of_backward, LayerPass::Backward, 2)]
        {
            let [span] = &spans[..] else { panic!("{spans:?}") };
            assert_eq!((span.layer.kind, span.pass), ("attention", pass));
            assert_eq!(span.operations, factor * operations);
        }
    }
}
