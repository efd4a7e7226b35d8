//! Tables of 256 codes, looked up 64 at a time where the processor has an instruction for that.
#![cfg_attr(
    target_arch = "x86_64",
    expect(unsafe_code, reason = "intrinsics, and vectors that are read and written by pointers")
)]

use updraft_simd::Isa;

/// Replaces every code by its entry of a table.
///
/// # Panics
/// If the slices differ in length.
pub(crate) fn look_up(isa: Isa, table: &[u8; 256], x: &[u8], y: &mut [u8]) {
    assert_eq!(x.len(), y.len(), "a code for each");
    #[cfg(target_arch = "x86_64")]
    if x.len() >= 64
        && isa.base() == Isa::Avx512
        && std::arch::is_x86_feature_detected!("avx512f")
        && std::arch::is_x86_feature_detected!("avx512bw")
        && std::arch::is_x86_feature_detected!("avx512vbmi")
    {
        // SAFETY: the condition above detected every feature of the function.
        unsafe { by_permutation(table, x, y) };
        return;
    }
    let _ = isa;
    y.iter_mut().zip(x).for_each(|(y, &x)| *y = table[usize::from(x)]);
}

/// Two registers are half of a table: the lower seven bits of a code choose in each half, and the
/// highest one between the halves.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
fn by_permutation(table: &[u8; 256], x: &[u8], y: &mut [u8]) {
    use std::arch::x86_64::{
        _mm512_loadu_epi8, _mm512_mask_blend_epi8, _mm512_movepi8_mask, _mm512_permutex2var_epi8,
        _mm512_storeu_epi8,
    };

    let quarter = |index: usize| {
        let from = table.as_ptr().wrapping_add(64 * index).cast();
        // SAFETY: a quarter of the table.
        unsafe { _mm512_loadu_epi8(from) }
    };
    let quarters = [quarter(0), quarter(1), quarter(2), quarter(3)];
    let (x, rest) = x.as_chunks::<64>();
    let (y, rest_of_y) = y.as_chunks_mut::<64>();
    for (x, y) in x.iter().zip(y) {
        // SAFETY: 64 codes.
        let codes = unsafe { _mm512_loadu_epi8(x.as_ptr().cast()) };
        let low = _mm512_permutex2var_epi8(quarters[0], codes, quarters[1]);
        let high = _mm512_permutex2var_epi8(quarters[2], codes, quarters[3]);
        let found = _mm512_mask_blend_epi8(_mm512_movepi8_mask(codes), low, high);
        // SAFETY: room for 64 codes.
        unsafe { _mm512_storeu_epi8(y.as_mut_ptr().cast(), found) };
    }
    rest_of_y.iter_mut().zip(rest).for_each(|(y, &x)| *y = table[usize::from(x)]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_set_finds_the_entries_of_any_number_of_codes() {
        let table: [u8; 256] = std::array::from_fn(|code| (code * 167 + 13) as u8);
        let x: Vec<u8> = (0..700).map(|at| (at * 89 % 256) as u8).collect();
        let right: Vec<u8> = x.iter().map(|&x| table[usize::from(x)]).collect();
        for isa in Isa::ALL.into_iter().filter(|isa| isa.is_available()) {
            for len in [0, 1, 63, 64, 65, 127, 256, 700] {
                let mut y = vec![0xAA; len];
                look_up(isa, &table, &x[..len], &mut y);
                assert_eq!(y, right[..len], "{isa}, {len} codes");
            }
        }
    }
}
