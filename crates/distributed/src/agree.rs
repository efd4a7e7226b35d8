//! Texts of all ranks, gathered and compared before a run starts.

use crate::{Collective, CollectiveError};

/// The bytes of every rank, in the order of ranks; they may differ in length.
///
/// # Errors
/// [`CollectiveError`] if a rank is lost or does not arrive in time.
pub fn gather(
    collective: &mut dyn Collective,
    bytes: &[u8],
) -> Result<Vec<Vec<u8>>, CollectiveError> {
    let ranks = collective.size();
    let mut lengths = vec![0; 8 * ranks];
    collective.all_gather(&(bytes.len() as u64).to_le_bytes(), &mut lengths)?;
    let lengths: Vec<usize> = lengths
        .as_chunks()
        .0
        .iter()
        .map(|length| usize::try_from(u64::from_le_bytes(*length)).unwrap_or(usize::MAX))
        .collect();
    let longest = lengths.iter().copied().max().unwrap_or_default();
    let mut send = bytes.to_vec();
    send.resize(longest, 0);
    let mut receive = vec![0; longest * ranks];
    collective.all_gather(&send, &mut receive)?;
    let parts = lengths.iter().enumerate();
    Ok(parts.map(|(rank, &length)| receive[rank * longest..][..length].to_vec()).collect())
}

/// Checks that every rank has the value of rank 0.
///
/// `what` names the value in the error: the configuration, the digest of the data, the version.
///
/// # Errors
/// [`CollectiveError::Disagreement`], the same on every rank, with the first rank that differs;
/// else as [`gather`].
pub fn agree(
    collective: &mut dyn Collective,
    what: &str,
    value: &str,
) -> Result<(), CollectiveError> {
    let values = gather(collective, value.as_bytes())?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    match values.iter().position(|other| *other != values[0]) {
        None => Ok(()),
        Some(rank) => Err(CollectiveError::Disagreement {
            what: what.to_owned(),
            rank,
            expected: text(&values[0]),
            found: text(&values[rank]),
        }),
    }
}
