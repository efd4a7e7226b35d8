//! Features, instructions and threads that are in use on a device.

use std::path::PathBuf;

use burn::tensor::Device;
use serde::Serialize;

/// Facts about a device and this build; none of them is a switch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Applied {
    /// burn's own description of the device.
    pub device: String,
    /// The default dtype of float tensors.
    pub default_float: String,
    /// burn's vectorised loops on flex are compiled in.
    pub simd: bool,
    /// burn's threads on flex are compiled in.
    pub rayon: bool,
    /// flex's AVX-512 matrix products are compiled in; see [`avx512`](Self::avx512).
    pub x86_v4: bool,
    /// Kernels are fused on GPU backends.
    pub fusion: bool,
    /// Kernel variants are chosen by measurement on GPU backends.
    pub autotune: bool,
    /// The file that stores measurements and kernels from run to run; `None` if each run measures
    /// again: without the features `autotune` and `persistence`.
    pub autotune_cache: Option<PathBuf>,
    /// This CPU has AVX2 and FMA.
    pub avx2_fma: bool,
    /// This CPU has AVX-512 F; without it, `x86_v4` changes nothing.
    pub avx512: bool,
    /// The largest number of threads of CPU backends.
    pub threads: usize,
}

/// Returns what is in use.
///
/// Reads the environment variable `RAYON_NUM_THREADS`, which rayon obeys. The path of the cache is
/// final once a GPU device was opened, which reads `cubecl.toml`, `burn.toml` and
/// `CUBECL_ENVIRONMENT`.
#[must_use]
pub fn applied(device: &Device) -> Applied {
    let (avx2_fma, avx512) = vector_extensions();
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = std::env::var("RAYON_NUM_THREADS")
        .ok()
        .and_then(|text| text.parse().ok())
        .filter(|&threads| threads > 0)
        .unwrap_or(cpus);
    Applied {
        device: format!("{device:?}"),
        default_float: format!("{:?}", device.settings().float_dtype),
        simd: cfg!(feature = "simd"),
        rayon: cfg!(feature = "rayon"),
        x86_v4: cfg!(feature = "x86-v4"),
        fusion: cfg!(feature = "fusion"),
        autotune: cfg!(feature = "autotune"),
        autotune_cache: cfg!(all(feature = "autotune", feature = "persistence"))
            .then(cubecl_environment::environment::path),
        avx2_fma,
        avx512,
        threads: if cfg!(feature = "rayon") { threads } else { 1 },
    }
}

#[cfg(target_arch = "x86_64")]
fn vector_extensions() -> (bool, bool) {
    let avx2_fma = is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma");
    (avx2_fma, is_x86_feature_detected!("avx512f"))
}

#[cfg(not(target_arch = "x86_64"))]
fn vector_extensions() -> (bool, bool) {
    (false, false)
}
