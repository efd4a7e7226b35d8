//! A whole table, read in pieces by several threads.

use std::io::Read;
use std::path::Path;

use updraft_simd::{over, pool_threads};

use crate::table::asked::{Asked, AskedColumns, First};
use crate::table::blocks::{places, read_columns};
use crate::table::pieces::{FilePieces, Piece, for_each_piece};
use crate::table::records::{Delimiter, Records};
use crate::table::{Table, TableError, TableSchema};

/// Columns that were asked for: `None` for one whose guess was wrong.
pub(super) struct ReadFile {
    pub(super) asked: Asked,
    pub(super) columns: AskedColumns,
    pub(super) rows: usize,
    /// The names of all columns.
    pub(super) header: Vec<String>,
}

/// Reads all rows: the result and the errors are those of a single thread.
pub(super) fn read_in_pieces<R: Read + Send>(
    bytes: R,
    path: &Path,
    delimiter: Delimiter,
    schema: TableSchema,
) -> Result<Table, TableError> {
    let names = schema.header.clone();
    let ask = |_: &[String], _: First<'_>| Asked::known(schema);
    let ReadFile { asked: Asked { schema, .. }, columns, rows, .. } =
        read_asked(bytes, path, (delimiter, names.as_deref()), ask)?;
    Ok(Table { schema, columns: columns.into_iter().flatten().collect(), rows })
}

/// The same for columns that `ask` decides by the names of all columns and the first bytes.
pub(super) fn read_asked<R: Read + Send>(
    bytes: R,
    path: &Path,
    (delimiter, names): (Delimiter, Option<&[String]>),
    ask: impl FnOnce(&[String], First<'_>) -> Asked,
) -> Result<ReadFile, TableError> {
    let mut pieces = FilePieces::new(bytes, delimiter);
    let first = pieces.first();
    let header = Records::new(first.bytes(), path, delimiter, names);
    let header = header.map(|records| records.header().to_vec()).unwrap_or_default();
    let asked = ask(&header, First::Bytes(first.bytes()));
    let mut records = Records::new(first.into_reader(), path, delimiter, names)?;
    let places = places(&records, &asked.schema)?;
    let (mut columns, mut rows) = read_columns(&mut records, &asked, &places, usize::MAX)?;
    let mut lines = records.lines();
    let read = |before: &Vec<_>, mut piece: Piece| {
        piece.columns(path, delimiter, &header, (&asked, &places), before)
    };
    for_each_piece(pieces, &mut columns, read, |columns, results| {
        let mut later: Vec<Vec<_>> = columns.iter().map(|_| Vec::new()).collect();
        for result in results {
            let ((more, count), more_lines) =
                result.map_err(|error: TableError| error.below(lines))?;
            more.into_iter().zip(&mut later).for_each(|(more, later)| later.push(more));
            rows += count;
            lines += more_lines;
        }
        let jobs: Vec<_> = columns.iter_mut().zip(later).collect();
        over(jobs, &mut vec![(); pool_threads()], |_, (column, later), ()| {
            for later in later {
                match (column.as_mut(), later) {
                    (Some(column), Some(later)) => column.append(&later),
                    _ => *column = None,
                }
            }
        });
        Ok(())
    })?;
    if rows == 0 {
        return Err(TableError::Empty { path: path.to_owned() });
    }
    Ok(ReadFile { asked, columns, rows, header })
}

/// The result of `work` for each item, in their order.
pub(super) fn in_parallel<T: Sync, U: Send>(items: &[T], work: impl Fn(&T) -> U + Sync) -> Vec<U> {
    let mut results: Vec<Option<U>> = items.iter().map(|_| None).collect();
    let jobs: Vec<_> = items.iter().zip(&mut results).collect();
    over(jobs, &mut vec![(); pool_threads()], |_, (item, result), ()| *result = Some(work(item)));
    results.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::blocks::RowReader;
    use crate::table::{ColumnKind, ColumnRules, InferredColumns};

    /// Longer than the first piece and some others.
    const ROWS: usize = 60_000;

    fn schema() -> TableSchema {
        let words = ["red", "blue", "a \"quoted\" one", "late"].map(str::to_owned).to_vec();
        let rules = ColumnRules { values: Some(words), unknown: false, ..ColumnRules::default() };
        let schema = TableSchema::new().number("x").column_of("color", ColumnKind::Category, rules);
        schema.multi_label("tags", '|')
    }

    fn text(line_end: &str, field: impl Fn(usize) -> String) -> String {
        let mut text = format!("x,color,other,tags{line_end}");
        for row in 0..ROWS {
            let color = field(row);
            text += &format!("{}.5,{color},{},t{}|t{}", row % 977, row * 7919, row % 13, row % 7);
            text += line_end;
        }
        text
    }

    /// Both ways to read, as texts.
    fn both(text: &str) -> [String; 2] {
        let alone = || {
            let records =
                Records::new(text.as_bytes(), Path::new("t.csv"), Delimiter::Comma, None)?;
            let mut reader = RowReader::new(records, schema())?;
            reader.read(usize::MAX)?.ok_or_else(|| reader.empty())
        };
        let path = Path::new("t.csv");
        let in_pieces = read_in_pieces(text.as_bytes(), path, Delimiter::Comma, schema());
        [alone(), in_pieces].map(|table| match table {
            Ok(table) => {
                let rows = (0..table.rows()).map(|row| {
                    let number = table.number("x", row).expect("a number");
                    let word = table.word("color", row).expect("a word");
                    format!("{number:?} {word:?} {:?}", table.labels("tags", row).expect("labels"))
                });
                // With the codes of words, which are in the order of their first occurrence.
                let strata = table.strata("color").expect("categories");
                format!("{} rows {:?} {strata:?}", table.rows(), rows.collect::<Vec<_>>())
            }
            Err(error) => error.to_string(),
        })
    }

    fn color(row: usize) -> String {
        let colors = ["red", "blue", "?", "red", "blue"];
        if row == ROWS - 9 { "late".to_owned() } else { colors[row % 5].to_owned() }
    }

    #[test]
    fn a_file_in_pieces_is_the_table_that_one_thread_reads() {
        let quoted = |row: usize| match row % 1000 {
            0 => "\"a \"\"quoted\"\" one\"".to_owned(),
            _ => color(row),
        };
        for line_end in ["\n", "\r\n", "\r", "\n\n", "\r\n\r\n"] {
            for text in [text(line_end, color), text(line_end, quoted)] {
                let [alone, in_pieces] = both(&text);
                assert!(alone.starts_with("60000 rows"), "{}", &alone[..80]);
                assert!(alone == in_pieces, "{line_end:?}");
                let [alone, in_pieces] = both(text.trim_end());
                assert!(alone == in_pieces, "{line_end:?} without the last");
            }
        }
    }

    #[test]
    fn the_first_error_of_a_file_in_pieces_has_its_line() {
        let faults = [
            ("green", "line 50002, column `color`: `green` is none"),
            ("red,1", "line 50002 has 5 fields; the header has 4"),
            ("\"red\" ", "line 50002 is not a record: text follows the closing quote"),
            ("\"red", "line 50002 is not a record: a field begins with a quote"),
        ];
        for (fault, expected) in faults {
            let text = text("\n", |row| match row {
                50_000 => fault.to_owned(),
                50_001 => "violet".to_owned(),
                row => color(row),
            });
            let [alone, in_pieces] = both(&text);
            assert!(alone.contains(expected), "{alone}");
            assert_eq!(alone, in_pieces);
        }
        for (line_end, line) in [("\r\n", 50_002), ("\n\n", 100_003), ("\r\n\r\n", 100_003)] {
            for (good, refused) in [("red", "green"), ("\"red\"", "\"green\"")] {
                let field = |row| if row == 50_000 { refused } else { good }.to_owned();
                let [alone, in_pieces] = both(&text(line_end, field));
                assert!(alone.contains(&format!("line {line}, column")), "{line_end:?} {alone}");
                assert_eq!(alone, in_pieces, "{line_end:?}");
            }
        }
    }

    #[test]
    fn columns_are_inferred_from_the_rows_of_every_piece() {
        let text = text("\n", |row| if row == 50_000 { "?".to_owned() } else { "1".to_owned() });
        let text = text.replace("\n0.5,?,", "\n0.5,word,").replace("\n173.5,?,", "\n173.5,word,");
        for (skipped, kind) in [(50_000, ColumnKind::Number), (50_001, ColumnKind::Category)] {
            let mut inferred = InferredColumns::default();
            let schema = TableSchema::new();
            let path = Path::new("t.csv");
            let look = |row| row != skipped;
            inferred.look_at_bytes(text.as_bytes(), path, Delimiter::Comma, &schema, look).unwrap();
            assert_eq!(inferred.kind("color"), Some(kind), "without row {skipped}");
            assert_eq!(inferred.kind("tags"), Some(ColumnKind::Category));
        }
        let bytes = text.replace("\n173.5,word,", "\n173.5,word,,").into_bytes();
        let mut inferred = InferredColumns::default();
        let schema = TableSchema::new();
        let seen = inferred.look_at_bytes(&*bytes, "t.csv", Delimiter::Comma, &schema, |_| true);
        let error = seen.unwrap_err().to_string();
        assert!(error.contains("line 50002 has 5 fields"), "{error}");
    }
}
