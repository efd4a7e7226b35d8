//! Instruction sets, and which of them this CPU has.

use std::fmt;
use std::sync::LazyLock;

/// An instruction set: the vector instructions that a kernel may use.
///
/// Kernels in f32 differ by [`base`](Self::base) only; the additions of a set for integers or bf16
/// are used by kernels of these types.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Isa {
    /// Rust without intrinsics.
    Portable,
    /// aarch64: 8 lanes of f32 in two registers, with fused multiply-add.
    Neon,
    /// The same with `sdot`: four products of bytes and their sum in one instruction.
    NeonDot,
    /// x86-64: 8 lanes of f32 with fused multiply-add.
    Avx2,
    /// The same with VNNI: four products of bytes and their sum in one instruction.
    AvxVnni,
    /// x86-64: 16 lanes of f32 with fused multiply-add; AVX-512 F and VL.
    Avx512,
    /// The same with BW and VNNI.
    Avx512Vnni,
    /// The same with products of bf16.
    Avx512Bf16,
    /// The same with AMX: products of tiles of bytes.
    AmxInt8,
}

impl Isa {
    /// Every set, slowest first among those of one architecture.
    pub const ALL: [Self; 9] = [
        Self::Portable,
        Self::Neon,
        Self::NeonDot,
        Self::Avx2,
        Self::AvxVnni,
        Self::Avx512,
        Self::Avx512Vnni,
        Self::Avx512Bf16,
        Self::AmxInt8,
    ];

    /// The sets whose f32 vectors differ: every [`base`](Self::base).
    pub const BASES: [Self; 4] = [Self::Portable, Self::Neon, Self::Avx2, Self::Avx512];

    /// The sets whose products of bytes differ: every [`dot`](Self::dot).
    pub const DOTS: [Self; 7] = [
        Self::Portable,
        Self::Neon,
        Self::NeonDot,
        Self::Avx2,
        Self::AvxVnni,
        Self::Avx512Vnni,
        Self::AmxInt8,
    ];

    /// The fastest set that this CPU has.
    #[must_use]
    pub fn detect() -> Self {
        Features::detect().fastest()
    }

    /// Whether this CPU has it.
    #[must_use]
    pub fn is_available(self) -> bool {
        Features::detect().have(self)
    }

    /// The set with the same f32 vectors and nothing added.
    #[must_use]
    pub const fn base(self) -> Self {
        match self {
            Self::Portable => Self::Portable,
            Self::Neon | Self::NeonDot => Self::Neon,
            Self::Avx2 | Self::AvxVnni => Self::Avx2,
            Self::Avx512 | Self::Avx512Vnni | Self::Avx512Bf16 | Self::AmxInt8 => Self::Avx512,
        }
    }

    /// The set with the same products of bytes: without VNNI, that of the shorter vectors.
    #[must_use]
    pub const fn dot(self) -> Self {
        match self {
            Self::Avx512 => Self::Avx2,
            Self::Avx512Bf16 => Self::Avx512Vnni,
            _ => self,
        }
    }

    /// Numbers of f32 that one vector holds.
    #[must_use]
    pub const fn lanes(self) -> usize {
        match self.base() {
            Self::Avx512 => 16,
            _ => 8,
        }
    }

    /// Its name in reports: what LLVM calls the newest of its features.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Portable => "portable",
            Self::Neon => "neon",
            Self::NeonDot => "dotprod",
            Self::Avx2 => "avx2",
            Self::AvxVnni => "avxvnni",
            Self::Avx512 => "avx512",
            Self::Avx512Vnni => "avx512vnni",
            Self::Avx512Bf16 => "avx512bf16",
            Self::AmxInt8 => "amx-int8",
        }
    }
}

impl fmt::Display for Isa {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

/// The features of a CPU that sets need.
#[derive(Debug, Clone, Copy)]
struct Features {
    #[cfg(target_arch = "aarch64")]
    dotprod: bool,
    #[cfg(target_arch = "x86_64")]
    avx2: bool,
    #[cfg(target_arch = "x86_64")]
    fma: bool,
    #[cfg(target_arch = "x86_64")]
    avxvnni: bool,
    #[cfg(target_arch = "x86_64")]
    avx512f: bool,
    #[cfg(target_arch = "x86_64")]
    avx512vl: bool,
    #[cfg(target_arch = "x86_64")]
    avx512bw: bool,
    #[cfg(target_arch = "x86_64")]
    avx512vnni: bool,
    #[cfg(target_arch = "x86_64")]
    avx512bf16: bool,
    #[cfg(target_arch = "x86_64")]
    amx_int8: bool,
}

impl Features {
    /// Those of this CPU, read once, because kernels ask often.
    fn detect() -> Self {
        static DETECTED: LazyLock<Features> = LazyLock::new(Features::read);
        *DETECTED
    }

    fn read() -> Self {
        Self {
            #[cfg(target_arch = "aarch64")]
            dotprod: std::arch::is_aarch64_feature_detected!("dotprod"),
            #[cfg(target_arch = "x86_64")]
            avx2: is_x86_feature_detected!("avx2"),
            #[cfg(target_arch = "x86_64")]
            fma: is_x86_feature_detected!("fma"),
            #[cfg(target_arch = "x86_64")]
            avxvnni: is_x86_feature_detected!("avxvnni"),
            #[cfg(target_arch = "x86_64")]
            avx512f: is_x86_feature_detected!("avx512f"),
            #[cfg(target_arch = "x86_64")]
            avx512vl: is_x86_feature_detected!("avx512vl"),
            #[cfg(target_arch = "x86_64")]
            avx512bw: is_x86_feature_detected!("avx512bw"),
            #[cfg(target_arch = "x86_64")]
            avx512vnni: is_x86_feature_detected!("avx512vnni"),
            #[cfg(target_arch = "x86_64")]
            avx512bf16: is_x86_feature_detected!("avx512bf16"),
            #[cfg(target_arch = "x86_64")]
            amx_int8: crate::amx::is_available(crate::amx::Numbers::Bytes),
        }
    }

    /// The fastest set of a CPU that has them.
    fn fastest(&self) -> Isa {
        Isa::ALL.into_iter().rev().find(|&isa| self.have(isa)).unwrap_or(Isa::Portable)
    }

    /// Whether a CPU that has them has a set.
    fn have(&self, isa: Isa) -> bool {
        match isa {
            Isa::Portable => true,
            #[cfg(target_arch = "aarch64")]
            // Every aarch64 of Rust's has it.
            Isa::Neon => true,
            #[cfg(target_arch = "aarch64")]
            Isa::NeonDot => self.dotprod,
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => self.avx2 && self.fma,
            #[cfg(target_arch = "x86_64")]
            Isa::AvxVnni => self.have(Isa::Avx2) && self.avxvnni,
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 => self.have(Isa::Avx2) && self.avx512f && self.avx512vl,
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512Vnni => self.have(Isa::Avx512) && self.avx512bw && self.avx512vnni,
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512Bf16 => self.have(Isa::Avx512Vnni) && self.avx512bf16,
            #[cfg(target_arch = "x86_64")]
            Isa::AmxInt8 => self.have(Isa::Avx512Bf16) && self.amx_int8,
            #[allow(unreachable_patterns, reason = "what other architectures have")]
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_detected_set_is_there_with_all_that_it_stands_on() {
        let detected = Isa::detect();
        assert!(detected.is_available() && detected.base().is_available());
        assert!(Isa::Portable.is_available());
        let better = Isa::ALL.into_iter().filter(|&isa| isa > detected);
        assert_eq!(better.filter(|isa| isa.is_available()).count(), 0);
    }

    #[test]
    fn a_base_is_its_own_base() {
        for isa in Isa::ALL {
            assert!(Isa::DOTS.contains(&isa.dot()) && isa.dot() <= isa);
            assert!(Isa::BASES.contains(&isa.base()) && isa.base().base() == isa.base());
            assert_eq!(isa.lanes(), isa.base().lanes());
            assert_eq!(Isa::ALL.iter().filter(|other| other.name() == isa.name()).count(), 1);
        }
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn a_cpu_without_a_feature_has_no_set_that_needs_it() {
        let all = Features {
            avx2: true,
            fma: true,
            avxvnni: true,
            avx512f: true,
            avx512vl: true,
            avx512bw: true,
            avx512vnni: true,
            avx512bf16: true,
            amx_int8: true,
        };
        let short = Features { avx512f: false, ..all };
        for (features, fastest) in [
            (all, Isa::AmxInt8),
            (Features { amx_int8: false, ..all }, Isa::Avx512Bf16),
            (Features { avx512bf16: false, ..all }, Isa::Avx512Vnni),
            (Features { avx512vnni: false, ..all }, Isa::Avx512),
            (Features { avx512bw: false, ..all }, Isa::Avx512),
            (Features { avx512vl: false, ..all }, Isa::AvxVnni),
            (short, Isa::AvxVnni),
            (Features { avxvnni: false, ..short }, Isa::Avx2),
            (Features { fma: false, ..all }, Isa::Portable),
            (Features { avx2: false, ..all }, Isa::Portable),
        ] {
            assert_eq!(features.fastest(), fastest, "{features:?}");
        }
        assert!(!Isa::Neon.is_available(), "a set of another architecture");
    }

    #[test]
    fn vectors_have_the_lanes_and_products_of_their_set() {
        let of = |isa: Isa| (isa.base(), isa.dot(), isa.lanes(), isa.to_string());
        for (isa, base, dot, lanes, name) in [
            (Isa::Portable, Isa::Portable, Isa::Portable, 8, "portable"),
            (Isa::NeonDot, Isa::Neon, Isa::NeonDot, 8, "dotprod"),
            (Isa::AvxVnni, Isa::Avx2, Isa::AvxVnni, 8, "avxvnni"),
            (Isa::Avx512, Isa::Avx512, Isa::Avx2, 16, "avx512"),
            (Isa::Avx512Vnni, Isa::Avx512, Isa::Avx512Vnni, 16, "avx512vnni"),
            (Isa::Avx512Bf16, Isa::Avx512, Isa::Avx512Vnni, 16, "avx512bf16"),
            (Isa::AmxInt8, Isa::Avx512, Isa::AmxInt8, 16, "amx-int8"),
        ] {
            assert_eq!(of(isa), (base, dot, lanes, name.to_owned()), "{isa:?}");
        }
    }
}
