//! Writes generated fields of cells as OME-TIFFs with a manifest for each task.
//!
//! `cargo run -p updraft-data --example cells -- FOLDER [SIDES [FIELDS [TEST [SEED]]]]`, such as
//! `cells OUT 24,96,96 8 2 7`; the defaults are eight pictures of 256,256, two of them to test with.

#![expect(clippy::print_stdout, reason = "an example shows what it wrote")]

use std::error::Error;
use std::str::FromStr;

use updraft_data::{CellsConfig, write_cells};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next().ok_or("expected a folder to write to")?;
    let sides = arguments.next().unwrap_or_else(|| "256,256".to_owned());
    let sides = sides.split(',').map(|side| number("SIDES", side)).collect::<Result<_, _>>()?;
    let mut next = |name, default| match arguments.next() {
        Some(text) => number(name, &text),
        None => Ok(default),
    };
    let (fields, test) = (next("FIELDS", 8)?, next("TEST", 2)?);
    let seed = next("SEED", 7)? as u64;
    let config = CellsConfig { sides, seed };
    let files = write_cells(&folder, &config, fields, test, &mut |_| {})?;
    println!("{}", files.label_free.display());
    println!("{}", files.segmentation.display());
    Ok(())
}

fn number(name: &str, text: &str) -> Result<usize, String> {
    usize::from_str(text).map_err(|error| format!("{name} is `{text}`: {error}"))
}
