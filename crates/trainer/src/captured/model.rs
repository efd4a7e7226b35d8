//! A forward pass that is recorded once and replayed for inputs of one form.

use std::fmt;
use std::thread::{self, ThreadId};

use burn::tensor::Device;

use super::reason::{CapturedCallError, NotCaptured, TensorForm};
use super::recording::Recording;
use super::values::{bytes, copied, forms, is_quantized, other_device, overwritten};
use crate::tensors::Tensors;

/// How a forward pass is captured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct CaptureSettings {
    /// Runs before the recorded one, at least 1; burn's own capture has 3, because fused kernels
    /// are measured in the first and allocate as later only from the second on.
    pub warm_ups: usize,
}

impl Default for CaptureSettings {
    fn default() -> Self {
        Self { warm_ups: 3 }
    }
}

impl CaptureSettings {
    /// The same with another number of runs before the recorded one.
    #[must_use]
    pub const fn with_warm_ups(mut self, warm_ups: usize) -> Self {
        self.warm_ups = warm_ups;
        self
    }
}

/// How the calls of a forward pass were computed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct CaptureReport {
    /// Calls that a replay computed.
    pub replayed: u64,
    /// Calls that ran the forward pass, the first ones that were compared with a replay included.
    pub plain: u64,
    /// Why calls are plain; `None` if they are replayed.
    pub reason: Option<NotCaptured>,
}

/// A forward pass whose operations are recorded once on a device, and replayed for each input of the
/// same form: one launch instead of one for each kernel on CUDA and `ROCm`.
///
/// The counterpart of a wrapper of CUDA graphs, and of `torch.compile(mode="reduce-overhead")`
/// without its compiler. It owns the recorded input and output: a call copies its input into the
/// one, and returns a copy of the other.
///
/// Where burn records nothing, or the recording cannot be used, each call runs the forward pass,
/// with [`NotCaptured`] as the reason. The first calls run it in any case and compare every bit
/// with the replay, until an output differs from that of the recording and both agree.
///
/// The forward pass has to compute its output from the input and from tensors that do not change:
/// numbers that it draws are recorded, too. It must not read the device. While it is recorded, no
/// other thread may use the device: on CUDA that ends the recording. Calls from another thread than
/// the one that captured are plain.
///
/// # Example
/// ```
/// use burn::nn::LinearConfig;
/// use burn::tensor::{Device, Tensor};
/// use updraft_trainer::{CaptureSettings, CapturedModel, NotCaptured};
///
/// let device = Device::flex();
/// let model = LinearConfig::new(4, 2).init(&device);
/// let plain = model.forward(Tensor::<2>::ones([8, 4], &device));
/// let example = Tensor::<2>::zeros([8, 4], &device);
/// let forward = move |x: Tensor<2>| model.forward(x);
/// let mut model = CapturedModel::capture(forward, &example, CaptureSettings::default());
/// // flex launches nothing that could be recorded.
/// assert!(matches!(model.not_captured(), Some(NotCaptured::NotOffered { .. })));
/// let output = model.call(Tensor::ones([8, 4], &device))?;
/// assert_eq!(output.into_data(), plain.into_data());
/// assert!(model.call(Tensor::ones([9, 4], &device)).is_err());
/// # Ok::<(), updraft_trainer::CapturedCallError>(())
/// ```
pub struct CapturedModel<I, O, F> {
    forward: F,
    device: Option<Device>,
    expected: Vec<TensorForm>,
    path: Path<I, O>,
    report: CaptureReport,
    is_reported: bool,
}

enum Path<I, O> {
    Plain,
    Replayed(Box<Replayed<I, O>>),
}

/// A recording with what it reads and writes; it is dropped before they are.
struct Replayed<I, O> {
    recording: Recording,
    /// Taken while it is overwritten.
    input: Option<I>,
    output: O,
    thread: ThreadId,
    /// The bytes of the output of the recorded input; `None` once a replay with another output had
    /// the bits of a plain call.
    unproven: Option<Vec<Vec<u8>>>,
}

impl<I: Tensors, O: Tensors, F: FnMut(I) -> O> CapturedModel<I, O, F> {
    /// Captures a forward pass for inputs with the dtypes and shapes of `example`, whose numbers do
    /// not matter; `example` itself is not changed.
    ///
    /// # Panics
    /// As `forward`, unless it panics only while it is recorded.
    pub fn capture(mut forward: F, example: &I, settings: CaptureSettings) -> Self {
        let expected = forms(example);
        let device = Tensors::device(example);
        let captured = record(&mut forward, example, (&expected, device.as_ref()), settings);
        let mut model = Self {
            forward,
            device,
            expected,
            path: Path::Plain,
            report: CaptureReport::default(),
            is_reported: false,
        };
        match captured {
            Ok(replayed) => model.path = Path::Replayed(Box::new(replayed)),
            Err(reason) => model.fall_back(reason),
        }
        model
    }

    /// The output for an input of the captured form, in memory of its own.
    ///
    /// # Errors
    /// [`CapturedCallError`] for an input with another number of tensors, another dtype, shape or
    /// device; nothing is computed then.
    ///
    /// # Panics
    /// As the forward pass.
    pub fn call(&mut self, input: I) -> Result<O, CapturedCallError> {
        self.check(&input)?;
        Ok(self.compute(input))
    }

    /// Runs the forward pass for an input of any form.
    ///
    /// # Panics
    /// As the forward pass.
    pub fn call_plain(&mut self, input: I) -> O {
        self.report.plain += 1;
        (self.forward)(input)
    }

    /// Checks that an input has the form and the device that was captured.
    ///
    /// # Errors
    /// As [`call`](Self::call).
    pub fn check(&self, input: &I) -> Result<(), CapturedCallError> {
        let found = forms(input);
        if found.len() != self.expected.len() {
            let (expected, found) = (self.expected.len(), found.len());
            return Err(CapturedCallError::Count { expected, found });
        }
        for (index, (expected, found)) in self.expected.iter().zip(found).enumerate() {
            if *expected != found {
                return Err(CapturedCallError::Form { index, expected: expected.clone(), found });
            }
        }
        let Some(expected) = &self.device else { return Ok(()) };
        match other_device(input, expected) {
            None => Ok(()),
            Some(found) => Err(CapturedCallError::Device {
                expected: format!("{expected:?}"),
                found: format!("{found:?}"),
            }),
        }
    }

    /// Why calls run the forward pass; `None` if they are replayed.
    #[must_use]
    pub const fn not_captured(&self) -> Option<&NotCaptured> {
        self.report.reason.as_ref()
    }

    /// The same at the first call after it became known, to report it once.
    pub fn take_reason(&mut self) -> Option<NotCaptured> {
        if self.is_reported {
            return None;
        }
        let reason = self.report.reason.clone();
        self.is_reported = reason.is_some();
        reason
    }

    /// How the calls were computed so far.
    #[must_use]
    pub const fn report(&self) -> &CaptureReport {
        &self.report
    }

    fn compute(&mut self, input: I) -> O {
        let Path::Replayed(replayed) = &mut self.path else { return self.call_plain(input) };
        if replayed.thread != thread::current().id() {
            return self.call_plain(input);
        }
        let output = match replayed.run(&input) {
            Ok(output) => output,
            Err(reason) => {
                self.fall_back(reason);
                return self.call_plain(input);
            }
        };
        let Some(recorded) = &replayed.unproven else {
            self.report.replayed += 1;
            return output;
        };
        self.report.plain += 1;
        let call = self.report.plain;
        let plain = (self.forward)(input);
        match (bytes(&output), bytes(&plain)) {
            (Ok(output), Ok(plain)) if output == plain => {
                if plain != *recorded {
                    replayed.unproven = None;
                }
            }
            (Ok(_), Ok(_)) => self.fall_back(NotCaptured::Differs { call }),
            (Err(cause), _) => self.fall_back(NotCaptured::Failed { cause }),
            // Reported where the output is read.
            (Ok(_), Err(_)) => {}
        }
        plain
    }

    fn fall_back(&mut self, reason: NotCaptured) {
        #[cfg(feature = "tracing")]
        tracing::info!(%reason, "the forward pass is not replayed");
        self.report.reason = Some(reason);
        self.path = Path::Plain;
    }
}

impl<I, O, F> fmt::Debug for CapturedModel<I, O, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CapturedModel")
            .field("expected", &self.expected)
            .field("report", &self.report)
            .finish_non_exhaustive()
    }
}

impl<I: Tensors, O: Tensors> Replayed<I, O> {
    /// The output of a replay with this input.
    fn run(&mut self, input: &I) -> Result<O, NotCaptured> {
        let Some(own) = self.input.take() else { return Err(NotCaptured::SharedInput) };
        self.input = Some(overwritten(own, input).map_err(|_| NotCaptured::SharedInput)?);
        self.recording.replay().map_err(|cause| NotCaptured::Failed { cause })?;
        Ok(copied(&self.output))
    }
}

/// Records the forward pass of a copy of `example`.
fn record<I: Tensors, O: Tensors>(
    forward: &mut dyn FnMut(I) -> O,
    example: &I,
    (expected, device): (&[TensorForm], Option<&Device>),
    settings: CaptureSettings,
) -> Result<Replayed<I, O>, NotCaptured> {
    let device = device.ok_or(NotCaptured::NoInput)?;
    if is_quantized(expected) {
        return Err(NotCaptured::Quantized);
    }
    Recording::offered(device)?;
    let input = copied(example);
    let plain = forward(input.clone());
    let outputs = forms(&plain);
    if outputs.is_empty() {
        return Err(NotCaptured::NoOutput);
    }
    if is_quantized(&outputs) {
        return Err(NotCaptured::Quantized);
    }
    let unproven = Some(bytes(&plain).map_err(|cause| NotCaptured::Failed { cause })?);
    drop(plain);
    let mut again = || forward(input.clone());
    let (recording, output) = Recording::record(device, settings.warm_ups, &mut again)?;
    let thread = thread::current().id();
    Ok(Replayed { recording, input: Some(input), output, thread, unproven })
}
