//! The cost of burn's operations on the expanded matrices: products and a conversion.

use super::Parts;
use crate::kernels::cube_cost::{KernelCost, Pass};

/// Of values times weights; each part reads the weights.
pub(crate) fn forward_cost(pass: Pass, parts: Parts) -> KernelCost {
    let read = values_bytes(pass, parts) + parts.count() * weights_bytes(pass, parts);
    product(pass, parts, read, pass.y_bytes())
}

/// Of the outputs' gradient times weights, transposed; each part reads the gradient.
pub(crate) fn of_values_cost(pass: Pass, parts: Parts) -> KernelCost {
    let read = parts.count() * gradient_bytes(pass, parts) + weights_bytes(pass, parts);
    product(pass, parts, read, values_bytes(pass, parts))
}

/// Of values, transposed, times the outputs' gradient, which each part reads; the result is of f32.
pub(crate) fn of_weights_cost(pass: Pass, parts: Parts) -> KernelCost {
    let read = values_bytes(pass, parts) + parts.count() * gradient_bytes(pass, parts);
    product(pass, parts, read, pass.row_bytes())
}

/// Of converting the outputs' gradient to the numbers of the matrices.
pub(crate) fn cast_cost(pass: Pass, parts: Parts) -> KernelCost {
    KernelCost {
        name: "cast",
        launches: 1,
        bytes_read: pass.y_bytes(),
        bytes_written: gradient_bytes(pass, parts),
        flops: 0,
        cubes: None,
    }
}

fn product(pass: Pass, parts: Parts, bytes_read: u64, bytes_written: u64) -> KernelCost {
    KernelCost {
        name: "matmul",
        launches: parts.count(),
        bytes_read,
        bytes_written,
        flops: 2 * pass.batch * pass.inputs * pass.rows() * pass.outputs,
        cubes: None,
    }
}

fn values_bytes(pass: Pass, parts: Parts) -> u64 {
    parts.number_bytes() * pass.batch * pass.inputs * pass.rows()
}

fn weights_bytes(pass: Pass, parts: Parts) -> u64 {
    parts.number_bytes() * pass.inputs * pass.rows() * pass.outputs
}

fn gradient_bytes(pass: Pass, parts: Parts) -> u64 {
    parts.number_bytes() * pass.batch * pass.outputs
}
