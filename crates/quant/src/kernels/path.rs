//! Which instructions the kernels use.

use std::fmt;

/// A set of vector instructions.
///
/// All paths compute the same integers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Path {
    /// Rust without intrinsics.
    Portable,
    /// Products in 16 bits, which never saturate, summed in 32.
    Avx2,
    /// Four products and their sum in one instruction, for eight lanes.
    AvxVnni,
    /// The same for sixteen.
    Avx512Vnni,
}

impl Path {
    /// Every path, slowest first.
    pub const ALL: [Self; 4] = [Self::Portable, Self::Avx2, Self::AvxVnni, Self::Avx512Vnni];

    /// The fastest path that this CPU has.
    #[must_use]
    pub fn detect() -> Self {
        Self::ALL.into_iter().rev().find(|path| path.is_available()).unwrap_or(Self::Portable)
    }

    /// Whether this CPU can take it.
    ///
    /// Without the feature `std` nothing can be asked, and only the portable path is available.
    #[must_use]
    pub fn is_available(self) -> bool {
        match self {
            Self::Portable => true,
            #[cfg(all(target_arch = "x86_64", feature = "std"))]
            Self::Avx2 => is_x86_feature_detected!("avx2"),
            #[cfg(all(target_arch = "x86_64", feature = "std"))]
            Self::AvxVnni => {
                is_x86_feature_detected!("avx2") && is_x86_feature_detected!("avxvnni")
            }
            #[cfg(all(target_arch = "x86_64", feature = "std"))]
            Self::Avx512Vnni => {
                is_x86_feature_detected!("avx512f")
                    && is_x86_feature_detected!("avx512bw")
                    && is_x86_feature_detected!("avx512vl")
                    && is_x86_feature_detected!("avx512vnni")
            }
            #[cfg(not(all(target_arch = "x86_64", feature = "std")))]
            Self::Avx2 | Self::AvxVnni | Self::Avx512Vnni => false,
        }
    }

    /// Its name in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Portable => "portable",
            Self::Avx2 => "avx2",
            Self::AvxVnni => "avxvnni",
            Self::Avx512Vnni => "avx512vnni",
        }
    }
}

impl fmt::Display for Path {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}
