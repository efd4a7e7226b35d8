//! Reading of Parquet and Arrow IPC files, batch by batch.

use std::error::Error;
use std::fs::File;
use std::io::BufReader;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use arrow_array::RecordBatch;
use arrow_ipc::reader::FileReader;
use arrow_schema::{ArrowError, Schema};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

use crate::guard::message;
use crate::table::asked::{Asked, First};
use crate::table::columnar::Columnar;
use crate::table::columnar::values::{ReadColumn, kind_of};
use crate::table::parallel::ReadFile;
use crate::table::{ColumnKind, TableError};

/// Rows of a batch.
const ROWS: usize = 1 << 14;

/// Batches of a file.
type Batches = Box<dyn Iterator<Item = Result<RecordBatch, ArrowError>>>;

/// Reads the columns that `ask` decides by the names and the types of all columns; `names` replaces
/// the names of the file.
pub(in crate::table) fn read_columnar(
    path: &Path,
    format: Columnar,
    names: Option<&[String]>,
    ask: impl FnOnce(&[String], First<'_>) -> Asked,
) -> Result<ReadFile, TableError> {
    // The readers panic on some damaged files.
    let read = AssertUnwindSafe(|| read(path, format, names, ask));
    catch_unwind(read).unwrap_or_else(|panic| {
        let cause = format!("its reader gave up: {}", message(&*panic)).into();
        Err(TableError::Columnar { path: path.to_owned(), cause })
    })
}

fn read(
    path: &Path,
    format: Columnar,
    names: Option<&[String]>,
    ask: impl FnOnce(&[String], First<'_>) -> Asked,
) -> Result<ReadFile, TableError> {
    let damaged =
        |cause: Box<dyn Error + Send + Sync>| TableError::Columnar { path: path.to_owned(), cause };
    let fault = |cause| TableError::Read { path: path.to_owned(), cause };
    let file = File::open(path).map_err(fault)?;
    let choose = |schema: &Schema| choose(path, schema, names, ask);
    let (chosen, batches): (Chosen, Batches) = match format {
        Columnar::Parquet => {
            let builder = ParquetRecordBatchReaderBuilder::try_new(file);
            let builder = builder.map_err(|error| damaged(error.into()))?.with_batch_size(ROWS);
            let chosen = choose(builder.schema())?;
            let mask = ProjectionMask::roots(builder.parquet_schema(), chosen.read.iter().copied());
            let reader = builder.with_projection(mask).build();
            (chosen, Box::new(reader.map_err(|error| damaged(error.into()))?))
        }
        Columnar::Arrow => {
            let whole = FileReader::try_new(BufReader::new(file), None);
            let whole = whole.map_err(|error| damaged(error.into()))?;
            let chosen = choose(&whole.schema())?;
            let file = File::open(path).map_err(fault)?;
            let read = Some(chosen.read.clone());
            let reader = FileReader::try_new(BufReader::new(file), read);
            (chosen, Box::new(reader.map_err(|error| damaged(error.into()))?))
        }
    };
    let Chosen { asked, header, places, .. } = chosen;
    let columns = asked.schema.columns.iter();
    let mut columns: Vec<ReadColumn<'_>> =
        columns.map(|column| ReadColumn::new(path, column, &asked.schema)).collect();
    let mut rows = 0;
    for batch in batches {
        let batch = batch.map_err(|error| damaged(error.into()))?;
        for (column, place) in columns.iter_mut().zip(&places) {
            column.append(batch.column(*place), rows)?;
        }
        rows += batch.num_rows();
    }
    if rows == 0 {
        return Err(TableError::Empty { path: path.to_owned() });
    }
    let columns = columns.into_iter().map(|column| Some(column.into_column())).collect();
    Ok(ReadFile { asked, columns, rows, header })
}

/// What is read of a file.
struct Chosen {
    asked: Asked,
    header: Vec<String>,
    /// The columns of the file that are read, ascending.
    read: Vec<usize>,
    /// For each column asked for, its place among those that are read.
    places: Vec<usize>,
}

fn choose(
    path: &Path,
    schema: &Schema,
    names: Option<&[String]>,
    ask: impl FnOnce(&[String], First<'_>) -> Asked,
) -> Result<Chosen, TableError> {
    let own = schema.fields().iter().map(|field| field.name().clone());
    let header: Vec<String> = names.map_or_else(|| own.collect(), <[String]>::to_vec);
    let path = path.to_owned();
    if header.len() != schema.fields().len() {
        let (expected, got) = (header.len(), schema.fields().len());
        return Err(TableError::Ragged { path, line: 1, expected, got });
    }
    for (at, name) in header.iter().enumerate() {
        if header[..at].contains(name) {
            return Err(TableError::RepeatedColumn { path, column: name.clone() });
        }
    }
    let kinds: Vec<Option<ColumnKind>> =
        schema.fields().iter().map(|field| kind_of(field.data_type())).collect();
    let asked = ask(&header, First::Kinds(&kinds));
    if asked.schema.columns.is_empty() {
        let what = "the schema names no column".to_owned();
        return Err(TableError::Setting { what, remedy: "add one" });
    }
    let place = |name: &String| header.iter().position(|other| other == name);
    let mut of_file = Vec::with_capacity(asked.schema.columns.len());
    for column in &asked.schema.columns {
        let missing = || TableError::MissingColumn {
            path: path.clone(),
            column: column.name.clone(),
            known: header.clone(),
        };
        of_file.push(place(&column.name).ok_or_else(missing)?);
    }
    let mut read = of_file.clone();
    read.sort_unstable();
    read.dedup();
    let places = of_file.iter().map(|at| read.partition_point(|other| other < at)).collect();
    Ok(Chosen { asked, header, read, places })
}
