//! Attention of several heads, `softmax(q·kᵀ/√d)·v`, block by block: the matrix of all pairs of tokens
//! exists for some queries and some keys at a time.
//!
//! # Source
//! Dao, Fu, Ermon, Rudra, Ré 2022, arXiv:2205.14135, algorithms 1 and 4: the gradient is computed from
//! the logarithm of each query's sum, without the weights.

mod backward;
mod bf16;
mod block;
mod forward;
mod mask;
mod of_queries;
mod softmax;

use updraft_simd::matrix::Rows;
use updraft_simd::{Aligned, BF16_SQUARE, Bf16Unit, Cut, Isa, Pieces, Products, over, threads};

use self::bf16::Bf16AttentionScratch;
use self::mask::Mask;
use super::Dropout;

/// The heads of all samples in a tensor `[batch, tokens, …]`: part of each token's numbers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Heads<'a> {
    /// The tensor.
    pub(crate) numbers: &'a [f32],
    /// Numbers from token to token.
    pub(crate) pitch: usize,
    /// Numbers before the first head's in a token.
    pub(crate) start: usize,
}

impl<'a> Heads<'a> {
    /// The tokens of one head of one sample.
    fn rows(&self, sample: usize, tokens: usize, head: usize, len: usize) -> Rows<'a> {
        let first = sample * tokens * self.pitch + self.start + head * len;
        Rows { numbers: &self.numbers[first..], pitch: self.pitch, count: tokens, len }
    }
}

/// The sizes of an attention.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Attention {
    pub(crate) batch: usize,
    pub(crate) heads: usize,
    pub(crate) queries: usize,
    /// Tokens of keys and values.
    pub(crate) keys: usize,
    /// Numbers of a head's token.
    pub(crate) head_dim: usize,
    /// Of the weights: the rows of its mask are the queries of all heads.
    pub(crate) dropout: Option<Dropout>,
    /// What multiplies queries, keys, values and weights rounded to bf16; `None` if they are multiplied
    /// in f32.
    pub(crate) bf16: Option<Bf16Unit>,
}

/// Work space of a thread.
#[derive(Debug, Default)]
pub(crate) struct AttentionScratch {
    /// Keys and values of a head.
    tiles: [Aligned; 2],
    /// Keys of a head.
    rows: Aligned,
    /// Queries and the gradients of their results, by columns and by rows.
    panels: [Aligned; 4],
    /// Scores of a block, and their gradients.
    scores: [Aligned; 2],
    /// Sums for queries, keys and values.
    sums: [Aligned; 3],
    bf16: Bf16AttentionScratch,
}

impl Attention {
    /// What multiplies numbers rounded to bf16, if that is asked for and takes less time: products are
    /// made of squares, which zeros fill up.
    pub(crate) fn unit(products: Products, head_dim: usize) -> Option<Bf16Unit> {
        let suits = 4 * head_dim >= 3 * head_dim.next_multiple_of(BF16_SQUARE);
        (products == Products::Bf16 && suits).then(Bf16Unit::detect)
    }

    /// `1/√d`.
    fn scale(&self) -> f32 {
        (self.head_dim as f32).sqrt().recip()
    }

    fn mask(&self, head: usize) -> Option<Mask> {
        self.dropout.map(|dropout| Mask { dropout, first_row: head * self.queries })
    }

    /// Numbers of a head's queries.
    const fn query_len(&self) -> usize {
        self.queries * self.head_dim
    }

    /// Numbers of a head's keys.
    const fn key_len(&self) -> usize {
        self.keys * self.head_dim
    }

    /// Numbers of a result `[batch, heads, queries, head_dim]`.
    pub(crate) const fn output_len(&self) -> usize {
        self.batch * self.heads * self.query_len()
    }

    /// Computes the result by heads, `[batch, heads, queries, head_dim]`, and the logarithm of the sum
    /// of each query's exponentials, `[batch, heads, queries]`.
    ///
    /// A thread computes all of a head, so that the number of threads changes no result.
    pub(crate) fn forward(
        &self,
        isa: Isa,
        [q, k, v]: [Heads<'_>; 3],
        by_head: &mut [f32],
        log_sums: &mut [f32],
        scratch: &mut Vec<AttentionScratch>,
        asked_threads: usize,
    ) {
        if self.output_len() == 0 {
            return;
        }
        let vectors = isa.vectors();
        let pieces = (Cut::new(by_head, self.query_len()), Cut::new(log_sums, self.queries));
        over(pieces, states(scratch, asked_threads), |index, (to, log_sums), scratch| {
            let (sample, head) = (index / self.heads, index % self.heads);
            let q = q.rows(sample, self.queries, head, self.head_dim);
            let [k, v] = [k, v].map(|rows| rows.rows(sample, self.keys, head, self.head_dim));
            let (scale, mask) = (self.scale(), self.mask(index));
            match self.bf16 {
                None => forward::head(vectors, [q, k, v], scale, mask, to, log_sums, scratch),
                Some(unit) => {
                    let (by, scratch) = ((vectors, unit), &mut scratch.bf16);
                    bf16::forward(by, [q, k, v], scale, mask, to, log_sums, scratch);
                }
            }
        });
    }

    /// Computes the gradients of queries, keys and values by heads, `[batch, heads, tokens, head_dim]`.
    ///
    /// `y` and `dy` are the result and its gradient, `[batch, queries, heads · head_dim]`.
    pub(crate) fn backward(
        &self,
        isa: Isa,
        [q, k, v, y, dy]: [Heads<'_>; 5],
        log_sums: &[f32],
        [dq, dk, dv]: [&mut [f32]; 3],
        scratch: &mut Vec<AttentionScratch>,
        asked_threads: usize,
    ) {
        if self.output_len() == 0 {
            return;
        }
        let vectors = isa.vectors();
        let of_keys = (Cut::new(dk, self.key_len()), Cut::new(dv, self.key_len()));
        let pieces = (Cut::new(dq, self.query_len()), of_keys);
        over(pieces, states(scratch, asked_threads), |index, (dq, (dk, dv)), scratch| {
            let (sample, head) = (index / self.heads, index % self.heads);
            let [q, y, dy] =
                [q, y, dy].map(|rows| rows.rows(sample, self.queries, head, self.head_dim));
            let [k, v] = [k, v].map(|rows| rows.rows(sample, self.keys, head, self.head_dim));
            let log_sums = &log_sums[index * self.queries..][..self.queries];
            let inputs = [q, k, v, y, dy];
            let (scale, mask) = (self.scale(), self.mask(index));
            let gradients = [dq, dk, dv];
            match self.bf16 {
                None => {
                    backward::head(vectors, inputs, scale, mask, log_sums, gradients, scratch);
                }
                Some(unit) => {
                    let (by, scratch) = ((vectors, unit), &mut scratch.bf16);
                    bf16::backward(by, inputs, scale, mask, log_sums, gradients, scratch);
                }
            }
        });
    }

    /// Reorders `[batch, heads, tokens, head_dim]` to part of the numbers of each token of
    /// `[batch, tokens, …]`, a piece for each token.
    pub(crate) fn by_token<'a>(
        &self,
        parts: &[&[f32]],
        tokens: usize,
        to: impl Pieces<Piece = &'a mut [f32]>,
        asked_threads: usize,
    ) {
        let (heads, len) = (self.heads, self.head_dim);
        over(to, &mut vec![(); threads(asked_threads)], |index, to, ()| {
            let (sample, token) = (index / tokens, index % tokens);
            for (part, to) in parts.iter().zip(to.chunks_mut(heads * len)) {
                for (head, to) in to.chunks_mut(len).enumerate() {
                    let from = ((sample * heads + head) * tokens + token) * len;
                    to.copy_from_slice(&part[from..][..len]);
                }
            }
        });
    }
}

fn states(scratch: &mut Vec<AttentionScratch>, asked_threads: usize) -> &mut [AttentionScratch] {
    let threads = threads(asked_threads);
    if scratch.len() < threads {
        scratch.resize_with(threads, AttentionScratch::default);
    }
    &mut scratch[..threads]
}
