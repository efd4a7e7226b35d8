//! Every kernel, launched for both types of indices: the list for programs that compile kernels
//! without a card.

use cubecl::prelude::*;

use super::{NormBuffers, PARTS, fold, norm, square_parts};

/// Numbers of a buffer: none is read.
const NUMBERS: usize = 1 << 20;

/// A buffer whose indices have 32 bits, and the largest one, whose indices have 64.
const LENGTHS: [usize; 2] = [NUMBERS, u32::MAX as usize];

/// Launches every kernel for GPUs of this crate on a client; `buffer` makes a buffer of so many
/// numbers of four bytes, with any content.
pub fn every_kernel(client: &Client, buffer: &dyn Fn(usize) -> BufferArg) {
    let any = || buffer(NUMBERS);
    for len in LENGTHS {
        square_parts(client, len, any(), any(), 0);
        fold(client, len.div_ceil(PARTS), any(), any());
        let buffers = NormBuffers {
            parts: any(),
            scale: any(),
            norm: any(),
            is_finite: any(),
            factor: any(),
        };
        norm(client, len, buffers, 1.0);
    }
}
