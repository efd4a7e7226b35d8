//! rten-gemm as a peer: products of bytes with packed weights, summed in 32 bits.

#[path = "../../../src/clock.rs"]
mod clock;
#[allow(dead_code, reason = "a file of the runner's; no weights are scaled here")]
#[path = "../../../src/formula.rs"]
mod formula;
#[path = "../../worker.rs"]
mod worker;

use anyhow::{Result, bail, ensure};
use rten_gemm::{GemmExecutor, GemmInputA, GemmInputB, GemmOptions, QuantParams};
use rten_tensor::NdTensorView;
use serde_json::Value;

use crate::worker::{Prepared, number, serve};

/// The zero point of `benches/src/problem/int8_product.rs`.
const ZERO_POINT: u8 = 120;

fn main() -> Result<()> {
    serve(prepare)
}

fn prepare(problem: &Value) -> Result<Prepared> {
    if problem["kind"] != "int8_product" || problem["tail"] != "sums" {
        bail!("rten-gemm is asked for sums of bytes alone");
    }
    let shape = [number(problem, "rows")?, number(problem, "inner")?, number(problem, "columns")?];
    let [rows, inner, columns] = shape;
    let values = formula::tensor("a", rows * inner, 1.0);
    let a: Vec<u8> = values.iter().map(|value| ((value + 1.0) * 127.5).floor() as u8).collect();
    let values = formula::tensor("b", columns * inner, 127.0);
    // `[columns][inner]`, as ours.
    let b: Vec<i8> = values.iter().map(|value| value.floor() as i8).collect();
    let gemm = GemmExecutor::<u8, i8, i32>::new();
    ensure!(!gemm.may_saturate(), "its kernel here saturates: {}", gemm.kernel_name());
    let about = format!("rten-gemm 0.27, {}", gemm.kernel_name());
    let packed = gemm.prepack_b(NdTensorView::from_data([columns, inner], b.as_slice()).transposed());
    let (points, mut y) = (vec![ZERO_POINT; rows], vec![0_i32; rows * columns]);
    let compute = move |read: bool| {
        let view = NdTensorView::from_data([rows, inner], a.as_slice());
        let options = GemmOptions {
            a_quant: Some(QuantParams { zero_point: &points }),
            ..GemmOptions::default()
        };
        let (a, b) = (GemmInputA::Unpacked(view), GemmInputB::Packed(&packed));
        gemm.gemm(&mut y, a, b, options).expect("the shapes fit");
        if read { vec![("y".into(), y.iter().copied().map(f64::from).collect())] } else { Vec::new() }
    };
    Ok((Box::new(compute), about))
}
