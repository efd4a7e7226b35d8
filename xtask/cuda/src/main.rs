//! Writes every kernel of our crates as CUDA C++ for two generations of cards, without one:
//! `updraft-cuda-offline FOLDER`.
//!
//! `FOLDER/kernels.json` lists them for `compile.py`. The kernels are launched by the code of their
//! crates, on a device that records instead of running, so that their arguments are those of the
//! product.

mod card;
mod recorder;

use std::collections::BTreeMap;
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

use cubecl_common::device::DeviceId;
use cubecl_core::ir::{ElemType, FloatKind};
use cubecl_core::prelude::{BufferArg, Client};
use cubecl_std::tensor::TensorHandle;
use serde_json::{Value, json};

use recorder::{Recorded, Recorder, take};

/// Launches every kernel of a crate; the function makes a buffer of so many numbers of four bytes.
type EveryKernel = fn(&Client, &dyn Fn(usize) -> BufferArg);

/// Every crate with kernels for GPUs, by its folder.
const CRATES: [(&str, EveryKernel); 5] = [
    ("conv", updraft_conv::every_kernel),
    ("kan", updraft_kan::every_kernel),
    ("optim", updraft_optim::every_kernel),
    ("precision", updraft_precision::every_kernel),
    // Its layers make their buffers.
    ("quant", |client, _| updraft_quant::every_kernel(client)),
];

fn main() -> Result<(), Box<dyn Error>> {
    let folder = std::env::args_os().nth(1).ok_or("usage: updraft-cuda-offline FOLDER")?;
    let folder = PathBuf::from(folder);
    let mut kernels = Vec::new();
    for (capability, architecture) in card::CARDS {
        let client = Client::load::<Recorder>(DeviceId::new(0, capability));
        fs::create_dir_all(folder.join(architecture))?;
        for (name, every_kernel) in CRATES {
            every_kernel(&client, &|numbers| buffer(&client, numbers));
            // The device works in a thread of its own.
            client.flush().map_err(|error| error.to_string())?;
            kernels.extend(written(take(), name, architecture, &folder)?);
        }
    }
    fs::write(folder.join("kernels.json"), serde_json::to_string_pretty(&kernels)?)?;
    println!("{} kernels in {}", kernels.len(), folder.display());
    Ok(())
}

fn buffer(client: &Client, numbers: usize) -> BufferArg {
    let handle = client.empty(numbers * size_of::<f32>());
    let numbers = [numbers];
    TensorHandle::new_contiguous(numbers, handle, ElemType::Float(FloatKind::F32))
        .into_arg()
        .into_buffer_arg()
}

/// Writes the texts of a crate, and returns their entries of the list.
fn written(
    recorded: Vec<Recorded>,
    name: &str,
    architecture: &str,
    folder: &Path,
) -> Result<Vec<Value>, Box<dyn Error>> {
    let mut entries = BTreeMap::new();
    for Recorded { kernel, id, text } in recorded {
        let (entry, value) = match text {
            Ok(text) => {
                let file = format!("{architecture}/{name}-{}.cu", text.entry);
                fs::write(folder.join(&file), text.source)?;
                let value = json!({
                    "crate": name, "kernel": kernel, "entry": text.entry, "id": id,
                    "arch": architecture, "file": file, "units": text.units,
                    "shared_bytes": text.shared_bytes,
                });
                (text.entry, value)
            }
            Err(error) => {
                let entry = format!("{kernel} {id}");
                let value = json!({
                    "crate": name, "kernel": kernel, "entry": entry, "id": id,
                    "arch": architecture, "error": error,
                });
                (entry, value)
            }
        };
        entries.insert(entry, value);
    }
    Ok(entries.into_values().collect())
}
