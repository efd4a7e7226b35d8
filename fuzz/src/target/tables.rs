//! Tables, what is inferred of their columns, and lists of images.

use std::fs;

use updraft_data::{
    Delimiter, FitConfig, ImageFolder, ImageSource, InferredColumns, Table, TableEncoder,
    TableSchema,
};

use super::pictures::png;
use crate::scratch;

pub(super) fn table(bytes: &[u8]) {
    let names = ["a", "b", "c"].map(str::to_owned).to_vec();
    let schema =
        TableSchema::new().category("a").number("b").multi_label("c", '|').with_header(names);
    if let Ok(table) = Table::parse(bytes, "fuzz", Delimiter::Comma, schema) {
        let encoder = TableEncoder::fit(&table, &[0], FitConfig::default()).expect("one row");
        assert_eq!(encoder.encode(&table).expect("the same table").rows(), table.rows());
    }
}

pub(super) fn table_seeds() -> Vec<Vec<u8>> {
    let texts =
        ["a,b,c\nx,1.5,p|q\ny,-2,\n", "\u{feff}a,b,c\r\n\"x, \"\"y\"\"\",1e30,p\r\n", "x,1e39,p\n"];
    texts.map(|text| text.as_bytes().to_vec()).to_vec()
}

pub(super) fn columns(bytes: &[u8]) {
    let mut columns = InferredColumns::default();
    let schema = TableSchema::new();
    if columns.look_at_bytes(bytes, "fuzz", Delimiter::Comma, &schema, |row| row % 3 != 1).is_ok() {
        for name in columns.names() {
            let _ = columns.kind(name);
        }
    }
}

pub(super) fn image_manifest(bytes: &[u8]) {
    let folder = scratch::folder("images");
    fs::write(folder.join("a.png"), png(2, 2)).expect("written");
    fs::write(folder.join("list.csv"), bytes).expect("written");
    let list = folder.join("list.csv");
    if let Ok(images) = ImageFolder::from_manifest(list, Delimiter::Comma, "path", "class") {
        for index in 0..images.len().min(4) {
            let _ = images.read(index);
        }
    }
}

pub(super) fn image_manifest_seeds() -> Vec<Vec<u8>> {
    vec![b"path,class\na.png,cat\na.png,dog\n".to_vec(), b"path,class\n../a.png,cat\n".to_vec()]
}
