//! Values of a table at paths such as `train.epochs`.

use toml::{Table, Value};

/// The value at a path such as `train.epochs`.
pub(super) fn find<'a>(table: &'a Table, path: &str) -> Option<&'a Value> {
    let mut parts = path.split('.');
    let mut value = table.get(parts.next()?)?;
    for part in parts {
        value = value.as_table()?.get(part)?;
    }
    Some(value)
}

/// Sets the value at a path of at most two parts.
pub(super) fn put(table: &mut Table, path: &str, value: Value) {
    match path.split_once('.') {
        None => {
            table.insert(path.to_owned(), value);
        }
        Some((section, name)) => {
            let section = table.entry(section.to_owned());
            let section = section.or_insert_with(|| Value::Table(Table::new()));
            if let Some(section) = section.as_table_mut() {
                section.insert(name.to_owned(), value);
            }
        }
    }
}
