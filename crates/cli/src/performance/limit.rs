//! The memory that a process that measures may take.

use anyhow::{Result, bail};
use updraft_device::{MemoryOwner, Selection};

use super::order::Answer;

/// A limit of memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MemoryLimit {
    pub(crate) bytes: u64,
    /// Whose memory it limits.
    pub(crate) owner: MemoryOwner,
}

impl MemoryLimit {
    /// The given limit in MiB, or what is free of the memory that the device computes in; `None` if
    /// the system does not report that of the machine.
    ///
    /// # Errors
    /// For a device with memory of its own whose free memory is not known; `option` is the one that
    /// gives a limit.
    pub(crate) fn of(
        selection: &Selection,
        given_mib: Option<u64>,
        option: &str,
    ) -> Result<Option<Self>> {
        let facts = selection.facts.as_ref();
        let owner = facts.map_or(MemoryOwner::Machine, |facts| facts.memory_owner);
        let given = given_mib.map(|mib| mib.saturating_mul(1 << 20));
        let free = given.or_else(|| facts.and_then(|facts| facts.memory_free_bytes));
        let bytes = match (free, owner) {
            (Some(bytes), _) => Some(bytes),
            (None, MemoryOwner::Machine) => updraft_device::memory().available_bytes,
            (None, MemoryOwner::Device) => bail!(
                "the free memory of {} is not known, since its driver does not report it; give \
                 {option}",
                selection.id
            ),
        };
        Ok(bytes.map(|bytes| Self { bytes, owner }))
    }

    /// The limit of the resident memory of a process, while it runs: none if the device has memory
    /// of its own, beside which the process takes some of the machine's.
    pub(super) fn of_process(self) -> Option<u64> {
        (self.owner == MemoryOwner::Machine).then_some(self.bytes)
    }

    /// Whether a process took more, as it found itself.
    pub(super) fn is_exceeded_by(self, answer: &Answer) -> bool {
        let peak_bytes = match self.owner {
            MemoryOwner::Machine => answer.peak_bytes,
            MemoryOwner::Device => answer.device_reserved_bytes.or(answer.device_peak_bytes),
        };
        peak_bytes.is_some_and(|bytes| bytes > self.bytes)
    }
}

#[cfg(test)]
mod tests {
    use updraft_device::{DeviceSpec, probe, select};

    use super::super::summary::tests::answer;
    use super::*;

    /// The processor as a device with this memory.
    fn with_memory(owner: MemoryOwner, free_bytes: Option<u64>) -> Selection {
        let mut selection = select(&DeviceSpec::Cpu, &probe()).expect("tests have flex");
        let facts = selection.facts.as_mut().expect("a usable device has facts");
        (facts.memory_owner, facts.memory_free_bytes) = (owner, free_bytes);
        selection
    }

    #[test]
    fn a_limit_is_given_or_what_is_free_of_the_memory_that_the_device_computes_in() {
        let limit =
            |owner, free, given| MemoryLimit::of(&with_memory(owner, free), given, "--limit");
        for owner in [MemoryOwner::Machine, MemoryOwner::Device] {
            let of = |bytes| Some(MemoryLimit { bytes, owner });
            assert_eq!(limit(owner, Some(7), None).expect("known"), of(7));
            assert_eq!(limit(owner, Some(7), Some(2)).expect("given"), of(2 << 20));
            assert_eq!(limit(owner, None, Some(2)).expect("given"), of(2 << 20));
        }
        assert!(limit(MemoryOwner::Machine, None, None).is_ok());
        let error = limit(MemoryOwner::Device, None, None).expect_err("not known").to_string();
        assert!(error.ends_with("give --limit"), "{error}");
    }

    #[test]
    fn the_memory_of_a_process_says_nothing_about_that_of_a_device() {
        let mut found = answer([1.0; 4]);
        found.peak_bytes = Some(2000);
        found.device_peak_bytes = Some(500);
        found.device_reserved_bytes = Some(800);
        let limit = |owner, bytes| MemoryLimit { bytes, owner };
        let exceeded = |owner, bytes| limit(owner, bytes).is_exceeded_by(&found);
        assert!(exceeded(MemoryOwner::Device, 799) && !exceeded(MemoryOwner::Device, 800));
        assert!(exceeded(MemoryOwner::Machine, 1999) && !exceeded(MemoryOwner::Machine, 2000));
        assert_eq!(limit(MemoryOwner::Device, 800).of_process(), None);
        assert_eq!(limit(MemoryOwner::Machine, 800).of_process(), Some(800));
    }
}
