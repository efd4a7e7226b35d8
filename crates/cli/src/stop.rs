//! Ctrl-C and other signals: the first asks a run to stop and save, the second Ctrl-C ends the process.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use crate::current_run::how_to_continue;
use crate::{INTERRUPTED, ranks, terminal};

/// How long a stop is waited for before a message.
const SILENCE: Duration = Duration::from_secs(10);

/// How long the exit handlers of libraries may take.
const EXIT_PATIENCE: Duration = Duration::from_secs(5);

static SIGNALS: AtomicUsize = AtomicUsize::new(0);
/// How many of them are of a batch scheduler: at most one is counted.
static SCHEDULED: AtomicUsize = AtomicUsize::new(0);
static FORWARDED: AtomicUsize = AtomicUsize::new(0);
static NOTHING_TO_SAVE: AtomicUsize = AtomicUsize::new(0);
static IS_ENDED_BY_A_COMMAND: AtomicBool = AtomicBool::new(false);

/// Whether the command was asked to stop.
pub(crate) fn requested() -> bool {
    signals() > 0
}

/// How many signals have asked for it.
pub(crate) fn signals() -> usize {
    SIGNALS.load(Ordering::SeqCst)
}

/// While this value exists, no signal ends the process: the running code passes each on to a
/// process that it waits for.
#[must_use = "it counts only while it lives"]
pub(crate) struct Forwarded(());

impl Forwarded {
    pub(crate) fn begin() -> Self {
        FORWARDED.fetch_add(1, Ordering::SeqCst);
        Self(())
    }
}

impl Drop for Forwarded {
    fn drop(&mut self) {
        FORWARDED.fetch_sub(1, Ordering::SeqCst);
    }
}

/// While this value exists, the first signal ends the process: there is nothing to save yet, and
/// the running code, such as a reader of archives or of a pipe, does not check for a stop.
#[must_use = "it counts only while it lives"]
pub(crate) struct NothingToSave(());

impl NothingToSave {
    pub(crate) fn begin() -> Self {
        NOTHING_TO_SAVE.fetch_add(1, Ordering::SeqCst);
        // Handles a signal that came before.
        if requested() {
            exit_interrupted();
        }
        Self(())
    }
}

impl Drop for NothingToSave {
    fn drop(&mut self) {
        NOTHING_TO_SAVE.fetch_sub(1, Ordering::SeqCst);
    }
}

/// From now on, a repeated signal does not end this process while it saves: the command that started
/// it does. A supervisor may signal both at once.
pub(crate) fn leave_the_end_to_the_command() {
    IS_ENDED_BY_A_COMMAND.store(true, Ordering::SeqCst);
}

/// Ends a process as a signal does, whose work saved nothing after it was asked to stop.
pub(crate) fn exit_interrupted() -> ! {
    end(INTERRUPTED)
}

/// Ends the process with an exit code.
///
/// Exit handlers of a device's driver run before, and may wait for a device that does not answer, or
/// another thread may wait in them already: the process is aborted then.
pub(crate) fn end(code: u8) -> ! {
    fn abort_later() {
        thread::sleep(EXIT_PATIENCE);
        std::process::abort();
    }
    // Without the thread only SIGKILL ends a process that waits so.
    let _ = thread::Builder::new().name("updraft-end".to_owned()).spawn(abort_later);
    std::process::exit(code.into())
}

/// Blocks the signal with which the system ends a process that writes beyond the limit on the size
/// of files: the write fails instead, as on a full disk. Threads that are started later inherit it.
#[cfg(unix)]
pub(crate) fn block_file_size_signal() {
    use std::ops::BitOr;

    let signal = ctrlc::Signal::SIGXFSZ;
    // The set of this signal alone; no system refuses to block it.
    let _ = signal.bitor(signal).thread_block();
}

#[cfg(not(unix))]
pub(crate) fn block_file_size_signal() {}

/// Blocks the signals that batch schedulers and the limit on CPU time send before they kill a process,
/// in this thread and in those that are started later: the thread of [`install`] receives them.
pub(crate) fn block_scheduler_signals() {
    #[cfg(unix)]
    // No system refuses to block them.
    let _ = scheduler_signals().thread_block();
}

/// SIGUSR1 and SIGUSR2, as `sbatch --signal` and `qsub -notify` send them, and SIGXCPU.
#[cfg(unix)]
fn scheduler_signals() -> <ctrlc::Signal as std::ops::BitOr>::Output {
    use ctrlc::Signal;

    Signal::SIGUSR1 | Signal::SIGUSR2 | Signal::SIGXCPU
}

/// Installs the handler of SIGINT, SIGTERM and SIGHUP, without which they end the process at once, and
/// that of [`block_scheduler_signals`].
pub(crate) fn install() {
    if let Err(error) = ctrlc::set_handler(request) {
        tracing::warn!(%error, "signals end the process without saving");
    }
    #[cfg(unix)]
    {
        let wait = || {
            while scheduler_signals().wait().is_ok() {
                request_once();
            }
        };
        let started = thread::Builder::new().name("updraft-signals".to_owned()).spawn(wait);
        if let Err(error) = started {
            tracing::warn!(%error, "signals of a batch scheduler are ignored");
        }
    }
}

/// Asks for a stop if nothing has: a scheduler may repeat its signal, and the system sends SIGXCPU
/// once a second while the run saves. The SIGTERM at the end of a job, and what a command passes on
/// that was signaled beside this process, are the first then, which ends nothing.
#[cfg(unix)]
fn request_once() {
    if !requested() {
        SCHEDULED.store(1, Ordering::SeqCst);
        request();
    }
}

/// Asks for a stop, as a signal does.
pub(crate) fn request() {
    let before = SIGNALS.fetch_add(1, Ordering::SeqCst);
    let is_repeated = before > SCHEDULED.load(Ordering::SeqCst);
    // A scheduler does not send a second one.
    if before == 0 && SCHEDULED.load(Ordering::SeqCst) == 0 {
        explain_later();
    }
    if FORWARDED.load(Ordering::SeqCst) > 0 {
        return;
    }
    let is_last = is_repeated && !IS_ENDED_BY_A_COMMAND.load(Ordering::SeqCst);
    if is_last || NOTHING_TO_SAVE.load(Ordering::SeqCst) > 0 {
        exit_interrupted();
    }
}

/// Prints what the stop waits for, if it takes long: a step on a slow device, or a device that does not
/// answer, which only a second signal ends.
fn explain_later() {
    let explain = || {
        thread::sleep(SILENCE);
        let is_waited_for = FORWARDED.load(Ordering::SeqCst) == 0
            && !IS_ENDED_BY_A_COMMAND.load(Ordering::SeqCst)
            && !ranks::is_after_rank_0();
        if is_waited_for {
            terminal::say(&explanation(how_to_continue()));
        }
    };
    // Without the thread there is no message.
    let _ = thread::Builder::new().name("updraft-stopping".to_owned()).spawn(explain);
}

fn explanation(how_to_continue: Option<String>) -> String {
    let end = "a second Ctrl-C or SIGTERM ends the program at once";
    let text = "stopping when what runs now is done, such as the updates until the next read of the \
                device, an evaluation or a checkpoint";
    match how_to_continue {
        Some(run) => format!("{text}; {end}, and {run}"),
        None => format!("{text}; {end}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stop_that_takes_long_says_how_to_end_and_to_continue() {
        let text = explanation(Some("`updraft train --resume a` continues".to_owned()));
        let end = "a second Ctrl-C or SIGTERM ends the program at once";
        assert!(text.contains(end) && text.ends_with("--resume a` continues"), "{text}");
        assert!(explanation(None).ends_with(end));
    }
}
