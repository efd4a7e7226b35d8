//! Blocks of transformers: attention and a perceptron, each added to its input.

use burn::module::Module;
use burn::nn::{LayerNorm, Linear};
use burn::tensor::{Device, Tensor};
use updraft_simd::time_part;
use updraft_transformer::{attention, fused_linear, fused_linear_gelu, self_attention};

use super::linear::{linear, norm, normalize};

/// The hidden features of a perceptron as a multiple of the embedding.
const MLP_RATIO: usize = 4;

/// A block whose tokens attend to each other: `x += SA(LN x)`, `x += MLP(LN x)`.
#[derive(Module, Debug)]
pub(super) struct Block {
    attention_norm: LayerNorm,
    attention: SelfAttention,
    perceptron_norm: LayerNorm,
    perceptron: Perceptron,
}

/// A block whose tokens attend to others: `x += CA(LN x, y)`, `x += MLP(LN x)`.
#[derive(Module, Debug)]
pub(super) struct CrossBlock {
    attention_norm: LayerNorm,
    attention: CrossAttention,
    perceptron_norm: LayerNorm,
    perceptron: Perceptron,
}

/// Queries, keys and values are of the same tokens.
#[derive(Module, Debug)]
struct SelfAttention {
    /// Queries, keys and values side by side, each with its heads side by side.
    joined: Linear,
    output: Linear,
    heads: usize,
}

/// Queries are of some tokens, keys and values of others.
#[derive(Module, Debug)]
struct CrossAttention {
    query: Linear,
    /// Keys and values side by side.
    joined: Linear,
    output: Linear,
    heads: usize,
}

#[derive(Module, Debug)]
struct Perceptron {
    hidden: Linear,
    output: Linear,
}

impl Block {
    pub(super) fn new(embedding: usize, heads: usize, device: &Device) -> Self {
        Self {
            attention_norm: norm(embedding, device),
            attention: SelfAttention {
                joined: linear([embedding, 3 * embedding], device),
                output: linear([embedding; 2], device),
                heads,
            },
            perceptron_norm: norm(embedding, device),
            perceptron: Perceptron::new(embedding, device),
        }
    }

    /// From `[batch, tokens, embedding]` to the same shape.
    pub(super) fn forward(&self, x: Tensor<3>) -> Tensor<3> {
        let x = x.clone() + self.attention.forward(normalize(&self.attention_norm, x));
        x.clone() + self.perceptron.forward(normalize(&self.perceptron_norm, x))
    }

    /// Multiply-adds of a sample with so many tokens.
    pub(super) fn multiply_adds(embedding: usize, tokens: usize) -> u64 {
        let (embedding, tokens) = (embedding as u64, tokens as u64);
        let layers = (4 + 2 * MLP_RATIO as u64) * embedding * embedding * tokens;
        layers + 2 * tokens * tokens * embedding
    }
}

impl CrossBlock {
    pub(super) fn new(embedding: usize, heads: usize, device: &Device) -> Self {
        Self {
            attention_norm: norm(embedding, device),
            attention: CrossAttention {
                query: linear([embedding; 2], device),
                joined: linear([embedding, 2 * embedding], device),
                output: linear([embedding; 2], device),
                heads,
            },
            perceptron_norm: norm(embedding, device),
            perceptron: Perceptron::new(embedding, device),
        }
    }

    /// From `[batch, tokens, embedding]` and others, `[batch, others, embedding]`, to the shape of
    /// the first.
    pub(super) fn forward(&self, x: Tensor<3>, others: Tensor<3>) -> Tensor<3> {
        let queries = normalize(&self.attention_norm, x.clone());
        let x = x + self.attention.forward(queries, others);
        x.clone() + self.perceptron.forward(normalize(&self.perceptron_norm, x))
    }

    /// Multiply-adds of a sample with so many tokens and others.
    pub(super) fn multiply_adds(embedding: usize, tokens: usize, others: usize) -> u64 {
        let (embedding, tokens, others) = (embedding as u64, tokens as u64, others as u64);
        let of_tokens = (2 + 2 * MLP_RATIO as u64) * tokens;
        embedding * embedding * (of_tokens + 2 * others) + 2 * tokens * others * embedding
    }
}

impl SelfAttention {
    fn forward(&self, x: Tensor<3>) -> Tensor<3> {
        let joined = fused_linear(&self.joined, x);
        let attended = time_part(self.output.weight.id.val(), "attention", || {
            self_attention(joined, self.heads)
        });
        fused_linear(&self.output, attended)
    }
}

impl CrossAttention {
    fn forward(&self, x: Tensor<3>, others: Tensor<3>) -> Tensor<3> {
        let embedding = x.dims()[2];
        let joined = fused_linear(&self.joined, others);
        let [keys, values] =
            [0, 1].map(|part| joined.clone().narrow(2, part * embedding, embedding));
        let queries = fused_linear(&self.query, x);
        let attended = time_part(self.output.weight.id.val(), "attention", || {
            attention(queries, keys, values, self.heads)
        });
        fused_linear(&self.output, attended)
    }
}

impl Perceptron {
    fn new(embedding: usize, device: &Device) -> Self {
        let hidden = MLP_RATIO * embedding;
        Self {
            hidden: linear([embedding, hidden], device),
            output: linear([hidden, embedding], device),
        }
    }

    fn forward(&self, x: Tensor<3>) -> Tensor<3> {
        fused_linear(&self.output, fused_linear_gelu(&self.hidden, x))
    }
}

#[cfg(test)]
mod tests {
    use burn::tensor::{FloatDType, TensorData};
    use updraft_testing::{
        Numbers, assert_close, autodiff_devices, devices, in_dtype, parameter_gradient_check,
        scattered, tolerance,
    };

    use super::*;

    type Rows = Vec<Vec<f64>>;

    /// A linear layer in f64.
    fn by_hand(layer: &Linear, rows: &Rows) -> Rows {
        let [input, output] = layer.weight.val().dims();
        let weight = layer.weight.val().numbers();
        let bias = layer.bias.as_ref().expect("a bias").val().numbers();
        let of = |row: &Vec<f64>, to: usize| {
            bias[to] + (0..input).map(|from| row[from] * weight[from * output + to]).sum::<f64>()
        };
        rows.iter().map(|row| (0..output).map(|to| of(row, to)).collect()).collect()
    }

    fn normalized(norm: &LayerNorm, rows: &Rows) -> Rows {
        let gamma = norm.gamma.val().numbers();
        let beta = norm.beta.as_ref().expect("a bias").val().numbers();
        let of = |row: &Vec<f64>| {
            let mean = row.iter().sum::<f64>() / row.len() as f64;
            let variance = row.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / row.len() as f64;
            let scaled = row.iter().map(|x| (x - mean) / (variance + 1e-6).sqrt());
            scaled.zip(gamma.iter().zip(&beta)).map(|(x, (g, b))| x * g + b).collect()
        };
        rows.iter().map(of).collect()
    }

    /// The error function by its series, which converges everywhere; |x| is small here.
    fn erf(x: f64) -> f64 {
        let (mut term, mut sum) = (x, x);
        for n in 1..80 {
            term *= -x * x / f64::from(n);
            sum += term / f64::from(2 * n + 1);
        }
        sum * std::f64::consts::FRAC_2_SQRT_PI
    }

    fn perceived(perceptron: &Perceptron, rows: &Rows) -> Rows {
        let mut hidden = by_hand(&perceptron.hidden, rows);
        for x in hidden.iter_mut().flatten() {
            *x *= 0.5 * (1.0 + erf(*x / std::f64::consts::SQRT_2));
        }
        by_hand(&perceptron.output, &hidden)
    }

    fn attended(queries: &Rows, keys: &Rows, values: &Rows, heads: usize) -> Rows {
        let dim = queries[0].len() / heads;
        let mut found = vec![vec![0.0; queries[0].len()]; queries.len()];
        for head in 0..heads {
            let part = head * dim..(head + 1) * dim;
            for (query, found) in queries.iter().zip(&mut found) {
                let dot = |key: &Vec<f64>| {
                    part.clone().map(|at| query[at] * key[at]).sum::<f64>() / (dim as f64).sqrt()
                };
                let weights: Vec<f64> = keys.iter().map(|key| dot(key).exp()).collect();
                let sum: f64 = weights.iter().sum();
                for at in part.clone() {
                    let terms = weights.iter().zip(values);
                    found[at] = terms.map(|(weight, value)| weight / sum * value[at]).sum();
                }
            }
        }
        found
    }

    fn added(rows: &Rows, others: &Rows) -> Rows {
        let pairs = rows.iter().zip(others);
        pairs.map(|(row, other)| row.iter().zip(other).map(|(a, b)| a + b).collect()).collect()
    }

    fn part(rows: &Rows, at: usize, embedding: usize) -> Rows {
        rows.iter().map(|row| row[at * embedding..(at + 1) * embedding].to_vec()).collect()
    }

    /// A module in f64, whose biases and scales are no longer 0 and 1.
    fn moved<M: Module>(module: M) -> M {
        struct Shift(u32);
        impl burn::module::ModuleMapper for Shift {
            fn map_float<const D: usize>(
                &mut self,
                param: burn::module::Param<Tensor<D>>,
            ) -> burn::module::Param<Tensor<D>> {
                self.0 += 1;
                let seed = self.0;
                param.map(|value| {
                    let count = value.shape().num_elements();
                    let data = TensorData::new(scattered(seed, count), value.dims());
                    let shift = Tensor::<D>::from_data(data, (&value.device(), value.dtype()));
                    let moved = value + shift.mul_scalar(0.3);
                    if moved.device().is_autodiff() { moved.detach().require_grad() } else { moved }
                })
            }
        }
        in_dtype(module, FloatDType::F64).map(&mut Shift(0))
    }

    fn tokens(seed: u32, dims: [usize; 3], device: &Device) -> (Tensor<3>, Vec<Rows>) {
        let values = scattered(seed, dims.iter().product());
        let rows = values.chunks(dims[2]).map(|row| row.iter().map(|&x| f64::from(x)).collect());
        let rows: Rows = rows.collect();
        let samples = rows.chunks(dims[1]).map(<[_]>::to_vec).collect();
        let data = TensorData::new(values, dims);
        (Tensor::from_data(data, (device, FloatDType::F64.into())), samples)
    }

    #[test]
    fn a_block_computes_what_its_formula_does_in_f64() {
        let (embedding, heads) = (6, 2);
        for device in devices() {
            let block = moved(Block::new(embedding, heads, &device));
            let (x, samples) = tokens(1, [2, 5, embedding], &device);
            let of = |rows: &Rows| {
                let joined = normalized(&block.attention_norm, rows);
                let joined = by_hand(&block.attention.joined, &joined);
                let [q, k, v] = [0, 1, 2].map(|at| part(&joined, at, embedding));
                let rows =
                    added(rows, &by_hand(&block.attention.output, &attended(&q, &k, &v, heads)));
                let normalized = normalized(&block.perceptron_norm, &rows);
                added(&rows, &perceived(&block.perceptron, &normalized))
            };
            let expected: Vec<f64> = samples.iter().flat_map(of).flatten().collect();
            assert_close(&block.forward(x), &expected, tolerance::F64);
        }
    }

    #[test]
    fn a_block_with_cross_attention_computes_what_its_formula_does_in_f64() {
        let (embedding, heads) = (6, 3);
        for device in devices() {
            let block = moved(CrossBlock::new(embedding, heads, &device));
            let (x, samples) = tokens(1, [2, 4, embedding], &device);
            let (y, others) = tokens(2, [2, 3, embedding], &device);
            let of = |(rows, others): (&Rows, &Rows)| {
                let queries = normalized(&block.attention_norm, rows);
                let q = by_hand(&block.attention.query, &queries);
                let joined = by_hand(&block.attention.joined, others);
                let [k, v] = [0, 1].map(|at| part(&joined, at, embedding));
                let rows =
                    added(rows, &by_hand(&block.attention.output, &attended(&q, &k, &v, heads)));
                let normalized = normalized(&block.perceptron_norm, &rows);
                added(&rows, &perceived(&block.perceptron, &normalized))
            };
            let pairs = samples.iter().zip(&others);
            let expected: Vec<f64> = pairs.flat_map(of).flatten().collect();
            assert_close(&block.forward(x, y), &expected, tolerance::F64);
        }
    }

    #[test]
    fn blocks_in_f32_are_those_in_f64() {
        let (embedding, heads) = (24, 4);
        for device in devices() {
            let (x, _) = tokens(1, [2, 40, embedding], &device);
            let (y, _) = tokens(2, [2, 30, embedding], &device);
            let [narrow_x, narrow_y] = [&x, &y].map(|tensor| tensor.clone().cast(FloatDType::F32));
            let block = moved(Block::new(embedding, heads, &device));
            let narrow = in_dtype(block.clone(), FloatDType::F32).forward(narrow_x.clone());
            assert_close(&narrow, &block.forward(x.clone()), tolerance::F32_DEEP);
            let block = moved(CrossBlock::new(embedding, heads, &device));
            let narrow = in_dtype(block.clone(), FloatDType::F32).forward(narrow_x, narrow_y);
            assert_close(&narrow, &block.forward(x, y), tolerance::F32_DEEP);
        }
    }

    #[test]
    fn gradients_of_both_blocks_are_those_of_differences() {
        for device in autodiff_devices() {
            let (x, _) = tokens(1, [2, 3, 4], &device);
            let (y, _) = tokens(2, [2, 5, 4], &device);
            let weights = tokens(3, [2, 3, 4], &device).0;
            let block = moved(Block::new(4, 2, &device));
            parameter_gradient_check(&block, 6, tolerance::GRADIENT, |block: &Block| {
                (block.forward(x.clone()) * weights.clone()).sum()
            });
            let block = moved(CrossBlock::new(4, 2, &device));
            parameter_gradient_check(&block, 6, tolerance::GRADIENT, |block: &CrossBlock| {
                (block.forward(x.clone(), y.clone()) * weights.clone()).sum()
            });
        }
    }
}
