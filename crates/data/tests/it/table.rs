//! Tables: read in one pass, fitted on the training part alone, encoded the same at prediction.

use proptest::prelude::*;
use updraft_data::{
    ColumnEncoder, ColumnRules, Delimiter, FitConfig, RowConfig, RowEncoder, Table, TableEncoder,
    TableError, TableSchema, Vocabulary, stratified_split,
};

use crate::files::shared;

fn schema() -> TableSchema {
    TableSchema::new().category("gene").number("dose").multi_label("effects", '|')
}

fn parse(text: &str) -> Result<Table, TableError> {
    Table::parse(text.as_bytes(), "t.csv", Delimiter::Comma, schema())
}

const TEXT: &str = "dose,note,gene,effects\n\
                    1,x,A,pain|rash\n\
                    3,\"a, b\",B,rash\n\
                    ?,y,A,\n\
                    5, z , C ,pain| fever |pain\n";

#[test]
fn columns_are_found_by_name_and_fields_are_trimmed() {
    let table = parse(TEXT).unwrap();
    assert_eq!(table.rows(), 4);
    let genes: Vec<_> = (0..4).map(|row| table.word("gene", row).unwrap()).collect();
    assert_eq!(genes, [Some("A"), Some("B"), Some("A"), Some("C")]);
    assert_eq!(table.number("dose", 1).unwrap(), Some(3.0));
    assert_eq!(table.number("dose", 2).unwrap(), None);
    assert_eq!(table.labels("effects", 3).unwrap(), ["pain", "fever", "pain"]);
    assert!(table.labels("effects", 2).unwrap().is_empty());
    assert_eq!(table.strata("gene").unwrap(), [0, 1, 0, 2]);
    let tabs = TEXT.replace("\"a, b\"", "ab").replace(',', "\t");
    let tabs = Table::parse(tabs.as_bytes(), "t.tsv", Delimiter::of("t.tsv"), schema()).unwrap();
    assert_eq!(tabs.word("gene", 3).unwrap(), Some("C"));
}

#[test]
fn encoding_follows_the_training_rows_by_hand() {
    let table = parse(TEXT).unwrap();
    let encoder = TableEncoder::fit(&table, &[0, 1, 2], FitConfig::default()).unwrap();
    let encoded = encoder.encode(&table).unwrap();
    // A is 1 and B is 2; C was never seen in training.
    assert_eq!(encoded.classes("gene").unwrap(), [1, 2, 1, Vocabulary::UNKNOWN]);
    assert_eq!(encoded.class_count("gene").unwrap(), 3);
    // Doses 1 and 3: mean 2, standard deviation 1; the missing one is the mean.
    assert_eq!(encoded.numbers("dose").unwrap(), [-1.0, 1.0, 0.0, 3.0]);
    // pain, rash; fever is unknown.
    let (labels, count) = encoded.labels("effects").unwrap();
    assert_eq!(count, 2);
    assert_eq!(labels, [1.0, 1.0, 0.0, 1.0, 0.0, 0.0, 1.0, 0.0]);
}

#[test]
fn words_that_the_rules_of_a_column_do_not_have_are_unknown() {
    let mut schema = schema();
    let only = |words: &[&str]| ColumnRules {
        values: Some(words.iter().map(|&word| word.to_owned()).collect()),
        ..ColumnRules::default()
    };
    schema.columns[0].rules = only(&["B", "Z"]);
    schema.columns[2].rules = only(&["rash"]);
    let table = Table::parse(TEXT.as_bytes(), "t.csv", Delimiter::Comma, schema).unwrap();
    let rows = [0, 1, 2, 3];
    let encoder = TableEncoder::fit(&table, &rows, FitConfig::default()).unwrap();
    // Z is in no row, so that it is no class either.
    let encoded = encoder.encode(&table).unwrap();
    assert_eq!(encoded.classes("gene").unwrap(), [0, 1, 0, 0]);
    assert_eq!(encoded.labels("effects").unwrap(), (&[1.0, 1.0, 0.0, 0.0][..], 1));
    let encoder = RowEncoder::fit(&table, &rows, RowConfig::default()).unwrap();
    assert_eq!(encoder.class_counts(), [2]);
    assert_eq!(encoder.number_names(), ["dose", "dose", "effects"]);
    // A saved encoder checks what it reads by the same rules.
    let text = serde_json::to_string(&encoder).unwrap();
    assert_eq!(serde_json::from_str::<RowEncoder>(&text).unwrap(), encoder);
    assert!(text.contains("\"values\":[\"B\",\"Z\"]"), "{text}");
    for (column, expected) in [("gene", false), ("dose", true), ("effects", true)] {
        assert_eq!(table.misses_values(column, &rows).unwrap(), expected, "{column}");
    }
    assert!(!table.misses_values("dose", &[0, 3]).unwrap());
    assert!(table.misses_values("dose", &[4]).is_err());
}

#[test]
fn rare_words_join_the_unknown_class() {
    let table = parse(TEXT).unwrap();
    let config = FitConfig::default().with_min_rows(2);
    let encoder = TableEncoder::fit(&table, &[0, 1, 2, 3], config).unwrap();
    let encoded = encoder.encode(&table).unwrap();
    assert_eq!(encoded.classes("gene").unwrap(), [1, 0, 1, 0]);
    // `pain` stands twice in the last row and counts once there; `fever` is in one row alone.
    let Some(ColumnEncoder::MultiLabel(labels)) = encoder.column("effects") else { panic!() };
    assert_eq!(labels.words(), ["pain", "rash"]);
}

#[test]
fn a_saved_encoder_encodes_alone_to_the_same_bits() {
    let table = parse(TEXT).unwrap();
    let encoder = TableEncoder::fit(&table, &[0, 1, 3], FitConfig::default()).unwrap();
    let text = serde_json::to_string(&encoder).unwrap();
    let loaded: TableEncoder = serde_json::from_str(&text).unwrap();
    assert_eq!(loaded, encoder);
    // Another file with other words in another order, read by the saved schema.
    let later = "gene,effects,dose\nC,fever|pain,2\nD,,4\nA,rash,?\n";
    let schema = loaded.schema().clone();
    let later = Table::parse(later.as_bytes(), "later", Delimiter::Comma, schema).unwrap();
    let encoded = loaded.encode(&later).unwrap();
    assert_eq!(encoded.classes("gene").unwrap(), [3, 0, 1]);
    assert_eq!(encoded, encoder.encode(&later).unwrap());
    assert!(serde_json::from_str::<TableEncoder>(&text.replace("mean", "men")).is_err());
}

proptest! {
    /// The leak test: whatever stands in the rows held out, what was fitted is the same.
    #[test]
    fn nothing_that_is_held_out_reaches_the_encoder(
        rows in proptest::collection::vec((0_u8..6, -50.0_f64..50.0, 0_u8..8), 4..60),
        other in proptest::collection::vec((6_u8..9, -1e9_f64..1e9, 8_u8..16), 60),
        seed: u64,
    ) {
        let strata: Vec<usize> = rows.iter().map(|row| usize::from(row.0)).collect();
        let split = stratified_split(&strata, 0.3, seed).unwrap();
        let text = |is_changed: bool| {
            let mut text = "gene,dose,effects\n".to_owned();
            for (at, row) in rows.iter().enumerate() {
                let hidden = is_changed && split.held_out.contains(&at);
                let (gene, dose, effect) = if hidden { other[at] } else { *row };
                text += &format!("g{gene},{dose},e{}|e{}\n", effect, effect / 2);
            }
            text
        };
        let fit = |text: &str| {
            TableEncoder::fit(&parse(text).unwrap(), &split.kept, FitConfig::default()).unwrap()
        };
        prop_assert_eq!(fit(&text(false)), fit(&text(true)));
    }
}

#[test]
fn unreadable_input_is_reported_by_line_and_column() {
    let message = |text: &[u8]| {
        let error = Table::parse(text, "t.csv", Delimiter::Comma, schema()).unwrap_err();
        error.to_string()
    };
    let header = "gene,dose,effects\n";
    let with = |row: &str| message(format!("{header}A,1,x\n{row}\n").as_bytes());
    let few = "`t.csv` line 3 has 2 fields; the header has 3: add the missing fields, which may be \
               empty, or remove the line";
    assert_eq!(with("A,1"), few);
    let many = "`t.csv` line 3 has 4 fields; the header has 3: put quotes around a field that has a \
                delimiter, or remove the surplus fields";
    assert_eq!(with("A,1,x,y"), many);
    let number = "`t.csv` line 3, column `dose`: expected a finite number, got `1,5`; \
                  correct it, or add it to the `missing` texts of the schema";
    assert_eq!(with("A,\"1,5\",x"), number);
    assert!(with("A,inf,x").contains("got `inf`"));
    let latin = [header.as_bytes(), b"A,1,x\nM\xFCller,1,x\n"].concat();
    let encoded = "`t.csv` line 3, column `gene`: not UTF-8; save the file as UTF-8: it is likely \
                   Latin-1, which `iconv -f latin1 -t utf-8` converts";
    assert_eq!(message(&latin), encoded);
    assert_eq!(
        message(b"gene,dose\nA,1\n"),
        "`t.csv` has no column `effects`; it has `gene`, `dose`"
    );
    assert_eq!(message(b"gene,gene\n"), "`t.csv` has two columns `gene`; rename one");
    assert_eq!(message(header.as_bytes()), "`t.csv` has no records");
    assert_eq!(message(b""), "`t.csv` has no records");
}

#[test]
fn a_byte_order_mark_and_windows_lines_are_understood() {
    let text = "\u{FEFF}gene,dose,effects\r\nA,1,x\r\nB,2,\r\n";
    assert_eq!(parse(text).unwrap().word("gene", 1).unwrap(), Some("B"));
}

#[test]
fn misuse_is_reported() {
    let table = parse(TEXT).unwrap();
    let message = |error: TableError| error.to_string();
    assert!(
        message(table.word("dose", 0).unwrap_err()).contains("holds numbers; expected categor")
    );
    assert!(message(table.word("drug", 0).unwrap_err()).contains("no column `drug`"));
    assert_eq!(
        message(table.word("gene", 4).unwrap_err()),
        "row 4 does not exist; the table has 4"
    );
    let fit = |rows: &[usize]| TableEncoder::fit(&table, rows, FitConfig::default());
    assert!(message(fit(&[]).unwrap_err()).contains("on no rows; pass the training part's rows"));
    assert!(matches!(fit(&[4]), Err(TableError::OutOfRange { row: 4, rows: 4 })));
    let encoder = fit(&[0]).unwrap();
    let bytes = &b"gene,dose\nA,1\n"[..];
    let few = TableSchema::new().category("gene").category("dose");
    let few = Table::parse(bytes, "few", Delimiter::Comma, few).unwrap();
    let error = encoder.encode(&few).unwrap_err();
    assert!(message(error).contains("column `dose` holds categories; expected numbers"));
}

#[test]
fn the_census_table_is_read_whole() {
    let Some(path) = shared("adult/adult-train.csv") else { return };
    // The file's columns as adult.names lists them; the last is the income.
    let names = [
        "age",
        "workclass",
        "fnlwgt",
        "education",
        "education-num",
        "marital-status",
        "occupation",
        "relationship",
        "race",
        "sex",
        "capital-gain",
        "capital-loss",
        "hours-per-week",
        "native-country",
        "income",
    ];
    let schema = TableSchema::new()
        .number("age")
        .category("workclass")
        .category("income")
        .with_header(names.map(str::to_owned).to_vec());
    let table = Table::read(&path, Delimiter::Comma, schema).unwrap();
    assert_eq!(table.rows(), 32_561);
    let rows: Vec<usize> = (0..table.rows()).collect();
    let encoder = TableEncoder::fit(&table, &rows, FitConfig::default()).unwrap();
    let encoded = encoder.encode(&table).unwrap();
    // Two incomes, and the unknown class; UCI states 24.08 % above the line.
    assert_eq!(encoded.class_count("income").unwrap(), 3);
    let above = encoded.classes("income").unwrap().iter().filter(|&&class| class == 2).count();
    assert_eq!(above, 7841);
    // 1836 people without a work class, written as a question mark.
    let missing = (0..table.rows()).filter(|&row| table.word("workclass", row).unwrap().is_none());
    assert_eq!(missing.count(), 1836);
    let mean = encoded.numbers("age").unwrap().iter().map(|&age| f64::from(age)).sum::<f64>();
    assert!(mean.abs() < 1e-2, "{mean}");
}
