//! A file's rows as tables of a limited number of rows, one after the other.

use std::io::Read;
use std::path::{Path, PathBuf};

use crate::table::asked::{Asked, AskedColumns};
use crate::table::columnar::Columnar;
use crate::table::columns::{Column, Missing, Unfit, replaced, trim};
use crate::table::field_text::{expected_instead, shortened};
use crate::table::open::open;
use crate::table::read_file::read_columns_of_file;
use crate::table::records::{Delimiter, Records};
use crate::table::row_source::RowSource;
use crate::table::rules::RuleCheck;
use crate::table::{Table, TableError, TableSchema};

/// The rows of a CSV or TSV file in blocks, in their order: memory is proportional to a block,
/// whatever the length of the file, which is read once, so that it may be a pipe.
///
/// A Parquet or Arrow file is read whole.
pub struct TableBlocks {
    source: Source,
    rows: usize,
    state: State,
}

enum Source {
    Rows(Box<RowReader<Box<dyn Read + Send>>>),
    /// A file of columns, with the number of rows that were handed out.
    Columns(PathBuf, Table, usize),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    First,
    Later,
    Ended,
}

impl TableBlocks {
    /// Opens a file for blocks of at most `rows` rows, at least 1, with the columns of a schema.
    ///
    /// `names` has the fields of the first record, trimmed, and returns the names of the columns if
    /// that is a row; with `None` it is the header. The schema's own names do not matter. A Parquet
    /// or Arrow file has names of its own.
    ///
    /// # Errors
    /// [`TableError`] with file and line, and those of `names`.
    ///
    /// # Example
    /// ```
    /// use updraft_data::{Delimiter, TableBlocks, TableError, TableSchema};
    ///
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("sizes.csv");
    /// std::fs::write(&path, "size\n1\n2\n3\n")?;
    /// let schema = TableSchema::new().number("size");
    /// let header = |_: &[String]| Ok::<_, TableError>(None);
    /// let blocks = TableBlocks::open(&path, Delimiter::Comma, schema, 2, header)?;
    /// let rows: Vec<usize> = blocks.map(|block| block.map(|table| table.rows())).collect::<Result<_, _>>()?;
    /// assert_eq!(rows, [2, 1]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn open<E: From<TableError>>(
        path: impl AsRef<Path>,
        delimiter: Delimiter,
        schema: TableSchema,
        rows: usize,
        names: impl FnOnce(&[String]) -> Result<Option<Vec<String>>, E>,
    ) -> Result<Self, E> {
        let path = path.as_ref();
        let source = match Columnar::of(path) {
            Some(format) => {
                let schema = TableSchema { header: None, ..schema };
                Source::Columns(path.to_owned(), read_columns_of_file(path, format, schema)?, 0)
            }
            None => {
                let records = Records::of_names(open(path)?, path, delimiter, names)?;
                Source::Rows(Box::new(RowReader::new(records, schema)?))
            }
        };
        Ok(Self { source, rows: rows.max(1), state: State::First })
    }
}

impl std::fmt::Debug for TableBlocks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let path = match &self.source {
            Source::Rows(reader) => reader.records.path(),
            Source::Columns(path, ..) => path,
        };
        f.debug_struct("TableBlocks").field("path", &path).field("rows", &self.rows).finish()
    }
}

/// The tables of a file; a file without rows is an error, and nothing follows an error.
impl Iterator for TableBlocks {
    type Item = Result<Table, TableError>;

    fn next(&mut self) -> Option<Self::Item> {
        let before = std::mem::replace(&mut self.state, State::Ended);
        if before == State::Ended {
            return None;
        }
        let reader = match &mut self.source {
            Source::Rows(reader) => reader,
            Source::Columns(_, table, done) => {
                let rows = *done..table.rows.min(*done + self.rows);
                *done = rows.end;
                if rows.is_empty() {
                    return None;
                }
                self.state = State::Later;
                return Some(Ok(table.slice(rows)));
            }
        };
        match reader.read(self.rows) {
            Ok(None) if before == State::First => Some(Err(reader.empty())),
            Ok(None) => None,
            Ok(Some(table)) => {
                self.state = State::Later;
                Some(Ok(table))
            }
            Err(error) => Some(Err(error)),
        }
    }
}

/// Reads the columns of a schema from records.
pub(super) struct RowReader<R> {
    records: Records<R>,
    asked: Asked,
    /// The place of each column in a record.
    places: Vec<usize>,
}

impl<R: Read> RowReader<R> {
    pub(super) fn new(records: Records<R>, schema: TableSchema) -> Result<Self, TableError> {
        let places = places(&records, &schema)?;
        Ok(Self { records, asked: Asked::known(schema), places })
    }

    /// The next rows, at most `most`; `None` at the end of the file.
    pub(super) fn read(&mut self, most: usize) -> Result<Option<Table>, TableError> {
        let Self { records, asked, places } = self;
        let (columns, rows) = read_columns(records, asked, places, most)?;
        let columns = columns.into_iter().flatten().collect();
        Ok((rows > 0).then(|| Table { schema: asked.schema.clone(), columns, rows }))
    }

    /// The error of a file without rows.
    pub(super) fn empty(&self) -> TableError {
        TableError::Empty { path: self.records.path().to_owned() }
    }
}

/// The place of each column of a schema in a record.
pub(super) fn places<R: Read>(
    records: &Records<R>,
    schema: &TableSchema,
) -> Result<Vec<usize>, TableError> {
    let places = schema.columns.iter().map(|column| records.column(&column.name));
    let places: Vec<usize> = places.collect::<Result<_, _>>()?;
    if places.is_empty() {
        let what = "the schema names no column".to_owned();
        return Err(TableError::Setting { what, remedy: "add one" });
    }
    Ok(places)
}

/// The next rows of the columns asked for, at most `most`, and how many there are; `None` for a
/// column whose guess was wrong.
pub(super) fn read_columns(
    source: &mut impl RowSource,
    asked: &Asked,
    places: &[usize],
    most: usize,
) -> Result<(AskedColumns, usize), TableError> {
    let Asked { schema, is_guessed } = asked;
    let mut columns: Vec<_> = schema
        .columns
        .iter()
        .zip(places)
        .zip(is_guessed)
        .map(|((column, at), is_guessed)| {
            let check = RuleCheck::new(&column.rules);
            let own = Some(Column::new(&column.kind));
            (*at, own, schema.replace.get(&column.name), check, *is_guessed)
        })
        .collect();
    let missing = Missing::new(&schema.missing);
    let mut rows = 0;
    while rows < most && source.advance()? {
        for (at, of_guess, replace, check, is_guessed) in &mut columns {
            let Some(column) = of_guess else { continue };
            let pushed = trim(source.bytes(*at)).and_then(|field| {
                let field = replaced(*replace, field);
                let is_missing = missing.contains(field);
                column.push(field, is_missing)?;
                check.as_mut().map_or(Ok(()), |check| check.check(column, is_missing))
            });
            match pushed {
                Err(Unfit::Number(_)) if *is_guessed => *of_guess = None,
                pushed => pushed.map_err(|unfit| unreadable(source, *at, unfit))?,
            }
        }
        rows += 1;
    }
    Ok((columns.into_iter().map(|(_, column, ..)| column).collect(), rows))
}

/// The error of a field that does not fit its column.
fn unreadable(source: &impl RowSource, at: usize, unfit: Unfit) -> TableError {
    let text = String::from_utf8_lossy(source.bytes(at));
    match unfit {
        Unfit::Text => source.not_utf8(at),
        Unfit::Number(expected) => TableError::Field {
            expected: expected_instead(expected, &text),
            path: source.path().to_owned(),
            line: source.line(),
            column: source.header()[at].clone(),
            text: shortened(&text),
        },
        Unfit::Missing | Unfit::Unknown(_) => TableError::Refused {
            path: source.path().to_owned(),
            line: source.line(),
            column: source.header()[at].clone(),
            word: if let Unfit::Unknown(word) = unfit { Some(shortened(&word)) } else { None },
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::ColumnRules;

    fn blocks(text: &str, rows: usize, names: Option<&[&str]>) -> Result<TableBlocks, TableError> {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("rows.csv");
        std::fs::write(&path, text).expect("written");
        let schema = TableSchema::new().number("x").category("color");
        TableBlocks::open(&path, Delimiter::Comma, schema, rows, |first| {
            assert_eq!(first.len(), 2);
            Ok(names.map(|names| names.iter().map(|&name| name.to_owned()).collect()))
        })
    }

    #[test]
    fn blocks_have_all_rows_in_their_order_with_a_header_or_without() {
        let rows = "1,red\n2,blue\n?,red\n4,?\n5,green\n";
        let header = format!("x,color\n{rows}");
        let names = &["x", "color"][..];
        for (text, names) in [(&*header, None), (rows, Some(names))] {
            for at_once in [1, 2, 5, 9] {
                let (mut numbers, mut words) = (Vec::new(), Vec::new());
                for block in blocks(text, at_once, names).expect("opened") {
                    let block = block.expect("a block");
                    assert!((1..=at_once).contains(&block.rows()));
                    for row in 0..block.rows() {
                        numbers.push(block.number("x", row).expect("a row"));
                        words.push(block.word("color", row).expect("a row").map(str::to_owned));
                    }
                }
                assert_eq!(numbers, [Some(1.0), Some(2.0), None, Some(4.0), Some(5.0)]);
                let words: Vec<_> = words.iter().map(|word| word.as_deref()).collect();
                assert_eq!(words, [Some("red"), Some("blue"), Some("red"), None, Some("green")]);
            }
        }
    }

    #[test]
    fn a_bad_row_ends_the_blocks_with_its_line_and_no_rows_are_an_error() {
        let mut all = blocks("x,color\n1,a\n2,b\nthree,c\n4,d\n", 2, None).expect("opened");
        assert_eq!(all.next().expect("a block").expect("two rows").rows(), 2);
        let error = all.next().expect("an error").expect_err("no number").to_string();
        assert!(error.contains("line 4") && error.contains("three"), "{error}");
        assert!(all.next().is_none());
        let mut none = blocks("x,color\n", 2, None).expect("opened");
        let error = none.next().expect("an error").expect_err("no rows").to_string();
        assert!(error.contains("no records"), "{error}");
        assert!(none.next().is_none());
        let error = blocks("a,color\n1,2\n", 2, None).expect_err("no column x").to_string();
        assert!(error.contains("`x`"), "{error}");
    }

    #[test]
    fn fields_that_the_rules_of_a_column_do_not_accept_end_with_their_line() {
        let read = |text: &str, rules: [ColumnRules; 2]| {
            let [number, words] = rules;
            let mut schema = TableSchema::new().number("x").multi_label("tags", ';');
            (schema.columns[0].rules, schema.columns[1].rules) = (number, words);
            Table::parse(text.as_bytes(), "inline.csv", Delimiter::Comma, schema)
        };
        let refused = |text: &str, rules| read(text, rules).expect_err("refused").to_string();
        let all = ColumnRules::default;
        let values = Some(vec!["a".to_owned(), "b".to_owned()]);
        let text = "x,tags\n1,a;b\n2,b\n,a; c\n";
        let known = ColumnRules { values: values.clone(), ..all() };
        assert!(read(text, [all(), known]).is_ok());
        let error = refused(text, [ColumnRules { missing: false, ..all() }, all()]);
        assert!(error.contains("line 4, column `x`: the value is missing"), "{error}");
        let only = ColumnRules { values, unknown: false, ..all() };
        let error = refused(text, [all(), only.clone()]);
        assert!(error.contains("line 4, column `tags`: `c` is none"), "{error}");
        assert!(read("x,tags\n1,a\n,\n", [all(), only]).is_ok());
    }
}
