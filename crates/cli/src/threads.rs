//! The threads of the process: their number in the environment, the pool, and that of the command.

use std::thread;

use anyhow::{Result, anyhow, bail};

/// The variables from which rayon takes its number of threads, by priority.
const VARIABLES: [&str; 2] = ["RAYON_NUM_THREADS", "RAYON_RS_NUM_CPUS"];

/// The largest number of threads on a machine with fewer processors: starting a thousand takes
/// longer than a small run, and signals are not handled in the meantime.
const MOST: usize = 256;

/// Returns an error for more threads than a machine can use.
///
/// # Errors
/// An error that names the variable and its range.
pub(crate) fn check() -> Result<()> {
    let processors = thread::available_parallelism().map_or(1, usize::from);
    VARIABLES.iter().try_for_each(|name| {
        let text = std::env::var(name).unwrap_or_default();
        within(name, &text, processors)
    })
}

/// Starts rayon's pool, which the first use would start otherwise, and panic if it cannot.
///
/// # Errors
/// If the system starts no more threads.
pub(crate) fn start() -> Result<()> {
    updraft_simd::start_pool().map_err(|cause| {
        anyhow!(
            "cannot start the threads of the kernels: {cause}; set {} to a smaller number, or \
             raise the limit of memory or of processes",
            VARIABLES[0]
        )
    })
}

/// The stack of the thread that runs a command, as large as that of a process by default.
const STACK: usize = 8 << 20;

/// Runs a command on a thread whose stack is reserved before it begins.
///
/// That of the process grows when it is used: under a limit of memory such a page that is missing
/// ends the process by a signal, without an error.
///
/// # Errors
/// Those of the command, and if the system does not start the thread.
pub(crate) fn on_reserved_stack(command: impl FnOnce() -> Result<()> + Send) -> Result<()> {
    thread::scope(|scope| {
        let thread = thread::Builder::new().name("main".to_owned()).stack_size(STACK);
        let started = thread.spawn_scoped(scope, command);
        let running = started.map_err(|cause| {
            anyhow!(
                "cannot start the thread of the command: {cause}; raise the limit of memory or of \
                 processes"
            )
        })?;
        running.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// rayon would ignore values that are not numbers, and takes 0 as the number of processors.
fn within(name: &str, text: &str, processors: usize) -> Result<()> {
    let most = processors.max(MOST);
    let is_right = text.is_empty() || text.parse::<usize>().is_ok_and(|threads| threads <= most);
    if !is_right {
        bail!(
            "the environment variable {name} is {text}; it must be 0, for a thread for each \
             processor, or a number of at most {most}"
        )
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_threads_than_a_machine_can_use_are_refused() {
        for text in ["", "0", "1", "256"] {
            assert!(within("N", text, 8).is_ok(), "{text}");
        }
        assert!(within("N", "300", 512).is_ok());
        for text in ["257", "100000", "99999999999999999999999999"] {
            let error = within("N", text, 8).expect_err(text).to_string();
            assert!(error.contains(&format!("N is {text}; it must be 0, for")), "{error}");
            assert!(error.ends_with("at most 256"), "{error}");
        }
    }

    #[test]
    fn values_that_are_no_numbers_are_refused() {
        for text in ["many", "-1", "2.5"] {
            let error = within("N", text, 8).expect_err(text).to_string();
            assert!(error.contains(&format!("N is {text}; it must be 0, for")), "{error}");
        }
    }
}
