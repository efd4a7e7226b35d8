//! Opening a table's file, compressed by gzip or not.

use std::fs::File;
use std::io::{BufReader, Cursor, Read};
use std::path::Path;

use flate2::read::MultiGzDecoder;

use crate::table::TableError;

/// The first bytes of a gzip file, RFC 1952 section 2.3.1.
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// The bytes of a file; those of a gzip file, whatever its name is, are decompressed while they are
/// read.
pub(crate) fn open(path: &Path) -> Result<Box<dyn Read>, TableError> {
    let fault = |cause| TableError::Read { path: path.to_owned(), cause };
    let mut file = File::open(path).map_err(fault)?;
    let mut first = Vec::with_capacity(GZIP.len());
    file.by_ref().take(GZIP.len() as u64).read_to_end(&mut first).map_err(fault)?;
    let is_gzip = first == GZIP;
    let whole = Cursor::new(first).chain(file);
    Ok(match is_gzip {
        true => Box::new(MultiGzDecoder::new(BufReader::new(whole))),
        false => Box::new(whole),
    })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use crate::table::{Delimiter, InferredColumns, Table, TableSchema};

    fn gzip(text: &str) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(text.as_bytes()).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn a_compressed_table_is_the_same_as_the_file_inside() {
        let folder = tempfile::tempdir().unwrap();
        // Two members, as `cat a.gz b.gz` writes.
        let bytes = [gzip("x,color\n1,red\n2.5,"), gzip("blue\n")].concat();
        let path = folder.path().join("rows.csv.gz");
        fs::write(&path, &bytes).unwrap();
        let schema = TableSchema::new().number("x").category("color");
        let table = Table::read(&path, Delimiter::Comma, schema.clone()).unwrap();
        assert_eq!((table.rows(), table.number("x", 1).unwrap()), (2, Some(2.5)));
        assert_eq!(table.word("color", 1).unwrap(), Some("blue"));
        assert_eq!(Table::first_record(&path, Delimiter::Comma).unwrap(), ["x", "color"]);
        assert_eq!(Table::line_of(&path, Delimiter::Comma, None, 1).unwrap(), 3);
        let mut inferred = InferredColumns::default();
        inferred.look_at(&path, Delimiter::Comma, &TableSchema::new(), |_| true).unwrap();
        assert_eq!(inferred.names(), ["x", "color"]);

        // A file that was cut off is an error with its name, not fewer rows.
        fs::write(&path, &bytes[..bytes.len() - 9]).unwrap();
        let error = Table::read(&path, Delimiter::Comma, schema.clone()).unwrap_err().to_string();
        assert!(error.contains("rows.csv.gz"), "{error}");
        // A file of one byte is no gzip file.
        fs::write(&path, "x").unwrap();
        assert_eq!(Table::first_record(&path, Delimiter::Comma).unwrap(), ["x"]);
    }

    #[test]
    fn the_delimiter_is_that_of_the_name_without_gz() {
        for (name, expected) in [
            ("a.tsv.gz", Delimiter::Tab),
            ("a.TAB", Delimiter::Tab),
            ("a.csv.gz", Delimiter::Comma),
            ("a.gz", Delimiter::Comma),
        ] {
            assert_eq!(Delimiter::of(name), expected, "{name}");
        }
    }
}
