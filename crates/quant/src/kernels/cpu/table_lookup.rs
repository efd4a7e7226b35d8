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
    if !x.is_empty() {
        look_up_runs(isa, table, x, x.len(), y, x.len());
    }
}

/// Looks up runs of `run` codes, which follow each other in `x` and begin `pitch` codes apart in
/// `y`; other codes of `y` do not change.
///
/// # Panics
/// If `run` is 0 or above `pitch`, `x` is not whole runs, or `y` has no room for all of them.
pub(crate) fn look_up_runs(
    isa: Isa,
    table: &[u8; 256],
    x: &[u8],
    run: usize,
    y: &mut [u8],
    pitch: usize,
) {
    assert!((1..=pitch).contains(&run), "runs of codes that do not overlap");
    assert_eq!(x.len() % run, 0, "whole runs");
    let Some(gaps) = (x.len() / run).checked_sub(1) else { return };
    assert!(gaps * pitch + run <= y.len(), "room for every run");
    #[cfg(target_arch = "x86_64")]
    if run >= 8
        && isa.base() == Isa::Avx512
        && std::arch::is_x86_feature_detected!("avx512f")
        && std::arch::is_x86_feature_detected!("avx512bw")
        && std::arch::is_x86_feature_detected!("avx512vbmi")
    {
        // SAFETY: the condition above detected every feature of the function.
        unsafe { by_permutation(table, x, run, y, pitch) };
        return;
    }
    let _ = isa;
    for (x, y) in x.chunks_exact(run).zip(y.chunks_mut(pitch)) {
        y.iter_mut().zip(x).for_each(|(y, &x)| *y = table[usize::from(x)]);
    }
}

/// Two registers are half of a table: the lower seven bits of a code choose in each half, and the
/// highest one between the halves.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
fn by_permutation(table: &[u8; 256], x: &[u8], run: usize, y: &mut [u8], pitch: usize) {
    use std::arch::x86_64::{
        __m512i, _mm512_loadu_epi8, _mm512_mask_blend_epi8, _mm512_mask_storeu_epi8,
        _mm512_maskz_loadu_epi8, _mm512_movepi8_mask, _mm512_permutex2var_epi8, _mm512_storeu_epi8,
    };

    let quarter = |index: usize| {
        let from = table.as_ptr().wrapping_add(64 * index).cast();
        // SAFETY: a quarter of the table.
        unsafe { _mm512_loadu_epi8(from) }
    };
    let quarters = [quarter(0), quarter(1), quarter(2), quarter(3)];
    let found = |codes: __m512i| {
        let low = _mm512_permutex2var_epi8(quarters[0], codes, quarters[1]);
        let high = _mm512_permutex2var_epi8(quarters[2], codes, quarters[3]);
        _mm512_mask_blend_epi8(_mm512_movepi8_mask(codes), low, high)
    };
    for (x, y) in x.chunks_exact(run).zip(y.chunks_mut(pitch)) {
        let (x, rest) = x.as_chunks::<64>();
        let (y, rest_of_y) = y[..run].as_chunks_mut::<64>();
        for (x, y) in x.iter().zip(y) {
            // SAFETY: 64 codes.
            let codes = unsafe { _mm512_loadu_epi8(x.as_ptr().cast()) };
            // SAFETY: room for 64 codes.
            unsafe { _mm512_storeu_epi8(y.as_mut_ptr().cast(), found(codes)) };
        }
        if !rest.is_empty() {
            let mask = u64::MAX >> (64 - rest.len());
            // SAFETY: the mask keeps to the codes of the rest.
            let codes = unsafe { _mm512_maskz_loadu_epi8(mask, rest.as_ptr().cast()) };
            // SAFETY: the rest of both has as many codes.
            unsafe { _mm512_mask_storeu_epi8(rest_of_y.as_mut_ptr().cast(), mask, found(codes)) };
        }
    }
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

    #[test]
    fn runs_are_written_apart_and_nothing_between_them() {
        let table: [u8; 256] = std::array::from_fn(|code| (code * 167 + 13) as u8);
        let x: Vec<u8> = (0..700).map(|at| (at * 89 % 256) as u8).collect();
        for isa in Isa::ALL.into_iter().filter(|isa| isa.is_available()) {
            let runs = [1, 7, 8, 20, 63, 64, 65, 70, 128, 140];
            for (run, gap) in runs.into_iter().flat_map(|run| [(run, 0), (run, 3)]) {
                let pitch = run + gap;
                let runs = x.len() / run;
                let mut y = vec![0xAA; runs * pitch + 5];
                let mut right = y.clone();
                for (at, &code) in x[..runs * run].iter().enumerate() {
                    right[at / run * pitch + at % run] = table[usize::from(code)];
                }
                look_up_runs(isa, &table, &x[..runs * run], run, &mut y, pitch);
                assert_eq!(y, right, "{isa}, runs of {run} at {pitch}");
                look_up_runs(isa, &table, &[], run, &mut y, pitch);
                assert_eq!(y, right, "{isa}, no run");
            }
        }
    }
}
