//! Errors of a device that is lost, full or does not run a kernel, which backends report as panics.

use std::any::Any;
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind, set_hook, take_hook};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, Once, PoisonError};
use std::thread;
use std::time::Duration;

use anyhow::Result;

use crate::Failed;
use crate::current_run::{self, how_to_continue};
use crate::device_fault::DeviceFault;
use crate::{stop, terminal};

/// The advice about memory of commands that have none of their own.
const ADVICE: &str = "make `train.batch` or the model smaller, set `train.recompute`, or find what \
                      fits with `batch-find`; what was saved is whole, and `train --resume` \
                      continues from there";

/// How long a command may take to end after a panic by which a device has stopped.
const PATIENCE: Duration = Duration::from_secs(10);

/// The newest panic of a thread that is not a consequence of another.
static NEWEST: Mutex<Option<String>> = Mutex::new(None);

/// Commands of this process so far.
static COMMANDS: AtomicUsize = AtomicUsize::new(0);

/// Which of them is running, counted from 1; 0 for none.
static RUNNING: AtomicUsize = AtomicUsize::new(0);

/// The newest command that is ended after a panic.
static ENDING: AtomicUsize = AtomicUsize::new(0);

/// The advice about memory of the newest command, if it has one of its own.
static ADVICE_OF_COMMAND: Mutex<Option<&str>> = Mutex::new(None);

/// How many threads list devices.
static LISTING: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// The causes of this thread's panics since it began to list devices.
    static CAUSES: RefCell<Option<Causes>> = const { RefCell::new(None) };
}

/// For each panic that follows from one of a device's own thread, that one, if there is one.
pub(crate) type Causes = Vec<Option<String>>;

/// While this value exists, panics of all threads are recorded: those of a device's own threads are
/// the cause of what the command reports.
#[must_use = "it counts only while it lives"]
pub(crate) struct PanicRecord(());

impl PanicRecord {
    /// Records panics after the hook that is installed has reported them, for a command with this
    /// advice about memory.
    pub(crate) fn begin(advice: Option<&'static str>) -> Self {
        static INSTALLED: Once = Once::new();
        INSTALLED.call_once(|| {
            let report = take_hook();
            set_hook(Box::new(move |panic| {
                report(panic);
                if let Some(said) = text(panic.payload()) {
                    record(said);
                }
            }));
        });
        forget();
        // An earlier command of this process may have ended by a panic.
        current_run::set(None);
        *ADVICE_OF_COMMAND.lock().unwrap_or_else(PoisonError::into_inner) = advice;
        RUNNING.store(1 + COMMANDS.fetch_add(1, Ordering::SeqCst), Ordering::SeqCst);
        Self(())
    }
}

impl Drop for PanicRecord {
    fn drop(&mut self) {
        RUNNING.store(0, Ordering::SeqCst);
    }
}

/// Runs a command; a panic about a device becomes an error with advice, and any other continues.
///
/// # Errors
/// Those of the command, and [`Failed`] for a device.
pub(crate) fn with_device_errors(
    advice: Option<&str>,
    command: impl FnOnce() -> Result<()>,
) -> Result<()> {
    // What a panic leaves behind is only used to end the program.
    catch_unwind(AssertUnwindSafe(command)).unwrap_or_else(|panic| {
        let said = text(&*panic).map(|said| cause_of(said).unwrap_or_else(|| said.to_owned()));
        match said.and_then(|said| describe(&said, advice)) {
            Some(error) => Err(Failed(error).into()),
            None => resume_unwind(panic),
        }
    })
}

/// The result of listing devices, and the causes of this thread's panics meanwhile, in order.
///
/// No panic ends the command: a device that cannot be opened is an entry of the list, and the command
/// may use another.
pub(crate) fn listing<T>(list: impl FnOnce() -> T) -> (T, Causes) {
    struct Listed;
    impl Drop for Listed {
        fn drop(&mut self) {
            LISTING.fetch_sub(1, Ordering::SeqCst);
        }
    }

    LISTING.fetch_add(1, Ordering::SeqCst);
    let listed = Listed;
    CAUSES.set(Some(Vec::new()));
    let result = list();
    drop(listed);
    (result, CAUSES.take().unwrap_or_default())
}

/// The panic of a device's own thread that a message follows from, if it says no more than that there
/// was one.
fn cause_of(said: &str) -> Option<String> {
    is_consequence(said).then(|| newest().clone()).flatten()
}

/// The error about a device that a message reports.
fn describe(said: &str, advice: Option<&str>) -> Option<String> {
    let fault = DeviceFault::of(said)?;
    let (what, cause) = (fault.what(), fault.cause(said));
    Some(match (fault.remedy(), how_to_continue()) {
        (None, _) => format!("{what}: {cause}; {}", advice.unwrap_or(ADVICE)),
        (Some(remedy), Some(run)) => format!("{what}: {cause}; {remedy}; {run}"),
        (Some(remedy), None) => format!("{what}: {cause}; {remedy}"),
    })
}

/// Whether a message is CubeCL's about work whose thread has panicked: that of a device that could not
/// be opened, or of numbers that were never computed.
pub(crate) fn is_consequence(said: &str) -> bool {
    const WORDS: [&str; 4] = [
        "torn down before it could say what went wrong",
        "RecvError",
        "device runner channel disconnected",
        "The work was skipped: an input carried a failure",
    ];
    DeviceFault::of(said).is_none() && WORDS.iter().any(|words| said.contains(words))
}

/// Remembers a panic that may be the cause of a later one.
fn record(said: &str) {
    let fault = DeviceFault::of(said);
    if is_consequence(said) {
        // A thread that ends has no list anymore.
        let _ = CAUSES.try_with(|causes| {
            if let Some(causes) = &mut *causes.borrow_mut() {
                causes.push(newest().clone());
            }
        });
        return;
    }
    // Autotuning tries kernels that a device may refuse, and uses others.
    if fault == Some(DeviceFault::Kernel) {
        return;
    }
    *newest() = Some(said.to_owned());
    let command = RUNNING.load(Ordering::SeqCst);
    // A lost device may panic many times.
    if ends_a_command(said, fault) && ENDING.fetch_max(command, Ordering::SeqCst) < command {
        end_later(command, said.to_owned());
    }
}

/// Whether a command that does not end by itself is ended after a panic.
fn ends_a_command(said: &str, fault: Option<DeviceFault>) -> bool {
    is_final(said, fault) && LISTING.load(Ordering::SeqCst) == 0
}

/// Whether nothing can be computed or read after a panic: wgpu's thread that delivers what is read has
/// ended, and a command that waits for a number would wait forever.
fn is_final(said: &str, fault: Option<DeviceFault>) -> bool {
    fault == Some(DeviceFault::Lost) || (fault.is_some() && said.contains("Error in Device::poll"))
}

/// Ends the process if the command does not.
fn end_later(command: usize, said: String) {
    let end = move || {
        thread::sleep(PATIENCE);
        if RUNNING.load(Ordering::SeqCst) == command
            && let Some(error) = describe(&said, advice_of_command())
        {
            terminal::say(&format!("error: {error}"));
            stop::end(crate::RUN_FAILED);
        }
    };
    // Without the thread a signal ends the process.
    let _ = thread::Builder::new().name("updraft-lost".to_owned()).spawn(end);
}

fn advice_of_command() -> Option<&'static str> {
    *ADVICE_OF_COMMAND.lock().unwrap_or_else(PoisonError::into_inner)
}

fn newest() -> MutexGuard<'static, Option<String>> {
    NEWEST.lock().unwrap_or_else(PoisonError::into_inner)
}

fn forget() {
    *newest() = None;
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
            let found = with_device_errors(advice, || panic!("{said}"));
            let error = found.expect_err("no memory");
            let text = error.to_string();
            let start = "the device is out of memory: out of device memory allocating 4096 bytes; ";
            assert!(text.starts_with(start), "{text}");
            assert!(text.ends_with(advice.unwrap_or("continues from there")), "{text}");
            assert!(error.is::<Failed>(), "the exit code is that of a run that failed");
        }
        let other = catch_unwind(|| with_device_errors(None, || panic!("a bug")));
        assert_eq!(other.expect_err("it continues").downcast_ref::<&str>(), Some(&"a bug"));
        assert!(with_device_errors(None, || Ok(())).is_ok());
    }

    #[test]
    fn other_faults_of_a_device_are_errors_with_their_cause_and_a_remedy() {
        for (said, start, remedy) in [
            (
                "The device is poisoned\nCaused by:\n  cuEventSynchronize failed with status 700",
                "the device was lost: cuEventSynchronize failed with status 700; ",
                "`dmesg`",
            ),
            (
                "Missing symbol cuLaunchKernelEx: undefined symbol",
                "the driver of the device does not run this program: Missing symbol ",
                "update the driver",
            ),
            (
                "Too much shared memory requested.\nRequested 49152 bytes, maximum 16384 bytes",
                "the device refused a kernel: Too much shared memory requested. Requested 49152 ",
                "`probe` lists them",
            ),
        ] {
            // The advice is about memory.
            let found = with_device_errors(Some("use a smaller model"), || panic!("{said}"));
            let error = found.expect_err("a fault");
            let text = error.to_string();
            assert!(text.starts_with(start) && text.contains(remedy), "{text}");
            assert!(!text.contains("smaller model"), "{text}");
            assert!(error.is::<Failed>(), "the exit code is that of a run that failed");
        }
    }

    /// Held by tests that record panics.
    static RECORDING: Mutex<()> = Mutex::new(());

    #[test]
    fn devices_that_cannot_be_opened_have_a_cause_each_and_end_no_command() {
        let _recording = RECORDING.lock().unwrap_or_else(PoisonError::into_inner);
        let (old, lost) = ("Missing symbol cuInit: undefined symbol", "Unknown: Device is lost");
        let consequence = "called `Result::unwrap()` on an `Err` value: RecvError";
        let fault = DeviceFault::of(lost);
        assert!(is_final(lost, fault), "it would end a command that waits");
        forget();
        let (ends, causes) = listing(|| {
            record(consequence);
            for cause in [old, lost] {
                record(cause);
                record(consequence);
            }
            ends_a_command(lost, fault)
        });
        assert!(!ends, "another device may be used");
        assert_eq!(causes, [None, Some(old.to_owned()), Some(lost.to_owned())]);
        record(consequence);
        assert!(CAUSES.take().is_none(), "the list is complete");
        forget();
    }

    #[test]
    fn a_panic_that_follows_from_one_of_a_device_thread_has_its_cause() {
        let _recording = RECORDING.lock().unwrap_or_else(PoisonError::into_inner);
        let opened = "called `Result::unwrap()` on an `Err` value: RecvError";
        let read = "Error while reading data: The work writing this buffer was torn down before it \
                    could say what went wrong";
        forget();
        for said in [opened, read] {
            let other = catch_unwind(|| with_device_errors(None, || panic!("{said}")));
            assert!(other.is_err(), "no cause was recorded: it continues");
        }
        for (cause, start) in [
            (
                "wgpu error: Out of Memory",
                "the device is out of memory: wgpu error: Out of Memory; ",
            ),
            (
                "Missing symbol cuInit: undefined symbol",
                "the driver of the device does not run this program: Missing symbol cuInit",
            ),
        ] {
            record(cause);
            for said in [opened, read] {
                // Neither is a cause: a consequence, and a kernel that autotuning tried.
                record(said);
                record("Too much shared memory requested.");
                assert_eq!(cause_of(said).as_deref(), Some(cause));
                let found = with_device_errors(None, || panic!("{said}"));
                let text = found.expect_err("a fault").to_string();
                assert!(text.starts_with(start), "{text}");
            }
            assert_eq!(cause_of("a bug"), None);
        }
        record("a bug of another thread");
        let other = catch_unwind(|| with_device_errors(None, || panic!("{read}")));
        assert!(other.is_err(), "the cause is no fault of a device: it continues");
        forget();
    }

    #[test]
    fn only_panics_after_which_nothing_is_read_end_a_command_that_waits() {
        let poll = |cause: &str| {
            format!("Error in Device::poll: Validation Error\n\nCaused by:\n  {cause}")
        };
        for (said, expected) in [
            (poll("Parent device is lost"), true),
            (poll("Not enough memory left."), true),
            ("The device is poisoned\nCaused by:\n  status 700".to_owned(), true),
            ("wgpu error: Out of Memory".to_owned(), false),
            ("a bug".to_owned(), false),
        ] {
            assert_eq!(is_final(&said, DeviceFault::of(&said)), expected, "{said}");
        }
    }
}
