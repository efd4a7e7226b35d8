//! Results in new or reused memory, which no pass clears first.
#![expect(unsafe_code, reason = "memory that is not initialised yet")]

use std::mem::MaybeUninit;

use crate::Cut;

/// Numbers from which on new memory is not cleared: 64 KiB. Less stays in a cache.
const LEAST: usize = 1 << 14;

/// A vector of `len` numbers with unspecified contents, all of which have to be written: `memory` if it
/// has this length, else new memory.
///
/// Zeros in a large vector would cost a pass over the memory, on one thread.
#[must_use]
pub fn unspecified(memory: Vec<f32>, len: usize) -> Vec<f32> {
    let mut vector = memory;
    if vector.len() == len {
        return vector;
    }
    if len < LEAST {
        return vec![0.0; len];
    }
    vector.clear();
    vector.reserve_exact(len);
    make_numbers(&mut vector.spare_capacity_mut()[..len]);
    // SAFETY: there is room for them, and all of them are numbers now.
    unsafe { vector.set_len(len) };
    vector
}

/// Makes memory into unspecified numbers.
fn make_numbers(memory: &mut [MaybeUninit<f32>]) {
    #[cfg(all(any(target_arch = "x86_64", target_arch = "aarch64"), not(miri)))]
    // SAFETY: the block changes nothing. For the compiler it is one that reads and writes every number,
    // so that the memory is initialised afterwards; every pattern of bits is an `f32`.
    unsafe {
        std::arch::asm!("/* {0} */", in(reg) memory.as_mut_ptr(), options(nostack, preserves_flags));
    };
    #[cfg(not(all(any(target_arch = "x86_64", target_arch = "aarch64"), not(miri))))]
    for number in memory {
        number.write(0.0);
    }
}

/// An [`unspecified`] vector in pieces of `piece` numbers, which `fill` has to write.
pub fn fill_in_pieces(
    memory: Vec<f32>,
    len: usize,
    piece: usize,
    fill: impl FnOnce(Cut<'_, f32>),
) -> Vec<f32> {
    let mut vector = unspecified(memory, len);
    fill(Cut::new(&mut vector, piece));
    vector
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::over;

    #[test]
    fn every_piece_becomes_what_is_written_in_new_memory_and_in_old() {
        for len in [10, LEAST + 10] {
            for memory in [Vec::new(), vec![7.0; len], vec![7.0; len - 1]] {
                let vector = fill_in_pieces(memory, len, 4, |pieces| {
                    over(pieces, &mut [(), ()], |index, piece, ()| piece.fill(index as f32));
                });
                assert!(vector.iter().enumerate().all(|(i, &number)| number == (i / 4) as f32));
                assert_eq!(vector.len(), len);
            }
        }
    }

    #[test]
    fn memory_of_another_length_is_not_taken() {
        let memory = vec![7.0; LEAST];
        let start = memory.as_ptr();
        let memory = unspecified(memory, LEAST);
        assert_eq!((memory.as_ptr(), &memory[..]), (start, &[7.0; LEAST][..]));
        assert_eq!(unspecified(memory, 3), [0.0; 3]);
        assert_eq!(unspecified(vec![7.0; 3], LEAST + 1).len(), LEAST + 1);
    }
}
