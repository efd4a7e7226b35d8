//! `launch`: several ranks of a command on this machine, started again when one is lost.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use clap::{Args, Parser};
use tracing_subscriber::filter::LevelFilter;
use updraft_run::{Registry, RunFolder};
use updraft_trainer::list_checkpoints;

use super::cannot;
use super::eval::{self, EvalArgs};
use super::predict::{self, PredictArgs};
use super::train::TrainCommand;
use super::would::find_inputs;
use crate::arguments::{self, Arguments};
use crate::child::{apart, interrupt, terminate};
use crate::program::quoted;
use crate::ranks::{AS_ROOT, mpirun_arguments, refuse_on_ranks};
use crate::stop::Forwarded;
use crate::terminal::say;
use crate::wrap::counted;
use crate::{BAD_INPUT, Failed, INTERRUPTED, RUN_FAILED, stop};

const EXAMPLES: &str = "\
Examples:
  Train on four ranks:
      updraft launch -n 4 -- train configs/cifar10.toml --data DIR
  Continue a run, and start again with fewer ranks if that does not last:
      updraft launch -n 4 --min-ranks 2 -- train --resume runs/RUN
  Predict the files of a folder, of which finished parts are kept:
      updraft launch -n 4 -- predict runs/RUN DIR --parts PARTS
";

/// Trains, evaluates or predicts on several ranks of this machine, and starts them again when one is
/// lost.
///
/// The ranks are processes that `mpirun` starts and connects. When one of them is killed or hangs,
/// all are started again: `train` from the newest checkpoint, `eval` from the beginning, `predict`
/// from the finished parts if it keeps them with --parts, and otherwise not. Errors of the arguments, the data or the run
/// itself, such as a loss that is not finite, end the command. Ctrl-C saves and stops the run;
/// the second one ends it.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct LaunchArgs {
    /// The number of ranks
    #[arg(short = 'n', long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    ranks: u16,
    /// How often the ranks are started again
    #[arg(long, value_name = "N", default_value_t = 3)]
    restarts: u32,
    /// The fewest ranks: one fewer is started when no checkpoint was written since the last start, as
    /// always of `eval` and `predict` [default: the number of ranks]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    min_ranks: Option<u16>,
    /// `train`, `eval` or `predict` with its arguments
    #[arg(trailing_var_arg = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// Prints what the ranks would read and write, and the command that starts them.
pub(crate) fn dry_run(registry: Registry, args: &LaunchArgs) -> Result<()> {
    let ranks = Ranks::new(registry, args)?;
    match &ranks.work {
        Work::Train(train) => train.train.would(&train.plan(registry)?).print()?,
        Work::Eval(args) => eval::dry_run(registry, args)?,
        Work::Predict(args) => predict::dry_run(registry, args)?,
    }
    crate::print(&format!("would run    {}", ranks.line(args.ranks, &args.command)))
}

/// Starts the ranks until they succeed.
pub(crate) fn run(registry: Registry, args: &LaunchArgs) -> Result<()> {
    let ranks = Ranks::new(registry, args)?;
    if cfg!(not(feature = "mpi")) {
        bail!("`launch` needs a program that was built with the feature `mpi`");
    }
    let note = Note::new();
    let resumed = ranks.work.resumed_run().map(Path::to_path_buf);
    let command = match &ranks.work {
        Work::Train(train) if train.set_aside()? => {
            resumed.as_deref().map(|run| ranks.resuming(train, run))
        }
        _ => None,
    };
    let mut command = command.unwrap_or_else(|| args.command.clone());
    let least = args.min_ranks.unwrap_or(args.ranks);
    let mut restarts = Restarts { left: args.restarts, ranks: args.ranks, least, newest: None };
    restarts.newest = resumed.as_deref().and_then(newest_checkpoint);
    let mut run = resumed.clone();
    loop {
        let Ended { code, was_terminated } = ranks.start(restarts.ranks, &command, &note)?;
        run = note.run().or(run);
        if code == 0 {
            return Ok(());
        }
        let failed = || Failed(format!("the ranks ended with exit code {code}"));
        let is_final = [RUN_FAILED, BAD_INPUT].map(i32::from).contains(&code);
        // A rank that was signaled itself is not started again.
        let was_stopped = was_terminated || code == i32::from(INTERRUPTED);
        if was_stopped || stop::signals() > 1 || (stop::requested() && !is_final) {
            if run.as_deref().and_then(newest_checkpoint).is_none() {
                remove_begun(&mut run, resumed.as_deref())?;
            }
            drop(note);
            stop::exit_interrupted();
        }
        if code == i32::from(BAD_INPUT) {
            bail!(failed().0);
        }
        if is_final {
            return Err(failed().into());
        }
        if matches!(&ranks.work, Work::Predict(args) if !args.continues()) {
            let error = anyhow::Error::from(failed());
            return Err(error.context("`predict` is started again only with --parts or --out"));
        }
        let newest = run.as_deref().and_then(newest_checkpoint);
        let has_checkpoint = newest.is_some();
        let is_new = newest != restarts.newest;
        if !has_checkpoint {
            remove_begun(&mut run, resumed.as_deref())?;
        }
        if !restarts.next(newest) {
            let error = anyhow::Error::from(failed());
            return Err(
                error.context(format!("{} used up", counted(args.restarts.into(), "restart")))
            );
        }
        let from = match (&run, &ranks.work) {
            (Some(run), Work::Train(train)) if has_checkpoint => {
                command = ranks.resuming(train, run);
                if is_new { "the newest checkpoint" } else { "the same checkpoint" }
            }
            (_, Work::Predict(_)) => "what is finished",
            _ => "the beginning",
        };
        if let Some(folder) = run.as_deref().and_then(|run| RunFolder::open(run).ok()) {
            // `mpirun` may end before the ranks that it kills. If one stays, the next ones report it.
            let _ = folder.wait_until_free(UNTIL_FREE);
        }
        let (count, left) = (restarts.ranks, restarts.left);
        let count = counted(count.into(), "rank");
        let left = counted(left.into(), "more restart");
        say(&format!("restart  exit code {code}: {count} from {from}; {left}"));
    }
}

/// Removes the folder of a run without a checkpoint, unless it is the one to resume: it has nothing to
/// resume from, and another start makes a folder of its own.
fn remove_begun(run: &mut Option<PathBuf>, resumed: Option<&Path>) -> Result<()> {
    match run.take_if(|run| resumed != Some(run)) {
        Some(begun) => fs::remove_dir_all(&begun).map_err(|cause| cannot("remove", &begun, cause)),
        None => Ok(()),
    }
}

/// What the ranks do.
enum Work {
    Train(Box<TrainCommand>),
    Eval(Box<EvalArgs>),
    Predict(Box<PredictArgs>),
}

impl Work {
    /// The run to continue.
    fn resumed_run(&self) -> Option<&Path> {
        match self {
            Self::Train(train) => train.resumed_run(),
            Self::Eval(_) | Self::Predict(_) => None,
        }
    }
}

/// How the ranks are started.
struct Ranks {
    work: Work,
    program: PathBuf,
    /// The log level of the ranks.
    log: LevelFilter,
    /// Threads of each rank, if the environment does not decide them.
    threads: Option<usize>,
}

impl Ranks {
    /// Checks everything that can be checked before a process is started.
    fn new(registry: Registry, args: &LaunchArgs) -> Result<Self> {
        let typed = std::iter::once(OsString::from("updraft")).chain(args.command.clone());
        let inner = Arguments::try_parse_from(typed).map_err(|error| {
            let text = error.to_string();
            anyhow!("{}", text.strip_prefix("error: ").unwrap_or(&text).trim_end().to_owned())
        })?;
        let log = inner.log;
        let work = match inner.command {
            arguments::Command::Train(train) => Work::Train(Box::new(train)),
            arguments::Command::Eval(args) => Work::Eval(Box::new(args)),
            arguments::Command::Predict(args) => Work::Predict(Box::new(args)),
            _ => bail!(
                "`launch` starts `train`, `eval` and `predict`; other commands do not connect ranks"
            ),
        };
        if let Some(least) = args.min_ranks.filter(|least| *least > args.ranks) {
            bail!("`--min-ranks` is {least}; it must be at most the ranks, {}", args.ranks);
        }
        let count = args.ranks.into();
        match &work {
            Work::Train(train) => {
                let plan = train.plan(registry)?;
                find_inputs(&plan, &train.train.config, train.resumed_run())?;
                refuse_on_ranks(&plan, count, train.resumed_run().is_some())?;
            }
            Work::Eval(args) => args.refuse_on_ranks(count)?,
            Work::Predict(args) => args.refuse_on_ranks(count)?,
        }
        let program = std::env::current_exe().context("the program cannot find itself")?;
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let threads = std::env::var_os("RAYON_NUM_THREADS")
            .is_none()
            .then(|| (processors / usize::from(args.ranks)).max(1));
        Ok(Self { work, program, log, threads })
    }

    fn arguments(&self, ranks: u16, command: &[OsString]) -> Vec<OsString> {
        let mut all = mpirun_arguments(ranks.into());
        all.push(self.program.clone().into_os_string());
        all.extend_from_slice(command);
        all
    }

    /// The words that continue a run.
    fn resuming(&self, train: &TrainCommand, run: &Path) -> Vec<OsString> {
        let log = ["--log".into(), self.log.to_string().into()];
        train.resuming(run).into_iter().chain(log).collect()
    }

    /// The command line, for a shell.
    fn line(&self, ranks: u16, command: &[OsString]) -> String {
        let threads = self.threads.map(|threads| format!("RAYON_NUM_THREADS={threads} "));
        let arguments = self.arguments(ranks, command);
        let quoted: Vec<_> = arguments.iter().map(|text| quoted(&text.to_string_lossy())).collect();
        format!("{}mpirun {}", threads.unwrap_or_default(), quoted.join(" "))
    }

    /// Runs the ranks to their end.
    ///
    /// The first Ctrl-C reaches rank 0, which saves and stops with the others; the next one ends
    /// all. `mpirun` itself would end them within a second.
    fn start(&self, ranks: u16, command: &[OsString], note: &Note) -> Result<Ended> {
        note.clear();
        let mut mpirun = Command::new("mpirun");
        mpirun.args(self.arguments(ranks, command)).env(RUN_NOTE, &note.0).stdin(Stdio::null());
        apart(&mut mpirun);
        if let Some(threads) = self.threads {
            mpirun.env("RAYON_NUM_THREADS", threads.to_string());
        }
        mpirun.envs(AS_ROOT);
        let _passed_on = Forwarded::begin();
        let (mut passed_on, mut was_terminated) = (0, false);
        let mut mpirun = mpirun.spawn().context("`mpirun` does not start; install Open MPI")?;
        loop {
            if let Some(status) = mpirun.try_wait().context("waiting for `mpirun`")? {
                let code = status.code().unwrap_or(RESTARTED);
                return Ok(Ended { code, was_terminated });
            }
            if stop::signals() > passed_on {
                let first_rank = note.process().filter(|_| passed_on == 0);
                let sent = match first_rank {
                    Some(first_rank) => interrupt(first_rank),
                    None => terminate(mpirun.id()),
                };
                // A rank that has ended needs no signal; `mpirun` is there until it is waited for.
                let is_sent = sent.is_ok_and(|sent| sent || first_rank.is_some());
                was_terminated |= first_rank.is_none() || !is_sent;
                if !is_sent {
                    say("`kill` cannot pass the signal on; all ranks are ended");
                    mpirun.kill().context("cannot end `mpirun`")?;
                }
                passed_on += 1;
            }
            std::thread::sleep(POLL);
        }
    }
}

/// How the ranks ended.
struct Ended {
    /// The exit code of all of them.
    code: i32,
    /// Whether signals made this process end them.
    was_terminated: bool,
}

/// How long the ranks of the start before may take to end.
const UNTIL_FREE: Duration = Duration::from_secs(10);

/// How often signals and the end of the ranks are looked for.
const POLL: Duration = Duration::from_millis(20);

/// The variable that names the file into which rank 0 writes its process and the path of its run.
const RUN_NOTE: &str = "UPDRAFT_RUN_NOTE";

/// Stands for a launcher that a signal ended.
const RESTARTED: i32 = 128;

/// Notes this process, rank 0, for the `launch` that started it, if one did.
pub(crate) fn note_process() {
    note(Path::new(""));
}

/// Notes the path of this process's run, too.
pub(crate) fn note_run(run: &Path) {
    note(run);
}

fn note(run: &Path) {
    if let Some(note) = std::env::var_os(RUN_NOTE) {
        let mut bytes = format!("{}\n", std::process::id()).into_bytes();
        bytes.extend_from_slice(run.as_os_str().as_encoded_bytes());
        // Without it, `launch` starts from the beginning.
        let _ = fs::write(note, bytes);
    }
}

/// The file with the process of rank 0 and the path of its run, which is removed at the end.
struct Note(PathBuf);

impl Note {
    fn new() -> Self {
        let name = format!("updraft-launch-{}", std::process::id());
        Self(std::env::temp_dir().join(name))
    }

    /// The process of rank 0.
    fn process(&self) -> Option<u32> {
        fs::read_to_string(&self.0).ok()?.split_once('\n')?.0.parse().ok()
    }

    fn run(&self) -> Option<PathBuf> {
        let text = fs::read_to_string(&self.0).ok()?;
        let (_, run) = text.split_once('\n').filter(|(_, run)| !run.is_empty())?;
        Some(PathBuf::from(run))
    }

    fn clear(&self) {
        // It does not exist before the first start, or if no rank has begun.
        let _ = fs::remove_file(&self.0);
    }
}

impl Drop for Note {
    fn drop(&mut self) {
        self.clear();
    }
}

fn newest_checkpoint(run: &Path) -> Option<PathBuf> {
    // Also counts older checkpoints: a run with any is resumed, not removed.
    list_checkpoints(&run.join("checkpoints")).ok()?.pop()
}

/// How often the ranks are started again, and how many of them.
#[derive(Debug)]
struct Restarts {
    left: u32,
    ranks: u16,
    least: u16,
    /// The newest checkpoint at the last start.
    newest: Option<PathBuf>,
}

impl Restarts {
    /// Counts a restart from the newest checkpoint; false if none is left.
    fn next(&mut self, newest: Option<PathBuf>) -> bool {
        let Some(left) = self.left.checked_sub(1) else { return false };
        self.left = left;
        if newest == self.newest {
            self.ranks = self.ranks.saturating_sub(1).max(self.least);
        }
        self.newest = newest;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_begun_folder_is_removed_but_not_the_resumed_one() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("run");
        fs::create_dir(&path).unwrap();
        let mut run = Some(path.clone());
        remove_begun(&mut run, Some(&path)).unwrap();
        assert!(path.exists() && run.as_ref() == Some(&path));
        remove_begun(&mut run, Some(dir.path())).unwrap();
        assert!(!path.exists() && run.is_none());
        remove_begun(&mut run, None).unwrap();
    }

    #[test]
    fn a_restart_keeps_what_was_typed_for_the_output() {
        let resuming = |words: &[&str]| {
            let words = ["updraft", "train"].iter().chain(words);
            let typed = Arguments::try_parse_from(words).unwrap();
            let arguments::Command::Train(train) = typed.command else { panic!("it is `train`") };
            train.resuming(Path::new("runs/a"))
        };
        let begun = resuming(&["--json", "--trace-steps", "3", "--set", "seed=2", "--data", "d"]);
        assert_eq!(begun, ["train", "--resume", "runs/a", "--trace-steps", "3", "--json"]);
        let resumed = resuming(&["--resume", "runs/a", "--checkpoint", "7", "--data", "d"]);
        assert_eq!(resumed, ["train", "--resume", "runs/a", "--data", "d"]);
    }

    #[test]
    fn ranks_become_fewer_only_without_a_new_checkpoint() {
        let mut restarts = Restarts { left: 4, ranks: 4, least: 2, newest: None };
        let step = |step: u64| Some(PathBuf::from(format!("step-{step}")));
        let newest = [step(10), step(10), step(10), step(20), step(30)];
        let mut counts = Vec::new();
        for checkpoint in newest {
            if restarts.next(checkpoint) {
                counts.push(restarts.ranks);
            }
        }
        assert_eq!(counts, [4, 3, 2, 2], "four restarts and no more");
        let mut none = Restarts { left: 2, ranks: 2, least: 2, newest: None };
        assert!(none.next(None) && none.ranks == 2);
    }
}
