//! Our operations on burn's CPU backend.

use std::cell::RefCell;
use std::sync::Arc;

use burn::backend::Flex;
use burn::backend::flex::FlexTensor;
use burn::backend::ops::ModuleOps;
use burn::tensor::{Shape, TensorData};
use updraft_simd::{
    Bf16Unit, Cut, Isa, Products, fill_in_pieces, grown, keep_memory, over, pool_threads,
    take_memory,
};

#[cfg(feature = "autodiff")]
use super::extension::TransformerGradients;
use super::extension::{AttentionPlan, TransformerBackend};
use crate::kernels::{
    Attention, AttentionScratch, Bf16Scratch, Dropout, Factor, Heads, LayerNormInput,
    LinearScratch, MatrixProduct, PIECE_ROWS, bias_gelu, layer_norm,
};
#[cfg(feature = "autodiff")]
use crate::kernels::{bias_gelu_gradient, column_sums, layer_norm_gradient};

thread_local! {
    /// Kept between operations, so that only the first one of a size allocates.
    static SCRATCH: RefCell<Scratch> = RefCell::default();
    static PRODUCT: RefCell<LinearScratch> = RefCell::default();
    static BF16_PRODUCT: RefCell<Bf16Scratch> = RefCell::default();
}

/// Work space of attention.
#[derive(Default)]
struct Scratch {
    /// Results by heads.
    by_head: [Vec<f32>; 3],
    threads: Vec<AttentionScratch>,
}

impl TransformerBackend for Flex {
    fn multi_head_attention(
        q: FlexTensor,
        k: FlexTensor,
        v: FlexTensor,
        plan: AttentionPlan,
    ) -> (FlexTensor, FlexTensor) {
        let [q, k, v] = [q, k, v].map(contiguous);
        let shape = shape(&q, &k, plan);
        let result = forward(shape, [heads_of(&q), heads_of(&k), heads_of(&v)]);
        keep([q, k, v]);
        result
    }

    fn self_attention(qkv: FlexTensor, plan: AttentionPlan) -> (FlexTensor, FlexTensor) {
        let qkv = contiguous(qkv);
        let result = forward(shape_of_all(&qkv, plan), parts(&qkv));
        keep([qkv]);
        result
    }

    fn norm_of_rows(
        x: FlexTensor,
        gamma: FlexTensor,
        beta: FlexTensor,
        epsilon: f64,
    ) -> (FlexTensor, FlexTensor) {
        let [x, gamma, beta] = [x, gamma, beta].map(contiguous);
        let (dims, len) = (dims(&x), gamma.storage::<f32>().len());
        let rows = dims.iter().product::<usize>() / len;
        let mut statistics = vec![[0.0; 2]; rows];
        let input =
            LayerNormInput { x: x.storage(), gamma: gamma.storage(), epsilon: epsilon as f32 };
        let y = result(rows * len, PIECE_ROWS * len, |y| {
            layer_norm(isa(), input, beta.storage(), y, &mut statistics, pool_threads());
        });
        keep([x]);
        (tensor(y, dims), tensor(statistics.into_flattened(), [rows, 2]))
    }

    fn linear_with_bias(
        x: FlexTensor,
        weight: FlexTensor,
        bias: FlexTensor,
        products: Products,
    ) -> FlexTensor {
        linear(x, weight, Some(bias), products)
    }

    fn linear_without_bias(x: FlexTensor, weight: FlexTensor, products: Products) -> FlexTensor {
        linear(x, weight, None, products)
    }

    fn bias_gelu(x: FlexTensor, bias: FlexTensor) -> FlexTensor {
        let [x, bias] = [x, bias].map(contiguous);
        let (dims, bias) = (dims(&x), bias.storage::<f32>());
        let y = result(dims.iter().product(), PIECE_ROWS * bias.len(), |y| {
            bias_gelu(isa(), x.storage(), bias, y, pool_threads());
        });
        keep([x]);
        tensor(y, dims)
    }

    fn dropout(x: FlexTensor, dropout: Dropout) -> FlexTensor {
        let x = contiguous(x);
        let (dims, numbers) = (dims(&x), x.storage::<f32>());
        let len = dims.last().copied().unwrap_or(1).max(1);
        let y = result(numbers.len(), PIECE_ROWS * len, |y| {
            dropout.apply(isa(), numbers, len, y, pool_threads());
        });
        keep([x]);
        tensor(y, dims)
    }

    fn burn_linear_with_bias(x: FlexTensor, weight: FlexTensor, bias: FlexTensor) -> FlexTensor {
        Self::linear(x, weight, Some(bias))
    }

    fn burn_linear(x: FlexTensor, weight: FlexTensor) -> FlexTensor {
        Self::linear(x, weight, None)
    }
}

#[cfg(feature = "autodiff")]
impl TransformerGradients for Flex {
    fn attention_gradient(
        inputs: [FlexTensor; 3],
        result: [FlexTensor; 2],
        dy: FlexTensor,
        plan: AttentionPlan,
    ) -> [FlexTensor; 3] {
        let inputs = inputs.map(contiguous);
        let [q, k, _] = &inputs;
        let shape = shape(q, k, plan);
        let of_inputs = inputs.each_ref().map(heads_of);
        let gradients = backward(shape, of_inputs, result, dy, |[dq, dk, dv]| {
            [(dq, shape.queries), (dk, shape.keys), (dv, shape.keys)]
                .map(|(gradient, tokens)| by_token(shape, &[gradient], tokens))
        });
        keep(inputs);
        gradients
    }

    fn self_attention_gradient(
        qkv: FlexTensor,
        result: [FlexTensor; 2],
        dy: FlexTensor,
        plan: AttentionPlan,
    ) -> FlexTensor {
        let qkv = contiguous(qkv);
        let shape = shape_of_all(&qkv, plan);
        let gradient = backward(shape, parts(&qkv), result, dy, |gradients| {
            by_token(shape, &gradients, shape.queries)
        });
        keep([qkv]);
        gradient
    }

    fn layer_norm_gradient(
        x: FlexTensor,
        gamma: FlexTensor,
        statistics: FlexTensor,
        dy: FlexTensor,
    ) -> [FlexTensor; 3] {
        let [x, gamma, statistics, dy] = [x, gamma, statistics, dy].map(contiguous);
        let (dims, len) = (dims(&x), gamma.storage::<f32>().len());
        let (mut dgamma, mut dbeta) = (vec![0.0; len], vec![0.0; len]);
        let input = LayerNormInput { x: x.storage(), gamma: gamma.storage(), epsilon: 0.0 };
        let (statistics, _) = statistics.storage::<f32>().as_chunks();
        let of_parameters = [&mut dgamma[..], &mut dbeta[..]];
        let threads = pool_threads();
        let dx = result(dims.iter().product(), PIECE_ROWS * len, |dx| {
            let dy = dy.storage();
            layer_norm_gradient(isa(), input, statistics, dy, dx, of_parameters, threads);
        });
        keep([x, dy]);
        [tensor(dx, dims), tensor(dgamma, [len]), tensor(dbeta, [len])]
    }

    fn linear_gradient(
        x: FlexTensor,
        weight: FlexTensor,
        dy: FlexTensor,
        wanted: [bool; 3],
        products: Products,
    ) -> [Option<FlexTensor>; 3] {
        let [x, weight, dy] = [x, weight, dy].map(contiguous);
        let shape = dims(&weight);
        let ([inputs, outputs], of_x) = ([shape[0], shape[1]], dims(&x));
        let rows = of_x.iter().product::<usize>() / inputs;
        let dx = MatrixProduct {
            rows,
            terms: outputs,
            columns: inputs,
            a: Factor::Rows(dy.storage()),
            b: Factor::Columns(weight.storage()),
            bias: None,
        };
        let dweight = MatrixProduct {
            rows: inputs,
            terms: rows,
            columns: outputs,
            a: Factor::Columns(x.storage()),
            b: Factor::Rows(dy.storage()),
            bias: None,
        };
        let [of_input, of_weight, of_bias] = wanted;
        let gradients = [
            of_input.then(|| product(dx, of_x, products)),
            of_weight.then(|| product(dweight, shape, products)),
            of_bias.then(|| {
                let mut sums = vec![0.0; outputs];
                column_sums(isa(), dy.storage(), &mut sums, pool_threads());
                tensor(sums, [outputs])
            }),
        ];
        keep([x, dy]);
        gradients
    }

    fn bias_gelu_gradient(x: FlexTensor, bias: FlexTensor, dy: FlexTensor) -> [FlexTensor; 2] {
        let [x, bias, dy] = [x, bias, dy].map(contiguous);
        let (dims, bias) = (dims(&x), bias.storage::<f32>());
        let mut dbias = vec![0.0; bias.len()];
        let dx = result(dims.iter().product(), PIECE_ROWS * bias.len(), |dx| {
            let (x, dy) = (x.storage(), dy.storage());
            bias_gelu_gradient(isa(), x, bias, dy, dx, &mut dbias, pool_threads());
        });
        keep([x, dy]);
        let len = dbias.len();
        [tensor(dx, dims), tensor(dbias, [len])]
    }
}

fn linear(
    x: FlexTensor,
    weight: FlexTensor,
    bias: Option<FlexTensor>,
    products: Products,
) -> FlexTensor {
    let [x, weight] = [x, weight].map(contiguous);
    let bias = bias.map(contiguous);
    let (mut of_y, shape) = (dims(&x), dims(&weight));
    let [terms, columns] = [shape[0], shape[1]];
    let rows = of_y.iter().product::<usize>() / terms;
    let (a, b) = (Factor::Rows(x.storage()), Factor::Rows(weight.storage()));
    let bias = bias.as_ref().map(FlexTensor::storage);
    of_y.pop();
    of_y.push(columns);
    let y = product(MatrixProduct { rows, terms, columns, a, b, bias }, of_y, products);
    keep([x]);
    y
}

fn product(product: MatrixProduct<'_>, shape: Vec<usize>, products: Products) -> FlexTensor {
    let (len, threads) = (product.rows * product.columns, pool_threads());
    // Taken out, as for attention.
    let to = match products {
        Products::F32 => {
            let mut scratch = PRODUCT.take();
            let to = result(len, product.piece(threads), |to| {
                product.compute(isa(), to, &mut scratch, threads);
            });
            PRODUCT.set(scratch);
            to
        }
        Products::Bf16 => {
            let mut scratch = BF16_PRODUCT.take();
            let to = result(len, product.bf16_piece(threads), |to| {
                product.compute_in_bf16(Bf16Unit::detect(), isa(), to, &mut scratch, threads);
            });
            BF16_PRODUCT.set(scratch);
            to
        }
    };
    tensor(to, shape)
}

fn forward(shape: Attention, inputs: [Heads<'_>; 3]) -> (FlexTensor, FlexTensor) {
    let mut log_sums = vec![0.0; shape.batch * shape.heads * shape.queries];
    let y = with_scratch(|Scratch { by_head: [y, ..], threads }| {
        let y = grown(y, shape.output_len());
        shape.forward(isa(), inputs, y, &mut log_sums, threads, pool_threads());
        by_token(shape, &[y], shape.queries)
    });
    (y, tensor(log_sums, [shape.batch, shape.heads, shape.queries]))
}

/// Computes the gradients of queries, keys and values by heads, and returns what `finish` makes of them.
#[cfg(feature = "autodiff")]
fn backward<T>(
    shape: Attention,
    [q, k, v]: [Heads<'_>; 3],
    result: [FlexTensor; 2],
    dy: FlexTensor,
    finish: impl FnOnce([&[f32]; 3]) -> T,
) -> T {
    let [y, log_sums] = result.map(contiguous);
    let dy = contiguous(dy);
    let inputs = [q, k, v, heads_of(&y), heads_of(&dy)];
    let gradients = with_scratch(|Scratch { by_head: [dq, dk, dv], threads }| {
        let keys = shape.batch * shape.heads * shape.keys * shape.head_dim;
        let (dq, dk, dv) = (grown(dq, shape.output_len()), grown(dk, keys), grown(dv, keys));
        let log_sums = log_sums.storage();
        let gradients = [&mut *dq, &mut *dk, &mut *dv];
        shape.backward(isa(), inputs, log_sums, gradients, threads, pool_threads());
        finish([dq, dk, dv])
    });
    keep([y, dy]);
    gradients
}

/// The tensor `[batch, tokens, parts · embedding]` of parts by heads.
fn by_token(shape: Attention, parts: &[&[f32]], tokens: usize) -> FlexTensor {
    let all = parts.len() * shape.heads * shape.head_dim;
    let to = result(shape.batch * tokens * all, all, |to| {
        shape.by_token(parts, tokens, to, pool_threads());
    });
    tensor(to, [shape.batch, tokens, all])
}

/// The sizes of queries `[batch, queries, embedding]` and keys `[batch, keys, embedding]`.
fn shape(q: &FlexTensor, k: &FlexTensor, plan: AttentionPlan) -> Attention {
    let (q, k, AttentionPlan { heads, dropout, products }) = (dims(q), dims(k), plan);
    let head_dim = q[2] / heads;
    let bf16 = Attention::unit(products, head_dim);
    Attention { batch: q[0], heads, queries: q[1], keys: k[1], head_dim, dropout, bf16 }
}

/// The same of all in one tensor.
fn shape_of_all(qkv: &FlexTensor, plan: AttentionPlan) -> Attention {
    let AttentionPlan { heads, dropout, products } = plan;
    let [batch, tokens, all] = dims(qkv)[..] else { unreachable!("a tensor of three axes") };
    let head_dim = all / 3 / heads;
    let bf16 = Attention::unit(products, head_dim);
    Attention { batch, heads, queries: tokens, keys: tokens, head_dim, dropout, bf16 }
}

fn heads_of(tensor: &FlexTensor) -> Heads<'_> {
    Heads { numbers: tensor.storage(), pitch: dims(tensor)[2], start: 0 }
}

/// Queries, keys and values of one tensor.
fn parts(qkv: &FlexTensor) -> [Heads<'_>; 3] {
    let all = heads_of(qkv);
    [0, 1, 2].map(|part| Heads { start: part * all.pitch / 3, ..all })
}

fn with_scratch<T>(run: impl FnOnce(&mut Scratch) -> T) -> T {
    // Taken out, not borrowed: while this thread waits for others, rayon may give it another
    // attention to compute.
    let mut scratch = SCRATCH.take();
    let result = run(&mut scratch);
    SCRATCH.set(scratch);
    result
}

/// A new result in pieces, in memory of a consumed tensor if there is some.
pub(super) fn result(len: usize, piece: usize, fill: impl FnOnce(Cut<'_, f32>)) -> Vec<f32> {
    fill_in_pieces(take_memory(len), len, piece, fill)
}

/// Zeros, in memory of a consumed tensor if there is some.
#[cfg(feature = "autodiff")]
pub(super) fn zeros(len: usize) -> Vec<f32> {
    /// Filling as many takes longer than waking up a thread.
    const PIECE: usize = 64 << 10;
    let threads = pool_threads().min(len.div_ceil(PIECE)).max(1);
    result(len, PIECE, |zeros| over(zeros, &mut vec![(); threads], |_, zeros, ()| zeros.fill(0.0)))
}

/// Keeps the memory of tensors without other owners.
pub(super) fn keep<const N: usize>(tensors: [FlexTensor; N]) {
    for tensor in tensors {
        let data = tensor.data_arc();
        drop(tensor);
        let memory = Arc::try_unwrap(data).ok().and_then(|bytes| bytes.try_into_vec().ok());
        memory.into_iter().for_each(keep_memory);
    }
}

pub(super) fn isa() -> Isa {
    Isa::detect().base()
}

pub(super) fn contiguous(tensor: FlexTensor) -> FlexTensor {
    tensor.to_contiguous()
}

pub(super) fn dims(tensor: &FlexTensor) -> Vec<usize> {
    tensor.layout().shape().to_vec()
}

pub(super) fn tensor(values: Vec<f32>, shape: impl Into<Shape>) -> FlexTensor {
    FlexTensor::from_data(TensorData::new(values, shape.into()))
}
