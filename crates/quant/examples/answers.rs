//! Writes a model's ONNX file beside images and its own answers to them, for
//! `crates/quant/tests/same_answers.py` to compare.
//!
//! `cargo run -p updraft-quant --example answers -- RUN/model.int8 FOLDER`

use std::error::Error;
use std::fs;
use std::path::Path as FilePath;

use updraft_quant::slices::Isa;
use updraft_quant::{QuantizedModel, Workspace};

/// As many images as tell 99.5 % from less.
const IMAGES: usize = 2000;

/// Steps of a ramp from one corner of an image to the other, with noise of the same size.
fn images(each: usize) -> Vec<f32> {
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 40) as f32 / (1_u64 << 23) as f32 - 1.0
    };
    let mut values = Vec::with_capacity(IMAGES * each);
    for _ in 0..IMAGES {
        let (level, slope) = (next(), next());
        values.extend((0..each).map(|at| level + slope * at as f32 / each as f32 + next()));
    }
    values
}

fn bytes(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [model, folder] = arguments.as_slice() else {
        return Err("expected a model's file and a folder to write to".into());
    };
    let model = QuantizedModel::try_from_bytes(&fs::read(model)?)?;
    let [image, answer] = model.shapes().map(|shape| shape.iter().product::<usize>());
    let x = images(image);
    let mut y = vec![0.0; IMAGES * answer];
    model.run(Isa::detect(), &x, &mut y, &mut Workspace::new(), 1);
    let folder = FilePath::new(folder);
    fs::create_dir_all(folder)?;
    fs::write(folder.join("model.onnx"), model.to_onnx())?;
    fs::write(folder.join("images.f32"), bytes(&x))?;
    fs::write(folder.join("answers.f32"), bytes(&y))?;
    Ok(())
}
