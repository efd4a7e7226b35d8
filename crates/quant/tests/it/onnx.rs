//! The exported file, read back field by field.

use std::collections::{HashMap, HashSet};

use updraft_quant::slices::Pooling;
use updraft_quant::{Calibration, Graph, Quantization, QuantizedModel, Window};

use crate::zeros::{half_dead, images};

/// The fields of a message: number and content, where integers have none.
fn fields(mut bytes: &[u8]) -> Vec<(u64, u64, &[u8])> {
    fn varint(bytes: &mut &[u8]) -> u64 {
        let mut value = 0;
        for place in 0.. {
            let (&first, rest) = bytes.split_first().expect("a whole number");
            *bytes = rest;
            value |= u64::from(first & 0x7F) << (7 * place);
            if first < 0x80 {
                break;
            }
        }
        value
    }
    let mut fields = Vec::new();
    while !bytes.is_empty() {
        let key = varint(&mut bytes);
        let value = varint(&mut bytes);
        let len = match key & 7 {
            0 => 0,
            2 => value as usize,
            kind => panic!("wire type {kind} is not written"),
        };
        let (content, rest) = bytes.split_at(len);
        bytes = rest;
        fields.push((key >> 3, value, content));
    }
    fields
}

fn texts<'a>(fields: &[(u64, u64, &'a [u8])], number: u64) -> Vec<&'a str> {
    let chosen = fields.iter().filter(|field| field.0 == number);
    chosen.map(|field| std::str::from_utf8(field.2).expect("text")).collect()
}

fn model() -> Result<QuantizedModel, Box<dyn std::error::Error>> {
    let mut graph = Graph::new();
    let image = graph.input("image", &[2, 4, 4])?;
    let same = Window { padding: [1; 2], ..Window::new([3, 3]) };
    let ramp: Vec<f32> = (0..36).map(|i| (i % 7) as f32 - 3.0).collect();
    let maps = graph.convolution("maps", image, same, 1, &ramp, &[0.5, -0.5])?;
    let maps = graph.rectifier("relu", maps);
    let sum = graph.add("sum", maps, image)?;
    let half = Window { stride: [2; 2], ..Window::new([2, 2]) };
    let most = graph.pool("most", sum, half, Pooling::Maximum)?;
    let mean = graph.pool("mean", most, Window::new([1, 1]), Pooling::MeanOfImage)?;
    graph.linear("answer", mean, &ramp[..24], &[0.0, 1.0, 2.0])?;
    let set: Vec<f32> = (0..64).map(|i| (i * 37 % 64) as f32 / 32.0 - 1.0).collect();
    Ok(QuantizedModel::try_quantize(&graph, [set], Calibration::MinMax)?)
}

#[test]
fn every_value_is_given_before_it_is_read() -> Result<(), Box<dyn std::error::Error>> {
    let bytes = model()?.to_onnx()?;
    let file = fields(&bytes);
    let graph = fields(file.iter().find(|field| field.0 == 7).expect("a graph").2);
    let mut given: HashSet<&str> = HashSet::from(["image"]);
    let mut lens = HashMap::new();
    for (number, _, content) in &graph {
        if *number == 5 {
            let tensor = fields(content);
            let name = texts(&tensor, 8)[0];
            assert!(given.insert(name), "`{name}` is given twice");
            // One to four bytes a number; the shape says how many.
            let sides = tensor.iter().filter(|field| field.0 == 1).map(|field| field.1);
            let kind = tensor.iter().find(|field| field.0 == 2).expect("a type").1;
            let each = [(1, 4), (2, 1), (3, 1), (6, 4), (7, 8)];
            let each = each.iter().find(|(number, _)| *number == kind).expect("a known type").1;
            let raw = tensor.iter().find(|field| field.0 == 9).expect("bytes").2;
            assert_eq!(raw.len() as u64, sides.product::<u64>() * each, "`{name}`");
            lens.insert(name, raw.len());
        }
    }
    let mut operators = Vec::new();
    for (number, _, content) in &graph {
        if *number == 1 {
            let node = fields(content);
            for input in texts(&node, 1) {
                assert!(given.contains(input), "`{input}` is read before it is given");
            }
            assert!(given.insert(texts(&node, 2)[0]));
            operators.push(texts(&node, 4)[0]);
        }
    }
    assert!(given.contains("answer"));
    operators.retain(|operator| !["QuantizeLinear", "DequantizeLinear"].contains(operator));
    let layers = ["Conv", "Relu", "Add", "MaxPool", "AveragePool", "Flatten", "Gemm", "Identity"];
    assert_eq!(operators, layers);
    assert_eq!(lens["layer0.weights.codes"], 36);
    assert_eq!(lens["layer4.weights.codes"], 24);
    assert_eq!(lens["layer4.bias.codes"], 12);
    Ok(())
}

#[test]
fn a_joined_sum_has_no_codes_before_it() -> Result<(), Box<dyn std::error::Error>> {
    let mut graph = Graph::new();
    let image = graph.input("image", &[2, 4, 4])?;
    let weights = [0.5, -1.0, 0.25, 1.0];
    let maps = graph.convolution("maps", image, Window::new([1, 1]), 1, &weights, &[0.0; 2])?;
    graph.add("sum", maps, image)?;
    let set: Vec<f32> = (0..64).map(|i| (i * 37 % 64) as f32 / 32.0 - 1.0).collect();
    let operators = |by: Quantization| -> Result<Vec<String>, Box<dyn std::error::Error>> {
        let bytes = QuantizedModel::try_quantize(&graph, [&set], by)?.to_onnx()?;
        let file = fields(&bytes);
        let graph = fields(file.iter().find(|field| field.0 == 7).expect("a graph").2);
        let nodes = graph.iter().filter(|field| field.0 == 1).map(|field| fields(field.2));
        Ok(nodes.map(|node| texts(&node, 4)[0].to_owned()).collect())
    };
    let (to, from) = ("QuantizeLinear", "DequantizeLinear");
    let joined = [to, from, from, from, "Conv", "Add", to, from, "Identity"];
    assert_eq!(operators(Calibration::MinMax.into())?, joined);
    let separate = Quantization::new(Calibration::MinMax).separate_sums();
    let separated = [to, from, from, from, "Conv", to, from, "Add", to, from, "Identity"];
    assert_eq!(operators(separate)?, separated);
    Ok(())
}

#[test]
fn the_same_model_gives_the_same_file() -> Result<(), Box<dyn std::error::Error>> {
    assert_eq!(model()?.to_onnx(), model()?.to_onnx());
    Ok(())
}

/// The first number of each initializer whose name ends so.
fn first_numbers(file: &[u8], end: &str) -> HashMap<String, f32> {
    let file = fields(file);
    let graph = fields(file.iter().find(|field| field.0 == 7).expect("a graph").2);
    let tensors = graph.iter().filter(|field| field.0 == 5).map(|field| fields(field.2));
    let named = tensors.map(|tensor| (texts(&tensor, 8)[0].to_owned(), tensor));
    let scales = named.filter(|(name, _)| name.ends_with(end)).map(|(name, tensor)| {
        let bytes = tensor.iter().find(|field| field.0 == 9).expect("bytes").2;
        (name, f32::from_le_bytes(*bytes.first_chunk().expect("a number")))
    });
    scales.collect()
}

#[test]
fn a_dead_layer_is_written_with_the_scale_of_what_it_reads()
-> Result<(), Box<dyn std::error::Error>> {
    let (graph, set) = (half_dead()?, images());
    let model = QuantizedModel::try_quantize(&graph, [set], Calibration::MinMax)?;
    let dead = model.plan().layers.iter().position(|layer| layer.name == "dead+dead.relu");
    assert_eq!(dead, Some(1));
    let scales = first_numbers(&model.to_onnx()?, ".scale");
    assert_eq!(scales["t2.scale"], scales["t0.scale"]);
    assert!(scales.values().all(|scale| scale.is_normal() && *scale > 0.0), "{scales:?}");
    Ok(())
}
