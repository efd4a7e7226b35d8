//! The tile unit of x86-64, AMX: whether it is there, and its setup for a thread.
//!
//! # Source
//! Intel 64 and IA-32 Architectures Software Developer's Manual, volume 1, chapter 18; the system call
//! is Linux's `arch_prctl` with `ARCH_REQ_XCOMP_PERM`.
#![expect(unsafe_code, reason = "instructions without intrinsics in stable Rust")]

use std::arch::asm;
use std::arch::x86_64::{__cpuid, __cpuid_count};
use std::marker::PhantomData;
use std::sync::OnceLock;

/// Rows of a tile.
pub(crate) const TILE_ROWS: usize = 16;

/// Bytes of a tile's row.
pub(crate) const TILE_ROW_BYTES: usize = 64;

/// The numbers of a tile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Numbers {
    /// AMX-BF16.
    Bf16,
    /// AMX-INT8.
    Bytes,
}

/// A thread whose eight tile registers are set up.
#[derive(Debug)]
pub(crate) struct Registers(PhantomData<*const ()>);

/// The layout of tile registers.
#[repr(C, align(64))]
struct Layout {
    palette: u8,
    start_row: u8,
    reserved: [u8; 14],
    row_bytes: [u16; 16],
    rows: [u8; 16],
}

/// Whether the CPU multiplies tiles of these numbers and the system lets this process use them.
pub(crate) fn is_available(numbers: Numbers) -> bool {
    static AVAILABLE: OnceLock<[bool; 2]> = OnceLock::new();
    let available = AVAILABLE.get_or_init(|| {
        let features = instructions();
        let is_permitted = features != [false; 2] && is_permitted();
        features.map(|is_there| is_there && is_permitted)
    });
    available[numbers as usize]
}

/// Whether the CPU has tiles and products of each kind of [`Numbers`].
fn instructions() -> [bool; 2] {
    if __cpuid(0).eax < 7 {
        return [false; 2];
    }
    let features = __cpuid_count(7, 0).edx;
    let has = |bit: u32| features >> bit & 1 == 1;
    [22, 25].map(|products| has(24) && has(products))
}

/// Asks the system to save tile registers for this process.
fn is_permitted() -> bool {
    #[cfg(target_os = "linux")]
    {
        const ARCH_PRCTL: i64 = 158;
        const ARCH_REQ_XCOMP_PERM: i64 = 0x1023;
        const TILE_DATA: i64 = 18;
        let result: i64;
        // SAFETY: the call only changes what the system saves of this process.
        unsafe {
            asm!(
                "syscall",
                inlateout("rax") ARCH_PRCTL => result,
                in("rdi") ARCH_REQ_XCOMP_PERM,
                in("rsi") TILE_DATA,
                out("rcx") _,
                out("r11") _,
                options(nostack),
            );
        }
        result == 0
    }
    #[cfg(not(target_os = "linux"))]
    false
}

impl Registers {
    /// Sets up eight registers of these numbers of rows, each row of [`TILE_ROW_BYTES`].
    ///
    /// # Safety
    /// [`is_available`] returned `true` for some numbers.
    ///
    /// # Panics
    /// If a register has no row, or more than [`TILE_ROWS`].
    pub(crate) unsafe fn new(rows: [usize; 8]) -> Self {
        let mut layout = Layout {
            palette: 1,
            start_row: 0,
            reserved: [0; 14],
            row_bytes: [0; 16],
            rows: [0; 16],
        };
        layout.row_bytes[..8].fill(TILE_ROW_BYTES as u16);
        for (to, rows) in layout.rows.iter_mut().zip(rows) {
            assert!((1..=TILE_ROWS).contains(&rows), "rows of a tile");
            *to = rows as u8;
        }
        // SAFETY: the caller promises the instruction; the layout is valid.
        unsafe {
            asm!("ldtilecfg [{}]", in(reg) &raw const layout, options(nostack, preserves_flags));
        }
        Self(PhantomData)
    }
}

impl Drop for Registers {
    fn drop(&mut self) {
        // SAFETY: the registers are set up, and nothing uses them after this.
        unsafe { asm!("tilerelease", options(nomem, nostack, preserves_flags)) };
    }
}
