//! The division of files into parts, of which each is done by one rank and kept as one file.

use std::path::PathBuf;

/// The most files of a part: few enough to lose little when a rank is lost.
const MOST_FILES: usize = 64;

/// The fewest parts of enough files, so that many ranks have equally much to do.
const FEWEST_PARTS: usize = 256;

/// Files in parts of neighbors; the division depends on their number only.
#[derive(Debug)]
pub(crate) struct Parts {
    files: Vec<PathBuf>,
    size: usize,
}

impl Parts {
    pub(crate) fn new(files: Vec<PathBuf>) -> Self {
        let size = files.len().div_ceil(FEWEST_PARTS).clamp(1, MOST_FILES);
        Self { files, size }
    }

    /// All files.
    pub(crate) fn files(&self) -> &[PathBuf] {
        &self.files
    }

    pub(crate) fn count(&self) -> usize {
        self.files.len().div_ceil(self.size)
    }

    /// The files of a part.
    pub(crate) fn files_of(&self, part: usize) -> &[PathBuf] {
        &self.files[part * self.size..self.files.len().min((part + 1) * self.size)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_all_files_once_and_in_order() {
        for (files, count) in [(1, 1), (5, 5), (256, 256), (257, 129), (1000, 250), (100_000, 1563)]
        {
            let all: Vec<PathBuf> = (0..files).map(|at| at.to_string().into()).collect();
            let parts = Parts::new(all.clone());
            assert_eq!(parts.count(), count, "{files} files");
            let divided: Vec<_> = (0..count).flat_map(|part| parts.files_of(part)).collect();
            assert!(divided.into_iter().eq(&all), "{files} files");
        }
    }
}
