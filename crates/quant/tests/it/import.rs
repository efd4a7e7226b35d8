//! ONNX files in QDQ form as models: those that this crate writes, and small ones by hand.

use updraft_quant::slices::{Isa, Pooling, Resizing};
use updraft_quant::{
    Arithmetic, Binary, Calibration, Function, Graph, ImportError, PlannedLayer, Quantization,
    QuantizedModel, Unary, Window, Workspace,
};

use crate::round_trip::{Built, answers};

const SAME: Window = Window { kernel: [3; 2], stride: [1; 2], padding: [1; 2], dilation: [1; 2] };

fn ramp(len: usize) -> Vec<f32> {
    (0..len).map(|i| (i * 37 % 64) as f32 / 32.0 - 1.0).collect()
}

fn convolutions() -> Built<Graph> {
    let mut graph = Graph::new();
    let x = graph.input("image", &[3, 8, 6])?;
    let x = graph.convolution("stem", x, SAME, 1, &ramp(8 * 27), &ramp(8))?;
    let x = graph.rectifier("stem.relu", x);
    let window = Window { stride: [2, 1], dilation: [1, 2], padding: [1, 2], ..SAME };
    let x = graph.convolution("deep", x, window, 8, &ramp(8 * 9), &ramp(8))?;
    let six = Function::binary(
        Binary::Minimum,
        &Function::identity().then(Unary::Rectifier),
        &Function::constant(6.0),
    );
    let x = graph.function("deep.relu6", x, &six)?;
    let x = graph.convolution("point", x, Window::new([1, 1]), 2, &ramp(12 * 4), &ramp(12))?;
    let x = graph.pool("mean", x, Window::new([4, 6]), Pooling::MeanOfImage)?;
    graph.linear("answer", x, &ramp(5 * 12), &ramp(5))?;
    Ok(graph)
}

fn residual() -> Built<Graph> {
    let mut graph = Graph::new();
    let image = graph.input("image", &[2, 4, 4])?;
    let x = graph.convolution("first", image, SAME, 1, &ramp(36), &[0.5, -0.5])?;
    let x = graph.add("sum", x, image)?;
    let x = graph.rectifier("relu", x);
    let y = graph.convolution("second", x, SAME, 2, &ramp(18), &[0.25, 0.0])?;
    let x = graph.add("again", x, y)?;
    let half = Window { stride: [2; 2], ..Window::new([2, 2]) };
    let most = graph.pool("most", x, half, Pooling::Maximum)?;
    let mean = graph.pool("half", x, half, Pooling::MeanWithPadding)?;
    let both = graph.concatenate("both", &[most, mean], 0)?;
    let large = graph.resize("large", both, [4, 6], Resizing::Linear)?;
    let large = graph.resize("larger", large, [8, 6], Resizing::Nearest)?;
    graph.convolution("answer", large, SAME, 1, &ramp(3 * 36), &ramp(3))?;
    Ok(graph)
}

fn functions() -> Built<Graph> {
    let mut graph = Graph::new();
    let x = graph.input("row", &[16])?;
    let x = graph.linear("hidden", x, &ramp(8 * 16), &ramp(8))?;
    let identity = Function::identity();
    let silu = Function::binary(Binary::Multiply, &identity, &identity.then(Unary::Sigmoid));
    let above = Function::binary(Binary::Greater, &identity, &Function::constant(1.0));
    let curved = graph.function("curved", x, &Function::choose(&above, &identity, &silu))?;
    let gate = graph.function("gate", curved, &identity.then(Unary::Tanh))?;
    let product = graph.multiply("product", curved, gate)?;
    let answer = graph.linear("answer", product, &ramp(4 * 8), &ramp(4))?;
    graph.output("answer", answer);
    graph.output("product", product);
    Ok(graph)
}

/// The answers of all outputs, one output after the other.
pub(crate) fn all_answers(model: &QuantizedModel, x: &[f32]) -> Vec<Vec<f32>> {
    let samples = x.len() / model.inputs()[0].numbers();
    let outputs = model.outputs().map(|port| vec![0.0; samples * port.numbers()]);
    let mut outputs: Vec<Vec<f32>> = outputs.collect();
    let mut slices: Vec<&mut [f32]> = outputs.iter_mut().map(|output| &mut output[..]).collect();
    model.run_all(Isa::detect(), &[x], &mut slices, &mut Workspace::new(), 1);
    outputs
}

#[test]
fn an_exported_model_comes_back_with_the_same_answers() -> Built<()> {
    let by = || Quantization::new(Calibration::MinMax);
    for (graph, each) in [(convolutions()?, 144), (residual()?, 32), (functions()?, 16)] {
        let numbers = (0..40 * each).map(|i| ((i * 7919 + i / 32) % 1009) as f32 / 504.0 - 1.0);
        let set: Vec<f32> = numbers.collect();
        for by in [by(), by().separate_sums(), by().keep(["answer"])] {
            let model = QuantizedModel::try_quantize(&graph, [&set], by)?;
            let imported = QuantizedModel::from_onnx(&model.to_onnx()?)?;
            assert_eq!(imported.inputs(), model.inputs());
            assert!(imported.outputs().eq(model.outputs()));
            assert_eq!(
                imported.plan().int8_share(),
                model.plan().int8_share(),
                "{}\n{}",
                imported.plan(),
                model.plan()
            );
            assert_eq!(all_answers(&imported, &set), all_answers(&model, &set), "{}", model.plan());
            // A file of this crate, and a second export, are of the same model.
            let read = QuantizedModel::try_from_bytes(&imported.to_bytes())?;
            assert_eq!(all_answers(&read, &set), all_answers(&model, &set));
            let again = QuantizedModel::from_onnx(&imported.to_onnx()?)?;
            assert_eq!(all_answers(&again, &set), all_answers(&model, &set));
        }
    }
    Ok(())
}

fn varint(mut value: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
    bytes
}

pub(crate) fn number(field: u64, value: u64) -> Vec<u8> {
    [varint(field << 3), varint(value)].concat()
}

pub(crate) fn content(field: u64, bytes: impl AsRef<[u8]>) -> Vec<u8> {
    let bytes = bytes.as_ref();
    [&varint((field << 3) | 2), &varint(bytes.len() as u64), bytes].concat()
}

pub(crate) fn tensor(name: &str, element: u64, sides: &[u64], raw: &[u8]) -> Vec<u8> {
    let sides: Vec<u8> = sides.iter().flat_map(|&side| number(1, side)).collect();
    content(5, [sides, number(2, element), content(8, name), content(9, raw)].concat())
}

pub(crate) fn scalar(name: &str, value: f32) -> Vec<u8> {
    tensor(name, 1, &[], &value.to_le_bytes())
}

pub(crate) fn node(
    operation: &str,
    inputs: &[&str],
    output: &str,
    attributes: &[Vec<u8>],
) -> Vec<u8> {
    let inputs: Vec<u8> = inputs.iter().flat_map(|input| content(1, input)).collect();
    let attributes: Vec<u8> = attributes.iter().flat_map(|bytes| content(5, bytes)).collect();
    let named = [content(2, output), content(3, output), content(4, operation)].concat();
    content(1, [inputs, named, attributes].concat())
}

pub(crate) fn integers(name: &str, values: &[u64]) -> Vec<u8> {
    let values: Vec<u8> = values.iter().flat_map(|&value| number(8, value)).collect();
    [content(1, name), values, number(20, 7)].concat()
}

/// The lengths of axes; a name for none.
pub(crate) fn value(field: u64, name: &str, sides: &[u64]) -> Vec<u8> {
    let side = |&side: &u64| match side {
        0 => content(1, content(2, "batch")),
        side => content(1, number(1, side)),
    };
    let shape: Vec<u8> = sides.iter().flat_map(side).collect();
    let kind = content(1, [number(1, 1), content(2, shape)].concat());
    content(field, [content(1, name), content(2, kind)].concat())
}

pub(crate) fn file(version: u64, parts: &[Vec<u8>]) -> Vec<u8> {
    let set = content(8, number(2, version));
    [number(1, 8), content(7, parts.concat()), set].concat()
}

/// `x` quantized by a scale of ½, signed with the zero point 2.
fn quantized_input(sides: &[u64]) -> Vec<Vec<u8>> {
    vec![
        value(11, "x", sides),
        scalar("scale", 0.5),
        tensor("zero", 3, &[], &[2]),
        node("QuantizeLinear", &["x", "scale", "zero"], "codes", &[]),
        node("DequantizeLinear", &["codes", "scale", "zero"], "real", &[]),
    ]
}

/// The same multiplied by a matrix of codes, with its scales along its second axis.
fn product(element: u64, zero: u8) -> Vec<Vec<u8>> {
    let scales: Vec<u8> = [0.5_f32, 0.25].iter().flat_map(|scale| scale.to_le_bytes()).collect();
    let codes = [1, 2, 3, 4, 5, 6_u8].map(|code| code.wrapping_add(zero));
    [
        quantized_input(&[0, 3]),
        vec![
            tensor("w.scale", 1, &[2], &scales),
            tensor("w.zero", element, &[2], &[zero; 2]),
            tensor("w", element, &[3, 2], &codes),
            node("DequantizeLinear", &["w", "w.scale", "w.zero"], "w.real", &[]),
            node("MatMul", &["real", "w.real"], "y", &[]),
            value(12, "y", &[0, 2]),
        ],
    ]
    .concat()
}

#[test]
fn codes_of_either_sign_are_multiplied_exactly() -> Built<()> {
    // Signed weights, and unsigned ones around 128.
    for (element, zero) in [(3, 0), (2, 128)] {
        let model = QuantizedModel::from_onnx(&file(13, &product(element, zero)))?;
        assert!(model.plan().is_int8(), "{}", model.plan());
        let scheme = model.input_scheme(0);
        assert_eq!((scheme.scale(), scheme.zero_point()), (0.5, 130));
        // 1·[½, ½] + 0·… − 2·[2½, 1½], and codes beyond −128 are cut.
        let y = answers(&model, Isa::detect(), &[1.0, 0.0, -2.0, -1000.0, 0.0, 0.0], 1);
        assert_eq!(y, [-4.5, -2.5, -32.5, -32.5]);
        assert_eq!(model.calibrated().samples, 0);
    }
    Ok(())
}

#[test]
fn padding_that_differs_between_two_sides_is_exact() -> Built<()> {
    let weights: Vec<u8> = (0..9).collect();
    for (pads, first) in [([0_u64, 0, 1, 1], 0), ([1, 1, 0, 0], 1)] {
        let mut parts = quantized_input(&[0, 1, 4, 4]);
        let settings = [integers("strides", &[2, 2]), integers("pads", &pads)];
        parts.extend([
            scalar("one", 1.0),
            tensor("w.zero", 3, &[], &[0]),
            tensor("w", 3, &[1, 1, 3, 3], &weights),
            tensor("y.zero", 2, &[], &[0]),
            node("DequantizeLinear", &["w", "one", "w.zero"], "w.real", &[]),
            node("Conv", &["real", "w.real"], "conv", &settings),
            node("QuantizeLinear", &["conv", "one", "y.zero"], "y.codes", &[]),
            node("DequantizeLinear", &["y.codes", "one", "y.zero"], "y", &[]),
            value(12, "y", &[0, 1, 2, 2]),
        ]);
        let model = QuantizedModel::from_onnx(&file(13, &parts))?;
        assert!(model.plan().is_int8(), "{}", model.plan());
        let x: Vec<f32> = (0..16).map(|at| (at % 5) as f32 / 2.0).collect();
        let mut right = Vec::new();
        for (row, column) in [(0, 0), (0, 2), (2, 0), (2, 2)] {
            let inside = |place: usize| place.checked_sub(first).filter(|&place| place < 4);
            let mut sum = 0.0;
            for at in 0..9 {
                if let (Some(row), Some(column)) = (inside(row + at / 3), inside(column + at % 3)) {
                    sum += at as f32 * x[4 * row + column];
                }
            }
            right.push(sum.round_ties_even().min(255.0));
        }
        assert_eq!(answers(&model, Isa::detect(), &x, 1), right, "{pads:?}");
    }
    Ok(())
}

#[test]
fn a_transposed_convolution_spreads_each_pixel() -> Built<()> {
    let mut parts = quantized_input(&[0, 1, 2, 2]);
    let settings = [integers("strides", &[2, 2]), integers("pads", &[0, 1, 0, 0])];
    parts.extend([
        scalar("half", 0.5),
        tensor("w.zero", 3, &[], &[0]),
        tensor("w", 3, &[1, 1, 2, 2], &[2, 4, 6, 8]),
        tensor("y.zero", 2, &[], &[100]),
        node("DequantizeLinear", &["w", "half", "w.zero"], "w.real", &[]),
        node("ConvTranspose", &["real", "w.real"], "conv", &settings),
        node("QuantizeLinear", &["conv", "half", "y.zero"], "y.codes", &[]),
        node("DequantizeLinear", &["y.codes", "half", "y.zero"], "y", &[]),
        value(12, "y", &[0, 1, 4, 3]),
    ]);
    let model = QuantizedModel::from_onnx(&file(13, &parts))?;
    assert!(model.plan().is_int8(), "{}", model.plan());
    let y = answers(&model, Isa::detect(), &[1.0, 2.0, -3.0, 0.5], 1);
    // Blocks of [1, 2; 3, 4] times each pixel, without the first column.
    assert_eq!(y, [2.0, 2.0, 4.0, 4.0, 6.0, 8.0, -6.0, 0.5, 1.0, -12.0, 1.5, 2.0]);
    Ok(())
}

#[test]
fn a_layer_that_no_codes_follow_stays_in_f32() -> Built<()> {
    let mut parts = quantized_input(&[0, 2, 2, 2]);
    parts.extend([
        tensor("w", 1, &[1, 2, 1, 1], &[1.0_f32, -1.0].map(f32::to_le_bytes).concat()),
        node("Conv", &["real", "w"], "conv", &[]),
        node("Sigmoid", &["conv"], "y", &[]),
        value(12, "y", &[0, 1, 2, 2]),
    ]);
    let model = QuantizedModel::from_onnx(&file(17, &parts))?;
    // But for the layer that rounds the input.
    let is_float = |layer: &PlannedLayer| {
        layer.arithmetic != Arithmetic::Int8 || layer.name.ends_with(".codes")
    };
    assert!(model.plan().layers.iter().all(is_float), "{}", model.plan());
    let y = answers(&model, Isa::detect(), &[1.0, 0.0, 0.5, 2.0, 1.0, 0.5, 1.0, 2.0], 1);
    let sigmoid = |x: f32| 1.0 / (1.0 + (-x).exp());
    for (y, x) in y.iter().zip([0.0, -0.5, -0.5, 0.0]) {
        assert!((y - sigmoid(x)).abs() < 1e-6, "{y}");
    }
    Ok(())
}

pub(crate) fn error(parts: &[Vec<u8>]) -> ImportError {
    QuantizedModel::from_onnx(&file(13, parts)).expect_err("refused")
}

#[test]
fn files_that_cannot_be_imported_are_refused_with_the_reason() -> Built<()> {
    let with = |last: Vec<u8>| [quantized_input(&[0, 3]), vec![last]].concat();
    let external = [number(1, 3), number(2, 1), content(8, "w"), number(14, 1)].concat();
    let f32_only =
        vec![value(11, "x", &[0, 3]), node("Relu", &["x"], "y", &[]), value(12, "y", &[0, 3])];
    let dynamic = [value(11, "x", &[0, 3, 0])];
    let half = tensor("w", 10, &[1], &[0, 0]);
    let own_domain = content(1, [content(4, "QGemm"), content(7, "com.microsoft")].concat());
    for (error, parts) in [
        (error(&with(node("Einsum", &["real"], "y", &[]))), ["`y` is Einsum", "supported are Abs"]),
        (error(&with(own_domain)), ["is com.microsoft.QGemm", "MaxPool"]),
        (error(&with(content(5, external))), ["`w` are in another file", "save_as_external_data"]),
        (error(&f32_only), ["no QuantizeLinear", "quantize_static"]),
        (error(&dynamic), ["`x` has the shape [batch, 3, batch]", "must be known"]),
        (error(&with(half)), ["`w` has element type 10", "1 (float)"]),
        (error(&product(2, 250)), ["MatMul `y`", "weights must be int8"]),
        (error(&product(6, 0)), ["tensor `w.zero` has 2 bytes", "its shape has 8"]),
        (error(&with(node("Relu", &["missing"], "y", &[]))), ["Relu `y` reads `missing`", ""]),
        (error(&with(node("Relu", &["codes"], "y", &[]))), ["Relu `y`", "reads codes"]),
    ] {
        let message = error.to_string();
        assert!(parts.iter().all(|part| message.contains(part)), "{message}");
    }
    let old = QuantizedModel::from_onnx(&file(11, &f32_only)).expect_err("too old");
    assert_eq!(old, ImportError::Version { version: 11 });
    let foreign =
        QuantizedModel::from_onnx(b"safetensors or so, but not ONNX").expect_err("foreign");
    assert!(foreign.to_string().contains("not an ONNX file"), "{foreign}");
    Ok(())
}

#[test]
fn truncated_and_damaged_files_never_panic() -> Built<()> {
    let set = ramp(32 * 4);
    let model = QuantizedModel::try_quantize(&residual()?, [&set], Calibration::MinMax)?;
    let bytes = model.to_onnx()?;
    for len in 0..bytes.len() {
        drop(QuantizedModel::from_onnx(&bytes[..len]));
    }
    let read = |damaged: &[u8]| -> Built<bool> {
        let mut read = None;
        let used = allocation_counter::measure(|| {
            read = QuantizedModel::from_onnx(damaged).ok();
        });
        // Beside a multiple of the file, the numbers of padding that any file may have.
        let most = 100 * damaged.len() as u64 + (32 << 20);
        assert!(used.bytes_max < most, "{} bytes", used.bytes_max);
        let Some(read) = read else { return Ok(false) };
        let again = QuantizedModel::try_from_bytes(&read.to_bytes())?;
        assert_eq!(again.to_bytes(), read.to_bytes());
        Ok(true)
    };
    // Codes of weights with another last bit are codes.
    let weights = 36 + 18 + 3 * 36;
    let mut accepted = 0;
    for at in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1;
        accepted += usize::from(read(&damaged)?);
    }
    assert!(accepted >= weights, "the damage does not reach the layers: {accepted}");
    let mut state = 1_u64;
    let mut next = |below: usize| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below
    };
    for _ in 0..2_000 {
        let mut damaged = bytes.clone();
        for _ in 0..1 + next(3) {
            let at = next(damaged.len());
            match next(4) {
                0 => damaged[at] ^= 1 << next(8),
                1 => damaged[at] = [0, 1, 2, 127, 128, 255][next(6)],
                2 => drop(damaged.remove(at)),
                _ => damaged.insert(at, damaged[at]),
            }
        }
        read(&damaged)?;
    }
    Ok(())
}
