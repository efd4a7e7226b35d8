//! Writes generated rows with labels as `train.csv` and `test.csv`.
//!
//! `cargo run -p updraft-data --example labels -- FOLDER [SEED [ROWS [TEST [NOISE]]]]`: the rows on
//! which `configs/tables-labels.toml` trains and tests with that seed; the defaults are its own.

#![expect(clippy::print_stdout, reason = "an example shows what it wrote")]

use std::error::Error;
use std::path::Path;
use std::str::FromStr;

use updraft_data::label_csv;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next().ok_or("expected a folder to write to")?;
    let seed: u64 = next(&mut arguments, "SEED", 1)?;
    let (rows, test) = (next(&mut arguments, "ROWS", 4000)?, next(&mut arguments, "TEST", 4000)?);
    let noise: f64 = next(&mut arguments, "NOISE", 0.05)?;
    if !(0.0..=1.0).contains(&noise) {
        return Err(format!("NOISE is {noise}; it must be 0 to 1").into());
    }
    // Test rows are those of another seed.
    let files = [("train.csv", rows, seed), ("test.csv", test, seed ^ (1 << 63))];
    for (name, rows, seed) in files {
        let path = Path::new(&folder).join(name);
        std::fs::write(&path, label_csv(rows, seed, noise))?;
        println!("{}", path.display());
    }
    Ok(())
}

fn next<T: FromStr>(
    arguments: &mut impl Iterator<Item = String>,
    name: &str,
    default: T,
) -> Result<T, String> {
    let Some(text) = arguments.next() else { return Ok(default) };
    text.parse().map_err(|_| format!("{name} is `{text}`; it must be a number"))
}
