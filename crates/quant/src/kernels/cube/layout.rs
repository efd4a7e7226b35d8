//! Codes as words of four channels.

/// Channels of a word.
pub(super) const LANES: usize = 4;

/// Words of a pixel.
pub(crate) const fn words_of(channels: usize) -> usize {
    channels.div_ceil(LANES)
}

/// Codes `[pixels, channels]` as words, zeros beyond the last channel.
pub(crate) fn packed(codes: &[u8], channels: usize) -> Vec<u32> {
    let word = |four: &[u8]| {
        let mut bytes = [0; LANES];
        bytes[..four.len()].copy_from_slice(four);
        u32::from_le_bytes(bytes)
    };
    codes.chunks_exact(channels).flat_map(|pixel| pixel.chunks(LANES).map(word)).collect()
}

/// The codes `[pixels, channels]` of words.
pub(crate) fn unpacked(words: &[u32], channels: usize) -> Vec<u8> {
    let pixel = |words: &[u32]| -> Vec<u8> {
        words.iter().flat_map(|word| word.to_le_bytes()).take(channels).collect()
    };
    words.chunks_exact(words_of(channels)).flat_map(pixel).collect()
}

/// Numbers of bytes, four in a word.
pub(super) fn packed_table(bytes: &[u8]) -> Vec<u32> {
    bytes.as_chunks().0.iter().map(|&four| u32::from_le_bytes(four)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pixels_begin_at_words_and_come_back() {
        let codes: Vec<u8> = (1..=10).collect();
        assert_eq!(packed(&codes, 5), [0x0403_0201, 5, 0x0908_0706, 10]);
        for channels in [1, 2, 5, 10] {
            assert_eq!(unpacked(&packed(&codes, channels), channels), codes);
        }
        // What is beyond the last channel is not read.
        assert_eq!(unpacked(&[0xFFFF_0201, 0xFFFF_0403], 2), [1, 2, 3, 4]);
    }
}
