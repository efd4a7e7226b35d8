//! Tiles of bytes multiplied by AMX.
//!
//! # Source
//! Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2, `TDPBUSD`.
#![expect(unsafe_code, reason = "instructions without intrinsics in stable Rust")]

use std::arch::asm;

use crate::amx::{Numbers, Registers, TILE_ROW_BYTES, TILE_ROWS, is_available};

/// Proof that the CPU has AMX for bytes and that the system lets this process use it.
#[derive(Debug, Clone, Copy)]
pub struct ByteTiles(());

/// A thread whose tile registers are set up: two tiles of unsigned bytes with a number of rows each,
/// two of signed bytes, and four of their sums.
#[derive(Debug)]
pub struct TileRegisters {
    registers: Registers,
}

/// Sums of two tiles of rows and two vectors of columns; the rows of the second tile begin at
/// [`ByteTiles::MOST_ROWS`].
#[derive(Debug, Clone, Copy)]
#[repr(C, align(64))]
pub struct TileSums(pub [[i32; 2 * TILE_ROWS]; 2 * TILE_ROWS]);

impl Default for TileSums {
    fn default() -> Self {
        Self([[0; 2 * TILE_ROWS]; 2 * TILE_ROWS])
    }
}

/// The rows of unsigned bytes of a product, in two tiles.
#[derive(Debug, Clone, Copy)]
pub struct TileRows {
    /// Where the first row of each tile starts.
    pub first: [*const u8; 2],
    /// Bytes from one row to the next.
    pub pitch: usize,
}

impl ByteTiles {
    /// The most rows of a tile.
    pub const MOST_ROWS: usize = TILE_ROWS;

    /// Groups of four bytes in a tile's row.
    pub const QUADS: usize = TILE_ROW_BYTES / 4;

    /// Returns the proof if this CPU has the instructions.
    #[must_use]
    pub fn detect() -> Option<Self> {
        is_available(Numbers::Bytes).then_some(Self(()))
    }

    /// Sets the tile registers of this thread up.
    ///
    /// # Panics
    /// If there is no row, or more than [`MOST_ROWS`](Self::MOST_ROWS).
    #[must_use]
    pub fn configure(self, rows: usize) -> TileRegisters {
        let registers = [rows, rows, rows, rows, rows, rows, TILE_ROWS, TILE_ROWS];
        // SAFETY: a value of the type proves that the unit is available.
        TileRegisters { registers: unsafe { Registers::new(registers) } }
    }
}

impl TileRegisters {
    /// Computes the sums of products of rows and 32 columns, `Σ left[row]·right[column]`, wrapping.
    /// [`store`](Self::store) writes them; until then, other work may be done.
    ///
    /// In step `s`, each row has 64 bytes that lie `steps[s]` bytes after its start. `right` has the
    /// weights of all steps: for each group of four bytes, four of each column.
    ///
    /// # Safety
    /// The bytes of all steps and rows are initialised, and `right` has 2048 bytes a step.
    #[inline]
    pub unsafe fn multiply(&mut self, left: TileRows, steps: &[u32], right: *const i8) {
        // SAFETY: the registers of this thread, which the value does not leave, are set up; the caller
        // promises the factors, and the rows of sums lie one after the other.
        unsafe {
            asm!(
                "tilezero tmm0",
                "tilezero tmm1",
                "tilezero tmm2",
                "tilezero tmm3",
                "cmp {step}, {end}",
                "je 3f",
                "2:",
                "mov {at:e}, dword ptr [{step}]",
                "add {step}, 4",
                "tileloadd tmm6, [{right} + {pitch} * 1]",
                "lea {tile}, [{first} + {at}]",
                "tileloadd tmm4, [{tile} + {left_pitch} * 1]",
                "tdpbusd tmm0, tmm4, tmm6",
                "tileloadd tmm7, [{right} + {pitch} * 1 + 64]",
                "tdpbusd tmm1, tmm4, tmm7",
                "lea {tile}, [{second} + {at}]",
                "tileloadd tmm5, [{tile} + {left_pitch} * 1]",
                "tdpbusd tmm2, tmm5, tmm6",
                "tdpbusd tmm3, tmm5, tmm7",
                "add {right}, 2048",
                "cmp {step}, {end}",
                "jne 2b",
                "3:",
                step = inout(reg) steps.as_ptr() => _,
                end = in(reg) steps.as_ptr_range().end,
                first = in(reg) left.first[0],
                second = in(reg) left.first[1],
                left_pitch = in(reg) left.pitch,
                right = inout(reg) right => _,
                pitch = in(reg) 128_usize,
                at = out(reg) _,
                tile = out(reg) _,
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
    }

    /// [`multiply`](Self::multiply) of 16 columns.
    ///
    /// # Safety
    /// The bytes of all steps and rows are initialised, and `right` has 1024 bytes a step.
    #[inline]
    pub unsafe fn multiply_half(&mut self, left: TileRows, steps: &[u32], right: *const i8) {
        // SAFETY: as in `multiply`.
        unsafe {
            asm!(
                "tilezero tmm0",
                "tilezero tmm1",
                "tilezero tmm2",
                "tilezero tmm3",
                "cmp {step}, {end}",
                "je 3f",
                "2:",
                "mov {at:e}, dword ptr [{step}]",
                "add {step}, 4",
                "tileloadd tmm6, [{right} + {pitch} * 1]",
                "lea {tile}, [{first} + {at}]",
                "tileloadd tmm4, [{tile} + {left_pitch} * 1]",
                "tdpbusd tmm0, tmm4, tmm6",
                "lea {tile}, [{second} + {at}]",
                "tileloadd tmm5, [{tile} + {left_pitch} * 1]",
                "tdpbusd tmm2, tmm5, tmm6",
                "add {right}, 1024",
                "cmp {step}, {end}",
                "jne 2b",
                "3:",
                step = inout(reg) steps.as_ptr() => _,
                end = in(reg) steps.as_ptr_range().end,
                first = in(reg) left.first[0],
                second = in(reg) left.first[1],
                left_pitch = in(reg) left.pitch,
                right = inout(reg) right => _,
                pitch = in(reg) 64_usize,
                at = out(reg) _,
                tile = out(reg) _,
                out("tmm0") _,
                out("tmm1") _,
                out("tmm2") _,
                out("tmm3") _,
                out("tmm4") _,
                out("tmm5") _,
                out("tmm6") _,
                options(nostack),
            );
        }
    }

    /// Writes the sums of the last product; columns that it did not have are zero.
    #[inline]
    pub fn store(&mut self, sums: &mut TileSums) {
        let _ = &mut self.registers;
        // SAFETY: the registers of this thread, which the value does not leave, are set up, and nothing
        // but its methods changes them; the rows of sums lie one after the other.
        unsafe {
            asm!(
                "tilestored [{sums} + {pitch} * 1], tmm0",
                "tilestored [{sums} + {pitch} * 1 + 64], tmm1",
                "tilestored [{second} + {pitch} * 1], tmm2",
                "tilestored [{second} + {pitch} * 1 + 64], tmm3",
                sums = in(reg) sums.0.as_mut_ptr(),
                second = in(reg) sums.0[TILE_ROWS..].as_mut_ptr(),
                pitch = in(reg) 128_usize,
                options(nostack, preserves_flags),
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A sequence of bytes that repeats late.
    fn bytes(seed: usize, count: usize) -> Vec<u8> {
        (0..count).map(|n| ((n + seed).wrapping_mul(2_654_435_761) >> 11) as u8).collect()
    }

    #[test]
    fn sums_are_those_of_integers() {
        let Some(tiles) = ByteTiles::detect() else { return };
        for rows in [1, 3, 8, 15, 16] {
            for steps in [vec![], vec![0], vec![64, 0, 7], vec![128, 64, 192, 0, 33]] {
                let pitch = 300;
                let left = bytes(1, 2 * rows * pitch);
                let first = [left.as_ptr(), left[rows * pitch..].as_ptr()];
                for vectors in [1, 2] {
                    let right: Vec<i8> =
                        bytes(5, 1024 * vectors * steps.len()).iter().map(|&b| b as i8).collect();
                    let mut sums = TileSums([[7; 32]; 32]);
                    let mut registers = tiles.configure(rows);
                    let left_rows = TileRows { first, pitch };
                    let right_ptr = right.as_ptr();
                    match vectors {
                        // SAFETY: the rows have 300 bytes, and there are weights for all steps.
                        1 => unsafe {
                            registers.multiply_half(left_rows, &steps, right_ptr);
                        },
                        // SAFETY: the rows have 300 bytes, and there are weights for all steps.
                        _ => unsafe {
                            registers.multiply(left_rows, &steps, right_ptr);
                        },
                    }
                    registers.store(&mut sums);
                    for (tile, row) in (0..2).flat_map(|tile| (0..rows).map(move |r| (tile, r))) {
                        for column in 0..16 * vectors {
                            let products = steps.iter().enumerate().flat_map(|(step, &at)| {
                                let row = &left[(tile * rows + row) * pitch + at as usize..];
                                let right = &right[1024 * vectors * step..];
                                (0..64).map(move |n| {
                                    let weight = right[(n / 4 * 16 * vectors + column) * 4 + n % 4];
                                    i32::from(row[n]) * i32::from(weight)
                                })
                            });
                            let found = sums.0[tile * TILE_ROWS + row][column];
                            assert_eq!(found, products.sum::<i32>(), "{rows} rows, {steps:?}");
                        }
                    }
                }
            }
        }
    }
}
