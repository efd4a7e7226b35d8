//! The worker's side: computes problems with our crates when the runner asks.

use std::io::{BufRead, Write, stdin, stdout};
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use burn::tensor::Device;

use crate::clock;
use crate::gpu::reserved_bytes;
use crate::problem::{Outputs, Repeat, Site};
use crate::protocol::{Answer, Request};
use crate::strategy;

/// The variable with the percentage by which a worker is slower than it could be: a regression that
/// the guard has to find.
pub(crate) const SLOWDOWN: &str = "UPDRAFT_BENCH_SLOWDOWN";

/// Answers requests until the runner closes the pipe.
pub(crate) fn serve() -> Result<()> {
    updraft_simd::start_pool().context("starting the threads of the kernels")?;
    let mut prepared = None;
    for line in stdin().lock().lines() {
        let answer = serde_json::from_str(&line?)
            .map_err(Into::into)
            .and_then(|request| answer(request, &mut prepared))
            .unwrap_or_else(|error| Answer::Failed { reason: format!("{error:#}") });
        let mut out = stdout().lock();
        serde_json::to_writer(&mut out, &answer)?;
        out.write_all(b"\n")?;
        out.flush()?;
    }
    Ok(())
}

struct Prepared {
    running: Box<dyn Repeat>,
    device: Device,
    /// The memory of the program before the problem was prepared.
    base_bytes: Option<u64>,
    folder: PathBuf,
}

fn answer(request: Request, prepared: &mut Option<Prepared>) -> Result<Answer> {
    let ready = |prepared: &mut Option<Prepared>| match prepared.take() {
        Some(ready) => Ok(ready),
        None => bail!("nothing is prepared"),
    };
    match request {
        Request::Prepare { problem, strategy, folder, threads } => {
            let (device, kernels, about) = strategy::open(&strategy)?;
            crate::MEMORY.release();
            let base_bytes = match reserved_bytes(&device)? {
                None => updraft_device::memory().resident_bytes,
                reserved => reserved,
            };
            let site = Site { device: device.clone(), kernels, threads, folder: folder.clone() };
            let running = problem.task().on_burn(&site)?;
            *prepared = Some(Prepared { running, device, base_bytes, folder });
            Ok(Answer::Prepared { about })
        }
        Request::Prove => {
            let mut ready = ready(prepared)?;
            let outputs = ready.running.outputs()?;
            write_outputs(&ready.folder, &outputs)?;
            Ok(Answer::Proved { outputs: outputs.into_keys().collect() })
        }
        Request::Repeat { times } => {
            let mut ready = ready(prepared)?;
            let slowdown = slowdown()?;
            let (wall_ns, cpu_ns) =
                clock::time(times, || slowed(slowdown, || ready.running.once()))?;
            let base_bytes = ready.base_bytes;
            let peak_bytes = match reserved_bytes(&ready.device)? {
                None => updraft_device::memory().peak_resident_bytes,
                reserved => reserved,
            };
            *prepared = Some(ready);
            Ok(Answer::Repeated { wall_ns, cpu_ns, peak_bytes, base_bytes })
        }
    }
}

/// The percentage of [`SLOWDOWN`]; zero without it.
fn slowdown() -> Result<u64> {
    match std::env::var(SLOWDOWN) {
        Ok(percent) => percent.parse().with_context(|| format!("{SLOWDOWN} is `{percent}`")),
        Err(_) => Ok(0),
    }
}

/// Computes, then waits busily for a percentage of the time that it took.
fn slowed(percent: u64, once: impl FnOnce() -> Result<()>) -> Result<()> {
    if percent == 0 {
        return once();
    }
    let start = Instant::now();
    once()?;
    let until = start.elapsed().as_nanos() * u128::from(100 + percent) / 100;
    while start.elapsed().as_nanos() < until {
        std::hint::spin_loop();
    }
    Ok(())
}

fn write_outputs(folder: &Path, outputs: &Outputs) -> Result<()> {
    for (name, values) in outputs {
        let path = output_path(folder, name);
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        std::fs::write(&path, bytes).with_context(|| format!("writing `{}`", path.display()))?;
    }
    Ok(())
}

/// The path of a result.
pub(crate) fn output_path(folder: &Path, name: &str) -> PathBuf {
    folder.join(format!("{name}.f64"))
}
