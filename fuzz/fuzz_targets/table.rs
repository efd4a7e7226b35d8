//! Any bytes as a table.
#![no_main]

use libfuzzer_sys::fuzz_target;
use updraft_data::{Delimiter, FitConfig, Table, TableEncoder, TableSchema};

fuzz_target!(|bytes: &[u8]| {
    let names = ["a", "b", "c"].map(str::to_owned).to_vec();
    let schema =
        TableSchema::new().category("a").number("b").multi_label("c", '|').with_header(names);
    if let Ok(table) = Table::parse(bytes, "fuzz", Delimiter::Comma, schema) {
        let encoder = TableEncoder::fit(&table, &[0], FitConfig::default()).expect("one row");
        assert_eq!(encoder.encode(&table).expect("the same table").rows(), table.rows());
    }
});
