//! The machine's fingerprint, and its measured peak rates.

use std::process::Command;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use sysinfo::{CpuRefreshKind, RefreshKind, System};
use updraft_simd::{Isa, RegisterPeak};

use crate::gpu::Gpu;
use crate::kernels::cpu::dot::{self, Dot};

/// The machine and the build of a measurement.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Machine {
    pub(crate) fingerprint: Fingerprint,
    pub(crate) build: Build,
    pub(crate) peak: Peak,
    /// The card of a run on a GPU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) gpu: Option<Gpu>,
}

/// The hardware: runs are compared only where it is the same.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Fingerprint {
    pub(crate) cpu: String,
    /// Vector extensions, widest last.
    pub(crate) isa: Vec<String>,
    pub(crate) logical_cpus: usize,
    /// Processors that the control group grants, rounded up, or all.
    pub(crate) usable_cpus: usize,
    pub(crate) memory_bytes: Option<u64>,
    pub(crate) os: String,
    /// Threads that each strategy could use.
    pub(crate) threads: usize,
}

/// The software; differences between runs are what is compared.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Build {
    pub(crate) updraft: String,
    pub(crate) burn: String,
    pub(crate) rustc: Option<String>,
    /// Of the sources, with `+` where the working tree differs from it.
    pub(crate) commit: Option<String>,
    pub(crate) features: Vec<String>,
}

/// The most that was measured, with as many threads as strategies may use.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct Peak {
    /// Fused multiply-adds from registers, in 10⁹ operations per second.
    pub(crate) f32_gflops: f64,
    /// Products of bytes with their sums, from registers, in 10⁹ operations per second; 0 in runs
    /// that were saved before it was measured.
    #[serde(default)]
    pub(crate) int8_gops: f64,
    /// A copy far larger than any cache, bytes read plus bytes written, in 10⁹ per second.
    pub(crate) copy_gbytes_per_s: f64,
}

impl Machine {
    /// Detects and measures; takes about a second.
    pub(crate) fn measure(threads: usize) -> Self {
        Self {
            fingerprint: Fingerprint::read(threads),
            build: Build::read(),
            peak: peak(threads),
            gpu: None,
        }
    }
}

impl Fingerprint {
    fn read(threads: usize) -> Self {
        let system =
            System::new_with_specifics(RefreshKind::nothing().with_cpu(CpuRefreshKind::nothing()));
        let cpus = system.as_ref().map_or(&[][..], System::cpus);
        Self {
            cpu: cpus.first().map_or("unknown", |cpu| cpu.brand()).trim().to_owned(),
            isa: isa(),
            logical_cpus: cpus.len(),
            usable_cpus: std::thread::available_parallelism().map_or(1, usize::from),
            memory_bytes: updraft_device::memory().total_bytes,
            os: System::long_os_version().unwrap_or_else(|_| std::env::consts::OS.to_owned()),
            threads,
        }
    }
}

impl Build {
    fn read() -> Self {
        let features = [
            ("conv", cfg!(feature = "conv")),
            ("simd", cfg!(feature = "simd")),
            ("rayon", cfg!(feature = "rayon")),
            ("x86-v4", cfg!(feature = "x86-v4")),
            ("cuda", cfg!(feature = "cuda")),
            ("rocm", cfg!(feature = "rocm")),
            ("metal", cfg!(feature = "metal")),
            ("vulkan", cfg!(feature = "vulkan")),
            ("wgpu", cfg!(feature = "wgpu")),
            ("fusion", cfg!(feature = "fusion")),
            ("autotune", cfg!(feature = "autotune")),
            ("turbojpeg", cfg!(feature = "turbojpeg")),
        ];
        let on = features.into_iter().filter(|(_, on)| *on).map(|(name, _)| name.to_owned());
        // Saved runs do not change the program.
        let status = ["status", "--porcelain", "--", ":/", ":(top,exclude)benches/runs"];
        let dirty = said("git", &status).is_some_and(|text| !text.is_empty());
        let commit = said("git", &["rev-parse", "--short=12", "HEAD"]);
        Self {
            updraft: env!("CARGO_PKG_VERSION").to_owned(),
            burn: burn_version(),
            rustc: said("rustc", &["--version"]),
            commit: commit.map(|commit| if dirty { format!("{commit}+") } else { commit }),
            features: on.collect(),
        }
    }
}

/// burn's version as the lock file has it.
pub(crate) fn burn_version() -> String {
    let lock = include_str!("../../Cargo.lock");
    let after = lock.split_once("name = \"burn\"\nversion = \"").map(|(_, after)| after);
    let version = after.and_then(|after| after.split_once('"'));
    version.map_or("unknown", |(version, _)| version).to_owned()
}

fn said(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program).args(arguments).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

#[cfg(target_arch = "x86_64")]
fn isa() -> Vec<String> {
    let features = [
        ("avx2", is_x86_feature_detected!("avx2")),
        ("fma", is_x86_feature_detected!("fma")),
        ("avx512f", is_x86_feature_detected!("avx512f")),
        ("avx512vnni", is_x86_feature_detected!("avx512vnni")),
        ("avx512bf16", is_x86_feature_detected!("avx512bf16")),
        ("amx-int8", Isa::AmxInt8.is_available()),
    ];
    features.into_iter().filter(|(_, has)| *has).map(|(name, _)| name.to_owned()).collect()
}

#[cfg(not(target_arch = "x86_64"))]
fn isa() -> Vec<String> {
    vec![std::env::consts::ARCH.to_owned()]
}

/// The best of several short runs: a peak is what nothing disturbed.
fn peak(threads: usize) -> Peak {
    const TRIES: usize = 7;
    let best = |measured: &dyn Fn() -> f64| (0..TRIES).map(|_| measured()).fold(0.0, f64::max);
    Peak {
        f32_gflops: best(&|| fma_rate(threads)) / 1e9,
        int8_gops: best(&|| dot_rate(threads)) / 1e9,
        copy_gbytes_per_s: best(&|| copy_rate(threads)) / 1e9,
    }
}

fn fma_rate(threads: usize) -> f64 {
    const ROUNDS: u64 = 2_000_000;
    let peak = RegisterPeak::new(Isa::detect().vectors());
    let elapsed = together(threads, |_| {
        std::hint::black_box(peak.run(ROUNDS));
    });
    (threads as u64 * ROUNDS * peak.operations()) as f64 / elapsed.as_secs_f64()
}

fn dot_rate(threads: usize) -> f64 {
    const ROUNDS: u64 = 2_000_000;
    let dot = Dot::detect();
    let elapsed = together(threads, |_| {
        std::hint::black_box(dot::run(dot, ROUNDS));
    });
    (threads as u64 * ROUNDS * dot.operations()) as f64 / elapsed.as_secs_f64()
}

fn copy_rate(threads: usize) -> f64 {
    const BYTES: usize = 256 << 20;
    let part = BYTES / threads;
    let buffers: Vec<_> = (0..threads).map(|_| (vec![1_u8; part], vec![2_u8; part])).collect();
    let buffers: Vec<_> = buffers.into_iter().map(std::sync::Mutex::new).collect();
    let elapsed = together(threads, |index| {
        let mut pair = buffers[index].lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let (from, to) = &mut *pair;
        to.copy_from_slice(std::hint::black_box(from));
        std::hint::black_box(to);
    });
    (2 * part * threads) as f64 / elapsed.as_secs_f64()
}

/// The time of the slowest of several threads, all started before the clock.
fn together(threads: usize, work: impl Fn(usize) + Sync) -> Duration {
    let barrier = std::sync::Barrier::new(threads);
    let (barrier, work) = (&barrier, &work);
    std::thread::scope(|scope| {
        let running: Vec<_> = (0..threads)
            .map(|index| {
                scope.spawn(move || {
                    barrier.wait();
                    let start = Instant::now();
                    work(index);
                    start.elapsed()
                })
            })
            .collect();
        let ended = running.into_iter().map(|thread| thread.join().unwrap_or_default());
        ended.max().unwrap_or_default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_of_burn_is_read_from_the_lock_file() {
        assert_eq!(burn_version(), "0.22.1");
    }
}
