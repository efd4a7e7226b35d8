//! ONNX files that compute shapes, and cut, pad and turn tensors. The right answers are the numbers
//! at the places that the operators define.

use crate::import::{content, error, integers, node, number, tensor, value};
use crate::import_rounding::{SIGNED, model, reals, rounded, run};
use crate::round_trip::Built;

pub(crate) fn integer(name: &str, value: i64) -> Vec<u8> {
    [content(1, name), number(3, value as u64), number(20, 2)].concat()
}

/// A constant list.
pub(crate) fn list(name: &str, values: &[i64]) -> Vec<u8> {
    tensor(
        name,
        7,
        &[values.len() as u64],
        &values.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>(),
    )
}

/// A constant of one integer.
fn one(name: &str, value: i64) -> Vec<u8> {
    tensor(name, 7, &[], &value.to_le_bytes())
}

/// A node with several outputs.
fn parts(operation: &str, inputs: &[&str], outputs: &[&str], attributes: &[Vec<u8>]) -> Vec<u8> {
    let inputs: Vec<u8> = inputs.iter().flat_map(|name| content(1, name)).collect();
    let outputs: Vec<u8> = outputs.iter().flat_map(|name| content(2, name)).collect();
    let attributes: Vec<u8> = attributes.iter().flat_map(|bytes| content(5, bytes)).collect();
    let named = [content(3, "node"), content(4, operation)].concat();
    content(1, [inputs, outputs, named, attributes].concat())
}

/// Numbers that have codes of a scale of ½, each another one.
fn halves(len: usize) -> Vec<f32> {
    (0..len).map(|at| at as f32 / 2.0 - 6.0).collect()
}

/// `x` of a shape, rounded, some nodes, and the negative numbers of `last` as the output.
fn negated(sides: &[u64], nodes: Vec<Vec<u8>>, last: &str, out: &[u64]) -> Vec<Vec<Vec<u8>>> {
    vec![
        vec![value(11, "x", sides)],
        rounded("x", 0.5, SIGNED),
        nodes,
        vec![node("Neg", &[last], "y", &[]), value(12, "y", out)],
    ]
}

/// The numbers of samples of `x` at some places, negated.
fn right(x: &[f32], of_sample: usize, places: &[usize]) -> Vec<f32> {
    let of = |x: &[f32]| places.iter().map(|&place| -x[place]).collect::<Vec<f32>>();
    x.chunks_exact(of_sample).flat_map(of).collect()
}

#[test]
fn a_shape_that_is_computed_with_the_length_of_the_batch_is_known() -> Built<()> {
    // [batch, 2, 6] as [batch, 2, 6 / 2, 2], by a chain as exporters write it.
    let nodes = vec![
        one("i0", 0),
        list("i1", &[1]),
        list("i2", &[-1]),
        list("axis", &[0]),
        list("end", &[i64::MAX]),
        list("two", &[2]),
        node("Shape", &["x.real"], "s", &[]),
        node("Gather", &["s", "i0"], "b", &[]),
        node("Unsqueeze", &["b", "axis"], "b1", &[]),
        node("Gather", &["s", "i1"], "c", &[]),
        node("Slice", &["s", "i2", "end", "axis"], "w", &[]),
        node("Div", &["w", "two"], "half", &[]),
        node("Concat", &["b1", "c", "half", "i2"], "target", &[integer("axis", 0)]),
        list("minus", &[-1; 4]),
        node("Equal", &["target", "minus"], "is_minus", &[]),
        node("Where", &["is_minus", "two4", "target"], "chosen", &[]),
        node("Reshape", &["x.real", "chosen"], "split", &[]),
        node("Transpose", &["split"], "turned", &[integers("perm", &[0, 3, 1, 2])]),
    ];
    let nodes = [vec![list("two4", &[2; 4])], nodes].concat();
    let model = model(17, &negated(&[0, 2, 6], nodes, "turned", &[0, 2, 2, 3]))?;
    let x = halves(24);
    let mut places = Vec::new();
    for last in 0..2 {
        for row in 0..2 {
            places.extend((0..3).map(|column| 6 * row + 2 * column + last));
        }
    }
    assert_eq!(run(&model, &x), right(&x, 12, &places), "{}", model.plan());
    Ok(())
}

#[test]
fn a_batch_that_moves_to_another_axis_comes_back() -> Built<()> {
    // Tokens first, heads joined with the batch, and back, as PyTorch's attention does.
    let nodes = vec![
        node("Transpose", &["x.real"], "first", &[integers("perm", &[1, 0, 2])]),
        node("Shape", &["first"], "s", &[]),
        list("i1", &[1]),
        list("two", &[2]),
        list("rest", &[-1]),
        list("tokens", &[3]),
        node("Gather", &["s", "i1"], "b", &[]),
        node("Mul", &["b", "two"], "heads", &[]),
        node("Concat", &["tokens", "heads", "rest"], "to", &[integer("axis", 0)]),
        node("Reshape", &["first", "to"], "joined", &[]),
        node("Transpose", &["joined"], "of_heads", &[integers("perm", &[1, 0, 2])]),
        list("single", &[0]),
        node("Unsqueeze", &["of_heads", "single"], "more", &[]),
        node("Squeeze", &["more", "single"], "less", &[]),
        node("Concat", &["b", "two", "tokens", "rest"], "back", &[integer("axis", 0)]),
        node("Reshape", &["less", "back"], "apart", &[]),
    ];
    let model = model(17, &negated(&[0, 3, 4], nodes, "apart", &[0, 2, 3, 2]))?;
    let x = halves(24);
    let mut places = Vec::new();
    for head in 0..2 {
        for token in 0..3 {
            places.extend((0..2).map(|feature| 4 * token + 2 * head + feature));
        }
    }
    assert_eq!(run(&model, &x), right(&x, 12, &places), "{}", model.plan());
    Ok(())
}

#[test]
fn a_batch_inside_of_the_tokens_comes_back() -> Built<()> {
    let nodes = vec![
        node("Transpose", &["x.real"], "first", &[integers("perm", &[1, 0, 2])]),
        list("rows", &[-1, 4]),
        node("Reshape", &["first", "rows"], "flat", &[]),
        list("back", &[3, -1, 4]),
        node("Reshape", &["flat", "back"], "apart", &[]),
        node("Transpose", &["apart"], "last", &[integers("perm", &[1, 2, 0])]),
    ];
    let model = model(17, &negated(&[0, 3, 4], nodes, "last", &[0, 4, 3]))?;
    let x = halves(24);
    let places: Vec<usize> = (0..12).map(|at| at % 3 * 4 + at / 3).collect();
    assert_eq!(run(&model, &x), right(&x, 12, &places), "{}", model.plan());
    Ok(())
}

#[test]
fn a_fixed_batch_is_found_behind_the_numbers_that_were_before_it() -> Built<()> {
    // A batch of 2, of which no node reads the shape.
    let nodes = vec![
        list("flat", &[6, 4]),
        list("back", &[2, 3, 2, 2]),
        node("Reshape", &["x.real", "flat"], "rows", &[]),
        node("Reshape", &["rows", "back"], "apart", &[]),
    ];
    let model = model(17, &negated(&[2, 3, 4], nodes, "apart", &[2, 3, 2, 2]))?;
    let x = halves(24);
    assert_eq!(run(&model, &x), right(&x, 12, &(0..12).collect::<Vec<_>>()));
    Ok(())
}

#[test]
fn slices_splits_and_gathered_places_are_those_of_the_definition() -> Built<()> {
    let x = halves(48);
    let grid = |rows: &[usize], columns: &[usize]| -> Vec<usize> {
        rows.iter().flat_map(|row| columns.iter().map(move |column| 6 * row + column)).collect()
    };
    let all: [usize; 6] = [0, 1, 2, 3, 4, 5];
    let sliced = vec![
        list("first", &[0, 1, -3]),
        list("end", &[i64::MAX, 4, i64::MAX]),
        list("axes", &[0, 1, -1]),
        list("steps", &[1, 2, 1]),
        node("Slice", &["x.real", "first", "end", "axes", "steps"], "part", &[]),
    ];
    let split = |axis: i64, sizes: &[i64]| {
        let sizes = list("sizes", sizes);
        let axis = [integer("axis", axis)];
        vec![sizes, parts("Split", &["x.real", "sizes"], &["other", "part"], &axis)]
    };
    let halved = vec![parts("Split", &["x.real"], &["other", "part"], &[integer("axis", 2)])];
    let gathered = |axis: i64, indices: &[i64]| {
        let node = node("Gather", &["x.real", "at"], "part", &[integer("axis", axis)]);
        vec![list("at", indices), node]
    };
    let single =
        vec![one("at", -1), node("Gather", &["x.real", "at"], "part", &[integer("axis", 1)])];
    let cases = [
        (sliced, [0, 2, 3].as_slice(), grid(&[1, 3], &[3, 4, 5])),
        (split(1, &[1, 3]), &[0, 3, 6], grid(&[1, 2, 3], &all)),
        (split(-1, &[4, 2]), &[0, 4, 2], grid(&[0, 1, 2, 3], &[4, 5])),
        (halved, &[0, 4, 3], grid(&[0, 1, 2, 3], &[3, 4, 5])),
        (gathered(2, &[0, 2, -2]), &[0, 4, 3], grid(&[0, 1, 2, 3], &[0, 2, 4])),
        (gathered(1, &[0, 0, 3, 3]), &[0, 4, 6], grid(&[0, 0, 3, 3], &all)),
        (single, &[0, 6], grid(&[3], &all)),
    ];
    for (case, (nodes, out, places)) in cases.into_iter().enumerate() {
        let model = model(17, &negated(&[0, 4, 6], nodes, "part", out))?;
        assert_eq!(run(&model, &x), right(&x, 24, &places), "case {case}\n{}", model.plan());
    }
    Ok(())
}

#[test]
fn the_last_part_of_a_split_without_sizes_may_be_smaller() -> Built<()> {
    let split = |more: &[Vec<u8>]| {
        let attributes = [&[integer("axis", 1)][..], more].concat();
        vec![parts("Split", &["x.real"], &["other", "part"], &attributes)]
    };
    let x = halves(10);
    for more in [vec![], vec![integer("num_outputs", 2)]] {
        let model = model(18, &negated(&[0, 5], split(&more), "part", &[0, 2]))?;
        assert_eq!(run(&model, &x), right(&x, 5, &[3, 4]), "{}", model.plan());
    }
    let three = negated(&[0, 5], split(&[integer("num_outputs", 3)]), "part", &[0, 2]);
    let message = error(&three.concat()).to_string();
    assert!(message.contains("not the number of its outputs"), "{message}");
    Ok(())
}

#[test]
fn a_part_keeps_its_scale_and_runs_in_int8() -> Built<()> {
    let nodes = vec![
        list("sizes", &[1, 2]),
        parts("Split", &["x.real", "sizes"], &["a", "b"], &[integer("axis", 1)]),
    ];
    let model = model(
        17,
        &[
            vec![value(11, "x", &[0, 3, 2])],
            rounded("x", 0.5, SIGNED),
            nodes,
            rounded("b", 0.5, SIGNED),
            vec![node("Relu", &["b.real"], "c", &[])],
            rounded("c", 0.5, SIGNED),
            vec![value(12, "c.real", &[0, 2, 2])],
        ],
    )?;
    assert!(model.plan().is_int8(), "{}", model.plan());
    assert_eq!(run(&model, &[9.0, 9.0, 1.5, -2.0, -0.5, 3.0]), [1.5, 0.0, 0.0, 3.0]);
    Ok(())
}

#[test]
fn padding_is_exactly_zero_in_int8() -> Built<()> {
    let pad = |mode: &str| [content(1, "mode"), content(4, mode), number(20, 3)].concat();
    let model = model(
        17,
        &[
            vec![value(11, "x", &[0, 2, 2, 2])],
            rounded("x", 0.5, SIGNED),
            vec![
                list("pads", &[0, 0, 1, 0, 0, 1, 0, 2]),
                reals("nothing", &[], &[0.0]),
                node("Pad", &["x.real", "pads", "nothing"], "a", &[pad("constant")]),
            ],
            rounded("a", 0.5, SIGNED),
            vec![value(12, "a.real", &[0, 3, 3, 4])],
        ],
    )?;
    assert!(model.plan().is_int8(), "{}", model.plan());
    // Two samples.
    let x = halves(16);
    let mut right = [0.0; 72];
    for (at, &number) in x.iter().enumerate() {
        let (sample, channel, row, column) = (at / 8, at / 4 % 2, at / 2 % 2, at % 2);
        right[36 * sample + 12 * channel + 4 * (row + 1) + column] = number;
    }
    assert_eq!(run(&model, &x), right);
    Ok(())
}

#[test]
fn repeated_axes_have_the_same_numbers() -> Built<()> {
    let nodes = vec![list("to", &[1, 3, 2]), node("Expand", &["x.real", "to"], "wide", &[])];
    let model = model(17, &negated(&[0, 1, 2], nodes, "wide", &[0, 3, 2]))?;
    let x = halves(4);
    assert_eq!(run(&model, &x), right(&x, 2, &[0, 1, 0, 1, 0, 1]));
    Ok(())
}

#[test]
fn axes_and_places_that_are_not_there_are_refused_with_the_node() {
    let slice = |first: i64, end: i64, axis: i64, step: i64| {
        vec![
            list("first", &[first]),
            list("end", &[end]),
            list("axes", &[axis]),
            list("steps", &[step]),
            node("Slice", &["x.real", "first", "end", "axes", "steps"], "part", &[]),
        ]
    };
    let gather = |axis: i64, indices: &[i64]| {
        let node = node("Gather", &["x.real", "at"], "part", &[integer("axis", axis)]);
        vec![list("at", indices), node]
    };
    let split = |sizes: &[i64]| {
        let node = parts("Split", &["x.real", "sizes"], &["a", "b"], &[integer("axis", 1)]);
        vec![list("sizes", sizes), node]
    };
    let pad = |mode: &str, pads: &[i64], number_added: f32| {
        let mode = [content(1, "mode"), content(4, mode), number(20, 3)].concat();
        let node = node("Pad", &["x.real", "pads", "of"], "part", &[mode]);
        vec![list("pads", pads), reals("of", &[], &[number_added]), node]
    };
    let on_x = |operation: &str, more: &[i64]| {
        vec![list("more", more), node(operation, &["x.real", "more"], "part", &[])]
    };
    let transposed = vec![node("Transpose", &["x.real"], "part", &[integers("perm", &[0, 1, 1])])];
    let norm = |axis: i64, len: usize| {
        let scale = reals("scale", &[len as u64], &vec![1.0; len]);
        let axis = [integer("axis", axis)];
        vec![scale, node("LayerNormalization", &["x.real", "scale"], "part", &axis)]
    };
    let product = vec![list("perm", &[0]), node("MatMul", &["x.real", "x.real"], "part", &[])];
    let open = vec![
        list("one", &[1]),
        list("zero", &[0]),
        node("Shape", &["x.real"], "s", &[]),
        node("Gather", &["s", "zero"], "b", &[]),
        node("Add", &["b", "one"], "part", &[]),
    ];
    for (nodes, operation, reason) in [
        (slice(0, 1, -4, 1), "Slice `part`", "does not have the axis"),
        (slice(0, 1, 3, 1), "Slice `part`", "does not have the axis"),
        (slice(0, 2, 1, 0), "Slice `part`", "a step is 0 or negative"),
        (slice(2, 0, 1, -1), "Slice `part`", "a step is 0 or negative"),
        (slice(2, 2, 1, 1), "Slice `part`", "no place of an axis"),
        (slice(0, 1, 0, 1), "Slice `part`", "samples out of the batch"),
        (gather(1, &[4]), "Gather `part`", "beyond its axis"),
        (gather(1, &[-5]), "Gather `part`", "beyond its axis"),
        (gather(1, &[2, 0]), "Gather `part`", "indices decrease"),
        (gather(-4, &[0]), "Gather `part`", "does not have the axis"),
        (gather(0, &[0]), "Gather `part`", "over the batch"),
        (split(&[1, 2]), "Split `node`", "not the whole axis"),
        (split(&[4, 0]), "Split `node`", "parts are empty"),
        (split(&[5, -1]), "Split `node`", "negative"),
        (pad("reflect", &[0; 6], 0.0), "Pad `part`", "mode must be constant"),
        (pad("constant", &[0; 6], 1.0), "Pad `part`", "constant must be 0"),
        (pad("constant", &[1, 0, 0, 0, 0, 0], 0.0), "Pad `part`", "samples to the batch"),
        (pad("constant", &[0, -1, 0, 0, 0, 0], 0.0), "Pad `part`", "negative"),
        (pad("constant", &[0; 4], 0.0), "Pad `part`", "before and one after"),
        (on_x("Unsqueeze", &[-5]), "Unsqueeze `part`", "does not have the axis"),
        (on_x("Unsqueeze", &[1, 1]), "Unsqueeze `part`", "an axis twice"),
        (on_x("Squeeze", &[1]), "Squeeze `part`", "another length than 1"),
        (on_x("Reshape", &[4, -1, 6]), "Reshape `part`", "between samples"),
        (on_x("Expand", &[1, 4, 0]), "Expand `part`", "repeat axes of length 1"),
        (on_x("Expand", &[1, 8, 6]), "Expand `part`", "repeat axes of length 1"),
        (transposed, "Transpose `part`", "each axis of its input once"),
        (norm(1, 6), "LayerNormalization `part`", "over the last axis"),
        (norm(-1, 5), "LayerNormalization `part`", "one float for each place"),
        (product, "layer `part`", "cannot be multiplied"),
        (open, "Add `part`", "more than a factor"),
    ] {
        let all = negated(&[0, 4, 6], nodes, "part", &[0, 4, 6]).concat();
        let message = error(&all).to_string();
        assert!(message.contains(operation) && message.contains(reason), "{message}");
    }
}
