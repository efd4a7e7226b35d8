//! The format of a file of columns, by the ending of its name.

use std::path::Path;

/// The format of a file of columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::table) enum Columnar {
    Parquet,
    /// Arrow's file format for processes, which is also Feather in its second version.
    Arrow,
}

impl Columnar {
    /// `None` for a file of text.
    pub(in crate::table) fn of(path: &Path) -> Option<Self> {
        let ending = path.extension()?.to_ascii_lowercase();
        match ending.to_str()? {
            "parquet" | "pq" => Some(Self::Parquet),
            "arrow" | "feather" | "ipc" => Some(Self::Arrow),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_format_is_that_of_the_ending_in_any_case() {
        for (name, expected) in [
            ("a.parquet", Some(Columnar::Parquet)),
            ("a.b/c.PQ", Some(Columnar::Parquet)),
            ("a.Arrow", Some(Columnar::Arrow)),
            ("a.feather", Some(Columnar::Arrow)),
            ("parquet", None),
            ("a.parquet.gz", None),
            ("a.csv", None),
        ] {
            assert_eq!(Columnar::of(Path::new(name)), expected, "{name}");
        }
    }
}
