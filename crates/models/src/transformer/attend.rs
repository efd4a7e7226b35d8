//! Scaled dot-product attention.

use burn::tensor::{Tensor, activation::softmax};

/// `softmax(Q·Kᵀ / √head_dim)·V`, for every sample and head.
///
/// # Shapes
/// - `queries`: `[batch, heads, queries, head_dim]`
/// - `keys`: `[batch, heads, keys, head_dim]`
/// - `values`: `[batch, heads, keys, value_dim]`
/// - returns: `[batch, heads, queries, value_dim]`
///
/// # Source
/// Vaswani et al. 2017, arXiv:1706.03762, eq. 1.
pub(super) fn attend(queries: Tensor<4>, keys: Tensor<4>, values: Tensor<4>) -> Tensor<4> {
    let [.., head_dim] = queries.dims();
    let queries = queries.mul_scalar(1.0 / (head_dim as f64).sqrt());
    softmax(queries.matmul(keys.swap_dims(2, 3)), 3).matmul(values)
}

#[cfg(test)]
mod tests {
    use burn::tensor::{FloatDType, TensorData};
    use updraft_testing::{assert_close, devices, gradient_check, scattered, tolerance};

    use super::*;

    /// The formula, in f64, for one head.
    fn by_hand(queries: &[f64], keys: &[f64], values: &[f64], dim: usize) -> Vec<f64> {
        let mut found = Vec::new();
        for query in queries.chunks(dim) {
            let dot = |key: &[f64]| key.iter().zip(query).map(|(a, b)| a * b).sum::<f64>();
            let weights: Vec<f64> =
                keys.chunks(dim).map(|key| (dot(key) / (dim as f64).sqrt()).exp()).collect();
            let sum: f64 = weights.iter().sum();
            for feature in 0..dim {
                let terms = weights.iter().zip(values.chunks(dim));
                found.push(terms.map(|(weight, value)| weight / sum * value[feature]).sum());
            }
        }
        found
    }

    fn numbers(seed: u32, count: usize) -> Vec<f64> {
        scattered(seed, count).into_iter().map(f64::from).collect()
    }

    #[test]
    fn every_head_attends_to_its_own_keys() {
        let (batch, heads, tokens, others, dim) = (2, 3, 4, 5, 3);
        for device in devices() {
            let of = |seed, tokens| {
                let values = numbers(seed, batch * heads * tokens * dim);
                let data = TensorData::new(values.clone(), [batch, heads, tokens, dim]);
                (Tensor::<4>::from_data(data, (&device, FloatDType::F64.into())), values)
            };
            let ((q, queries), (k, keys), (v, values)) =
                (of(1, tokens), of(2, others), of(3, others));
            let expected: Vec<f64> = (0..batch * heads)
                .flat_map(|head| {
                    let part = |values: &[f64], tokens: usize| {
                        values[head * tokens * dim..][..tokens * dim].to_vec()
                    };
                    let (keys, values) = (part(&keys, others), part(&values, others));
                    by_hand(&part(&queries, tokens), &keys, &values, dim)
                })
                .collect();
            assert_close(&attend(q, k, v), &expected, tolerance::F64);
        }
    }

    #[test]
    fn gradients_of_queries_keys_and_values_are_those_of_differences() {
        for device in devices() {
            let of = |seed| {
                let data = TensorData::new(scattered(seed, 12), [1, 2, 3, 2]);
                Tensor::<4>::from_data(data, &device)
            };
            let weights = |x: &Tensor<4>| of(9).cast(FloatDType::from(x.dtype()));
            gradient_check(of(1), |x| {
                let (k, v) = (weights(&x) * 2.0, x.clone().flip([2]));
                (attend(x.clone(), k, v) * weights(&x)).sum()
            });
            gradient_check(of(2), |x| {
                (attend(weights(&x), x.clone(), x.clone() * 0.5) * weights(&x)).sum()
            });
        }
    }
}
