//! Models that are written and read, truncated, damaged, and forged.

use std::collections::{BTreeMap, HashMap};
use std::error::Error;

use safetensors::SafeTensors;
use safetensors::tensor::{Dtype, TensorView};
use sha2::{Digest, Sha256};
use updraft_quant::slices::{Isa, Pooling, Resizing};
use updraft_quant::{
    Binary, Calibration, FileError, Function, Graph, Port, Quantization, QuantizedModel, Unary,
    Window, Workspace,
};

fn model() -> Result<QuantizedModel, Box<dyn Error>> {
    let mut graph = Graph::new();
    let image = graph.input("image", &[2, 4, 4])?;
    let same = Window { padding: [1; 2], ..Window::new([3, 3]) };
    let ramp: Vec<f32> = (0..64).map(|i| (i % 7) as f32 - 3.0).collect();
    let maps = graph.convolution("maps", image, same, 1, &ramp[..36], &[0.5, -0.5])?;
    let maps = graph.rectifier("relu", maps);
    let sum = graph.add("sum", maps, image)?;
    let deep = graph.convolution("depthwise", sum, same, 2, &ramp[..18], &[0.0, 0.1])?;
    let deep = graph.add("residual", sum, deep)?;
    let point = Window::new([1, 1]);
    let real = graph.convolution("real", deep, point, 1, &ramp[..4], &[0.2, 0.0])?;
    let deep = graph.add("of floats", real, deep)?;
    let half = Window { stride: [2; 2], ..Window::new([2, 2]) };
    let most = graph.pool("most", deep, half, Pooling::Maximum)?;
    let mean = graph.pool("mean", most, Window::new([1, 1]), Pooling::MeanOfImage)?;
    let hidden = graph.linear("hidden", mean, &ramp[..40], &[0.0, 1.0, 2.0, 3.0, 4.0])?;
    let hidden = graph.rectifier("relu", hidden);
    // x·σ(x), and 3·x where x is above 1.
    let x = Function::identity();
    let silu = Function::binary(Binary::Multiply, &x, &x.then(Unary::Sigmoid));
    let above = Function::binary(Binary::Greater, &x, &Function::constant(1.0));
    let three = Function::binary(Binary::Multiply, &x, &Function::constant(3.0));
    let curved = graph.function("curved", hidden, &Function::choose(&above, &three, &silu))?;
    let product = graph.multiply("product", curved, hidden)?;
    let both = graph.concatenate("both", &[product, curved], 0)?;
    let kept = graph.linear("kept", both, &ramp[..50], &ramp[..5])?;
    let shares = graph.softmax("shares", kept, 0)?;
    let half = graph.affine("half", shares, &[0.5; 5], &[0.0; 5])?;
    let sum = graph.add("halves", half, kept)?;
    graph.linear("answer", sum, &ramp[..15], &[0.0, 1.0, 2.0])?;
    let set: Vec<f32> = (0..64).map(|i| (i * 37 % 64) as f32 / 32.0 - 1.0).collect();
    let by =
        Quantization::new(Calibration::Percentile(0.999)).keep(["kept", "real"]).set_hash("c0ffee");
    let model = QuantizedModel::try_quantize(&graph, [set], by)?;
    let plan = model.estimate_speed(Isa::Avx2).plan().clone();
    Ok(model.with_speed_plan(&plan))
}

fn answers(model: &QuantizedModel) -> Vec<f32> {
    let x: Vec<f32> =
        (0..3 * model.inputs()[0].numbers()).map(|i| (i * 29 % 97) as f32 / 48.0 - 1.0).collect();
    let mut y = vec![0.0; 3 * model.outputs().map(Port::numbers).sum::<usize>()];
    model.run(Isa::detect(), &x, &mut y, &mut Workspace::new(), 1);
    y
}

/// The tensors of a file but its hash, and its header.
fn opened(bytes: &[u8]) -> Result<(BTreeMap<String, TensorView<'_>>, String), Box<dyn Error>> {
    let file = SafeTensors::deserialize(bytes)?;
    let (_, metadata) = SafeTensors::read_metadata(bytes)?;
    let header = metadata.metadata().as_ref().and_then(|all| all.get("updraft-quant"));
    let mut tensors: BTreeMap<_, _> = file.tensors().into_iter().collect();
    tensors.remove("sha256");
    Ok((tensors, header.ok_or("no header")?.clone()))
}

/// A file with the right hash for its header and tensors.
fn sealed(tensors: &BTreeMap<String, TensorView<'_>>, header: &str) -> Vec<u8> {
    let mut hash = Sha256::new();
    hash.update(header);
    for (name, tensor) in tensors {
        hash.update(name);
        hash.update(tensor.data());
    }
    let hash = hash.finalize();
    let hash = TensorView::new(Dtype::U8, vec![32], &hash).expect("32 bytes");
    let all = tensors.clone().into_iter().chain([("sha256".to_owned(), hash)]);
    let metadata = HashMap::from([("updraft-quant".to_owned(), header.to_owned())]);
    safetensors::serialize(all, Some(metadata)).expect("whole tensors")
}

#[test]
fn what_is_read_is_what_was_written() -> Result<(), Box<dyn Error>> {
    let model = model()?;
    let bytes = model.to_bytes();
    let (tensors, header) = opened(&bytes)?;
    assert_eq!(sealed(&tensors, &header), bytes);
    assert_eq!(tensors["layer0.weights"].shape(), [2, 18]);
    let read = QuantizedModel::try_from_bytes(&bytes)?;
    assert_eq!(read.to_bytes(), bytes);
    assert_eq!(answers(&read), answers(&model));
    assert_eq!(read.to_onnx(), model.to_onnx());
    assert_eq!(read.plan(), model.plan());
    assert_eq!(read.calibrated(), model.calibrated());
    assert_eq!(read.calibrated().set_hash, "c0ffee");
    assert_eq!(read.calibrated().samples, 2);
    Ok(())
}

#[test]
fn a_file_that_is_cut_anywhere_is_refused() -> Result<(), Box<dyn Error>> {
    let bytes = model()?.to_bytes();
    for len in 0..bytes.len() {
        let error = QuantizedModel::try_from_bytes(&bytes[..len]).expect_err("cut");
        assert!(matches!(error, FileError::Container { .. }), "{len} bytes: {error}");
    }
    let (tensors, header) = opened(&bytes)?;
    for name in tensors.keys() {
        let mut fewer = tensors.clone();
        fewer.remove(name);
        assert!(QuantizedModel::try_from_bytes(&sealed(&fewer, &header)).is_err(), "no {name}");
    }
    Ok(())
}

#[test]
fn every_damaged_byte_is_noticed() -> Result<(), Box<dyn Error>> {
    let bytes = model()?.to_bytes();
    for at in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x10;
        assert!(QuantizedModel::try_from_bytes(&damaged).is_err(), "byte {at}");
    }
    let error = |bytes: &[u8]| QuantizedModel::try_from_bytes(bytes).expect_err("bad");
    assert!(matches!(error(b"ONNX or so, but not ours"), FileError::Container { .. }));
    let (mut tensors, header) = opened(&bytes)?;
    let newer = header.replacen("\"version\":13", "\"version\":14", 1);
    assert_eq!(error(&sealed(&tensors, &newer)), FileError::Version { version: 14 });
    let foreign = safetensors::serialize(tensors.clone(), None)?;
    assert_eq!(error(&foreign), FileError::Foreign);
    let mut damaged = bytes.clone();
    *damaged.last_mut().expect("bytes") ^= 1;
    assert_eq!(error(&damaged), FileError::Hash);
    let more = tensors["layer0.bias"].clone();
    tensors.insert("more".to_owned(), more);
    let message = error(&sealed(&tensors, &header)).to_string();
    assert!(message.contains("a tensor that no layer has"), "{message}");
    tensors.remove("more");
    for wrong in ["\"in_f32\":[99]", "\"in_f32\":[1,0]", "\"in_f32\":[0,0]"] {
        let start = header.find("\"in_f32\":[").ok_or("a plan")?;
        let end = start + header[start..].find(']').ok_or("its end")? + 1;
        let forged = [&header[..start], wrong, &header[end..]].concat();
        let message = error(&sealed(&tensors, &forged)).to_string();
        assert!(message.contains("a plan of the faster arithmetic"), "{wrong}: {message}");
    }
    Ok(())
}

#[test]
fn forged_files_never_panic_and_take_no_more_memory_than_a_few_times_their_bytes()
-> Result<(), Box<dyn Error>> {
    let model = model()?;
    let bytes = model.to_bytes();
    let (tensors, header) = opened(&bytes)?;
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let mut next = |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 16) as usize % below
    };
    let names: Vec<&String> = tensors.keys().collect();
    let mut accepted = 0;
    for _ in 0..20_000 {
        let (mut forged, mut tensors) = (header.clone().into_bytes(), tensors.clone());
        let mut values = Vec::new();
        if next(3) == 0 {
            let name = names[next(names.len())];
            let tensor = tensors[name].clone();
            values.extend(tensor.data());
            let at = next(values.len());
            values[at] = [0, 1, 2, 127, 128, 255][next(6)];
            let tensor = TensorView::new(tensor.dtype(), tensor.shape().to_vec(), &values)?;
            tensors.insert(name.clone(), tensor);
        }
        for _ in 0..next(3) {
            let at = next(forged.len());
            match next(3) {
                // Numbers, small and large: shapes, tensors, schemes.
                0 if forged[at].is_ascii_digit() => forged[at] = b'0' + next(10) as u8,
                0 if forged[at] == b',' => forged.insert(at, b'9'),
                1 => drop(forged.remove(at)),
                _ => forged[at] = b" 0123456789[]{},:ntf\".-e"[next(24)],
            }
        }
        let Ok(forged) = String::from_utf8(forged) else { continue };
        let forged = sealed(&tensors, &forged);
        let mut read = None;
        let used = allocation_counter::measure(|| {
            read = QuantizedModel::try_from_bytes(&forged).ok();
        });
        assert!(used.bytes_max < 100 * forged.len() as u64, "{} bytes", used.bytes_max);
        if let Some(read) = read {
            accepted += 1;
            let again = QuantizedModel::try_from_bytes(&read.to_bytes())?;
            assert_eq!(again.to_bytes(), read.to_bytes());
            // Other weights and scales make another model, not a broken one.
            if read.inputs() == model.inputs() && read.outputs().eq(model.outputs()) {
                assert_eq!(answers(&read).len(), 9);
                assert_eq!(answers(&read.for_processor(Isa::Avx2)).len(), 9);
            }
        }
    }
    assert!(accepted > 100, "the forgeries do not reach the layers: {accepted}");
    Ok(())
}

#[test]
fn a_small_file_of_a_large_output_is_read_without_its_memory() -> Result<(), Box<dyn Error>> {
    let mut graph = Graph::new();
    let row = graph.input("row", &[2])?;
    graph.rearrange("repeated", row, &[2, 3], &[[2, 1], [3, 0]], 0)?;
    let model = QuantizedModel::try_quantize(&graph, [vec![1.0, 2.0]], Calibration::MinMax)?;
    let bytes = model.to_bytes();
    let (tensors, header) = opened(&bytes)?;
    let repeated = |times: usize| {
        let header = header.replace("[2,3]", &format!("[2,{times}]"));
        sealed(&tensors, &header.replace("[3,0]", &format!("[{times},0]")))
    };
    assert_eq!(repeated(3), bytes);
    let forged = repeated(1 << 27);
    let used = allocation_counter::measure(|| {
        assert!(QuantizedModel::try_from_bytes(&forged).is_ok());
    });
    assert!(used.bytes_max < 100 * forged.len() as u64, "{} bytes", used.bytes_max);
    let mut graph = Graph::new();
    let image = graph.input("image", &[1, 1, 1])?;
    graph.resize("large", image, [3, 5], Resizing::Linear)?;
    let model = QuantizedModel::try_quantize(&graph, [vec![1.0]], Calibration::MinMax)?;
    let resized = model.to_bytes();
    let larger = opened(&resized)?.1.replace("3,5]", "3,9999999]");
    let forged = sealed(&BTreeMap::new(), &larger);
    let used = allocation_counter::measure(|| {
        assert!(QuantizedModel::try_from_bytes(&forged).is_ok());
    });
    assert!(used.bytes_max < 100 * forged.len() as u64, "{} bytes", used.bytes_max);
    let error = QuantizedModel::try_from_bytes(&repeated(1 << 30)).expect_err("too large");
    assert!(error.to_string().contains("the shape"), "{error}");
    // Each of the layers is allowed, all of them are not.
    let layers = header.find("\"layers\":[").ok_or("layers")? + "\"layers\":[".len();
    let outputs = header.find("],\"outputs\"").ok_or("outputs")?;
    let layer = header[layers..outputs].to_owned();
    let many = vec![layer; 20].join(",");
    let many = [&header[..layers], &many, &header[outputs..]].concat();
    let many = many.replace("[2,3]", "[2,134217728]").replace("[3,0]", "[134217728,0]");
    let error = QuantizedModel::try_from_bytes(&sealed(&tensors, &many)).expect_err("too many");
    assert!(error.to_string().contains("all tensors"), "{error}");
    Ok(())
}
