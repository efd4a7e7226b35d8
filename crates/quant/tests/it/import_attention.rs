//! ONNX files with the parts of a transformer: products of tokens and of two tensors, layer norms,
//! class tokens and positions. The right answers are by the definitions in f64.

use updraft_quant::{Arithmetic, PlannedLayer};
use updraft_testing::scattered;

use crate::import::{content, integers, node, number, scalar, tensor, value};
use crate::import_rounding::{SIGNED, model, reals, rounded, run};
use crate::import_shapes::{integer, list};
use crate::round_trip::{Built, furthest};

/// Numbers that have codes of a scale of ½.
fn halves(seed: u32, len: usize) -> Vec<f32> {
    scattered(seed, len).into_iter().map(|x| (6.0 * x).round() / 2.0).collect()
}

/// A matrix of integer weights with the scale ½, as `w.real`.
fn weights(rows: u64, columns: u64, codes: &[i8]) -> Vec<Vec<u8>> {
    let codes: Vec<u8> = codes.iter().map(|&code| code as u8).collect();
    vec![
        scalar("half", 0.5),
        tensor("w.zero", 3, &[], &[0]),
        tensor("w", 3, &[rows, columns], &codes),
        node("DequantizeLinear", &["w", "half", "w.zero"], "w.real", &[]),
    ]
}

#[test]
fn every_token_is_multiplied_in_int8() -> Built<()> {
    const CODES: [i8; 12] = [2, -4, 0, 6, 8, -2, 4, 4, -6, 2, 0, 10];
    const BIAS: [f32; 3] = [1.0, -2.0, 0.5];
    let model = model(
        17,
        &[
            vec![value(11, "x", &[0, 5, 4])],
            rounded("x", 0.5, SIGNED),
            weights(4, 3, &CODES),
            vec![node("MatMul", &["x.real", "w.real"], "a", &[])],
            rounded("a", 0.5, SIGNED),
            vec![reals("bias", &[3], &BIAS), node("Add", &["bias", "a.real"], "b", &[])],
            rounded("b", 0.5, SIGNED),
            vec![value(12, "b.real", &[0, 5, 3])],
        ],
    )?;
    assert!(model.plan().is_int8(), "{}", model.plan());
    let x = halves(1, 40);
    let nearest = |x: f64| (x / 0.5 + 2.0).round_ties_even().clamp(-128.0, 127.0) - 2.0;
    let mut right = Vec::new();
    for token in x.chunks_exact(4) {
        for column in 0..3 {
            let product = |row: usize| f64::from(token[row]) * f64::from(CODES[3 * row + column]);
            let sum: f64 = (0..4).map(|row| 0.5 * product(row)).sum();
            let sum = 0.5 * nearest(sum) + f64::from(BIAS[column]);
            right.push((0.5 * nearest(sum)) as f32);
        }
    }
    // The factor 1 of the sum has a code of eight bits, so that a bias is within 1/254 of a step.
    assert!(furthest(&run(&model, &x), &right) <= 0.5, "{}", model.plan());
    let same = run(&model, &x).iter().zip(&right).filter(|(a, b)| a == b).count();
    assert!(same >= 28, "{same} of 30\n{}", model.plan());
    Ok(())
}

/// `(x − mean)/√(variance + ε)·scale + shift` of each line.
fn normal(x: &[f32], scale: &[f32], shift: &[f32], epsilon: f64) -> Vec<f32> {
    let line = |x: &[f32]| {
        let n = x.len() as f64;
        let mean = x.iter().map(|&x| f64::from(x)).sum::<f64>() / n;
        let variance = x.iter().map(|&x| (f64::from(x) - mean).powi(2)).sum::<f64>() / n;
        let spread = (variance + epsilon).sqrt();
        let each = x.iter().zip(scale).zip(shift);
        let each = each.map(|((&x, &scale), &shift)| {
            ((f64::from(x) - mean) / spread * f64::from(scale) + f64::from(shift)) as f32
        });
        each.collect::<Vec<f32>>()
    };
    x.chunks_exact(scale.len()).flat_map(line).collect()
}

#[test]
fn a_layer_norm_is_over_the_last_axis() -> Built<()> {
    let (scale, shift) = ([1.0, -0.5, 2.0, 1.5], [0.0, 1.0, -1.0, 0.25]);
    // A real attribute.
    let half = [&content(1, "epsilon")[..], &[21], &0.5_f32.to_le_bytes(), &number(20, 1)].concat();
    // With the default of the epsilon and a bias, or without both.
    for (sides, is_plain) in [
        (&[0, 3, 4][..], true),
        (&[0, 4], true),
        (&[0, 2, 3, 4], true),
        (&[0, 3, 4], false),
        (&[0, 4], false),
    ] {
        let inputs = &["x.real", "scale", "shift"][..if is_plain { 3 } else { 2 }];
        let (attributes, shift, epsilon) = match is_plain {
            true => (vec![], shift, 1e-5),
            false => (vec![half.clone()], [0.0; 4], 0.5),
        };
        let model = model(
            17,
            &[
                vec![value(11, "x", sides)],
                rounded("x", 0.5, SIGNED),
                vec![
                    reals("scale", &[4], &scale),
                    reals("shift", &[4], &shift),
                    node("LayerNormalization", inputs, "y", &attributes),
                    value(12, "y", sides),
                ],
            ],
        )?;
        let x = halves(2, 2 * sides[1..].iter().product::<u64>() as usize);
        let y = run(&model, &x);
        assert!(furthest(&y, &normal(&x, &scale, &shift, epsilon)) < 1e-5, "{}", model.plan());
    }
    Ok(())
}

#[test]
fn two_tensors_of_matrices_are_multiplied() -> Built<()> {
    let model = model(
        17,
        &[
            vec![value(11, "x", &[0, 2, 3, 4])],
            rounded("x", 0.5, SIGNED),
            vec![
                node("Transpose", &["x.real"], "turned", &[integers("perm", &[0, 1, 3, 2])]),
                node("MatMul", &["x.real", "turned"], "y", &[]),
                value(12, "y", &[0, 2, 3, 3]),
            ],
        ],
    )?;
    let x = halves(3, 48);
    let mut right = Vec::new();
    for matrix in x.chunks_exact(12) {
        for (row, column) in (0..9).map(|at| (at / 3, at % 3)) {
            // Sums of quarters are exact.
            right
                .push((0..4).map(|at| matrix[4 * row + at] * matrix[4 * column + at]).sum::<f32>());
        }
    }
    assert_eq!(run(&model, &x), right, "{}", model.plan());
    let is_f32 = |layer: &PlannedLayer| matches!(layer.arithmetic, Arithmetic::F32(_));
    assert!(model.plan().layers.iter().any(|layer| layer.name == "y" && is_f32(layer)));
    Ok(())
}

#[test]
fn a_class_token_and_positions_are_those_of_each_sample() -> Built<()> {
    let (token, positions) = ([0.5_f32, -1.0], [1.0_f32, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]);
    let nodes = vec![
        list("first", &[0]),
        list("rest", &[1, 2]),
        reals("token", &[1, 1, 2], &token),
        reals("positions", &[1, 4, 2], &positions),
        node("Shape", &["x.real"], "s", &[]),
        node("Gather", &["s", "first"], "b", &[]),
        node("Concat", &["b", "rest"], "to", &[integer("axis", 0)]),
        node("Expand", &["token", "to"], "tokens", &[]),
        node("Concat", &["tokens", "x.real"], "joined", &[integer("axis", 1)]),
        node("Add", &["joined", "positions"], "y", &[]),
        node("ReduceMean", &["y"], "mean", &[integers("axes", &[1]), integer("keepdims", 0)]),
        value(12, "y", &[0, 4, 2]),
        value(12, "mean", &[0, 2]),
    ];
    let parts = [vec![value(11, "x", &[0, 3, 2])], rounded("x", 0.5, SIGNED), nodes];
    let model = model(17, &parts)?;
    let x = halves(4, 12);
    let all = crate::import::all_answers(&model, &x);
    for (sample, x) in x.chunks_exact(6).enumerate() {
        let joined: Vec<f32> = token.iter().chain(x).copied().collect();
        let y: Vec<f32> = joined.iter().zip(&positions).map(|(x, at)| x + at).collect();
        assert_eq!(all[0][8 * sample..][..8], y, "{}", model.plan());
        for channel in 0..2 {
            let mean = y.iter().skip(channel).step_by(2).sum::<f32>() / 4.0;
            assert!((all[1][2 * sample + channel] - mean).abs() < 1e-6, "{}", model.plan());
        }
    }
    Ok(())
}

/// Two heads of two features over three tokens: `softmax(q·kᵀ/√2)·v`, with the tokens as all three.
#[test]
fn attention_of_joined_heads_is_that_of_its_definition() -> Built<()> {
    const TOKENS: usize = 3;
    let nodes = vec![
        list("to", &[0, 0, 2, -1]),
        list("back", &[0, 0, -1]),
        node("Reshape", &["x.real", "to"], "heads", &[]),
        node("Transpose", &["heads"], "q", &[integers("perm", &[0, 2, 1, 3])]),
        node("Transpose", &["heads"], "k", &[integers("perm", &[0, 2, 3, 1])]),
        node("MatMul", &["q", "k"], "scores", &[]),
        scalar("width", 2.0),
        node("Sqrt", &["width"], "root", &[]),
        node("Reciprocal", &["root"], "factor", &[]),
        node("Mul", &["scores", "factor"], "scaled", &[]),
        node("Softmax", &["scaled"], "shares", &[integer("axis", -1)]),
        node("MatMul", &["shares", "q"], "mixed", &[]),
        node("Transpose", &["mixed"], "turned", &[integers("perm", &[0, 2, 1, 3])]),
        node("Reshape", &["turned", "back"], "joined", &[]),
        node("Add", &["x.real", "joined"], "y", &[]),
        value(12, "y", &[0, 3, 4]),
    ];
    let parts = [vec![value(11, "x", &[0, 3, 4])], rounded("x", 0.5, SIGNED), nodes];
    let model = model(17, &parts)?;
    let x = halves(5, 24);
    let mut right = Vec::new();
    for x in x.chunks_exact(4 * TOKENS) {
        let real = |token: usize, head: usize, at: usize| f64::from(x[4 * token + 2 * head + at]);
        for token in 0..TOKENS {
            for head in 0..2 {
                let score = |other: usize| {
                    let each = (0..2).map(|at| real(token, head, at) * real(other, head, at));
                    (each.sum::<f64>() / 2.0_f64.sqrt()).exp()
                };
                let all: f64 = (0..TOKENS).map(score).sum();
                for at in 0..2 {
                    let mixed = (0..TOKENS).map(|other| score(other) / all * real(other, head, at));
                    right.push((real(token, head, at) + mixed.sum::<f64>()) as f32);
                }
            }
        }
    }
    assert!(furthest(&run(&model, &x), &right) < 1e-5, "{}", model.plan());
    Ok(())
}
