//! The kernels that a device chose by measurement, stored with a run and taken again when it is
//! resumed.

use std::path::Path;

use burn::tensor::Device;
use updraft_device::{Backend, DeviceError, KernelOrigin, OwnKernelCache, StoredChoices, applied};

/// The choices of a run in progress; none on a device that chooses no kernels by measurement.
///
/// Nothing here ends a run: without it, the machine's cache decides.
pub(super) struct KernelChoices {
    own: Option<OwnKernelCache>,
    /// The name of the file in the run's folder.
    file: String,
    is_failed: bool,
}

impl KernelChoices {
    /// Uses a cache of the run's own, with the choices in the folder of a resumed run first; before
    /// the first kernel. Returns what is to be reported.
    pub(super) fn begin(
        (device, backend): (&Device, Backend),
        resumed: Option<&Path>,
        rank: usize,
    ) -> (Self, Option<String>) {
        let file = file_of(rank);
        let measures = backend != Backend::Flex && applied(device).autotune_cache.is_some();
        if !measures {
            return (Self { own: None, file, is_failed: false }, None);
        }
        let stored = resumed.map(|folder| folder.join(&file));
        let begun = OwnKernelCache::begin(&KernelOrigin::of(backend, device), stored.as_deref());
        let note = note_of(begun.as_ref().map(|(_, found)| found), resumed.is_some());
        let own = begun.ok().map(|(own, _)| own);
        (Self { own, file, is_failed: false }, note)
    }

    /// Stores the choices so far in the run's folder. Returns what is to be reported, once.
    pub(super) fn store(&mut self, folder: &Path) -> Option<String> {
        let failed = self.own.as_mut()?.store(&folder.join(&self.file)).err()?;
        let is_first = !std::mem::replace(&mut self.is_failed, true);
        is_first.then(|| format!("the kernels that were chosen are not stored: {failed}"))
    }

    /// Stores the choices, uses the machine's cache again and adds the new kernels to it. Returns
    /// what is to be reported.
    pub(super) fn finish(mut self, folder: &Path) -> Option<String> {
        let note = self.store(folder);
        let added = self.own.take()?.finish();
        let not_added = |error| format!("the machine's cache has no new kernels: {error}");
        note.or_else(|| added.err().map(not_added))
    }
}

/// The file of a rank: each one measures kernels itself.
fn file_of(rank: usize) -> String {
    format!("kernel-choices/rank-{rank}.db")
}

/// What is reported at the start of a run.
fn note_of(found: Result<&StoredChoices, &DeviceError>, is_resumed: bool) -> Option<String> {
    let last_digits = "results may differ in their last digits";
    match found {
        Err(error) => Some(format!("kernel choices are not stored with the run: {error}")),
        Ok(StoredChoices::Used { choices }) => {
            Some(format!("{choices} kernel choices of the run are used again"))
        }
        Ok(StoredChoices::Other(difference)) => Some(format!(
            "the run's kernel choices are not used, and {last_digits}: they belong to another \
             {difference}"
        )),
        Ok(StoredChoices::Unreadable { cause }) => {
            Some(format!("the run's kernel choices cannot be read, and {last_digits}: {cause}"))
        }
        Ok(StoredChoices::Missing) if is_resumed => {
            Some(format!("the run has no kernel choices, and {last_digits}"))
        }
        Ok(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use updraft_device::OriginDifference;

    use super::*;

    #[test]
    fn flex_has_no_choices_and_writes_no_file() {
        let dir = tempfile::tempdir().expect("a folder");
        let device = (&Device::flex(), Backend::Flex);
        let (mut choices, note) = KernelChoices::begin(device, Some(dir.path()), 0);
        assert_eq!((note, choices.store(dir.path())), (None, None));
        assert_eq!(choices.finish(dir.path()), None);
        assert_eq!(std::fs::read_dir(dir.path()).expect("a folder").count(), 0);
    }

    #[test]
    fn the_note_has_what_differs_and_what_that_means() {
        let fact = "driver";
        let (stored, here) = ("570".to_owned(), "580".to_owned());
        let other = StoredChoices::Other(OriginDifference { fact, stored, here });
        let note = note_of(Ok(&other), true).expect("a note");
        assert!(note.ends_with("belong to another driver: expected 580, got 570"), "{note}");
        assert!(note.contains("not used, and results may differ"), "{note}");
        let note = note_of(Ok(&StoredChoices::Used { choices: 12 }), true).expect("a note");
        assert_eq!(note, "12 kernel choices of the run are used again");
        assert_eq!(note_of(Ok(&StoredChoices::Missing), false), None);
        assert!(note_of(Ok(&StoredChoices::Missing), true).is_some());
        let error = DeviceError::KernelCacheInUse;
        assert!(note_of(Err(&error), false).expect("a note").contains("for another run"));
    }

    #[test]
    fn each_rank_has_its_file() {
        assert_eq!(file_of(0), "kernel-choices/rank-0.db");
        assert_eq!(file_of(2), "kernel-choices/rank-2.db");
    }
}
