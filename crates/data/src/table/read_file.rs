//! Reading a file by a schema, whatever its format.

use std::path::Path;

use crate::table::asked::{Asked, First};
use crate::table::columnar::{Columnar, read_columnar};
use crate::table::open::open;
use crate::table::parallel::read_in_pieces;
use crate::table::{Delimiter, Table, TableError, TableSchema};

/// Reads a file of text or of columns.
pub(super) fn read_file(
    path: &Path,
    delimiter: Delimiter,
    schema: TableSchema,
) -> Result<Table, TableError> {
    match Columnar::of(path) {
        Some(format) => read_columns_of_file(path, format, schema),
        None => read_in_pieces(open(path)?, path, delimiter, schema),
    }
}

/// The columns of a schema in a file of columns.
pub(super) fn read_columns_of_file(
    path: &Path,
    format: Columnar,
    schema: TableSchema,
) -> Result<Table, TableError> {
    let names = schema.header.clone();
    let ask = |_: &[String], _: First<'_>| Asked::known(schema);
    let read = read_columnar(path, format, names.as_deref(), ask)?;
    let columns = read.columns.into_iter().flatten().collect();
    Ok(Table { schema: read.asked.schema, columns, rows: read.rows })
}
