//! Models that are written and read, cut, damaged, and forged.

use sha2::{Digest, Sha256};
use updraft_quant::slices::{Isa, Pooling};
use updraft_quant::{
    Binary, Calibration, FileError, Function, Graph, Quantization, QuantizedModel, Unary, Window,
    Workspace,
};

/// What comes before the layers: magic, version, length, hash.
const HEADER: usize = 8 + 4 + 8 + 32;

fn model() -> Result<QuantizedModel, Box<dyn std::error::Error>> {
    let mut graph = Graph::try_new([2, 4, 4])?;
    let image = graph.input();
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
    let both = graph.concatenate("both", &[product, curved])?;
    let kept = graph.linear("kept", both, &ramp[..50], &ramp[..5])?;
    let shares = graph.softmax("shares", kept);
    let half = graph.affine("half", shares, &[0.5; 5], &[0.0; 5])?;
    let sum = graph.add("halves", half, kept)?;
    graph.linear("answer", sum, &ramp[..15], &[0.0, 1.0, 2.0])?;
    let set: Vec<f32> = (0..64).map(|i| (i * 37 % 64) as f32 / 32.0 - 1.0).collect();
    let by =
        Quantization::new(Calibration::Percentile(0.999)).keep(["kept", "real"]).set_hash("c0ffee");
    Ok(QuantizedModel::try_quantize(&graph, [set], by)?)
}

fn answers(model: &QuantizedModel) -> Vec<f32> {
    let [image, answer] = model.shapes().map(|shape| shape.iter().product::<usize>());
    let x: Vec<f32> = (0..3 * image).map(|i| (i * 29 % 97) as f32 / 48.0 - 1.0).collect();
    let mut y = vec![0.0; 3 * answer];
    model.run(Isa::detect(), &x, &mut y, &mut Workspace::new(), 1);
    y
}

/// A file with the right length and hash for its layers.
fn sealed(body: &[u8]) -> Vec<u8> {
    let mut file = b"UPDRAFTQ".to_vec();
    file.extend(5_u32.to_le_bytes());
    file.extend((body.len() as u64).to_le_bytes());
    file.extend(Sha256::digest(body));
    file.extend(body);
    file
}

#[test]
fn what_is_read_is_what_was_written() -> Result<(), Box<dyn std::error::Error>> {
    let model = model()?;
    let bytes = model.to_bytes();
    assert_eq!(sealed(&bytes[HEADER..]), bytes);
    let read = QuantizedModel::try_from_bytes(&bytes)?;
    assert_eq!(read.to_bytes(), bytes);
    assert_eq!(answers(&read), answers(&model));
    assert_eq!(read.to_onnx(), model.to_onnx());
    assert_eq!(read.plan(), model.plan());
    assert_eq!(read.calibrated(), model.calibrated());
    assert_eq!(read.calibrated().set_hash, "c0ffee");
    assert_eq!(read.calibrated().images, 2);
    Ok(())
}

#[test]
fn a_file_that_is_cut_anywhere_is_refused() -> Result<(), Box<dyn std::error::Error>> {
    let bytes = model()?.to_bytes();
    for len in 0..bytes.len() {
        let error = QuantizedModel::try_from_bytes(&bytes[..len]).expect_err("cut");
        match (len, &error) {
            (0..8, FileError::Foreign) | (8.., FileError::Truncated { .. }) => {}
            _ => panic!("{len} bytes: {error}"),
        }
        if len >= HEADER {
            // Cut, and sealed again: the layers themselves end early.
            let forged = sealed(&bytes[HEADER..len]);
            assert!(QuantizedModel::try_from_bytes(&forged).is_err(), "{len} bytes");
        }
    }
    Ok(())
}

#[test]
fn every_damaged_byte_is_noticed() -> Result<(), Box<dyn std::error::Error>> {
    let bytes = model()?.to_bytes();
    for at in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x10;
        assert!(QuantizedModel::try_from_bytes(&damaged).is_err(), "byte {at}");
    }
    let error = |bytes: &[u8]| QuantizedModel::try_from_bytes(bytes).expect_err("bad");
    assert_eq!(error(b"ONNX or so, but not ours"), FileError::Foreign);
    let mut newer = bytes.clone();
    newer[8] = 6;
    assert_eq!(error(&newer), FileError::Version { version: 6 });
    let mut damaged = bytes.clone();
    damaged[HEADER + 40] ^= 1;
    assert_eq!(error(&damaged), FileError::Hash);
    assert_eq!(error(&[&bytes[..], b"more"].concat()), FileError::Trailing { extra: 4 });
    let more = [&bytes[HEADER..], b"more"].concat();
    assert_eq!(error(&sealed(&more)), FileError::Trailing { extra: 4 });
    Ok(())
}

#[test]
fn forged_layers_never_panic() -> Result<(), Box<dyn std::error::Error>> {
    let model = model()?;
    let bytes = model.to_bytes();
    let body = &bytes[HEADER..];
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let mut next = |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 16) as usize % below
    };
    let mut accepted = 0;
    for _ in 0..20_000 {
        let mut forged = body.to_vec();
        for _ in 0..=next(3) {
            let at = next(forged.len());
            match next(4) {
                0 => forged[at] ^= 1 << next(8),
                1 => forged[at] = [0, 1, 2, 127, 128, 255][next(6)],
                2 => drop(forged.remove(at)),
                _ => forged.insert(at, next(256) as u8),
            }
        }
        if let Ok(read) = QuantizedModel::try_from_bytes(&sealed(&forged)) {
            accepted += 1;
            assert_eq!(read.to_bytes(), sealed(&forged));
            // Other weights and scales make another model, not a broken one.
            if read.shapes() == model.shapes() {
                assert_eq!(answers(&read).len(), 9);
            }
        }
    }
    assert!(accepted > 100, "the forgeries do not reach the layers: {accepted}");
    Ok(())
}
