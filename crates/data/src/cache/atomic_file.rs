//! A file that is complete or absent.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::DataError;

/// A file that is being written: it is renamed into place when it is finished, and deleted if it is
/// not.
pub(crate) struct AtomicFile {
    path: PathBuf,
    partial: PathBuf,
    writer: Option<BufWriter<File>>,
}

impl AtomicFile {
    /// Creates a temporary file next to its final path; missing folders are created.
    pub(crate) fn create(path: &Path) -> Result<Self, DataError> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let folder = path.parent().unwrap_or(Path::new(""));
        let failed = |cause| DataError::Write { path: path.to_owned(), cause };
        if !folder.as_os_str().is_empty() {
            fs::create_dir_all(folder).map_err(failed)?;
        }
        // Two processes or threads that build the same file use different names.
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let partial = folder.join(format!(".{name}.{}-{number}.partial", process::id()));
        let file = File::create(&partial).map_err(failed)?;
        Ok(Self {
            path: path.to_owned(),
            partial,
            writer: Some(BufWriter::with_capacity(1 << 18, file)),
        })
    }

    /// The path that it will have.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<(), DataError> {
        let writer = self.writer.as_mut().expect("there until the file is finished");
        writer.write_all(bytes).map_err(|cause| DataError::Write { path: self.path.clone(), cause })
    }

    /// Flushes everything to the disk and renames the file into place.
    pub(crate) fn finish(mut self) -> Result<(), DataError> {
        let finished = self.sync().and_then(|()| fs::rename(&self.partial, &self.path));
        finished.map_err(|cause| DataError::Write { path: self.path.clone(), cause })
    }

    /// The same, and opens the file for reading before it is renamed: another process may replace it
    /// at its path at any time.
    pub(crate) fn finish_and_open(mut self) -> Result<File, DataError> {
        let finished = self.sync().and_then(|()| {
            let file = File::open(&self.partial)?;
            fs::rename(&self.partial, &self.path)?;
            Ok(file)
        });
        finished.map_err(|cause| DataError::Write { path: self.path.clone(), cause })
    }

    /// Flushes everything to the disk and closes the file.
    fn sync(&mut self) -> io::Result<()> {
        let writer = self.writer.take().expect("there until the file is finished");
        writer.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()
    }
}

impl Write for AtomicFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.writer.as_mut().expect("there until the file is finished").write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.writer.as_mut().expect("there until the file is finished").flush()
    }
}

impl Drop for AtomicFile {
    fn drop(&mut self) {
        self.writer = None;
        // After `finish` there is nothing to remove.
        let _ = fs::remove_file(&self.partial);
    }
}
