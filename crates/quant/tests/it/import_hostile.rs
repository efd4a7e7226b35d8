//! ONNX files that are small and would take much memory.

use updraft_quant::{ImportError, QuantizedModel};

use crate::import::{content, file, node, number, scalar, tensor, value};
use crate::import_shapes::list;

/// The most bytes that an import may allocate at once: beside a multiple of the file, those of the
/// numbers and of the nodes that any file may have.
fn most(bytes: usize) -> u64 {
    100 * bytes as u64 + (32 << 20)
}

fn refused(bytes: &[u8]) -> ImportError {
    let mut error = None;
    let used = allocation_counter::measure(|| error = QuantizedModel::from_onnx(bytes).err());
    let (used, most) = (used.bytes_max, most(bytes.len()));
    assert!(used < most, "{used} bytes of a file of {}", bytes.len());
    error.expect("refused")
}

fn zeros(name: &str, count: usize) -> Vec<u8> {
    tensor(name, 1, &[count as u64], &vec![0; 4 * count])
}

/// Nodes `n0`, `n1` and so on.
fn nodes(count: usize, of: impl Fn(&str, usize) -> Vec<u8>) -> Vec<Vec<u8>> {
    (0..count).map(|at| of(&format!("n{at}"), at)).collect()
}

#[test]
fn a_constant_that_many_nodes_read_is_counted_each_time() {
    let norms = [
        vec![value(11, "x", &[0, 60_000]), zeros("c", 60_000)],
        nodes(3_000, |name, _| node("BatchNormalization", &["x", "c", "c", "c", "c"], name, &[])),
    ];
    let error = refused(&file(13, &norms.concat())).to_string();
    assert!(error.contains("more numbers of padding and of weights"), "{error}");

    let ones: Vec<u8> = [1.0_f32.to_le_bytes(); 60_000].concat();
    let scales = |sides: &[u64], bytes: &[u8]| {
        [
            vec![
                value(11, "x", &[0, 3]),
                tensor("scale", 1, &[60_000], &ones),
                tensor("codes", 3, sides, bytes),
            ],
            nodes(3_000, |name, _| node("DequantizeLinear", &["codes", "scale"], name, &[axis()])),
        ]
        .concat()
    };
    let error = refused(&file(13, &scales(&[60_000, 0], &[]))).to_string();
    assert!(error.contains("a constant without numbers"), "{error}");
    let error = refused(&file(13, &scales(&[60_000], &[0; 60_000]))).to_string();
    assert!(error.contains("more numbers of padding and of weights"), "{error}");
}

/// The attribute `axis` of 0.
fn axis() -> Vec<u8> {
    [content(1, "axis"), number(3, 0), number(20, 2)].concat()
}

#[test]
fn the_number_of_axes_is_limited() {
    let deep = vec![1; 10_000];
    let of_input = vec![value(11, "x", &deep), node("Relu", &["x"], "y", &[])];
    let of_constant = vec![value(11, "x", &[0, 3]), tensor("c", 1, &deep, &[0; 4])];
    for parts in [of_input, of_constant] {
        let error = refused(&file(13, &parts)).to_string();
        assert!(error.contains("more than 8 axes"), "{error}");
    }
}

#[test]
fn attributes_of_all_nodes_are_counted_together() {
    let parts = nodes(100, |name, _| node("Relu", &["x"], name, &vec![Vec::new(); 1_000]));
    let error = refused(&file(13, &[vec![value(11, "x", &[0, 3])], parts].concat())).to_string();
    assert!(error.contains("more than 50,000 attributes"), "{error}");
}

#[test]
fn operations_of_functions_are_counted_for_each_name() {
    let chain = nodes(19_200, |name, at| {
        let read = match at {
            0 => "x".to_owned(),
            1..250 => format!("n{}", at - 1),
            _ => "n249".to_owned(),
        };
        node("Neg", &[&read], name, &[])
    });
    let parts = [vec![value(11, "x", &[0, 3]), scalar("unread", 1.0)], chain].concat();
    let error = refused(&file(13, &parts)).to_string();
    assert!(error.contains("more numbers of padding and of weights"), "{error}");
}

#[test]
fn repeated_numbers_and_parts_are_counted_before_they_exist() {
    let expanded = [vec![
        value(11, "x", &[0, 1, 1, 1]),
        list("to", &[1, 1 << 23, 1 << 23, 1 << 23]),
        node("Expand", &["x", "to"], "y", &[]),
    ]];
    let error = refused(&file(13, &expanded.concat())).to_string();
    assert!(error.contains("more than 2³¹ numbers"), "{error}");

    let shift = [
        value(11, "x", &[0, 1 << 12, 1 << 12]),
        tensor("d", 1, &[1, 2, 1], &[0; 8]),
        list("to", &[0, 1 << 11, 2, 1 << 12]),
        node("Reshape", &["x", "to"], "z", &[]),
        node("Add", &["z", "d"], "y", &[]),
    ];
    let error = refused(&file(13, &shift)).to_string();
    assert!(error.contains("more numbers of padding and of weights"), "{error}");

    let filled = [
        value(11, "x", &[0, 3]),
        list("to", &[1 << 12, 1 << 12]),
        node("ConstantOfShape", &["to"], "y", &[]),
    ];
    let error = refused(&file(13, &filled)).to_string();
    assert!(error.contains("more numbers of padding and of weights"), "{error}");

    let outputs: Vec<u8> = (0..19_000).flat_map(|at| content(2, format!("n{at}"))).collect();
    let split = [content(1, "x"), outputs, content(3, "split"), content(4, "Split")].concat();
    let split = [content(1, [split, content(5, axis_of(1))].concat())];
    let parts = [vec![value(11, "x", &[0, 19_000])], split.to_vec()].concat();
    let error = refused(&file(13, &parts)).to_string();
    assert!(error.contains("more numbers of padding and of weights"), "{error}");

    let gathered = [
        vec![value(11, "x", &[0, 3]), list("s", &[0; 60_000])],
        nodes(3_000, |name, _| node("Gather", &["s", "s"], name, &[])),
    ];
    let error = refused(&file(13, &gathered.concat())).to_string();
    assert!(error.contains("more numbers of padding and of weights"), "{error}");

    let of_tensor = [
        vec![value(11, "x", &[0, 3]), list("s", &[0; 60_000])],
        nodes(3_000, |name, _| node("Gather", &["x", "s"], name, &[axis_of(1)])),
    ];
    let error = refused(&file(13, &of_tensor.concat())).to_string();
    assert!(error.contains("more numbers of padding and of weights"), "{error}");

    // Each of seven axes of length 1 is repeated 4,096 times.
    let deep = [
        vec![value(11, "x", &[0, 1, 1, 1, 1, 1, 1, 1]), list("s", &[0; 4_096])],
        nodes(7, |name, at| {
            let read = if at == 0 { "x".to_owned() } else { format!("n{}", at - 1) };
            node("Gather", &[&read, "s"], name, &[axis_of(at as u64 + 1)])
        }),
    ];
    let error = refused(&file(13, &deep.concat())).to_string();
    assert!(error.contains("Gather `n2`") && error.contains("more than 2³¹ numbers"), "{error}");

    let squeezed = [
        vec![value(11, "x", &[0, 1, 3]), list("s", &[1; 60_000])],
        nodes(3_000, |name, _| node("Squeeze", &["x", "s"], name, &[])),
    ];
    let error = refused(&file(13, &squeezed.concat())).to_string();
    assert!(error.contains("more than 8 axes"), "{error}");
}

/// The attribute `axis`.
fn axis_of(axis: u64) -> Vec<u8> {
    [content(1, "axis"), number(3, axis), number(20, 2)].concat()
}
