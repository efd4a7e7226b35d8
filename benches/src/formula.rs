//! Generated numbers: the same inputs in every process and language, without files.

/// Entry `index` of the tensor with this salt: uniform in `[-1, 1)`, exact in f32.
///
/// The mixer is the 32-bit finalizer of `MurmurHash3` (Appleby, public domain).
pub(crate) fn entry(salt: u32, index: u32) -> f32 {
    let mut mixed = index.wrapping_mul(0x9E37_79B1) ^ salt;
    mixed ^= mixed >> 16;
    mixed = mixed.wrapping_mul(0x85EB_CA6B);
    mixed ^= mixed >> 13;
    mixed = mixed.wrapping_mul(0xC2B2_AE35);
    mixed ^= mixed >> 16;
    (mixed >> 8) as f32 / 8_388_608.0 - 1.0
}

/// The salt of a name: FNV-1a.
pub(crate) fn salt(name: &str) -> u32 {
    name.bytes().fold(0x811C_9DC5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

/// A tensor of `count` entries by its name, uniform in `[-scale, scale)`.
pub(crate) fn tensor(name: &str, count: usize, scale: f32) -> Vec<f32> {
    let salt = salt(name);
    (0..count as u32).map(|index| entry(salt, index) * scale).collect()
}

/// The scale of a layer's weights: entries keep the variance of what passes through.
pub(crate) fn weight_scale(fan_in: usize) -> f32 {
    (3.0 / fan_in as f32).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_fill_the_interval_evenly() {
        let values = tensor("x", 10_000, 1.0);
        assert!(values.iter().all(|value| (-1.0..1.0).contains(value)));
        let mean = values.iter().sum::<f32>() / 10_000.0;
        let variance = values.iter().map(|value| value * value).sum::<f32>() / 10_000.0;
        assert!(mean.abs() < 0.02, "{mean}");
        assert!((variance - 1.0 / 3.0).abs() < 0.02, "{variance}");
    }

    #[test]
    fn entries_are_pinned_for_peers_in_other_languages() {
        // Computed in Python; benches/peers/formula.py checks itself against the same numbers.
        let salt = salt("weight");
        assert_eq!(salt, 0x50A0_9EB9);
        let entries = [0, 1, 65_535].map(|index| entry(salt, index));
        assert_eq!(entries, [0.744_478_1, 0.718_109_6, 0.085_273_15]);
    }
}
