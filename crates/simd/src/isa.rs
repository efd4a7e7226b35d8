//! Which instructions the kernels use.

use std::fmt;

/// A set of vector instructions.
///
/// All paths compute the same sums; they differ in the order of additions and, on the portable
/// one, in the rounding of each product.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Path {
    /// Rust without intrinsics.
    Portable,
    /// 8 lanes with fused multiply-add.
    Avx2,
    /// 16 lanes with fused multiply-add.
    Avx512,
    /// 8 lanes in two registers of aarch64, with fused multiply-add; with the feature
    /// `unstable-neon`.
    Neon,
}

impl Path {
    /// Every path, slowest first.
    pub const ALL: [Self; 4] = [Self::Portable, Self::Avx2, Self::Avx512, Self::Neon];

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
            Self::Avx2 => is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma"),
            #[cfg(all(target_arch = "x86_64", feature = "std"))]
            Self::Avx512 => {
                is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512vl")
            }
            #[cfg(not(all(target_arch = "x86_64", feature = "std")))]
            Self::Avx2 | Self::Avx512 => false,
            // Every aarch64 of Rust's has it.
            Self::Neon => cfg!(all(target_arch = "aarch64", feature = "unstable-neon")),
        }
    }

    /// Its name in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Portable => "portable",
            Self::Avx2 => "avx2",
            Self::Avx512 => "avx512",
            Self::Neon => "neon",
        }
    }
}

impl fmt::Display for Path {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}
