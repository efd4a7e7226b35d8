//! The forward pass of a trained network, which may be recorded and replayed.

use std::cell::RefCell;

use updraft_trainer::{CaptureReport, CapturedForward, Tensors};

/// The forward pass of a trained network: plain calls, or replays after [`capture`](Self::capture).
pub(in crate::task) struct Replayable<I, O> {
    captured: RefCell<Option<Captured<I, O>>>,
}

/// A forward pass with its own copy of the network.
type Forward<I, O> = Box<dyn FnMut(I) -> O + Send>;

type Captured<I, O> = CapturedForward<I, O, Forward<I, O>>;

impl<I: Tensors, O: Tensors> Replayable<I, O> {
    /// Replays `forward` from now on, which computes the same as the plain calls.
    pub(in crate::task) fn capture(&mut self, forward: impl FnMut(I) -> O + Send + 'static) {
        let forward: Forward<I, O> = Box::new(forward);
        *self.captured.get_mut() = Some(CapturedForward::new(forward));
    }

    /// The output for an input: a replay, or `plain` if nothing is captured.
    pub(in crate::task) fn call(&self, input: I, plain: impl FnOnce(I) -> O) -> O {
        match &mut *self.captured.borrow_mut() {
            Some(captured) => captured.call(input),
            None => plain(input),
        }
    }

    /// How the calls were computed so far; `None` if nothing is captured.
    pub(in crate::task) fn report(&self) -> Option<CaptureReport> {
        self.captured.borrow().as_ref().map(CapturedForward::report)
    }
}

impl<I, O> Default for Replayable<I, O> {
    fn default() -> Self {
        Self { captured: RefCell::new(None) }
    }
}

impl<I, O> std::fmt::Debug for Replayable<I, O> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Replayable").field("captured", &self.captured).finish()
    }
}

#[cfg(test)]
mod tests {
    use burn::tensor::{Device, Tensor};

    use super::*;

    #[test]
    fn calls_are_plain_until_the_pass_is_captured_and_equal_after() {
        let device = Device::flex();
        let mut network = Replayable::<Tensor<1>, Tensor<1>>::default();
        let call = |network: &Replayable<_, _>, at: f32| -> Vec<f32> {
            let x = Tensor::<1>::full([2], at, &device);
            network.call(x, |x| x * 2.0).into_data().iter().collect()
        };
        assert_eq!(call(&network, 1.5), [3.0; 2]);
        assert_eq!(network.report(), None);
        network.capture(|x| x * 2.0);
        assert_eq!(call(&network, 2.5), [5.0; 2]);
        assert_eq!(call(&network, 3.5), [7.0; 2]);
        let report = network.report().expect("captured");
        assert_eq!((report.plain, report.replayed), (2, 0));
        assert!(report.reason.is_some());
    }
}
