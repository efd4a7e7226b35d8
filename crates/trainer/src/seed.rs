//! The seeds of random numbers on the device, by step and rank.

/// The device seed of one step: distinct for neighboring seeds and steps.
///
/// The mixer is the finalizer of `SplitMix64` (Steele, Lea and Flood 2014).
pub(crate) fn step_seed(seed: u64, step: u64) -> u64 {
    let mut mixed = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15).wrapping_add(step);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

/// Another seed for each rank; that of the first is the step's own.
pub(crate) fn rank_seed(seed: u64, rank: usize) -> u64 {
    seed.wrapping_add((rank as u64).wrapping_mul(0xD134_2543_DE82_EF95))
}
