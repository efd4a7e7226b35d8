//! Processes of this program that a command starts.

use std::io::Read;
use std::process::{Child, Command, ExitStatus};

/// Puts the process into another group, so that Ctrl-C reaches only the command, which ends it.
#[cfg(unix)]
pub(crate) fn apart(command: &mut Command) {
    std::os::unix::process::CommandExt::process_group(command, 0);
}

#[cfg(not(unix))]
pub(crate) fn apart(_: &mut Command) {}

/// A process that is killed when this value is dropped.
pub(crate) struct Running(pub(crate) Child);

impl Drop for Running {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Asks a process to stop, as Ctrl-C does; returns as [`terminate`].
pub(crate) fn interrupt(process: u32) -> std::io::Result<bool> {
    send("-INT", process)
}

/// Asks a process to end; returns whether the signal was sent, which it is not to a process that has
/// ended and was waited for.
///
/// # Errors
/// If the program `kill` does not start.
pub(crate) fn terminate(process: u32) -> std::io::Result<bool> {
    send("-TERM", process)
}

/// The standard library sends no signal but the one that kills.
fn send(signal: &str, process: u32) -> std::io::Result<bool> {
    let sent = Command::new("kill").args([signal, &process.to_string()]).output()?;
    Ok(sent.status.success())
}

/// The signal that ended a process.
#[cfg(unix)]
pub(crate) fn signal(status: ExitStatus) -> Option<i32> {
    std::os::unix::process::ExitStatusExt::signal(&status)
}

#[cfg(not(unix))]
pub(crate) fn signal(_: ExitStatus) -> Option<i32> {
    None
}

/// Whether the out-of-memory killer or a failed allocation ended a process: any other signal is a
/// bug of the program.
pub(crate) fn ran_out_of_memory(status: ExitStatus) -> bool {
    /// Signal numbers defined by POSIX.
    const ABORT: i32 = 6;
    const KILL: i32 = 9;
    // On systems without signals such a process has an exit code.
    matches!(signal(status), Some(ABORT | KILL))
}

/// Devices with their own memory report a failed allocation as a panic.
pub(crate) fn says_out_of_memory(said: &str) -> bool {
    let said = said.to_lowercase();
    let words = [
        "out of memory",
        "out-of-memory",
        "outofmemory",
        "out_of_memory",
        "out of device memory",
        "can't allocate buffer",
        "memory allocation",
        "failed to allocate",
        "not enough memory left",
        "every page size the memory tracks still holds live allocations",
    ];
    // HIP's number of `hipErrorOutOfMemory`.
    let mut of_hip = said.split("hipmalloc failed with status ").skip(1);
    let is_full = |rest: &str| rest.split(|c: char| !c.is_ascii_digit()).next() == Some("2");
    words.iter().any(|words| said.contains(words)) || of_hip.any(is_full)
}

/// Asks for a stop when the command that started this process sends a line, and ends the process when
/// its input is closed, as [`end_with_the_command`].
///
/// # Errors
/// If no thread can be started, which would not receive the line.
pub(crate) fn stop_and_end_with_the_command() -> std::io::Result<()> {
    let wait = || {
        std::io::stdin().lines().map_while(Result::ok).for_each(|_| crate::stop::request());
        std::process::exit(1);
    };
    std::thread::Builder::new().name("end".to_owned()).spawn(wait).map(drop)
}

/// Ends this process when its input is closed, which the command that started it does when it ends
/// in whatever way.
pub(crate) fn end_with_the_command() {
    let wait = || {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        std::process::exit(1);
    };
    // Without the thread the process ends after its work.
    let _ = std::thread::Builder::new().name("end".to_owned()).spawn(wait);
}

/// Whether an error is that of a storage which is full or does not work, such as "No space left on
/// device (os error 28)": other work on the same storage would fail in the same way.
pub(crate) fn says_storage_failed(said: &str) -> bool {
    /// EIO, ENOSPC, EROFS and, on Linux and on other systems, EDQUOT. The words are in the language
    /// of the system, the numbers are not.
    const NUMBERS: [u32; 5] = [5, 28, 30, 122, 69];
    cfg!(unix) && NUMBERS.iter().any(|number| said.contains(&format!("(os error {number})")))
}

/// Lets the system kill this process first if memory runs out.
pub(crate) fn die_first() {
    // Only Linux has this file; other systems choose by themselves.
    let _ = std::fs::write("/proc/self/oom_score_adj", "1000");
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::process::ExitStatusExt;

    use super::*;

    #[test]
    fn a_full_or_broken_storage_is_known_by_the_number_of_its_error() {
        for number in [5, 28, 30] {
            let cause = std::io::Error::from_raw_os_error(number);
            assert!(says_storage_failed(&format!("cannot write `a`: {cause}")), "{cause}");
        }
        // No such file, no permission.
        for number in [2, 13] {
            let cause = std::io::Error::from_raw_os_error(number);
            assert!(!says_storage_failed(&format!("cannot read `a`: {cause}")), "{cause}");
        }
    }

    #[test]
    fn the_errors_of_devices_without_memory_are_known_by_their_words() {
        // As burn's backends print them: CubeCL 0.11's errors of allocations and launches, of CUDA,
        // Vulkan and wgpu, and the status of HIP.
        for said in [
            "out of device memory allocating 1099511627776 bytes",
            "can't allocate buffer of size: 4294967296",
            "An out-of-memory error happened during launch",
            "wgpu error: Out of Memory",
            "Error in Device::poll: Validation Error\n\nCaused by:\n  Not enough memory left.",
            "Can't allocate 64 bytes: every page size the memory tracks still holds live allocations",
            "hipMalloc failed with status 2\n",
            "CUDA_ERROR_OUT_OF_MEMORY",
        ] {
            assert!(says_out_of_memory(&format!("thread 'main' panicked:\n{said}")), "{said}");
        }
        for other in ["expected 2 axes, got 3", "hipMalloc failed with status 209"] {
            assert!(!says_out_of_memory(other), "{other}");
        }
    }

    #[test]
    fn a_crash_is_no_answer_about_memory() {
        let [abort, kill, segmentation_fault] = [6, 9, 11].map(ExitStatus::from_raw);
        assert!(ran_out_of_memory(abort) && ran_out_of_memory(kill));
        assert!(!ran_out_of_memory(segmentation_fault));
    }

    #[test]
    fn a_signal_to_a_process_that_has_ended_is_not_sent() {
        let mut child = Command::new("true").spawn().expect("it starts");
        child.wait().expect("ended");
        assert!(!interrupt(child.id()).expect("`kill` starts"));
    }
}
