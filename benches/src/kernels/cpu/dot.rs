//! Independent products of bytes: the peak int8 rate of one thread.
#![expect(unsafe_code, reason = "calls what the CPU was asked for")]

#[cfg(target_arch = "x86_64")]
use std::arch::asm;
#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::{
    __m256i, _mm256_add_epi32, _mm256_dpbusd_avx_epi32, _mm256_loadu_si256, _mm256_madd_epi16,
    _mm256_maddubs_epi16, _mm256_set1_epi8, _mm256_set1_epi16, _mm256_setzero_si256,
    _mm256_storeu_si256, _mm512_add_epi32, _mm512_dpbusd_epi32, _mm512_reduce_add_epi32,
    _mm512_set1_epi8, _mm512_setzero_si512,
};

#[cfg(target_arch = "x86_64")]
use updraft_simd::{ByteTiles, TileSums};

/// Independent chains: latency 5 on two units needs 10, and 12 fit into the registers.
const CHAINS: u64 = 12;

/// The instructions with which this CPU multiplies unsigned by signed bytes into sums of 32 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dot {
    /// `tdpbusd` on tiles of 16 rows of 64 bytes.
    Amx,
    /// `vpdpbusd` on 64 bytes.
    Avx512Vnni,
    /// `vpdpbusd` on 32 bytes.
    AvxVnni,
    /// `vpmaddubsw`, `vpmaddwd` and `vpaddd` on 32 bytes, whose sums of two must fit 16 bits.
    Avx2,
    /// One product after the other, vectorized by the compiler if possible.
    Scalar,
}

impl Dot {
    /// The instructions of this CPU.
    pub(crate) fn detect() -> Self {
        #[cfg(target_arch = "x86_64")]
        if ByteTiles::detect().is_some() {
            return Self::Amx;
        }
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512vnni") {
            return Self::Avx512Vnni;
        }
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("avxvnni") {
            return Self::AvxVnni;
        }
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx2") {
            return Self::Avx2;
        }
        Self::Scalar
    }

    /// Operations of one round of [`run`]: a product and a sum each.
    pub(crate) const fn operations(self) -> u64 {
        let bytes = match self {
            // Four products of 16 rows and 16 columns.
            Self::Amx => return 2 * 4 * 16 * 16 * 64,
            Self::Avx512Vnni => 64,
            Self::AvxVnni | Self::Avx2 => 32,
            Self::Scalar => 1,
        };
        2 * bytes * CHAINS
    }
}

/// Runs so many rounds of [`Dot::operations`] each; the result depends on all of them.
pub(crate) fn run(dot: Dot, rounds: u64) -> i32 {
    match dot {
        #[cfg(target_arch = "x86_64")]
        Dot::Amx => ByteTiles::detect().map_or(0, |tiles| amx(tiles, rounds)),
        #[cfg(target_arch = "x86_64")]
        Dot::Avx512Vnni
            if is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512vnni") =>
        {
            // SAFETY: both features were just detected.
            unsafe { avx512(rounds) }
        }
        #[cfg(target_arch = "x86_64")]
        Dot::AvxVnni if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("avxvnni") => {
            // SAFETY: both features were just detected.
            unsafe { avx_vnni(rounds) }
        }
        #[cfg(target_arch = "x86_64")]
        Dot::Avx2 if is_x86_feature_detected!("avx2") => {
            // SAFETY: the feature was just detected.
            unsafe { avx2(rounds) }
        }
        _ => scalar(rounds),
    }
}

#[cfg(target_arch = "x86_64")]
fn amx(tiles: ByteTiles, rounds: u64) -> i32 {
    #[repr(align(64))]
    struct Bytes([u8; 1024]);
    let (left, right) = std::hint::black_box((Bytes([3; 1024]), Bytes([-2_i8 as u8; 1024])));
    let mut registers = tiles.configure(ByteTiles::MOST_ROWS);
    // SAFETY: the tile registers of this thread are set up, and a tile has 1024 bytes.
    unsafe {
        asm!(
            "tilezero tmm0",
            "tilezero tmm1",
            "tilezero tmm2",
            "tilezero tmm3",
            "tileloadd tmm4, [{left} + {pitch} * 1]",
            "tileloadd tmm5, [{left} + {pitch} * 1]",
            "tileloadd tmm6, [{right} + {pitch} * 1]",
            "tileloadd tmm7, [{right} + {pitch} * 1]",
            "test {rounds}, {rounds}",
            "jz 3f",
            "2:",
            "tdpbusd tmm0, tmm4, tmm6",
            "tdpbusd tmm1, tmm4, tmm7",
            "tdpbusd tmm2, tmm5, tmm6",
            "tdpbusd tmm3, tmm5, tmm7",
            "dec {rounds}",
            "jnz 2b",
            "3:",
            left = in(reg) left.0.as_ptr(),
            right = in(reg) right.0.as_ptr(),
            pitch = in(reg) 64_usize,
            rounds = inout(reg) rounds => _,
            out("tmm0") _,
            out("tmm1") _,
            out("tmm2") _,
            out("tmm3") _,
            out("tmm4") _,
            out("tmm5") _,
            out("tmm6") _,
            out("tmm7") _,
            options(nostack),
        );
    }
    let mut sums = TileSums::default();
    registers.store(&mut sums);
    sums.0.iter().flatten().fold(0, |a, &b| a.wrapping_add(b))
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512vnni")]
fn avx512(rounds: u64) -> i32 {
    let mut sums = [_mm512_setzero_si512(); CHAINS as usize];
    let (a, b) = std::hint::black_box((_mm512_set1_epi8(3), _mm512_set1_epi8(-2)));
    for _ in 0..rounds {
        for sum in &mut sums {
            *sum = _mm512_dpbusd_epi32(*sum, a, b);
        }
    }
    let total = sums.into_iter().fold(_mm512_setzero_si512(), |a, b| _mm512_add_epi32(a, b));
    _mm512_reduce_add_epi32(total)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,avxvnni")]
fn avx_vnni(rounds: u64) -> i32 {
    let mut sums = [_mm256_setzero_si256(); CHAINS as usize];
    let (a, b) = std::hint::black_box((_mm256_set1_epi8(3), _mm256_set1_epi8(-2)));
    for _ in 0..rounds {
        for sum in &mut sums {
            *sum = _mm256_dpbusd_avx_epi32(*sum, a, b);
        }
    }
    total(sums)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn avx2(rounds: u64) -> i32 {
    let mut sums = [_mm256_setzero_si256(); CHAINS as usize];
    let (a, ones) = (_mm256_set1_epi8(3), _mm256_set1_epi16(1));
    let factors = [[-2_i8; 32]; CHAINS as usize];
    for _ in 0..rounds {
        // Read again in every round, or the compiler would hoist the products out of the loop.
        let factors = std::hint::black_box(&factors);
        for (sum, factors) in sums.iter_mut().zip(factors) {
            // SAFETY: the array is as large as the vector.
            let b = unsafe { _mm256_loadu_si256(factors.as_ptr().cast()) };
            let pairs = _mm256_maddubs_epi16(a, b);
            *sum = _mm256_add_epi32(*sum, _mm256_madd_epi16(pairs, ones));
        }
    }
    total(sums)
}

/// The sum of all lanes.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn total(sums: [__m256i; CHAINS as usize]) -> i32 {
    let total = sums.into_iter().fold(_mm256_setzero_si256(), |a, b| _mm256_add_epi32(a, b));
    let mut lanes = [0_i32; 8];
    // SAFETY: the array is as large as the vector.
    unsafe { _mm256_storeu_si256(lanes.as_mut_ptr().cast(), total) };
    lanes.iter().fold(0, |a, &b| a.wrapping_add(b))
}

fn scalar(rounds: u64) -> i32 {
    let mut sums = [0_i32; CHAINS as usize];
    for _ in 0..rounds {
        let (a, b) = std::hint::black_box((3_u8, -2_i8));
        for sum in &mut sums {
            *sum = sum.wrapping_add(i32::from(a) * i32::from(b));
        }
    }
    sums.iter().fold(0, |a, &b| a.wrapping_add(b))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_sums_the_same_products() {
        for dot in [Dot::detect(), Dot::Scalar] {
            let products = dot.operations() as i32 / 2 * 1000;
            assert_eq!(run(dot, 1000), -6 * products, "{dot:?}");
        }
    }
}
