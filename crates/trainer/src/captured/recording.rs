//! The recorded operations of a closure on a device.
#![expect(unsafe_code, reason = "burn's replay depends on tensors that its caller keeps alive")]

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use burn::backend::{Backend as _, Dispatch};
use burn::tensor::Device;

use super::reason::NotCaptured;

/// Operations that a device runs again, on the memory that they were recorded with.
///
/// burn's runtimes keep the pages of that memory from being moved or given away as long as the
/// recording exists.
pub(super) struct Recording {
    replay: Box<dyn Fn() -> Result<(), String> + Send>,
}

impl Recording {
    /// Asks whether a device records anything, by an empty recording.
    ///
    /// # Errors
    /// [`NotCaptured::Autodiff`], [`NotCaptured::NotOffered`].
    pub(super) fn offered(device: &Device) -> Result<(), NotCaptured> {
        if device.is_autodiff() {
            return Err(NotCaptured::Autodiff);
        }
        let dispatch = device.as_dispatch();
        let tried = Dispatch::graph_prepare(dispatch)
            .and_then(|()| Dispatch::graph_start_capture(dispatch))
            .and_then(|()| Dispatch::graph_stop_capture(dispatch).map(drop));
        tried.map_err(|error| {
            abandon(device);
            NotCaptured::NotOffered { device: format!("{device:?}"), cause: cause_of(&error) }
        })
    }

    /// Runs `forward` at least once, then records it; returns the recorded output, whose memory
    /// every replay writes.
    ///
    /// The first runs choose kernels by measurement and allocate what the recorded one uses: a
    /// device records no allocations.
    ///
    /// # Errors
    /// [`NotCaptured::Refused`], or [`NotCaptured::Panicked`] for a panic in the recorded run.
    ///
    /// # Panics
    /// As `forward` in one of the other runs; the device records nothing then.
    pub(super) fn record<O>(
        device: &Device,
        warm_ups: usize,
        forward: &mut dyn FnMut() -> O,
    ) -> Result<(Self, O), NotCaptured> {
        let dispatch = device.as_dispatch();
        let refused = |error: &dyn std::fmt::Display| {
            abandon(device);
            NotCaptured::Refused { cause: cause_of(error) }
        };
        Dispatch::graph_prepare(dispatch).map_err(|error| refused(&error))?;
        let warmed = catch_unwind(AssertUnwindSafe(|| {
            for _ in 0..warm_ups.max(1) {
                // Alive until the device is done: fusion skips what nothing will read.
                let output = forward();
                let _ = Dispatch::sync(dispatch);
                drop(output);
            }
        }));
        if let Err(panic) = warmed {
            abandon(device);
            resume_unwind(panic);
        }
        Dispatch::graph_start_capture(dispatch).map_err(|error| refused(&error))?;
        let output = catch_unwind(AssertUnwindSafe(forward));
        let graph = Dispatch::graph_stop_capture(dispatch);
        let output = output.map_err(|panic| NotCaptured::Panicked { message: message(&*panic) })?;
        let graph = graph.map_err(|error| refused(&error))?;
        let device = device.clone();
        let replay = move || {
            // SAFETY: the memory of the recorded operations is kept by the runtime for the life of
            // `graph`, and by `CapturedModel`, which owns the input, the output and the closure
            // with its tensors; that calls it on the thread that recorded, which has the stream.
            let replayed = unsafe { Dispatch::graph_replay(device.as_dispatch(), &graph) };
            replayed.map_err(|error| cause_of(&error))
        };
        Ok((Self { replay: Box::new(replay) }, output))
    }

    /// Runs the operations again.
    ///
    /// # Errors
    /// What burn reports; the output is not to be read then.
    pub(super) fn replay(&self) -> Result<(), String> {
        (self.replay)()
    }
}

/// Ends a recording that was prepared or begun, if there is one, so that operations run again.
fn abandon(device: &Device) {
    let _ = Dispatch::graph_stop_capture(device.as_dispatch());
}

/// The cause in an error of burn, on one line.
fn cause_of(error: &dyn std::fmt::Display) -> String {
    let text = error.to_string();
    let cause = text.split_once("Caused by:").map_or(&*text, |(_, cause)| cause);
    cause.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The message of a panic.
fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    text.unwrap_or_else(|| "a panic without a text".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flex_offers_no_graphs_with_the_reason_of_burn() {
        let device = Device::flex();
        let Err(NotCaptured::NotOffered { cause, .. }) = Recording::offered(&device) else {
            panic!("not offered");
        };
        assert_eq!(cause, "graph capture is not supported by this backend");
        assert_eq!(Recording::offered(&device.autodiff()), Err(NotCaptured::Autodiff));
    }

    #[test]
    fn a_recording_that_is_refused_has_run_the_forward_pass_before() {
        let mut runs = 0;
        let refused = Recording::record(&Device::flex(), 2, &mut || runs += 1);
        assert!(matches!(refused, Err(NotCaptured::Refused { .. })));
        assert_eq!(runs, 2);
    }

    #[test]
    #[should_panic(expected = "a fault of the model")]
    fn a_panic_before_the_recording_is_passed_on() {
        let _ =
            Recording::record(&Device::flex(), 1, &mut || -> u8 { panic!("a fault of the model") });
    }

    #[test]
    fn the_message_of_a_panic_is_kept() {
        let caught = |panics: fn()| message(&*catch_unwind(panics).expect_err("a panic"));
        assert_eq!(caught(|| panic!("text")), "text");
        assert_eq!(caught(|| panic!("text {}", 1)), "text 1");
        assert_eq!(caught(|| std::panic::panic_any(5)), "a panic without a text");
    }
}
