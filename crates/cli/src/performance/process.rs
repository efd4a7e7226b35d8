//! The command's side of a process that measures: starts it, watches it, and reads its answer.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result};

use super::limit::MemoryLimit;
use super::order::{Answer, Order};
use crate::child::{Running, apart, ran_out_of_memory, says_out_of_memory, signal};
use crate::command::{cannot, stopped};
use crate::stop;

/// The interval at which a process is watched.
const PATIENCE: Duration = Duration::from_millis(10);

/// The end of a process that measures.
#[derive(Debug)]
pub(crate) enum Ended {
    Measured(Box<Answer>),
    /// It took more memory than it may have, or than there is.
    OutOfMemory,
    /// It failed for this reason.
    Failed(String),
}

/// A temporary folder for the files of processes, deleted with this value.
#[derive(Debug)]
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn create() -> Result<Self> {
        let name = format!("updraft-performance-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).map_err(|cause| cannot("create", &path, cause))?;
        Ok(Self(path))
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // On an error it stays in the system's temporary folder.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Measures in a new process of so many threads, which is ended if its memory exceeds a limit or if
/// the command is asked to stop.
pub(crate) fn run(
    folder: &Folder,
    order: &Order,
    threads: Option<usize>,
    limit: Option<MemoryLimit>,
) -> Result<Ended> {
    let program = std::env::current_exe().context("the program cannot find itself")?;
    let (path, output) = (folder.file("order.json"), folder.file("output.txt"));
    let text = serde_json::to_vec(order).context("the order of a measurement")?;
    std::fs::write(&path, text).map_err(|cause| cannot("write", &path, cause))?;
    // An answer that a process did not write is never taken for its own.
    let _ = std::fs::remove_file(&order.answer);
    let create = || File::create(&output).map_err(|cause| cannot("write", &output, cause));
    let mut command = Command::new(program);
    command.arg("measure-steps").arg(&path);
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(create()?);
    if let Some(threads) = threads {
        command.env("RAYON_NUM_THREADS", threads.to_string());
    }
    apart(&mut command);
    let mut child = Running(command.spawn().context("cannot start a process that measures")?);
    let status = loop {
        if let Some(status) = child.0.try_wait().context("a process that measures")? {
            break status;
        }
        if stop::requested() {
            return Err(stopped("everything was measured"));
        }
        if exceeds(child.0.id(), limit.and_then(MemoryLimit::of_process)) {
            return Ok(Ended::OutOfMemory);
        }
        std::thread::sleep(PATIENCE);
    };
    if stop::requested() {
        return Err(stopped("everything was measured"));
    }
    let said = std::fs::read(&output).unwrap_or_default();
    let said = String::from_utf8_lossy(&said);
    if !status.success() {
        let is_memory = ran_out_of_memory(status) || says_out_of_memory(&said);
        return Ok(match is_memory {
            true => Ended::OutOfMemory,
            false => Ended::Failed(reason(&said, signal(status), &status.to_string())),
        });
    }
    let answer = std::fs::read(&order.answer);
    let answer = answer.map_err(|cause| cannot("read", &order.answer, cause))?;
    let answer: Answer =
        serde_json::from_slice(&answer).context("the answer of a process that measures")?;
    let is_over = limit.is_some_and(|limit| limit.is_exceeded_by(&answer));
    Ok(if is_over { Ended::OutOfMemory } else { Ended::Measured(Box::new(answer)) })
}

/// The error that a process printed, its signal, or its last line.
fn reason(said: &str, signal: Option<i32>, status: &str) -> String {
    let line = said.lines().rev().find_map(|line| line.strip_prefix("error: "));
    match (line, signal) {
        (Some(line), _) => line.to_owned(),
        (None, Some(signal)) => format!("its process was killed by signal {signal}"),
        (None, None) => {
            let last = said.lines().rev().find(|line| !line.trim().is_empty());
            format!("{status}: {}", last.unwrap_or("it printed nothing"))
        }
    }
}

/// Whether a process holds more than a limit at the moment, on Linux; elsewhere the peak that it
/// reports is compared.
fn exceeds(process: u32, limit_bytes: Option<u64>) -> bool {
    let Some(limit) = limit_bytes else { return false };
    let status = Path::new("/proc").join(process.to_string()).join("status");
    let Ok(text) = std::fs::read_to_string(status) else { return false };
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kib.is_some_and(|kib| kib << 10 > limit)
}
