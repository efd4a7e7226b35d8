//! ONNX files in QDQ form whose numbers are rounded between layers in f32, and settings of nodes
//! that change numbers. The right answers are by the definitions of the operators.

use updraft_quant::QuantizedModel;
use updraft_quant::slices::Isa;

use crate::import::{all_answers, content, error, file, node, number, scalar, tensor, value};
use crate::round_trip::{Built, answers};

/// Codes of a tensor and its numbers `{x}.real`, by a scale and a zero point of a type.
pub(crate) fn rounded(x: &str, scale: f32, (element, zero): (u64, u8)) -> Vec<Vec<u8>> {
    let part = |part: &str| format!("{x}.{part}");
    let [of_scale, of_zero, codes, real] = ["scale", "zero", "codes", "real"].map(part);
    vec![
        scalar(&of_scale, scale),
        tensor(&of_zero, element, &[], &[zero]),
        node("QuantizeLinear", &[x, &of_scale, &of_zero], &codes, &[]),
        node("DequantizeLinear", &[&codes, &of_scale, &of_zero], &real, &[]),
    ]
}

pub(crate) fn reals(name: &str, sides: &[u64], values: &[f32]) -> Vec<u8> {
    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    tensor(name, 1, sides, &bytes)
}

/// A square matrix in f32 that changes nothing.
fn identity(name: &str, side: u64) -> Vec<u8> {
    let values: Vec<f32> =
        (0..side * side).map(|at| f32::from(u8::from(at % (side + 1) == 0))).collect();
    reals(name, &[side, side], &values)
}

pub(crate) fn model(version: u64, parts: &[Vec<Vec<u8>>]) -> Built<QuantizedModel> {
    let model = QuantizedModel::from_onnx(&file(version, &parts.concat()))?;
    // Both formats keep the rounding.
    let x: Vec<f32> =
        (0..3 * model.inputs()[0].numbers()).map(|at| at as f32 * 1.7 - 5.0).collect();
    let right = all_answers(&model, &x);
    let read = QuantizedModel::try_from_bytes(&model.to_bytes())?;
    assert_eq!(all_answers(&read, &x), right, "{}", model.plan());
    let again = QuantizedModel::from_onnx(&model.to_onnx()?)?;
    assert_eq!(all_answers(&again, &x), right, "{}\n{}", model.plan(), again.plan());
    Ok(model)
}

pub(crate) const SIGNED: (u64, u8) = (3, 2);
const UNSIGNED: (u64, u8) = (2, 0);

pub(crate) fn run(model: &QuantizedModel, x: &[f32]) -> Vec<f32> {
    answers(model, Isa::detect(), x, 1)
}

#[test]
fn numbers_between_two_products_in_f32_are_rounded_and_saturate() -> Built<()> {
    let model = model(
        13,
        &[
            vec![value(11, "x", &[0, 4]), identity("w", 4)],
            rounded("x", 0.5, SIGNED),
            vec![node("MatMul", &["x.real", "w"], "a", &[])],
            rounded("a", 0.125, UNSIGNED),
            vec![node("MatMul", &["a.real", "w"], "y", &[]), value(12, "y", &[0, 4])],
        ],
    )?;
    // −3, 2½, 62½ and −65 by the first codes.
    assert_eq!(run(&model, &[-3.2, 2.3, 1000.0, -1000.0]), [0.0, 2.5, 31.875, 0.0]);
    Ok(())
}

#[test]
fn an_input_that_only_a_curve_reads_is_rounded() -> Built<()> {
    let model = model(
        13,
        &[
            vec![value(11, "x", &[0, 2])],
            rounded("x", 0.5, UNSIGNED),
            vec![node("Exp", &["x.real"], "y", &[]), value(12, "y", &[0, 2])],
        ],
    )?;
    let y = run(&model, &[-1000.0, 1.2]);
    assert_eq!(y[0], 1.0);
    assert!((y[1] - 1.0_f32.exp()).abs() < 1e-5, "{y:?}");
    Ok(())
}

#[test]
fn an_output_of_a_layer_in_f32_is_rounded() -> Built<()> {
    let softmax = model(
        13,
        &[
            vec![value(11, "x", &[0, 4])],
            rounded("x", 0.5, SIGNED),
            vec![node("Softmax", &["x.real"], "a", &[])],
            rounded("a", 0.25, UNSIGNED),
            vec![value(12, "a.real", &[0, 4]), value(12, "a", &[0, 4])],
        ],
    )?;
    // An output of the same numbers before they are rounded is not.
    let all = all_answers(&softmax, &[-10.0, 0.0, 1.0, 0.0]);
    assert_eq!(all[0], [0.0, 0.25, 0.5, 0.25]);
    assert!((all[1][2] - 1.0_f32.exp() / (2.0 + 1.0_f32.exp())).abs() < 1e-4, "{all:?}");

    let gate = model(
        13,
        &[
            vec![value(11, "x", &[0, 2, 2, 2])],
            rounded("x", 0.5, SIGNED),
            vec![
                node("GlobalAveragePool", &["x.real"], "mean", &[]),
                node("Mul", &["x.real", "mean"], "a", &[]),
            ],
            rounded("a", 1.0, UNSIGNED),
            vec![value(12, "a.real", &[0, 2, 2, 2])],
        ],
    )?;
    // Times the means 1½ and −1, rounded to even.
    let y = run(&gate, &[1.0, 1.0, 1.0, 3.0, -1.0, -1.0, -1.0, -1.0]);
    assert_eq!(y, [2.0, 2.0, 2.0, 4.0, 1.0, 1.0, 1.0, 1.0]);
    Ok(())
}

#[test]
fn limits_behind_rounded_numbers_are_of_rounded_numbers() -> Built<()> {
    let model = model(
        13,
        &[
            vec![value(11, "x", &[0, 3]), identity("w", 3)],
            rounded("x", 0.25, SIGNED),
            vec![node("MatMul", &["x.real", "w"], "a", &[])],
            rounded("a", 1.0, (3, 0)),
            vec![
                node("Relu", &["a.real"], "b", &[]),
                node("MatMul", &["b", "w"], "y", &[]),
                value(12, "y", &[0, 3]),
                value(12, "b", &[0, 3]),
            ],
        ],
    )?;
    let right = [0.0, 2.0, 12.0];
    assert_eq!(all_answers(&model, &[-3.25, 1.75, 12.25]), [right, right]);
    Ok(())
}

#[test]
fn readers_before_the_rounding_read_other_numbers() -> Built<()> {
    // The input and a product, each read by a curve before it is rounded, and by layers after it.
    let model = model(
        13,
        &[
            vec![value(11, "x", &[0, 2]), identity("w", 2)],
            rounded("x", 1.0, (3, 0)),
            vec![
                scalar("one", 1.0),
                tensor("zero", 3, &[], &[0]),
                tensor("codes", 3, &[2, 2], &[1, 0, 0, 1]),
                node("DequantizeLinear", &["codes", "one", "zero"], "w.real", &[]),
                node("Abs", &["x"], "of_x", &[]),
                node("MatMul", &["x.real", "w.real"], "in_int8", &[]),
                node("MatMul", &["x", "w"], "a", &[]),
            ],
            rounded("a", 2.0, (3, 0)),
            vec![
                node("Abs", &["a"], "of_a", &[]),
                node("Add", &["a", "a.real"], "both", &[]),
                node("Concat", &["a.real", "a"], "joined", &[]),
                value(12, "of_x", &[0, 2]),
                value(12, "in_int8", &[0, 2]),
                value(12, "of_a", &[0, 2]),
                value(12, "both", &[0, 2]),
                value(12, "joined", &[0, 4]),
            ],
        ],
    )?;
    let x = [6.25_f32, 2.25];
    let all = all_answers(&model, &x);
    let right: [&[f32]; 5] =
        [&[6.25, 2.25], &[6.0, 2.0], &[6.25, 2.25], &[12.25, 4.25], &[6.0, 2.0, 6.25, 2.25]];
    assert_eq!(all, right, "{}", model.plan());
    Ok(())
}

#[test]
fn a_difference_reads_numbers_before_they_are_rounded() -> Built<()> {
    let model = model(
        13,
        &[
            vec![value(11, "x", &[0, 2])],
            rounded("x", 0.25, (3, 0)),
            vec![
                scalar("one", 1.0),
                tensor("zero", 3, &[], &[0]),
                tensor("codes", 3, &[2, 2], &[1, 0, 0, 1]),
                node("DequantizeLinear", &["codes", "one", "zero"], "w.real", &[]),
                node("MatMul", &["x.real", "w.real"], "a", &[]),
            ],
            rounded("a", 2.0, (3, 0)),
            vec![node("Sub", &["x.real", "a"], "y", &[])],
            vec![value(12, "y", &[0, 2]), value(12, "a.real", &[0, 2])],
        ],
    )?;
    let all = all_answers(&model, &[5.25, -2.75]);
    assert_eq!(all, [[0.0, 0.0], [6.0, -2.0]], "{}", model.plan());
    Ok(())
}

#[test]
fn codes_without_a_zero_point_are_of_the_type_of_the_node() -> Built<()> {
    let with = |attributes: &[Vec<u8>]| {
        vec![
            value(11, "x", &[0, 2]),
            scalar("scale", 1.0),
            node("QuantizeLinear", &["x", "scale"], "codes", attributes),
            node("DequantizeLinear", &["codes", "scale"], "real", &[]),
        ]
    };
    let of_type = |element: u64| [content(1, "output_dtype"), number(3, element), number(20, 2)];
    for (element, right) in [(0, [0.0, 200.0]), (2, [0.0, 200.0]), (3, [-7.0, 127.0])] {
        let parts = with_layer(with(&[of_type(element).concat()]));
        let model = QuantizedModel::from_onnx(&file(21, &parts))?;
        assert_eq!(run(&model, &[-7.0, 200.0]), right, "{element}");
    }
    let error = error(&with(&[of_type(17).concat()])).to_string();
    assert!(error.contains("`output_dtype` must be uint8 or int8"), "{error}");

    // A zero point of int8 that the DequantizeLinear leaves out.
    let parts = [
        vec![value(11, "x", &[0, 2]), scalar("scale", 1.0), tensor("zero", 3, &[], &[0])],
        vec![
            node("QuantizeLinear", &["x", "scale", "zero"], "codes", &[]),
            node("DequantizeLinear", &["codes", "scale"], "real", &[]),
        ],
    ];
    let model = QuantizedModel::from_onnx(&file(13, &with_layer(parts.concat())))?;
    assert_eq!(run(&model, &[-7.0, 200.0]), [-7.0, 127.0]);
    Ok(())
}

/// The numbers `real` of a file by a layer.
fn with_layer(mut parts: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    parts.extend([
        identity("w", 2),
        node("MatMul", &["real", "w"], "of_layer", &[]),
        value(12, "of_layer", &[0, 2]),
    ]);
    parts
}

#[test]
fn a_conversion_to_truth_values_has_zeros_and_ones() -> Built<()> {
    let to = |element: u64| [content(1, "to"), number(3, element), number(20, 2)].concat();
    let model = model(
        13,
        &[
            vec![value(11, "x", &[0, 3])],
            rounded("x", 0.5, SIGNED),
            vec![
                node("Cast", &["x.real"], "truth", &[to(9)]),
                node("Cast", &["truth"], "y", &[to(1)]),
                value(12, "y", &[0, 3]),
            ],
        ],
    )?;
    assert_eq!(run(&model, &[-3.0, 0.1, 7.5]), [1.0, 0.0, 1.0]);
    Ok(())
}

#[test]
fn a_summand_of_a_product_is_one_number_or_one_for_each_output() -> Built<()> {
    let with = |sides: &[u64], values: &[f32]| {
        [
            vec![value(11, "x", &[0, 2]), identity("w", 2), reals("c", sides, values)],
            rounded("x", 0.5, SIGNED),
            vec![node("Gemm", &["x.real", "w", "c"], "y", &[]), value(12, "y", &[0, 2])],
        ]
        .concat()
    };
    let both: [(&[u64], &[f32]); 4] =
        [(&[], &[3.0]), (&[1, 1], &[3.0]), (&[2], &[3.0; 2]), (&[1, 2], &[3.0; 2])];
    for (sides, values) in both {
        let model = QuantizedModel::from_onnx(&file(13, &with(sides, values)))?;
        assert_eq!(run(&model, &[1.0, -2.0]), [4.0, 1.0], "{sides:?}");
    }
    for sides in [&[2, 1][..], &[1, 1, 2]] {
        let error = error(&with(sides, &[3.0, 4.0])).to_string();
        assert!(error.contains("its summand must be one number, [outputs]"), "{error}");
    }
    Ok(())
}

#[test]
fn settings_that_would_change_the_answers_are_refused() {
    let image = [vec![value(11, "x", &[0, 2, 2, 2])], rounded("x", 0.5, SIGNED)].concat();
    let flat = [
        tensor("shape", 7, &[2], &[0_i64, 8].map(i64::to_le_bytes).concat()),
        node("Reshape", &["x.real", "shape"], "flat", &[]),
        node("Add", &["x.real", "flat"], "y", &[]),
        value(12, "y", &[0, 2, 2, 2]),
    ];
    let policy = [content(1, "keep_aspect_ratio_policy"), content(4, "not_larger"), number(20, 3)];
    let resized = [
        tensor("sizes", 7, &[4], &[1_i64, 2, 4, 4].map(i64::to_le_bytes).concat()),
        node("Resize", &["x.real", "", "", "sizes"], "y", &[policy.concat()]),
        value(12, "y", &[0, 2, 4, 4]),
    ];
    let deep = [
        tensor("shape", 7, &[9], &[0_i64, 8, 1, 1, 1, 1, 1, 1, 1].map(i64::to_le_bytes).concat()),
        node("Reshape", &["x.real", "shape"], "y", &[]),
        value(12, "y", &[0, 8]),
    ];
    let only_rounded = [value(12, "x.real", &[0, 2, 2, 2])];
    for (parts, reason) in [
        (&flat[..], "different numbers of axes"),
        (&resized[..], "`keep_aspect_ratio_policy` must be stretch"),
        (&deep[..], "more than 8 axes"),
        (&only_rounded[..], "no layer of the file computes an output"),
    ] {
        let error = error(&[&image[..], parts].concat()).to_string();
        assert!(error.contains(reason), "{error}");
    }
}
