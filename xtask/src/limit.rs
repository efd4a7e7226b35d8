//! Programs that may hang: they are ended after a time, with the programs that they have started.

use std::fs;
use std::io;
use std::process::{Child, Command, ExitStatus};
use std::thread;
use std::time::{Duration, Instant};

/// How often a program is looked at.
const POLL: Duration = Duration::from_millis(200);

/// Waits for the end of a program; `None` if it was ended after the limit.
///
/// # Errors
/// If the system does not say whether it has ended.
pub(crate) fn wait(child: &mut Child, limit: Duration) -> io::Result<Option<ExitStatus>> {
    let started = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if started.elapsed() >= limit {
            end(child);
            return Ok(None);
        }
        thread::sleep(POLL);
    }
}

/// Ends a program and those that it has started, which would keep a card busy.
fn end(child: &mut Child) {
    let started = children(child.id());
    // It may end by itself before.
    let _ = child.kill();
    let _ = child.wait();
    if cfg!(unix) && !started.is_empty() {
        let ids: String = started.iter().map(|id| format!(" {id}")).collect();
        let _ = Command::new("sh").args(["-c", &format!("kill -KILL{ids} 2>/dev/null")]).status();
    }
}

/// The programs that a process has started and that run.
fn children(id: u32) -> Vec<u32> {
    let listed = if cfg!(target_os = "linux") {
        let tasks = fs::read_dir(format!("/proc/{id}/task")).into_iter().flatten().flatten();
        tasks.filter_map(|task| fs::read_to_string(task.path().join("children")).ok()).collect()
    } else {
        let listed = Command::new("pgrep").args(["-P", &id.to_string()]).output();
        listed.map_or_else(|_| String::new(), |it| String::from_utf8_lossy(&it.stdout).into_owned())
    };
    listed.split_whitespace().filter_map(|id| id.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use std::process::Stdio;

    use super::*;

    /// Asks again and again, for seconds at most.
    fn soon<T>(ask: impl Fn() -> Option<T>) -> Option<T> {
        (0..1000).find_map(|_| {
            thread::sleep(Duration::from_millis(5));
            ask()
        })
    }

    #[test]
    fn a_program_that_hangs_is_ended_with_what_it_started() {
        if !cfg!(target_os = "linux") {
            return;
        }
        let mut hanging = Command::new("sh");
        hanging.args(["-c", "sleep 60 & wait"]).stdout(Stdio::null());
        let mut child = hanging.spawn().unwrap();
        let id = child.id();
        let started = soon(|| children(id).first().copied()).unwrap();
        assert_eq!(wait(&mut child, Duration::ZERO).unwrap(), None);
        // Gone, or not yet collected by the process that has adopted it.
        let is_gone = || {
            let status = fs::read_to_string(format!("/proc/{started}/status")).unwrap_or_default();
            let state = status.lines().find_map(|line| line.strip_prefix("State:"));
            state.is_none_or(|state| state.trim().starts_with(['Z', 'X'])).then_some(())
        };
        assert_eq!(soon(is_gone), Some(()));
    }

    #[test]
    fn a_program_that_ends_has_its_status() {
        if !cfg!(unix) {
            return;
        }
        let mut child = Command::new("sh").args(["-c", "exit 3"]).spawn().unwrap();
        let status = wait(&mut child, Duration::from_secs(20)).unwrap();
        assert_eq!(status.and_then(|status| status.code()), Some(3));
    }
}
