//! Which instructions the loops use.

/// A set of vector instructions; all of them compute the same bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Path {
    /// Those that every processor of the target has.
    Portable,
    /// Eight numbers at once.
    Avx2,
}

impl Path {
    #[cfg(test)]
    pub(crate) const ALL: [Self; 2] = [Self::Portable, Self::Avx2];

    /// The fastest that this processor has.
    pub(crate) fn detect() -> Self {
        if Self::Avx2.is_available() { Self::Avx2 } else { Self::Portable }
    }

    pub(crate) fn is_available(self) -> bool {
        match self {
            Self::Portable => true,
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => is_x86_feature_detected!("avx2"),
            #[cfg(not(target_arch = "x86_64"))]
            Self::Avx2 => false,
        }
    }
}
