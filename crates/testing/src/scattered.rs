//! Numbers for a test that look random and are the same every time.

/// `count` numbers of −1 to 1 without a pattern, by the 32-bit xorshift of Marsaglia (2003).
#[must_use]
pub fn scattered(seed: u32, count: usize) -> Vec<f32> {
    let mut state = seed.wrapping_mul(2_654_435_761) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        state as f32 / u32::MAX as f32 * 2.0 - 1.0
    };
    (0..count).map(|_| next()).collect()
}

/// The same from −`largest` to `largest`.
#[must_use]
pub fn scattered_to(largest: f32, seed: u32, count: usize) -> Vec<f32> {
    scattered(seed, count).into_iter().map(|number| number * largest).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_its_numbers_and_they_fill_the_range() {
        let numbers = scattered(7, 10_000);
        assert_eq!(numbers, scattered(7, 10_000));
        assert_ne!(numbers, scattered(8, 10_000));
        let mean = numbers.iter().sum::<f32>() / 1e4;
        assert!(mean.abs() < 0.03, "{mean}");
        assert!(numbers.iter().all(|number| number.abs() <= 1.0));
        assert!(numbers.iter().any(|&n| n > 0.99) && numbers.iter().any(|&n| n < -0.99));
    }
}
