//! Files of columns in a build that does not read them.

use std::path::Path;

use crate::table::TableError;
use crate::table::asked::{Asked, First};
use crate::table::columnar::Columnar;
use crate::table::parallel::ReadFile;

/// The error that names the feature.
pub(in crate::table) fn read_columnar(
    path: &Path,
    _: Columnar,
    _: Option<&[String]>,
    _: impl FnOnce(&[String], First<'_>) -> Asked,
) -> Result<ReadFile, TableError> {
    Err(TableError::Feature { path: path.to_owned(), feature: "parquet" })
}

#[cfg(test)]
mod tests {
    use crate::table::{Delimiter, InferredColumns, Table, TableBlocks, TableError, TableSchema};

    #[test]
    fn a_file_of_columns_is_refused_with_the_feature() {
        let schema = || TableSchema::new().number("x");
        let (read, look) = ("rows.parquet", "rows.ARROW");
        let mut inferred = InferredColumns::default();
        let names = |_: &[String]| Ok::<_, TableError>(None);
        for error in [
            Table::read(read, Delimiter::Comma, schema()).map(drop),
            inferred.look_at(look, Delimiter::Comma, &schema(), |_| true),
            TableBlocks::open(read, Delimiter::Comma, schema(), 1, names).map(drop),
        ] {
            let error = error.unwrap_err().to_string();
            assert!(
                error.contains("` needs the cargo feature `parquet`; build with it"),
                "{error}"
            );
        }
    }
}
