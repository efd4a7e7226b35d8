//! A table from memory: encoded for a model, or scanned byte by byte to compare with.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{Context, Result, bail};
use csv::{ByteRecord, ReaderBuilder};
use serde::{Deserialize, Serialize};
use updraft_data::{
    Delimiter, EncodedTable, FitConfig, Table, TableEncoder, TableSchema, interaction_csv,
};

use crate::problem::{Outputs, Problem, Repeat, Site, Task, Work, widened};

const FILE: &str = "table.csv";
const SEED: u64 = 1;

/// The operation on the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Reading {
    /// Its records are read as bytes and their fields counted, with the `csv` crate only.
    Scan,
    /// It is read in columns, fitted on every row and encoded.
    Encode,
}

/// Six columns: four of categories, one of numbers, one of several labels.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct ReadTable {
    pub(crate) rows: usize,
    pub(crate) reading: Reading,
}

impl Task for ReadTable {
    fn id(&self) -> String {
        let reading = match self.reading {
            Reading::Scan => "scan",
            Reading::Encode => "encode",
        };
        format!("table/{reading}-{}-rows", self.rows)
    }

    fn small(&self) -> Problem {
        Problem::ReadTable(Self { rows: 500, ..self.clone() })
    }

    fn work(&self) -> Work {
        Work { operations: None, bytes: None, samples: Some(self.rows as u64) }
    }

    /// From the text, split at its commas.
    fn reference(&self) -> Result<Outputs> {
        let text = interaction_csv(self.rows, SEED);
        let rows: Vec<Vec<&str>> =
            text.lines().skip(1).map(|line| line.split(',').collect()).collect();
        if self.reading == Reading::Scan {
            let fields = rows.iter().map(Vec::len).sum::<usize>() as f64;
            return Ok(Outputs::from([("fields".to_owned(), vec![fields])]));
        }
        let drugs: BTreeSet<&str> = rows.iter().map(|row| row[0]).collect();
        let class = |row: &Vec<&str>| drugs.iter().position(|drug| *drug == row[0]);
        let classes = rows.iter().filter_map(class).map(|class| class as f64 + 1.0).collect();
        let doses = rows.iter().map(|row| row[3].parse()).collect::<Result<Vec<f64>, _>>()?;
        let mean = doses.iter().sum::<f64>() / doses.len() as f64;
        let squares = doses.iter().map(|dose| (dose - mean) * (dose - mean));
        let std = (squares.sum::<f64>() / doses.len() as f64).sqrt();
        let standard = doses.iter().map(|dose| (dose - mean) / std).collect();
        let has_rash = |row: &Vec<&str>| f64::from(u8::from(row[5].contains("rash")));
        let rash = rows.iter().map(has_rash).collect();
        Ok(Outputs::from([
            ("drug".to_owned(), classes),
            ("dose".to_owned(), standard),
            ("rash".to_owned(), rash),
        ]))
    }

    /// The rounding of standardized numbers to f32.
    fn tolerance(&self) -> f64 {
        1e-6
    }

    fn write_inputs(&self, folder: &Path) -> Result<()> {
        let path = folder.join(FILE);
        std::fs::write(&path, interaction_csv(self.rows, SEED))
            .with_context(|| format!("writing `{}`", path.display()))
    }

    fn on_burn(&self, site: &Site) -> Result<Box<dyn Repeat>> {
        let path = site.folder.join(FILE);
        let bytes =
            std::fs::read(&path).with_context(|| format!("reading `{}`", path.display()))?;
        Ok(match self.reading {
            Reading::Scan => Box::new(Scan { bytes }),
            Reading::Encode => Box::new(Encode { bytes, rows: (0..self.rows).collect() }),
        })
    }
}

struct Scan {
    bytes: Vec<u8>,
}

impl Scan {
    fn fields(&self) -> Result<usize> {
        let mut reader = ReaderBuilder::new().from_reader(self.bytes.as_slice());
        let (mut record, mut fields) = (ByteRecord::new(), 0);
        while reader.read_byte_record(&mut record)? {
            fields += record.len();
        }
        Ok(fields)
    }
}

impl Repeat for Scan {
    fn once(&mut self) -> Result<()> {
        std::hint::black_box(self.fields()?);
        Ok(())
    }

    fn outputs(&mut self) -> Result<Outputs> {
        Ok(Outputs::from([("fields".to_owned(), vec![self.fields()? as f64])]))
    }
}

struct Encode {
    bytes: Vec<u8>,
    rows: Vec<usize>,
}

impl Encode {
    fn encoded(&self) -> Result<EncodedTable> {
        let schema = TableSchema::new()
            .category("drug")
            .category("variant")
            .category("site")
            .number("dose")
            .category("effect")
            .multi_label("symptoms", '|');
        let table = Table::parse(self.bytes.as_slice(), FILE, Delimiter::Comma, schema)?;
        let encoder = TableEncoder::fit(&table, &self.rows, FitConfig::default())?;
        Ok(encoder.encode(&table)?)
    }
}

impl Repeat for Encode {
    fn once(&mut self) -> Result<()> {
        std::hint::black_box(self.encoded()?);
        Ok(())
    }

    fn outputs(&mut self) -> Result<Outputs> {
        let encoded = self.encoded()?;
        let drugs = encoded.classes("drug")?.iter().map(|&class| f64::from(class)).collect();
        let (labels, count) = encoded.labels("symptoms")?;
        if count != 2 {
            bail!("the table has {count} symptoms, not nausea and rash");
        }
        let rash = labels.chunks(count).map(|row| f64::from(row[1])).collect();
        Ok(Outputs::from([
            ("drug".to_owned(), drugs),
            ("dose".to_owned(), widened(encoded.numbers("dose")?)),
            ("rash".to_owned(), rash),
        ]))
    }
}
