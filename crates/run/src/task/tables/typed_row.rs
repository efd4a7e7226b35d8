//! Rows that a program has in memory, as the fields of a table.

use serde_json::{Map, Value};
use updraft_data::{ColumnKind, ColumnSchema, Table, TableSchema};

use super::targets::listed;
use crate::error::RunError;

/// What errors call the rows.
pub(super) const ROWS: &str = "rows";

/// A table of rows, of which each has the value of every column.
pub(super) fn table_of(
    rows: &[Map<String, Value>],
    mut schema: TableSchema,
) -> Result<Table, RunError> {
    // A value that is not there is a field without text.
    if !schema.missing.iter().any(String::is_empty) {
        schema.missing.push(String::new());
    }
    let mut fields = Vec::with_capacity(rows.len());
    for (at, row) in rows.iter().enumerate() {
        let field = |column: &ColumnSchema| {
            let refuse = |what: String| RunError::Unusable {
                reason: format!("row {}, column `{}`: {what}", at + 1, column.name),
            };
            let Some(value) = row.get(&column.name) else {
                let known: Vec<String> = row.keys().cloned().collect();
                let what = format!("the row does not have it; it has {}", listed(&known));
                return Err(refuse(what));
            };
            text_of(value, &column.kind).map_err(refuse)
        };
        fields.push(schema.columns.iter().map(field).collect::<Result<_, _>>()?);
    }
    Ok(Table::of_rows(ROWS, schema, &fields)?)
}

/// The field of a value in a column of a kind.
fn text_of(value: &Value, kind: &ColumnKind) -> Result<String, String> {
    match (value, kind) {
        (Value::Null, _) => Ok(String::new()),
        (Value::Bool(truth), _) => Ok(truth.to_string()),
        (Value::Number(number), _) => Ok(number.to_string()),
        (Value::String(text), _) => Ok(text.clone()),
        (Value::Array(words), ColumnKind::MultiLabel { separator }) => {
            let word = |word: &Value| match word {
                Value::String(word) if word.contains(*separator) => {
                    Err(format!("`{word}` has `{separator}`, which divides the words of the list"))
                }
                Value::String(word) => Ok(word.clone()),
                other => Err(format!("expected a list of texts, got {other} in it")),
            };
            let words: Vec<String> = words.iter().map(word).collect::<Result<_, _>>()?;
            Ok(words.join(&separator.to_string()))
        }
        (other, _) => {
            Err(format!("expected a number, a text, a truth value or nothing, got {other}"))
        }
    }
}
