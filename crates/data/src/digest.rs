//! SHA-256, over named and length-prefixed fields or over plain bytes.

use std::io::{self, Read};

use sha2::{Digest as _, Sha256};

/// Computes a SHA-256 over fields, for fingerprints.
///
/// Texts and bytes are preceded by their length, so neighboring fields cannot be confused.
///
/// # Example
/// ```
/// use updraft_data::Digest;
///
/// let fingerprint = Digest::new("my samples").text("a.tif").number(3).float(0.5).hex();
/// assert_eq!(fingerprint.len(), 64);
/// ```
#[derive(Debug, Clone)]
pub struct Digest(Sha256);

impl Digest {
    /// Starts a hash; the domain separates hashes of different kinds.
    #[must_use]
    pub fn new(domain: &str) -> Self {
        Self(Sha256::new()).text(domain)
    }

    /// Adds bytes.
    #[must_use]
    pub fn bytes(mut self, bytes: &[u8]) -> Self {
        self.0.update((bytes.len() as u64).to_le_bytes());
        self.0.update(bytes);
        self
    }

    /// Adds a text.
    #[must_use]
    pub fn text(self, text: &str) -> Self {
        self.bytes(text.as_bytes())
    }

    pub(crate) fn texts(self, texts: &[String]) -> Self {
        texts.iter().fold(self.number(texts.len()), |digest, text| digest.text(text))
    }

    /// Adds a whole number.
    #[must_use]
    pub fn number(mut self, number: usize) -> Self {
        self.0.update((number as u64).to_le_bytes());
        self
    }

    /// Adds the bits of a number.
    #[must_use]
    pub fn float(mut self, number: f32) -> Self {
        self.0.update(number.to_bits().to_le_bytes());
        self
    }

    pub(crate) fn raw(self) -> [u8; 32] {
        self.0.finalize().into()
    }

    /// The hash as 64 lowercase hexadecimal digits.
    #[must_use]
    pub fn hex(self) -> String {
        hex(&self.raw())
    }
}

/// The plain SHA-256 of a stream of bytes.
#[derive(Debug, Clone, Default)]
pub(crate) struct Checksum(Sha256);

impl Checksum {
    pub(crate) fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The checksum of everything that a reader returns, and the number of bytes.
    pub(crate) fn of(mut reader: impl Read) -> io::Result<(Self, u64)> {
        let (mut checksum, mut piece, mut total) = (Self::default(), vec![0; 1 << 18], 0);
        loop {
            match reader.read(&mut piece) {
                Ok(0) => return Ok((checksum, total)),
                Ok(count) => {
                    checksum.update(&piece[..count]);
                    total += count as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    pub(crate) fn raw(self) -> [u8; 32] {
        self.0.finalize().into()
    }

    pub(crate) fn hex(self) -> String {
        hex(&self.raw())
    }
}

fn hex(bytes: &[u8]) -> String {
    let digit = |nibble: u8| char::from(b"0123456789abcdef"[usize::from(nibble)]);
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighboring_fields_do_not_run_together() {
        let split = Digest::new("test").text("ab").text("c").hex();
        let other = Digest::new("test").text("a").text("bc").hex();
        assert_ne!(split, other);
        assert_eq!(split.len(), 64);
    }

    #[test]
    fn the_digits_are_those_of_sha_256() {
        // SHA-256 of "abc", FIPS 180-2 appendix B.1.
        let digest = Digest(Sha256::new_with_prefix("abc")).hex();
        assert_eq!(digest, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    }
}
