//! Opening a table's file, compressed by gzip or not.

use std::error::Error;
use std::fmt;
use std::fs::File;
use std::io::{self, BufReader, Cursor, Read};
use std::path::Path;

use flate2::read::MultiGzDecoder;

use crate::table::TableError;
use crate::text_encoding::TextEncoding;

/// The first bytes of a gzip file, RFC 1952 section 2.3.1.
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// The first bytes of a file, which decide how it is read.
const START: u64 = 4;

/// The bytes of a file; those of a gzip file, whatever its name is, are decompressed while they are
/// read.
pub(crate) fn open(path: &Path) -> Result<Box<dyn Read + Send>, TableError> {
    let fault = |cause| TableError::Read { path: path.to_owned(), cause };
    let mut file = File::open(path).map_err(fault)?;
    let mut first = Vec::with_capacity(START as usize);
    file.by_ref().take(START).read_to_end(&mut first).map_err(fault)?;
    if let Some(encoding) = TextEncoding::of_start(&first) {
        return Err(TableError::Encoding { path: path.to_owned(), encoding });
    }
    let is_gzip = first.starts_with(&GZIP);
    let whole = Cursor::new(first).chain(file);
    Ok(match is_gzip {
        true => Box::new(Inflated(MultiGzDecoder::new(BufReader::new(whole)))),
        false => Box::new(whole),
    })
}

/// Decompressed bytes; errors of the decoder are a [`GzipFault`].
struct Inflated<R>(MultiGzDecoder<R>);

impl<R: io::BufRead> Read for Inflated<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer).map_err(|cause| match cause.kind() {
            // The decoder's own errors; the others are of the disk.
            io::ErrorKind::InvalidInput
            | io::ErrorKind::InvalidData
            | io::ErrorKind::UnexpectedEof => io::Error::new(cause.kind(), GzipFault(cause)),
            _ => cause,
        })
    }
}

/// Why a file is not an intact gzip file.
#[derive(Debug)]
pub(super) struct GzipFault(io::Error);

impl fmt::Display for GzipFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Error for GzipFault {}

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
        assert_eq!(Table::line_of(&path, Delimiter::Comma, None, 1).unwrap(), 3);
        let mut inferred = InferredColumns::default();
        inferred.look_at(&path, Delimiter::Comma, &TableSchema::new(), |_| true).unwrap();
        assert_eq!(inferred.names(), ["x", "color"]);

        // A file that was cut off or damaged is an error with its name, not fewer rows.
        let cut = &bytes[..bytes.len() - 9];
        let not_whole = [cut, &[&bytes, &b"trailing"[..]].concat(), b"\x1f\x8bno gzip header"];
        for (bytes, of) in not_whole.into_iter().zip(["incomplete", "end of file", "header"]) {
            fs::write(&path, bytes).unwrap();
            let error = Table::read(&path, Delimiter::Comma, schema.clone()).unwrap_err();
            let error = error.to_string();
            assert!(error.contains("rows.csv.gz` is not an intact gzip file: "), "{error}");
            assert!(error.contains(of), "{error}");
            let remedy = "copy it again, or decompress it and name the file inside";
            assert!(error.ends_with(remedy), "{error}");
        }
        // A file of one byte is no gzip file.
        fs::write(&path, "x").unwrap();
        let schema = TableSchema::new().number("x");
        let error = Table::read(&path, Delimiter::Comma, schema).unwrap_err().to_string();
        assert!(error.contains("no records"), "{error}");
    }

    #[test]
    fn a_table_in_another_encoding_is_refused_with_its_conversion() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rows.csv");
        let utf_16: Vec<u8> = "a,b\n".encode_utf16().flat_map(u16::to_le_bytes).collect();
        let utf_32: Vec<u8> = "a,b\n".chars().flat_map(|c| u32::from(c).to_le_bytes()).collect();
        for (bytes, expected) in [
            (
                [&[0xFF, 0xFE][..], &utf_16].concat(),
                "UTF-16; save it as UTF-8, such as with `iconv",
            ),
            (utf_16, "as UTF-16; save it as UTF-8, such as with `iconv -f utf-16le -t utf-8`"),
            ([&[0xFF, 0xFE, 0, 0][..], &utf_32].concat(), "is encoded as UTF-32; save it as UTF-8"),
            (utf_32, "is encoded as UTF-32; save it as UTF-8"),
            (b"a,b\n1,caf\xe9\n".to_vec(), "line 2, column `b`: not UTF-8; save the file as UTF-8"),
            (b"a,b\n1,caf\xe9\n".to_vec(), "Latin-1, which `iconv -f latin1 -t utf-8` converts"),
            (b"a,\x80\n1,2\n".to_vec(), "likely Windows-1252, which `iconv -f windows-1252 -t "),
        ] {
            fs::write(&path, bytes).unwrap();
            let schema = TableSchema::new().category("b");
            let error = Table::read(&path, Delimiter::Comma, schema).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }

    /// A small file of one long record: decompressing stops at the limit of a record.
    #[test]
    fn a_compressed_file_is_not_decompressed_into_memory() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("long.csv.gz");
        let mut encoder = GzEncoder::new(fs::File::create(&path).unwrap(), Compression::best());
        encoder.write_all(b"x\n").unwrap();
        for _ in 0..64 {
            encoder.write_all(&[b'1'; 1 << 20]).unwrap();
        }
        encoder.finish().unwrap();
        assert!(fs::metadata(&path).unwrap().len() < 1 << 20);
        let error = Table::read(&path, Delimiter::Comma, TableSchema::new().number("x"));
        let error = error.unwrap_err().to_string();
        assert!(error.contains("a record has more than 16 MiB"), "{error}");
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
