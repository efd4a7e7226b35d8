//! Tiles of bf16 multiplied by AMX.
//!
//! # Source
//! Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2, `TDPBF16PS`.
#![expect(unsafe_code, reason = "instructions without intrinsics in stable Rust")]

use std::arch::asm;

use super::{BF16_SQUARE, Square, TILE_LANES, Tile, TilesAt};
use crate::amx::{Numbers, Registers, TILE_ROWS, is_available};

/// Proof that the CPU has AMX for bf16 and that the system lets this process use it.
#[derive(Debug, Clone, Copy)]
pub struct Amx(());

/// A thread whose tile registers are set up.
pub(super) struct Tiles {
    _registers: Registers,
}

impl Amx {
    /// The proof, if there is AMX for bf16 here.
    pub(super) fn detect() -> Option<Self> {
        is_available(Numbers::Bf16).then_some(Self(()))
    }

    /// Sets the tile registers of this thread up.
    pub(super) fn configure(self) -> Tiles {
        // SAFETY: a value of the type proves that the unit is available.
        let registers = unsafe { Registers::new([TILE_ROWS; 8]) };
        Tiles { _registers: registers }
    }
}

impl Tiles {
    /// `c = a·b` of two tiles' rows and two tiles' columns.
    ///
    /// # Panics
    /// If factors have different numbers of tiles.
    #[inline]
    pub(super) fn multiply(&self, c: &mut Square, a: [&[Tile]; 2], b: [&[Tile]; 2]) {
        let steps = a[0].len();
        let lens = [a[1].len(), b[0].len(), b[1].len()];
        assert_eq!(lens, [steps; 3], "tiles of a product");
        let c = c.0.as_mut_ptr().cast::<f32>();
        // SAFETY: the registers of this thread, which the value does not leave, are set up; every factor
        // has as many tiles as there are steps, and the result's rows lie one after the other.
        unsafe {
            asm!(
                "tilezero tmm0",
                "tilezero tmm1",
                "tilezero tmm2",
                "tilezero tmm3",
                "test {steps}, {steps}",
                "jz 3f",
                "2:",
                "tileloadd tmm4, [{a0} + {pitch} * 1]",
                "tileloadd tmm6, [{b0} + {pitch} * 1]",
                "tileloadd tmm7, [{b1} + {pitch} * 1]",
                "tdpbf16ps tmm0, tmm4, tmm6",
                "tdpbf16ps tmm1, tmm4, tmm7",
                "tileloadd tmm5, [{a1} + {pitch} * 1]",
                "tdpbf16ps tmm2, tmm5, tmm6",
                "tdpbf16ps tmm3, tmm5, tmm7",
                "add {a0}, 1024",
                "add {a1}, 1024",
                "add {b0}, 1024",
                "add {b1}, 1024",
                "dec {steps}",
                "jnz 2b",
                "3:",
                "lea {pitch}, [{pitch} * 2]",
                "tilestored [{c} + {pitch} * 1], tmm0",
                "tilestored [{c} + {pitch} * 1 + 64], tmm1",
                "tilestored [{low} + {pitch} * 1], tmm2",
                "tilestored [{low} + {pitch} * 1 + 64], tmm3",
                steps = inout(reg) steps => _,
                pitch = inout(reg) 64_usize => _,
                a0 = inout(reg) a[0].as_ptr() => _,
                a1 = inout(reg) a[1].as_ptr() => _,
                b0 = inout(reg) b[0].as_ptr() => _,
                b1 = inout(reg) b[1].as_ptr() => _,
                c = in(reg) c,
                low = in(reg) c.wrapping_add(TILE_LANES * BF16_SQUARE),
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
}

impl Tiles {
    /// The same of tiles anywhere in buffers.
    ///
    /// # Panics
    /// If factors have different numbers of steps, or a tile is not in its buffer.
    #[inline]
    pub(super) fn multiply_at(&self, c: &mut Square, a: TilesAt<'_>, b: TilesAt<'_>) {
        let steps = [a, b].map(|tiles| tiles.steps.offsets());
        assert_eq!(steps[0].len(), steps[1].len(), "steps of a product");
        a.check();
        b.check();
        let start = |tiles: TilesAt<'_>, which: usize| {
            tiles.pairs.as_ptr().cast::<u16>().wrapping_add(tiles.first[which])
        };
        let c = c.0.as_mut_ptr().cast::<f32>();
        // SAFETY: the registers of this thread, which the value does not leave, are set up; the tiles of
        // every step lie in their buffers, and the result's rows lie one after the other.
        unsafe {
            asm!(
                "tilezero tmm0",
                "tilezero tmm1",
                "tilezero tmm2",
                "tilezero tmm3",
                "test {steps}, {steps}",
                "jz 3f",
                "2:",
                "mov {at:e}, dword ptr [{of_b}]",
                "lea {tile}, [{b0} + {at} * 2]",
                "tileloadd tmm6, [{tile} + {b_pitch} * 1]",
                "lea {tile}, [{b1} + {at} * 2]",
                "tileloadd tmm7, [{tile} + {b_pitch} * 1]",
                "mov {at:e}, dword ptr [{of_a}]",
                "lea {tile}, [{a0} + {at} * 2]",
                "tileloadd tmm4, [{tile} + {a_pitch} * 1]",
                "tdpbf16ps tmm0, tmm4, tmm6",
                "tdpbf16ps tmm1, tmm4, tmm7",
                "lea {tile}, [{a1} + {at} * 2]",
                "tileloadd tmm5, [{tile} + {a_pitch} * 1]",
                "tdpbf16ps tmm2, tmm5, tmm6",
                "tdpbf16ps tmm3, tmm5, tmm7",
                "add {of_a}, 4",
                "add {of_b}, 4",
                "dec {steps}",
                "jnz 2b",
                "3:",
                "mov {at:e}, 128",
                "lea {tile}, [{c} + 2048]",
                "tilestored [{c} + {at} * 1], tmm0",
                "tilestored [{c} + {at} * 1 + 64], tmm1",
                "tilestored [{tile} + {at} * 1], tmm2",
                "tilestored [{tile} + {at} * 1 + 64], tmm3",
                steps = inout(reg) steps[0].len() => _,
                of_a = inout(reg) steps[0].as_ptr() => _,
                of_b = inout(reg) steps[1].as_ptr() => _,
                a_pitch = in(reg) 2 * a.pitch,
                b_pitch = in(reg) 2 * b.pitch,
                a0 = in(reg) start(a, 0),
                a1 = in(reg) start(a, 1),
                b0 = in(reg) start(b, 0),
                b1 = in(reg) start(b, 1),
                c = in(reg) c,
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
}
