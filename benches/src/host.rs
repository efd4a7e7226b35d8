//! The runner's side of a worker: a child process that answers requests.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context, Result, bail};
use tempfile::TempDir;

use crate::gpu;
use crate::problem::{Outputs, Problem};
use crate::protocol::{Answer, Request};
use crate::strategy::{Host, Role, Strategy};
use crate::worker::{SLOWDOWN, output_path};

/// The programs that workers run in.
#[derive(Debug, Clone)]
pub(crate) struct Programs {
    /// This program.
    pub(crate) here: PathBuf,
    /// The peers' Python, or why there is none.
    pub(crate) python: Result<PathBuf, String>,
    /// The workers that are packages of their own, by name, or why there is none.
    pub(crate) packages: BTreeMap<&'static str, Result<PathBuf, String>>,
    /// The folder of the peers' scripts.
    pub(crate) scripts: PathBuf,
    /// Threads that a worker may use.
    pub(crate) threads: usize,
    /// Whether peers compute on a GPU.
    pub(crate) is_on_gpu: bool,
    /// Our strategies take so many per cent longer.
    pub(crate) slow_ours: Option<u16>,
}

/// A worker with a problem ready.
#[derive(Debug)]
pub(crate) struct Worker {
    child: Child,
    asks: ChildStdin,
    answers: BufReader<ChildStdout>,
    folder: TempDir,
    /// The implementation, with its version.
    pub(crate) about: String,
}

/// One timing.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Elapsed {
    pub(crate) wall_ns: u64,
    pub(crate) cpu_ns: u64,
    pub(crate) peak_bytes: Option<u64>,
    pub(crate) base_bytes: Option<u64>,
}

impl Worker {
    /// Starts a strategy's program and prepares the problem in it.
    pub(crate) fn start(
        programs: &Programs,
        strategy: &Strategy,
        problem: &Problem,
    ) -> Result<Self> {
        let folder = tempfile::tempdir().context("a folder for the worker")?;
        problem.task().write_inputs(folder.path())?;
        let mut command = command(programs, strategy)?;
        let threads = programs.threads.to_string();
        for variable in ["RAYON_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"] {
            command.env(variable, &threads);
        }
        if programs.is_on_gpu {
            command.env(gpu::VARIABLE, "1");
        }
        if let Some(percent) = programs.slow_ours
            && strategy.role == Role::Dispatched
        {
            command.env(SLOWDOWN, percent.to_string());
        }
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("starting {command:?}"))?;
        let asks = child.stdin.take().context("the worker's input")?;
        let answers = BufReader::new(child.stdout.take().context("the worker's output")?);
        let mut worker = Self { child, asks, answers, folder, about: String::new() };
        let request = Request::Prepare {
            problem: problem.clone(),
            strategy: strategy.asked().to_owned(),
            folder: worker.folder.path().to_owned(),
            threads: programs.threads,
        };
        match worker.ask(&request)? {
            Answer::Prepared { about } => worker.about = about,
            other => bail!("answered {other:?} to a preparation"),
        }
        Ok(worker)
    }

    /// The results of the computation.
    pub(crate) fn prove(&mut self) -> Result<Outputs> {
        match self.ask(&Request::Prove)? {
            Answer::Proved { outputs } => outputs
                .into_iter()
                .map(|name| Ok((name.clone(), read_output(self.folder.path(), &name)?)))
                .collect(),
            other => bail!("answered {other:?} to a proof"),
        }
    }

    /// Computes so many times.
    pub(crate) fn repeat(&mut self, times: u64) -> Result<Elapsed> {
        match self.ask(&Request::Repeat { times })? {
            Answer::Repeated { wall_ns, cpu_ns, peak_bytes, base_bytes } => {
                Ok(Elapsed { wall_ns, cpu_ns, peak_bytes, base_bytes })
            }
            other => bail!("answered {other:?} to a repetition"),
        }
    }

    fn ask(&mut self, request: &Request) -> Result<Answer> {
        let mut line = serde_json::to_string(request)?;
        line.push('\n');
        // A worker that died is detected at the end of its output; writing to it only breaks a
        // pipe.
        let _ = self.asks.write_all(line.as_bytes()).and_then(|()| self.asks.flush());
        let mut answer = String::new();
        if self.answers.read_line(&mut answer)? == 0 {
            let status = self.child.wait()?;
            bail!("the worker ended ({status}) instead of answering");
        }
        match serde_json::from_str(&answer).with_context(|| format!("the answer `{answer}`"))? {
            Answer::Failed { reason } => bail!("{reason}"),
            answer => Ok(answer),
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // It is killed without loss; a worker that hangs must not block the runner.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn command(programs: &Programs, strategy: &Strategy) -> Result<Command> {
    match &strategy.host {
        Host::Here => Ok(worker_of(&programs.here)),
        Host::Build { program, .. } => Ok(worker_of(program)),
        Host::Package(name) => match programs.packages.get(name) {
            Some(Ok(program)) => Ok(Command::new(program)),
            Some(Err(reason)) => bail!("{reason}"),
            None => bail!("`{name}` was not built"),
        },
        Host::Python(script) => match &programs.python {
            Ok(python) => {
                let mut command = Command::new(python);
                command.arg("-u").arg(programs.scripts.join(script));
                Ok(command)
            }
            Err(reason) => bail!("{reason}"),
        },
    }
}

fn worker_of(program: &Path) -> Command {
    let mut command = Command::new(program);
    command.arg("worker");
    command
}

fn read_output(folder: &Path, name: &str) -> Result<Vec<f64>> {
    anyhow::ensure!(
        name.chars().all(|c| c.is_ascii_alphanumeric() || "._-".contains(c)),
        "`{name}` is not the name of a result"
    );
    let path = output_path(folder, name);
    let bytes = std::fs::read(&path).with_context(|| format!("reading `{}`", path.display()))?;
    anyhow::ensure!(bytes.len().is_multiple_of(8), "`{name}` is cut");
    Ok(bytes.as_chunks::<8>().0.iter().map(|bytes| f64::from_le_bytes(*bytes)).collect())
}
