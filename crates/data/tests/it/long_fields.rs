//! Errors about fields that are very long, or numbers beyond f64.

use updraft_data::{ColumnKind, ColumnRules, Delimiter, Table, TableSchema};

fn error(text: &str, schema: TableSchema) -> String {
    Table::parse(text.as_bytes(), "t.csv", Delimiter::Comma, schema).unwrap_err().to_string()
}

#[test]
fn a_bad_field_is_printed_in_part() {
    let long = "x".repeat(2_000_000);
    let schema = TableSchema::new().number("size");
    let shown = error(&format!("size\n1\n{long}\n"), schema);
    assert!(shown.contains("line 3, column `size`: expected a finite number, got `xxx"), "{shown}");
    assert!(shown.chars().count() < 400 && shown.contains('…'));

    let values = ColumnRules {
        values: Some(vec!["red".to_owned()]),
        unknown: false,
        ..ColumnRules::default()
    };
    let schema = TableSchema::new().column_of("color", ColumnKind::Category, values);
    let shown = error(&format!("color\nred\n{long}\n"), schema);
    assert!(shown.contains("none of the values") && shown.chars().count() < 400, "{shown}");

    let shown = error(&format!("{long},b\n1,2\n"), TableSchema::new().number("size"));
    assert!(shown.contains("no column `size`") && shown.chars().count() < 400, "{shown}");
}

#[test]
fn a_number_beyond_f64_is_not_said_to_be_none() {
    let shown = error("size\n1\n1e400\n", TableSchema::new().number("size"));
    let expected = "expected a number in the range of f64, which ends at 1.8e308, got `1e400`";
    assert!(shown.contains(expected), "{shown}");
    let shown = error("size\n1\ninf\n", TableSchema::new().number("size"));
    assert!(shown.contains("expected a finite number, got `inf`"), "{shown}");
}
