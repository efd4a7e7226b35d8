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

/// Rows of activations that are multiplied by a code after it was converted once.
pub(crate) const FOUR_BIT_ROWS: usize = 4;

/// Some rows of activations times some blocks of outputs; each row has the bits that it has alone.
pub(crate) struct FourBitJob<'a, 'b, const ROWS: usize> {
    /// `[blocks][numbers of eight codes]`.
    pub(crate) codes: &'a [[u32; FOUR_BIT_BLOCK]],
    /// `[blocks][groups]`.
    pub(crate) steps: &'a [FourBitSteps],
    pub(crate) bias: &'a [f32],
    /// Weights of a group, a multiple of eight or all.
    pub(crate) group: usize,
    pub(crate) x: [&'a [f32]; ROWS],
    pub(crate) y: &'a mut [&'b mut [f32]],
}

impl<const ROWS: usize> Kernel for FourBitJob<'_, '_, ROWS> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        let Self { codes, steps, bias, group, x, y } = self;
        let inputs = x[0].len();
        let (numbers, groups) = (inputs.div_ceil(CODES), inputs.div_ceil(group));
        let blocks = codes.chunks_exact(numbers).zip(steps.chunks_exact(groups));
        for (block, (codes, steps)) in blocks.enumerate() {
            let mut total = [[0.0; FOUR_BIT_BLOCK]; ROWS];
            let of_groups = codes.chunks(group.div_ceil(CODES)).zip(steps);
            for (at, (codes, steps)) in of_groups.enumerate() {
                let places = at * group..inputs.min((at + 1) * group);
                let x = x.map(|x| &x[places.clone()]);
                let (sums, sums_of_x) = sums::<S, ROWS>(codes, x);
                for row in 0..ROWS {
                    let (sums, sum_of_x) = (&sums[row], sums_of_x[row]);
                    for lane in 0..FOUR_BIT_BLOCK {
                        let sum = (sums[0][lane] + sums[1][lane]) + (sums[2][lane] + sums[3][lane]);
                        let total = &mut total[row][lane];
                        let least = multiply_add::<S>(steps.least[lane], sum_of_x, *total);
                        *total = multiply_add::<S>(steps.step[lane], sum, least);
                    }
                }
            }
            let first = block * FOUR_BIT_BLOCK;
            for (y, total) in y.iter_mut().zip(total) {
                let outputs = y[first..].iter_mut().zip(&bias[first..]);
                outputs.zip(total).for_each(|((y, bias), total)| *y = total + bias);
            }
        }
    }
}

/// The sums of activations times codes, in parts, and the sums of the activations.
#[inline(always)]
fn sums<S: Simd, const ROWS: usize>(
    codes: &[[u32; FOUR_BIT_BLOCK]],
    x: [&[f32]; ROWS],
) -> ([[[f32; FOUR_BIT_BLOCK]; SUMS]; ROWS], [f32; ROWS]) {
    let mut sums = [[[0.0; FOUR_BIT_BLOCK]; SUMS]; ROWS];
    let mut of_x = [[0.0; CODES]; ROWS];
    let whole = x[0].len() / CODES;
    for (number, codes) in codes.iter().enumerate() {
        let x = x.map(|x| {
            let x = &x[number * CODES..];
            let mut eight = [0.0; CODES];
            match number < whole {
                true => eight.copy_from_slice(&x[..CODES]),
                false => eight[..x.len()].copy_from_slice(x),
            }
            eight
        });
        for at in 0..CODES {
            let mut converted = [0.0; FOUR_BIT_BLOCK];
            for lane in 0..FOUR_BIT_BLOCK {
                // Signed numbers are converted by one instruction of every set.
                converted[lane] = (codes[lane] >> (4 * at) & 15) as i32 as f32;
            }
            for row in 0..ROWS {
                of_x[row][at] += x[row][at];
                let sum = &mut sums[row][at % SUMS];
                for lane in 0..FOUR_BIT_BLOCK {
                    sum[lane] = multiply_add::<S>(converted[lane], x[row][at], sum[lane]);
                }
            }
        }
    }
    (sums, of_x.map(|of_x| of_x.iter().sum()))
}

/// `sum + a·b`, rounded once where the set has an instruction for it.
#[inline(always)]
fn multiply_add<S: Simd>(a: f32, b: f32, sum: f32) -> f32 {
    match S::ISA {
        Isa::Portable => a * b + sum,
        _ => a.mul_add(b, sum),
    }
}
