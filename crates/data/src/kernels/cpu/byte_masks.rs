//! Bits for the bytes of a block of text that fields and records end at.
#![cfg_attr(
    target_arch = "x86_64",
    expect(unsafe_code, reason = "instructions that every processor of this kind has")
)]

/// Bytes of a block: one bit of a word each.
pub(crate) const MASKED_BYTES: usize = 64;

/// A bit for each byte of a block.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ByteMasks {
    pub(crate) delimiters: u64,
    pub(crate) line_feeds: u64,
    pub(crate) returns: u64,
    pub(crate) quotes: u64,
}

impl ByteMasks {
    /// The same without the bytes after so many.
    pub(crate) const fn of_first(self, bytes: usize) -> Self {
        let kept = (1 << bytes) - 1;
        Self {
            delimiters: self.delimiters & kept,
            line_feeds: self.line_feeds & kept,
            returns: self.returns & kept,
            quotes: self.quotes & kept,
        }
    }
}

/// Compares every byte of a block with those that fields and records end at.
#[cfg(target_arch = "x86_64")]
#[inline]
pub(crate) fn byte_masks(block: &[u8; MASKED_BYTES], delimiter: u8) -> ByteMasks {
    // SAFETY: SSE2 is part of x86-64.
    unsafe { vector_masks(block, delimiter) }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "sse2")]
#[inline]
fn vector_masks(block: &[u8; MASKED_BYTES], delimiter: u8) -> ByteMasks {
    use std::arch::x86_64::{_mm_cmpeq_epi8, _mm_movemask_epi8, _mm_set_epi64x, _mm_set1_epi8};
    let (words, _) = block.as_chunks::<8>();
    let mut masks = ByteMasks::default();
    for at in 0..words.len() / 2 {
        let word = |at: usize| i64::from_le_bytes(words[at]);
        let vector = _mm_set_epi64x(word(2 * at + 1), word(2 * at));
        let mask = |byte: u8| {
            let is_equal = _mm_cmpeq_epi8(vector, _mm_set1_epi8(byte.cast_signed()));
            u64::from(_mm_movemask_epi8(is_equal).cast_unsigned()) << (16 * at)
        };
        masks.delimiters |= mask(delimiter);
        masks.line_feeds |= mask(b'\n');
        masks.returns |= mask(b'\r');
        masks.quotes |= mask(b'"');
    }
    masks
}

#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn byte_masks(block: &[u8; MASKED_BYTES], delimiter: u8) -> ByteMasks {
    plain_masks(block, delimiter)
}

/// The same by words of bytes.
#[cfg(any(test, not(target_arch = "x86_64")))]
fn plain_masks(block: &[u8; MASKED_BYTES], delimiter: u8) -> ByteMasks {
    const ONES: u64 = u64::from_ne_bytes([1; 8]);
    const REST: u64 = ONES * 0x7F;
    /// Moves the lowest bit of each byte into the highest byte.
    const GATHER: u64 = 0x0102_0408_1020_4080;
    let (words, _) = block.as_chunks::<8>();
    let mask = |byte: u8| {
        let mut mask = 0;
        for (at, word) in words.iter().enumerate() {
            let differing = u64::from_le_bytes(*word) ^ (ONES * u64::from(byte));
            // The top bit of each byte that is not zero, without carries between bytes.
            let is_other = (((differing & REST) + REST) | differing) >> 7 & ONES;
            let is_equal = is_other ^ ONES;
            mask |= (is_equal.wrapping_mul(GATHER) >> 56) << (8 * at);
        }
        mask
    };
    ByteMasks {
        delimiters: mask(delimiter),
        line_feeds: mask(b'\n'),
        returns: mask(b'\r'),
        quotes: mask(b'"'),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn both_ways_find_the_same_bytes(bytes in proptest::collection::vec(any::<u8>(), 64)) {
            let block: &[u8; MASKED_BYTES] = bytes.first_chunk().expect("64 bytes");
            for delimiter in [b',', b'\t', 0, 0x80, bytes[0]] {
                prop_assert_eq!(byte_masks(block, delimiter), plain_masks(block, delimiter));
                let found = byte_masks(block, delimiter).delimiters;
                for (at, byte) in bytes.iter().enumerate() {
                    prop_assert_eq!(found >> at & 1 == 1, *byte == delimiter);
                }
            }
        }
    }
}
