//! Images that a CSV file lists with their classes.

use std::fs;
use std::path::Path;

use crate::error::DataError;
use crate::source::ImageFolder;
use crate::source::catalog::{Catalog, Found};
use crate::table::{Delimiter, Records};

impl ImageFolder {
    /// Lists the images of a CSV or TSV file, one per record: the path and the class.
    ///
    /// Relative paths start at the folder of the manifest. Samples are sorted by class and path;
    /// other columns are ignored.
    ///
    /// # Errors
    /// [`DataError::Table`] for a manifest that cannot be read or lacks a column,
    /// [`DataError::Open`] for an image that does not exist, [`DataError::Empty`] for a manifest
    /// without records.
    pub fn from_manifest(
        manifest: impl AsRef<Path>,
        delimiter: Delimiter,
        path_column: &str,
        class_column: &str,
    ) -> Result<Self, DataError> {
        let manifest = manifest.as_ref();
        let mut records = Records::open(manifest, delimiter)?;
        let (path, class) = (records.column(path_column)?, records.column(class_column)?);
        let folder = manifest.parent().unwrap_or(Path::new(""));
        let mut found = Vec::new();
        while records.advance()? {
            let file = records.field(path)?.to_owned();
            let location = folder.join(&file);
            let bytes = fs::metadata(&location)
                .map_err(|cause| DataError::Open { path: location.clone(), cause })?
                .len();
            found.push(Found { class: records.field(class)?.to_owned(), file, bytes, location });
        }
        if found.is_empty() {
            return Err(DataError::Empty);
        }
        Ok(Self::new(Catalog::new(found)))
    }
}
