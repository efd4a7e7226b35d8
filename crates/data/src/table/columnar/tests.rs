//! Tests of files of columns, written here.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::types::Int32Type;
use arrow_array::{
    ArrayRef, BooleanArray, Date32Array, DictionaryArray, Float32Array, Float64Array, Int64Array,
    ListArray, NullArray, RecordBatch, StringArray, StringViewArray, TimestampMillisecondArray,
    UInt8Array,
};
use arrow_ipc::writer::FileWriter;
use parquet::arrow::ArrowWriter;

use crate::table::{
    ColumnKind, ColumnRules, Delimiter, InferredColumns, RowConfig, RowEncoder, Table, TableBlocks,
    TableError, TableSchema, UntypedColumn, UntypedTable,
};

/// The same rows as in [`TEXT`], and columns that text does not have.
fn columns() -> Vec<(&'static str, ArrayRef)> {
    let lists = [Some(vec![Some(1)]), None, Some(vec![])];
    let colors: DictionaryArray<Int32Type> = [Some("red"), None, Some("red")].into_iter().collect();
    vec![
        ("size", Arc::new(Float64Array::from(vec![Some(1.5), Some(f64::NAN), Some(-3.0)]))),
        ("count", Arc::new(Int64Array::from(vec![Some(7), None, Some(9)]))),
        ("id", Arc::new(Int64Array::from(vec![i64::MAX, i64::MAX - 1, i64::MAX]))),
        ("few", Arc::new(UInt8Array::from(vec![0, 1, 1]))),
        ("share", Arc::new(Float32Array::from(vec![0.1, 0.25, 0.1]))),
        ("color", Arc::new(colors)),
        ("city", Arc::new(StringArray::from(vec![Some(" Ulm "), Some("?"), Some("Bonn")]))),
        ("written", Arc::new(StringViewArray::from(vec!["1", "2.5", ""]))),
        ("tags", Arc::new(StringArray::from(vec![Some("a|b"), None, Some("b")]))),
        ("flag", Arc::new(BooleanArray::from(vec![Some(true), None, Some(false)]))),
        ("day", Arc::new(Date32Array::from(vec![Some(19_782), None, Some(-1)]))),
        (
            "at",
            Arc::new(TimestampMillisecondArray::from(vec![Some(-1_000), None, Some(90_061_500)])),
        ),
        ("none", Arc::new(NullArray::new(3))),
        ("lists", Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>(lists))),
    ]
}

const TEXT: &str = "size,count,id,few,share,color,city,written,tags,flag,day,at,none,lists\n\
                    1.5,7,9223372036854775807,0,0.1,red,Ulm,1,a|b,true,2024-02-29,1969-12-31T23:59:59,,\n\
                    ,,9223372036854775806,1,0.25,,?,2.5,,,,,,\n\
                    -3,9,9223372036854775807,1,0.1,red,Bonn,,b,false,1969-12-31,1970-01-02T01:01:01.5,,\n";

/// Writes the columns, twice one after the other if there are several batches, in both formats.
fn written(folder: &Path, columns: Vec<(&str, ArrayRef)>, batches: usize) -> [PathBuf; 2] {
    let batch = RecordBatch::try_from_iter_with_nullable(
        columns.into_iter().map(|(name, column)| (name, column, true)),
    );
    let batch = batch.expect("columns of one length");
    let paths = ["rows.parquet", "rows.arrow"].map(|name| folder.join(name));
    let file = |path| File::create(path).expect("created");
    let mut writer = ArrowWriter::try_new(file(&paths[0]), batch.schema(), None).expect("begun");
    let mut other = FileWriter::try_new(file(&paths[1]), &batch.schema()).expect("begun");
    for _ in 0..batches {
        writer.write(&batch).expect("written");
        other.write(&batch).expect("written");
    }
    writer.close().expect("ended");
    other.finish().expect("ended");
    paths
}

fn schema() -> TableSchema {
    TableSchema::new()
        .category("color")
        .number("size")
        .number("count")
        .category("id")
        .category("few")
        .category("share")
        .category("city")
        .multi_label("tags", '|')
        .boolean("flag")
        .date("day")
        .date("at")
        .number("written")
        .number("none")
}

/// All values, as texts.
fn values(table: &Table) -> Vec<String> {
    let column = |name: &str, row| match table.number(name, row) {
        Ok(number) => format!("{:?}", number.map(f64::to_bits)),
        Err(_) => match table.word(name, row) {
            Ok(word) => format!("{word:?}"),
            Err(_) => format!("{:?}", table.labels(name, row).expect("labels")),
        },
    };
    let names = table.schema().columns.iter().map(|column| column.name.as_str());
    names.flat_map(|name| (0..table.rows()).map(move |row| column(name, row))).collect()
}

#[test]
fn columns_are_those_of_the_same_text() {
    let folder = tempfile::tempdir().unwrap();
    let expected = Table::parse(TEXT.as_bytes(), "t.csv", Delimiter::Comma, schema()).unwrap();
    for path in written(folder.path(), columns(), 1) {
        let table = Table::read(&path, Delimiter::Comma, schema()).unwrap();
        assert_eq!(values(&table), values(&expected), "{}", path.display());
        assert_eq!(Table::line_of(&path, Delimiter::Comma, None, 2).unwrap(), 3);
        let encode = |table: &Table| {
            let encoder = RowEncoder::fit(table, &[0, 1, 2], RowConfig::default());
            encoder.unwrap().encode(table).unwrap()
        };
        let mut present = schema();
        present.columns.retain(|column| column.name != "none");
        let text = Table::parse(TEXT.as_bytes(), "t.csv", Delimiter::Comma, present.clone());
        let table = Table::read(&path, Delimiter::Comma, present).unwrap();
        assert_eq!(encode(&table), encode(&text.unwrap()));
    }
}

#[test]
fn kinds_follow_from_types_and_from_words() {
    let folder = tempfile::tempdir().unwrap();
    let mut known = columns();
    known.pop();
    for path in written(folder.path(), known, 2) {
        let mut inferred = InferredColumns::default();
        let base = TableSchema::new();
        inferred.look_at(&path, Delimiter::Comma, &base, |row| row != 1).unwrap();
        let kinds = inferred.names().iter().map(|name| inferred.kind(name));
        let (number, category) = (Some(ColumnKind::Number), Some(ColumnKind::Category));
        let (truth, date) = (Some(ColumnKind::Boolean), Some(ColumnKind::Date));
        let words = [category.clone(), category.clone(), number.clone(), category];
        let expected = [vec![number; 5], words.to_vec(), vec![truth, date.clone(), date, None]];
        assert_eq!(kinds.collect::<Vec<_>>(), expected.concat());
        // Several files, of which one is text, are one table.
        let text = folder.path().join("rows.csv");
        let without_lists = TEXT.replace(",lists\n", "\n").replace(",\n", "\n");
        std::fs::write(&text, without_lists).unwrap();
        let wanted = |name: &str| match schema().columns.iter().find(|own| own.name == name) {
            Some(column) => UntypedColumn::Of(column.kind.clone()),
            None => UntypedColumn::LeftOut,
        };
        let files = [&path, &text];
        let mut both = UntypedTable::read(&files, Delimiter::Comma, &base, wanted).unwrap();
        assert_eq!((both.rows(), both.starts()), (9, &[0, 6][..]));
        let table = both.take(&schema()).unwrap();
        let part = |rows| values(&table.slice(rows));
        assert_eq!(part(0..3), part(3..6));
        assert_eq!(part(0..3), part(6..9));
        let blocks =
            TableBlocks::open(&path, Delimiter::Comma, schema(), 4, |_| Ok::<_, TableError>(None));
        let blocks: Vec<Table> = blocks.unwrap().map(Result::unwrap).collect();
        assert_eq!(blocks.iter().map(Table::rows).collect::<Vec<_>>(), [4, 2]);
        assert_eq!(values(&blocks[0]), part(0..4));
        assert_eq!(values(&blocks[1]), part(4..6));
    }
}

#[test]
fn what_does_not_fit_is_refused_with_column_type_or_row() {
    let folder = tempfile::tempdir().unwrap();
    let mut columns = columns();
    columns.push(("far", Arc::new(Float64Array::from(vec![1.0, f64::INFINITY, 2.0]))));
    let strict = ColumnRules { missing: false, ..ColumnRules::default() };
    let words = Some(vec!["Ulm".to_owned()]);
    let known = ColumnRules { values: words, unknown: false, missing: true };
    for path in written(folder.path(), columns, 1) {
        let error = |schema: TableSchema| {
            let table = Table::read(&path, Delimiter::Comma, schema);
            table.map(|table| values(&table)).expect_err("refused").to_string()
        };
        let new = TableSchema::new;
        for (schema, expected) in [
            (new().category("lists"), "column `lists`: its type is List("),
            (new().number("flag"), "its type is Boolean, which cannot be read as numbers; convert"),
            (new().category("day"), "its type is Date32, which cannot be read as categories"),
            (new().date("size"), "its type is Float64, which cannot be read as dates"),
            (new().number("far"), "line 2, column `far`: expected a finite number, got `inf`"),
            (new().number("city"), "line 1, column `city`: expected a finite number, got ` Ulm `"),
            (new().number("gone"), "has no column `gone`; it has `size`, `count`"),
            (
                new().column_of("count", ColumnKind::Number, strict.clone()),
                "line 2, column `count`: the",
            ),
            (
                new().column_of("city", ColumnKind::Category, known.clone()),
                "line 3, column `city`: `Bonn`",
            ),
            (new().number("size").with_header(vec!["size".to_owned()]), "has 15 fields"),
            (new(), "the schema names no column"),
        ] {
            let error = error(schema);
            assert!(error.contains(expected), "{error}");
        }
    }
    for name in ["a.parquet", "a.arrow"] {
        let path = folder.path().join(name);
        let ending = name.trim_start_matches("a.");
        let whole = std::fs::read(folder.path().join(format!("rows.{ending}"))).unwrap();
        for bytes in [&b""[..], b"PAR1", b"no such file", &whole[..whole.len() / 2]] {
            std::fs::write(&path, bytes).unwrap();
            let error = Table::read(&path, Delimiter::Comma, schema()).unwrap_err().to_string();
            assert!(
                error.contains(&format!("{name}` cannot be read as its ending says: ")),
                "{error}"
            );
        }
    }
}

/// A byte changed at a time, and the beginning alone.
#[test]
fn a_damaged_file_is_read_or_refused() {
    let folder = tempfile::tempdir().unwrap();
    let mut known = columns();
    known.pop();
    for path in written(folder.path(), known, 1) {
        let whole = std::fs::read(&path).unwrap();
        let mut refused = 0;
        let mut read = |bytes: &[u8]| {
            std::fs::write(&path, bytes).unwrap();
            refused += usize::from(Table::read(&path, Delimiter::Comma, schema()).is_err());
        };
        for at in (0..whole.len()).step_by(7) {
            let mut bytes = whole.clone();
            bytes[at] ^= [0xFF, 0x01, 0x80][at % 3];
            read(&bytes);
            if at.is_multiple_of(5) {
                read(&whole[..at]);
            }
        }
        assert!(refused > whole.len() / 35, "{refused}");
    }
}
