//! Images that CSV files list with their classes.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fs;
use std::path::Path;

use crate::error::DataError;
use crate::file_identity::FileIdentity;
use crate::file_state::FileState;
use crate::source::ImageFolder;
use crate::source::catalog::{Catalog, Found};
use crate::source::listing::ListedFile;
use crate::table::{Delimiter, Records, TableError};

impl ImageFolder {
    /// Lists the images of a CSV or TSV file, one per record: the path and the class.
    ///
    /// Relative paths start at the folder of the manifest. Samples are sorted by class and path;
    /// other columns are ignored.
    ///
    /// # Errors
    /// [`DataError::Table`] for a manifest that cannot be read, lacks a column or lists an image
    /// twice, links and other paths included; [`DataError::Open`] for an image that does
    /// not exist, [`DataError::Empty`] for a manifest without records.
    pub fn from_manifest(
        manifest: impl AsRef<Path>,
        delimiter: Delimiter,
        path_column: &str,
        class_column: &str,
    ) -> Result<Self, DataError> {
        let columns = [path_column, class_column];
        read(manifest.as_ref(), delimiter, columns, &mut ImageLines::default())
    }

    /// Lists the images of two manifests, such as those of training and of test images, which must
    /// have no image in common.
    ///
    /// The ending of each manifest decides its delimiter, as in [`Delimiter::of`].
    ///
    /// # Errors
    /// As [`from_manifest`](Self::from_manifest); [`DataError::Table`] also for an image that both
    /// list.
    pub fn pair_from_manifests(
        [first, second]: [&Path; 2],
        path_column: &str,
        class_column: &str,
    ) -> Result<[Self; 2], DataError> {
        let (columns, mut lines) = ([path_column, class_column], ImageLines::default());
        let first = read(first, Delimiter::of(first), columns, &mut lines)?;
        let second = read(second, Delimiter::of(second), columns, &mut lines)?;
        Ok([first, second])
    }
}

/// The manifest and the line that list each image.
#[derive(Default)]
struct ImageLines<'a>(HashMap<FileIdentity, (&'a Path, u64)>);

impl<'a> ImageLines<'a> {
    /// Adds a line; an error if an earlier one lists the same image.
    fn add(&mut self, image: &ListedFile, manifest: &'a Path, line: u64) -> Result<(), TableError> {
        match self.0.entry(image.identity()) {
            Entry::Vacant(entry) => {
                entry.insert((manifest, line));
                Ok(())
            }
            Entry::Occupied(entry) => {
                let (first, first_line) = *entry.get();
                Err(TableError::RepeatedFile {
                    file: image.path.clone(),
                    first: first.to_owned(),
                    first_line,
                    second: manifest.to_owned(),
                    second_line: line,
                })
            }
        }
    }
}

/// The images of a manifest, none of which is in `lines` yet.
fn read<'a>(
    manifest: &'a Path,
    delimiter: Delimiter,
    [path_column, class_column]: [&str; 2],
    lines: &mut ImageLines<'a>,
) -> Result<ImageFolder, DataError> {
    let mut records = Records::open(manifest, delimiter)?;
    let (path, class) = (records.column(path_column)?, records.column(class_column)?);
    let folder = manifest.parent().unwrap_or(Path::new(""));
    let mut found = Vec::new();
    while records.advance()? {
        let file = records.field(path)?.to_owned();
        let location = folder.join(&file);
        let metadata = fs::metadata(&location)
            .map_err(|cause| DataError::Open { path: location.clone(), cause })?;
        let (bytes, state) = (metadata.len(), FileState::of(&metadata));
        let location = ListedFile::new(location, &metadata);
        lines.add(&location, manifest, records.line())?;
        let class = records.field(class)?.to_owned();
        found.push(Found { class, file, bytes, state, location });
    }
    if found.is_empty() {
        return Err(DataError::Empty);
    }
    Ok(ImageFolder::new(Catalog::new(found)))
}
