//! A forward pass that is captured at its first call.

use std::fmt;

use super::model::{CaptureReport, CaptureSettings, CapturedModel};
use crate::tensors::Tensors;

/// A forward pass that is captured for the form of its first input; inputs of other forms, such as a
/// last batch with fewer samples, are computed by plain calls.
pub struct CapturedForward<I, O, F> {
    state: State<I, O, F>,
}

enum State<I, O, F> {
    /// Before the first call; taken by it.
    New(Option<F>),
    Captured(Box<CapturedModel<I, O, F>>),
}

impl<I: Tensors, O: Tensors, F: FnMut(I) -> O> CapturedForward<I, O, F> {
    /// Captures nothing before the first call.
    #[must_use]
    pub const fn new(forward: F) -> Self {
        Self { state: State::New(Some(forward)) }
    }

    /// The output for an input.
    ///
    /// # Panics
    /// As the forward pass, and after a panic in the first call.
    pub fn call(&mut self, input: I) -> O {
        if let State::New(forward) = &mut self.state {
            let forward = forward.take().expect("the first call did not panic");
            let settings = CaptureSettings::default();
            let model = CapturedModel::capture(forward, &input, settings);
            self.state = State::Captured(Box::new(model));
        }
        match &mut self.state {
            State::Captured(model) if model.check(&input).is_ok() => {
                model.call(input).expect("the input was checked")
            }
            State::Captured(model) => model.call_plain(input),
            State::New(_) => unreachable!("it was captured above"),
        }
    }

    /// How the calls were computed so far.
    #[must_use]
    pub fn report(&self) -> CaptureReport {
        match &self.state {
            State::New(_) => CaptureReport::default(),
            State::Captured(model) => model.report().clone(),
        }
    }
}

impl<I, O, F> fmt::Debug for CapturedForward<I, O, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.state {
            State::New(_) => f.write_str("CapturedForward(not called)"),
            State::Captured(model) => f.debug_tuple("CapturedForward").field(model).finish(),
        }
    }
}
