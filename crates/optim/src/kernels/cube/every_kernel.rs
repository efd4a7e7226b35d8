//! Every kernel, launched with all its options: the list for programs that compile kernels without a
//! card.

use cubecl::prelude::*;

use super::{
    AdamWBuffers, CorrectionBuffers, SgdBuffers, adamw, copy, correct, sgd, sgd_with_momentum,
};
use crate::kernels::numbers::{AdamWUpdate, Momentum, SgdUpdate};

/// Numbers of a buffer: none is read.
const NUMBERS: usize = 1 << 20;

/// A parameter whose indices have 32 bits, and the largest one, whose indices have 64.
const LENGTHS: [usize; 2] = [NUMBERS, u32::MAX as usize];

/// The numbers of a step are arguments of the kernel.
const UPDATE: AdamWUpdate = AdamWUpdate {
    is_first: false,
    beta: [0.9, 0.999],
    corrections: [0.1, 0.001],
    epsilon: 1e-8,
    kept: 1.0,
    rate: 1e-3,
};

/// Launches every kernel for GPUs of this crate on a client; `buffer` makes a buffer of so many
/// numbers of four bytes, with any content.
pub fn every_kernel(client: &Client, buffer: &dyn Fn(usize) -> BufferArg) {
    let any = || buffer(NUMBERS);
    for len in LENGTHS {
        copy(client, len, any(), any());
        for is_controlled in [false, true] {
            let buffers =
                AdamWBuffers { parameter: any(), gradient: any(), moments: [any(), any()] };
            adamw(client, len, buffers, any(), is_controlled, UPDATE);
            let buffers = || SgdBuffers {
                parameter: any(),
                gradient: any(),
                control: [any(), any()],
                is_controlled,
            };
            for penalty in [None, Some(1e-4)] {
                let update = SgdUpdate { penalty, rate: 0.1 };
                sgd(client, len, buffers(), update);
                for is_nesterov in [false, true] {
                    let momentum = Momentum { is_first: false, factor: 0.9, is_nesterov };
                    sgd_with_momentum(client, len, buffers(), any(), update, momentum);
                }
            }
        }
    }
    let buffers =
        CorrectionBuffers { factor: any(), is_applied: any(), applied: any(), missed: any() };
    correct(client, buffers, UPDATE.beta, any());
}
