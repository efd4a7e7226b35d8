//! The error of a device without memory, which backends report as a panic.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use anyhow::Result;

use crate::Failed;
use crate::child::says_out_of_memory;

/// The advice of commands that have none of their own.
const ADVICE: &str = "make `train.batch` or the model smaller, set `train.recompute`, or find what \
                      fits with `batch-find`; what was saved is whole, and `train --resume` \
                      continues from there";

/// Runs a command; a panic about the memory of a device becomes an error with advice, and any other
/// continues.
///
/// # Errors
/// Those of the command, and [`Failed`] for a device without memory.
pub(crate) fn with_memory_errors(
    advice: Option<&str>,
    command: impl FnOnce() -> Result<()>,
) -> Result<()> {
    // What a panic leaves behind is only used to end the program.
    catch_unwind(AssertUnwindSafe(command)).unwrap_or_else(|panic| match text(&*panic) {
        Some(text) if says_out_of_memory(text) => {
            // A backend may add a backtrace.
            let reason = text.lines().find(|line| says_out_of_memory(line)).unwrap_or(text).trim();
            let advice = advice.unwrap_or(ADVICE);
            Err(Failed(format!("the device is out of memory: {reason}; {advice}")).into())
        }
        _ => resume_unwind(panic),
    })
}

/// The message of a panic.
fn text(panic: &(dyn Any + Send)) -> Option<&str> {
    let owned = || panic.downcast_ref::<String>().map(String::as_str);
    panic.downcast_ref::<&str>().copied().or_else(owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_about_memory_is_an_error_with_advice_and_another_panic_continues() {
        let said = "can't read the tensor:\nout of device memory allocating 4096 bytes";
        for advice in [None, Some("use a smaller model")] {
            let found = with_memory_errors(advice, || panic!("{said}"));
            let error = found.expect_err("no memory");
            let text = error.to_string();
            let start = "the device is out of memory: out of device memory allocating 4096 bytes; ";
            assert!(text.starts_with(start), "{text}");
            assert!(text.ends_with(advice.unwrap_or("continues from there")), "{text}");
            assert!(error.is::<Failed>(), "the exit code is that of a run that failed");
        }
        let other = catch_unwind(|| with_memory_errors(None, || panic!("a bug")));
        assert_eq!(other.expect_err("it continues").downcast_ref::<&str>(), Some(&"a bug"));
        assert!(with_memory_errors(None, || Ok(())).is_ok());
    }
}
