//! The inner loop of products with weights of four bits: lanes are outputs.
//!
//! Plain loops over arrays, which the compiler makes vectors of for each instruction set.

use updraft_simd::{Isa, Kernel, Simd};

/// Outputs of a block, the lanes of the widest vector.
pub(crate) const FOUR_BIT_BLOCK: usize = 16;

/// Codes in a number, from its lowest bits.
const CODES: usize = 8;

/// Independent sums, so that a product does not wait for the one before it.
const SUMS: usize = 4;

/// The real numbers of a group's codes: `least + step·code`, for each output of a block.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct FourBitSteps {
    pub(crate) step: [f32; FOUR_BIT_BLOCK],
    pub(crate) least: [f32; FOUR_BIT_BLOCK],
}

/// One row of activations times some blocks of outputs.
pub(crate) struct FourBitJob<'a> {
    /// `[blocks][numbers of eight codes]`.
    pub(crate) codes: &'a [[u32; FOUR_BIT_BLOCK]],
    /// `[blocks][groups]`.
    pub(crate) steps: &'a [FourBitSteps],
    pub(crate) bias: &'a [f32],
    /// Weights of a group, a multiple of eight or all.
    pub(crate) group: usize,
    pub(crate) x: &'a [f32],
    pub(crate) y: &'a mut [f32],
}

impl Kernel for FourBitJob<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        let Self { codes, steps, bias, group, x, y } = self;
        let (numbers, groups) = (x.len().div_ceil(CODES), x.len().div_ceil(group));
        let blocks = codes.chunks_exact(numbers).zip(steps.chunks_exact(groups));
        let outputs = y.chunks_mut(FOUR_BIT_BLOCK).zip(bias.chunks(FOUR_BIT_BLOCK));
        for ((codes, steps), (y, bias)) in blocks.zip(outputs) {
            let mut total = [0.0; FOUR_BIT_BLOCK];
            let of_groups = codes.chunks(group.div_ceil(CODES)).zip(x.chunks(group));
            for ((codes, x), steps) in of_groups.zip(steps) {
                let (sums, sum_of_x) = sums::<S>(codes, x);
                for lane in 0..FOUR_BIT_BLOCK {
                    let sum = (sums[0][lane] + sums[1][lane]) + (sums[2][lane] + sums[3][lane]);
                    let least = multiply_add::<S>(steps.least[lane], sum_of_x, total[lane]);
                    total[lane] = multiply_add::<S>(steps.step[lane], sum, least);
                }
            }
            for ((y, total), bias) in y.iter_mut().zip(total).zip(bias) {
                *y = total + bias;
            }
        }
    }
}

/// The sums of activations times codes, in parts, and the sum of the activations.
#[inline(always)]
fn sums<S: Simd>(
    codes: &[[u32; FOUR_BIT_BLOCK]],
    x: &[f32],
) -> ([[f32; FOUR_BIT_BLOCK]; SUMS], f32) {
    let mut sums = [[0.0; FOUR_BIT_BLOCK]; SUMS];
    let mut of_x = [0.0; CODES];
    let (whole, rest) = x.as_chunks::<CODES>();
    let mut last = [0.0; CODES];
    last[..rest.len()].copy_from_slice(rest);
    let last = if rest.is_empty() { None } else { Some(&last) };
    for (codes, x) in codes.iter().zip(whole.iter().chain(last)) {
        for at in 0..CODES {
            of_x[at] += x[at];
            let sum = &mut sums[at % SUMS];
            for lane in 0..FOUR_BIT_BLOCK {
                // Signed numbers are converted by one instruction of every set.
                let code = (codes[lane] >> (4 * at) & 15) as i32 as f32;
                sum[lane] = multiply_add::<S>(code, x[at], sum[lane]);
            }
        }
    }
    (sums, of_x.iter().sum())
}

/// `sum + a·b`, rounded once where the set has an instruction for it.
#[inline(always)]
fn multiply_add<S: Simd>(a: f32, b: f32, sum: f32) -> f32 {
    match S::ISA {
        Isa::Portable => a * b + sum,
        _ => a.mul_add(b, sum),
    }
}
