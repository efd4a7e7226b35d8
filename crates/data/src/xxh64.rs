//! XXH64, a fast hash of bytes that is not cryptographic.

const PRIMES: [u64; 5] = [
    0x9E37_79B1_85EB_CA87,
    0xC2B2_AE3D_27D4_EB4F,
    0x1656_67B1_9E37_79F9,
    0x85EB_CA77_C2B2_AE63,
    0x27D4_EB2F_1656_67C5,
];

/// The hash of bytes with the seed 0.
///
/// # Source
/// The xxHash specification 0.1.1, "XXH64 Algorithm Description".
pub(crate) fn xxh64(bytes: &[u8]) -> u64 {
    let [first, second, _, _, fifth] = PRIMES;
    let (stripes, rest) = bytes.as_chunks::<32>();
    let mut hash = if stripes.is_empty() {
        fifth
    } else {
        let mut lanes = [first.wrapping_add(second), second, 0, 0_u64.wrapping_sub(first)];
        for stripe in stripes {
            for (lane, word) in lanes.iter_mut().zip(stripe.as_chunks::<8>().0) {
                *lane = mixed(*lane, u64::from_le_bytes(*word));
            }
        }
        let turns = lanes.iter().zip([1, 7, 12, 18]).map(|(lane, turn)| lane.rotate_left(turn));
        let sum = turns.fold(0, u64::wrapping_add);
        lanes.iter().fold(sum, |hash, lane| merged(hash, *lane))
    };
    hash = hash.wrapping_add(bytes.len() as u64);
    finished(tail(hash, rest))
}

/// A lane after another word.
const fn mixed(lane: u64, word: u64) -> u64 {
    let [first, second, ..] = PRIMES;
    lane.wrapping_add(word.wrapping_mul(second)).rotate_left(31).wrapping_mul(first)
}

/// The hash with a lane.
const fn merged(hash: u64, lane: u64) -> u64 {
    let [first, _, _, fourth, _] = PRIMES;
    (hash ^ mixed(0, lane)).wrapping_mul(first).wrapping_add(fourth)
}

/// The hash with the fewer than 32 bytes after the stripes.
fn tail(mut hash: u64, rest: &[u8]) -> u64 {
    let [first, second, third, fourth, fifth] = PRIMES;
    let (words, rest) = rest.as_chunks::<8>();
    for word in words {
        hash ^= mixed(0, u64::from_le_bytes(*word));
        hash = hash.rotate_left(27).wrapping_mul(first).wrapping_add(fourth);
    }
    let (halves, rest) = rest.as_chunks::<4>();
    for half in halves {
        hash ^= u64::from(u32::from_le_bytes(*half)).wrapping_mul(first);
        hash = hash.rotate_left(23).wrapping_mul(second).wrapping_add(third);
    }
    for byte in rest {
        hash ^= u64::from(*byte).wrapping_mul(fifth);
        hash = hash.rotate_left(11).wrapping_mul(first);
    }
    hash
}

/// Every bit of the result depends on every bit of the hash.
const fn finished(mut hash: u64) -> u64 {
    let [_, second, third, ..] = PRIMES;
    hash = (hash ^ (hash >> 33)).wrapping_mul(second);
    hash = (hash ^ (hash >> 29)).wrapping_mul(third);
    hash ^ (hash >> 32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_those_of_the_published_algorithm() {
        // By the C library xxHash 0.8.1; each text has other lengths of stripes, words and bytes.
        let counted: Vec<u8> = (0..64).collect();
        let spread: Vec<u8> = (0..101_u32).map(|at| (at * 7 % 251) as u8).collect();
        for (bytes, expected) in [
            (&b""[..], 0xEF46_DB37_51D8_E999),
            (b"a", 0xD24E_C4F1_A98C_6E5B),
            (b"abc", 0x44BC_2CF5_AD77_0999),
            (b"a stripe, then words, halves and bytes.", 0x5D8F_5FD8_68DA_2D8C),
            (&counted[..32], 0xCBF5_9C51_16FF_32B4),
            (&counted[..40], 0xF5DA_40F1_B117_41E9),
            (&counted[..44], 0xA733_D156_DB2B_B292),
            (&counted[..63], 0xE26A_A9E2_A95F_8E4F),
            (&counted, 0xF7C6_7301_DB67_13F0),
            (&spread, 0x2E7D_5348_B051_0D93),
        ] {
            assert_eq!(xxh64(bytes), expected, "{} bytes", bytes.len());
        }
    }
}
