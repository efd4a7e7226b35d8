//! A file of numbers and words, prepared for a model: kinds, classes, rare words, scaling.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use updraft_data::{
    ColumnKind, Delimiter, EncodedRows, RowConfig, RowEncoder, Scaling, TableSchema, UntypedColumn,
    UntypedTable,
};

use crate::formula::{entry, salt};
use crate::problem::{Outputs, Problem, Repeat, Site, Task, Work};

const FILE: &str = "rows.csv";

/// Fields that stand for a missing value.
const MISSING: [&str; 3] = ["", "?", "NA"];

const COLORS: [&str; 7] = ["red", "green", "blue", "black", "white", "yellow", "orange"];
const SIZES: [&str; 4] = ["small", "medium", "large", "extra large"];

/// Nine columns of numbers, two of which miss values, six of words, one of which misses values, and
/// one of truth values. Three columns of words have many that are rare.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct PrepareTable {
    pub(crate) rows: usize,
    /// Words in fewer rows than this are one class.
    pub(crate) least: usize,
}

const NAMES: [&str; 16] = [
    "age", "income", "score", "ratio", "distance", "count", "balance", "exact", "city", "street",
    "color", "size", "state", "product", "flag", "weight",
];

/// A field of the file.
fn field(column: usize, row: usize, salts: &[u32; 16], text: &mut String) {
    let unit = |part: u32| {
        let other = salts[column].wrapping_add(part.wrapping_mul(0x9E37_79B9));
        f64::midpoint(f64::from(entry(other, row as u32)), 1.0)
    };
    let below = |part: u32, count: usize| (unit(part) * count as f64) as usize;
    // Low numbers often, high ones rarely.
    let rarely = |count: usize| ((count as f64 + 1.0).powf(unit(0)) as usize - 1).min(count - 1);
    let written = match NAMES[column] {
        "age" => write!(text, "{}", 18 + below(0, 70)),
        "income" if below(1, 20) == 0 => write!(text, "?"),
        "income" => write!(text, "{:.2}", unit(0) * 150_000.0),
        "score" => write!(text, "{:.4}", unit(0) * 20.0 - 10.0),
        "ratio" if below(1, 10) == 0 => Ok(()),
        "ratio" => write!(text, "{:.6}", unit(0)),
        "distance" => write!(text, "{:.3}", unit(0) * 1000.0),
        "count" => write!(text, "{}", rarely(100_000)),
        "balance" => write!(text, "{:.2}", unit(0) * 20_000.0 - 10_000.0),
        // As many digits as f64 has.
        "exact" => write!(text, "{}", unit(0) + unit(1) * 1e-9),
        "city" => write!(text, "city-{:04}", rarely(3000)),
        "street" => write!(text, "street number {}", rarely(800)),
        "color" if below(1, 50) == 0 => write!(text, "NA"),
        "color" => write!(text, "{}", COLORS[rarely(COLORS.len())]),
        "size" => write!(text, "{}", SIZES[below(0, SIZES.len())]),
        "state" => write!(text, "S{}", rarely(60)),
        "product" => write!(text, "product-{:05}", rarely(20_000)),
        "flag" => write!(text, "{}", if below(0, 2) == 0 { "yes" } else { "no" }),
        _ => write!(text, "{:.3}", unit(0)),
    };
    written.expect("a string takes all text");
}

impl PrepareTable {
    fn text(&self) -> String {
        let salts = NAMES.map(|name| salt(&format!("table {name}")));
        let mut text = NAMES.join(",") + "\n";
        for row in 0..self.rows {
            for column in 0..NAMES.len() {
                field(column, row, &salts, &mut text);
                text.push(if column + 1 == NAMES.len() { '\n' } else { ',' });
            }
        }
        text
    }
}

impl Task for PrepareTable {
    fn id(&self) -> String {
        format!("table/prepare-{}-rows", self.rows)
    }

    fn small(&self) -> Problem {
        Problem::PrepareTable(Self { rows: 3000, ..self.clone() })
    }

    fn work(&self) -> Work {
        Work { operations: None, bytes: None, samples: Some(self.rows as u64) }
    }

    /// Every value of every column, from the text, split at its commas.
    fn reference(&self) -> Result<Outputs> {
        let text = self.text();
        let rows: Vec<Vec<&str>> =
            text.lines().skip(1).map(|line| line.split(',').collect()).collect();
        let mut outputs = Outputs::new();
        for (column, name) in NAMES.iter().enumerate() {
            let fields: Vec<Option<&str>> = rows
                .iter()
                .map(|row| Some(row[column]).filter(|field| !MISSING.contains(field)))
                .collect();
            let missing = fields.iter().filter(|field| field.is_none()).count();
            let numbers: Option<Vec<Option<f64>>> = fields
                .iter()
                .map(|field| field.map_or(Some(None), |field| field.parse().ok().map(Some)))
                .collect();
            let values = match numbers {
                _ if *name == "flag" => {
                    let sign =
                        |field: &Option<&str>| if *field == Some("yes") { 1.0 } else { -1.0 };
                    fields.iter().map(sign).collect()
                }
                Some(numbers) => {
                    let present: Vec<f64> = numbers.iter().flatten().copied().collect();
                    let mean = present.iter().sum::<f64>() / present.len() as f64;
                    let squares = present.iter().map(|number| (number - mean) * (number - mean));
                    let std = (squares.sum::<f64>() / present.len() as f64).sqrt();
                    if missing > 0 {
                        let is_missing =
                            |field: &Option<&str>| f64::from(u8::from(field.is_none()));
                        let marks = fields.iter().map(is_missing).collect();
                        outputs.insert(format!("{name}-missing"), marks);
                    }
                    let scaled = |number: &Option<f64>| number.map_or(0.0, |it| (it - mean) / std);
                    numbers.iter().map(scaled).collect()
                }
                None => {
                    let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
                    fields.iter().flatten().for_each(|word| *seen.entry(word).or_default() += 1);
                    let kept = seen.iter().filter(|(_, count)| **count >= self.least);
                    let kept: Vec<&str> = kept.map(|(word, _)| *word).collect();
                    let of_missing = if missing >= self.least { kept.len() + 1 } else { 0 };
                    let class = |field: &Option<&str>| match field {
                        Some(word) => kept.binary_search(word).map_or(0, |at| at + 1),
                        None => of_missing,
                    };
                    fields.iter().map(|field| class(field) as f64).collect()
                }
            };
            outputs.insert((*name).to_owned(), values);
        }
        Ok(outputs)
    }

    /// The rounding of standardized numbers to f32.
    fn tolerance(&self) -> f64 {
        1e-6
    }

    fn write_inputs(&self, folder: &Path) -> Result<()> {
        let path = folder.join(FILE);
        std::fs::write(&path, self.text()).with_context(|| format!("writing `{}`", path.display()))
    }

    fn on_burn(&self, site: &Site) -> Result<Box<dyn Repeat>> {
        Ok(Box::new(Prepare { path: site.folder.join(FILE), least: self.least as u64 }))
    }
}

struct Prepare {
    path: PathBuf,
    least: u64,
}

impl Prepare {
    fn prepared(&self) -> Result<(RowEncoder, EncodedRows)> {
        let all = |_: &str| UntypedColumn::Inferred;
        let base = TableSchema::new();
        let mut untyped = UntypedTable::read(&[&self.path], Delimiter::Comma, &base, all)?;
        let inferred = untyped.infer(|_| true);
        let schema = inferred.names().iter().fold(base, |schema, name| {
            schema.column(name, inferred.kind(name).unwrap_or(ColumnKind::Category))
        });
        let table = untyped.take(&schema).context("a column has two kinds")?;
        let rows: Vec<usize> = (0..table.rows()).collect();
        let config = RowConfig::default().with_min_rows(self.least).with_scaling(Scaling::Standard);
        let encoder = RowEncoder::fit(&table, &rows, config)?;
        let encoded = encoder.encode(&table)?;
        Ok((encoder, encoded))
    }
}

impl Repeat for Prepare {
    fn once(&mut self) -> Result<()> {
        std::hint::black_box(self.prepared()?);
        Ok(())
    }

    fn outputs(&mut self) -> Result<Outputs> {
        let (encoder, encoded) = self.prepared()?;
        let mut outputs = Outputs::new();
        let (mut class, mut number) = (0, 0);
        for (name, feature) in encoder.features() {
            let rows = 0..encoded.rows();
            if feature.class_count().is_some() {
                let of = |row| f64::from(encoded.classes(row)[class]);
                outputs.insert(name.to_owned(), rows.map(of).collect());
                class += 1;
                continue;
            }
            for part in 0..feature.number_count() {
                let name = if part == 0 { name.to_owned() } else { format!("{name}-missing") };
                let of = |row| f64::from(encoded.numbers(row)[number + part]);
                outputs.insert(name, rows.clone().map(of).collect());
            }
            number += feature.number_count();
        }
        Ok(outputs)
    }
}
