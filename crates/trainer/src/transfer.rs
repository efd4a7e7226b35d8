//! When a training batch is moved to the device.

use burn::backend::DispatchDevice;
use burn::tensor::Device;
use serde::{Deserialize, Serialize};

/// When a training batch is moved to the device; this does not change results.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Transfer {
    /// [`Ahead`](Self::Ahead), but [`WhenUsed`](Self::WhenUsed) on flex, where nothing would
    /// overlap, if the crate's feature `flex` is on.
    #[default]
    Auto,
    /// When its step begins.
    WhenUsed,
    /// The first batch of a step is moved while the device computes the previous step: after its
    /// backward pass was submitted, and before anything is read. One more batch is on the device.
    ///
    /// A batch that threads of the stream still prepare, by
    /// [`EpochStream::is_ready`](crate::EpochStream::is_ready), is not waited for: its own step
    /// waits for it and moves it. A checkpoint never counts a batch that was moved and not trained
    /// on.
    Ahead,
}

impl Transfer {
    /// Whether batches are moved ahead on this device, with or without autodiff.
    #[must_use]
    pub fn is_ahead(self, device: &Device) -> bool {
        match self {
            Self::Auto => !computes_when_called(device.as_dispatch()),
            Self::WhenUsed => false,
            Self::Ahead => true,
        }
    }
}

/// Whether operations are done when they return.
fn computes_when_called(device: &DispatchDevice) -> bool {
    match device {
        #[cfg(feature = "flex")]
        DispatchDevice::Flex(_) => true,
        DispatchDevice::Autodiff(inner) => computes_when_called(inner),
        #[allow(unreachable_patterns, reason = "burn's variants depend on its features")]
        _ => false,
    }
}

/// When the first batch of the next update was moved to the device ahead of it, by the host's clock.
///
/// The device may copy it later, when it has computed what was submitted before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Upload {
    /// Microseconds from the start of training in this process to its begin.
    #[serde(rename = "upload_at_us")]
    pub at_us: u64,
    /// Microseconds that it took; they are part of
    /// [`StepTimes::copy_us`](crate::StepTimes::copy_us).
    #[serde(rename = "upload_us")]
    pub us: u64,
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use burn::nn::{Linear, LinearConfig};
    use burn::tensor::{Device, Tensor};
    use updraft_testing::alone;

    use super::*;
    use crate::device_read::tests::reads;
    use crate::{
        BatchStream, Control, Counted, EpochStream, Event, Losses, OptimizerConfig, Run, RunData,
        RunSettings, StepContext, StreamError, Task, mean_squared_error,
    };

    /// Learns a multiple of a number, and records what is done, with how often numbers were read
    /// from the device before.
    struct Recorded {
        done: RefCell<Vec<(&'static str, usize)>>,
        before: usize,
    }

    impl Recorded {
        fn record(&self, what: &'static str) {
            self.done.borrow_mut().push((what, reads() - self.before));
        }
    }

    impl Task<Linear> for Recorded {
        type Batch = f32;
        type Input = Tensor<2>;
        type Target = Tensor<2>;
        type Output = Tensor<2>;
        type Score = ();

        fn place(
            &self,
            batch: f32,
            device: &Device,
        ) -> Result<(Tensor<2>, Tensor<2>), StreamError> {
            self.record("place");
            let input = Tensor::<1>::from_floats([batch], device).reshape([1, 1]);
            Ok((input.clone(), input.mul_scalar(3.0)))
        }

        fn forward(&self, model: &Linear, input: Tensor<2>, _: &StepContext) -> Tensor<2> {
            model.forward(input)
        }

        fn loss(&self, output: &Tensor<2>, target: &Tensor<2>) -> Losses {
            self.record("loss");
            mean_squared_error(output.clone(), target.clone()).into()
        }

        fn samples(&self, target: &Tensor<2>) -> usize {
            target.dims()[0]
        }

        fn example(&self, batch: usize, device: &Device) -> (Tensor<2>, Tensor<2>) {
            (Tensor::ones([batch, 1], device), Tensor::ones([batch, 1], device))
        }
    }

    /// Three batches of one number.
    struct Three;

    impl BatchStream<f32> for Three {
        fn epoch(&self, _: u64) -> Box<dyn EpochStream<f32> + '_> {
            Box::new(Counted::new([0.5, 1.0, -1.0].into_iter().map(Ok)))
        }

        fn batches(&self) -> usize {
            3
        }

        fn samples(&self) -> usize {
            3
        }

        fn batch(&self) -> usize {
            1
        }
    }

    fn done(transfer: Transfer, read_every: u64) -> Vec<(&'static str, usize)> {
        let folder = tempfile::tempdir().expect("a folder");
        let device = Device::flex().autodiff();
        let model = LinearConfig::new(1, 1).init(&device);
        let mut settings = RunSettings::new(1, folder.path());
        settings.criterion = "train-loss".parse().expect("a criterion");
        (settings.transfer, settings.read_every) = (transfer, read_every);
        let task = Recorded { done: RefCell::default(), before: reads() };
        let optimizer = OptimizerConfig::Adamw { weight_decay: 0.0, betas: [0.9, 0.999] };
        let run = Run::new(model, optimizer.init());
        let data = RunData { train: &Three, test: None };
        let watch = &mut |_: &Event, _: &Linear| Control::Continue;
        run.train(&task, &settings, data, &device, watch).expect("a run");
        task.done.into_inner()
    }

    #[test]
    fn the_next_batch_is_moved_after_the_step_was_submitted_and_before_its_numbers_are_read() {
        let _alone = alone();
        let after = |reads: [usize; 6]| -> Vec<_> {
            ["place", "loss"].into_iter().cycle().zip(reads).collect()
        };
        assert_eq!(done(Transfer::WhenUsed, 1), after([0, 0, 1, 1, 2, 2]));
        // The second batch is moved before the first read, and the third before the second.
        assert_eq!(done(Transfer::Ahead, 1), after([0, 0, 0, 1, 1, 2]));
        // With numbers that are read together, nothing is read between the batches.
        assert_eq!(done(Transfer::Ahead, 10), after([0; 6]));
    }

    #[test]
    fn only_flex_moves_a_batch_when_it_is_used_unless_it_is_asked_to() {
        for device in updraft_testing::autodiff_devices() {
            let is_flex = format!("{device:?}").contains("Flex");
            let expected = !(is_flex && cfg!(feature = "flex"));
            assert_eq!(Transfer::Auto.is_ahead(&device), expected, "{device:?}");
            assert_eq!(Transfer::Auto.is_ahead(&device.clone().inner()), expected);
            assert!(Transfer::Ahead.is_ahead(&device) && !Transfer::WhenUsed.is_ahead(&device));
        }
    }
}
