//! The numbers that a caller passes and receives: real ones, or codes.

use updraft_simd::Isa;

use super::model::QuantizedModel;
use super::workspace::Workspace;
use crate::kernels::{dequantize_images, quantize_images};
use crate::scheme::ActivationScheme;

impl QuantizedModel {
    /// Computes all outputs as codes from inputs that are codes, such as images of bytes: one slice
    /// for each input and output, `[samples, height, width, channels]`. Their schemes are those of
    /// [`input_scheme`](Self::input_scheme) and [`output_scheme`](Self::output_scheme).
    ///
    /// The same codes that [`run_all`](Self::run_all) converts from and to, with two differences:
    /// the sums of a fully connected layer whose result is an output are rounded to codes, and so
    /// are inputs that only layers in f32 read.
    ///
    /// # Panics
    /// If the number of slices differs, one is not a whole number of samples or two differ, or the
    /// CPU does not have `isa`.
    pub fn run_codes(
        &self,
        isa: Isa,
        x: &[&[u8]],
        y: &mut [&mut [u8]],
        workspace: &mut Workspace,
        threads: usize,
    ) {
        self.run_ends(isa, x, y, workspace, threads);
    }

    /// The scheme of an input's codes.
    ///
    /// # Panics
    /// If there is no such input.
    #[must_use]
    pub fn input_scheme(&self, input: usize) -> ActivationScheme {
        assert!(input < self.inputs.len(), "input {input} of {}", self.inputs.len());
        self.schemes[input]
    }

    /// The scheme of an output's codes.
    ///
    /// # Panics
    /// If there is no such output.
    #[must_use]
    pub fn output_scheme(&self, output: usize) -> ActivationScheme {
        self.schemes[self.outputs[output].tensor]
    }

    /// Numbers `[n, channels, …]` as codes `[n, …, channels]`.
    pub(super) fn quantize(&self, isa: Isa, tensor: usize, x: &[f32], codes: &mut [u8]) {
        let channels = self.shapes[tensor][0];
        let pixels = self.len(tensor) / channels;
        quantize_images(isa, self.schemes[tensor], channels, pixels, x, codes);
    }

    /// Codes `[n, …, channels]` as numbers `[n, channels, …]`.
    pub(super) fn real(&self, isa: Isa, tensor: usize, codes: &[u8], y: &mut [f32]) {
        let channels = self.shapes[tensor][0];
        let pixels = self.len(tensor) / channels;
        dequantize_images(isa, self.schemes[tensor], channels, pixels, codes, y);
    }
}

/// A number at the ends of a network. Real numbers are `[n, channels, …]`, codes
/// `[n, …, channels]`.
pub(super) trait BoundaryElement: Copy + Send + Sync {
    /// Whether sums of products are converted to it without codes between.
    const IS_REAL: bool;

    /// Whether the codes of an output are needed beside it.
    fn is_read(model: &QuantizedModel, tensor: usize) -> bool;

    /// Numbers as codes that need no conversion.
    fn codes(x: &[Self]) -> Option<&[u8]>;

    /// The same, to be written.
    fn codes_mut(y: &mut [Self]) -> Option<&mut [u8]>;

    /// Real numbers that need no conversion.
    fn real(x: &[Self]) -> Option<&[f32]>;

    /// The same, to be written.
    fn real_mut(y: &mut [Self]) -> Option<&mut [f32]>;

    /// Converts an input.
    fn read(model: &QuantizedModel, isa: Isa, tensor: usize, x: &[Self], codes: &mut [u8]);

    /// Converts the codes of an output.
    fn write(model: &QuantizedModel, isa: Isa, tensor: usize, codes: &[u8], y: &mut [Self]);

    /// Converts an output in f32.
    fn write_real(model: &QuantizedModel, isa: Isa, tensor: usize, real: &[f32], y: &mut [Self]);
}

impl BoundaryElement for f32 {
    const IS_REAL: bool = true;

    fn is_read(model: &QuantizedModel, tensor: usize) -> bool {
        model.is_coded(tensor)
    }

    fn codes(_: &[Self]) -> Option<&[u8]> {
        None
    }

    fn codes_mut(_: &mut [Self]) -> Option<&mut [u8]> {
        None
    }

    fn real(x: &[Self]) -> Option<&[f32]> {
        Some(x)
    }

    fn real_mut(y: &mut [Self]) -> Option<&mut [f32]> {
        Some(y)
    }

    fn read(model: &QuantizedModel, isa: Isa, tensor: usize, x: &[Self], codes: &mut [u8]) {
        model.quantize(isa, tensor, x, codes);
    }

    fn write(model: &QuantizedModel, isa: Isa, tensor: usize, codes: &[u8], y: &mut [Self]) {
        model.real(isa, tensor, codes, y);
    }

    fn write_real(_: &QuantizedModel, _: Isa, _: usize, real: &[f32], y: &mut [Self]) {
        y.copy_from_slice(real);
    }
}

impl BoundaryElement for u8 {
    const IS_REAL: bool = false;

    fn is_read(model: &QuantizedModel, tensor: usize) -> bool {
        model.layers.iter().any(|layer| layer.inputs.contains(&tensor))
    }

    fn codes(x: &[Self]) -> Option<&[u8]> {
        Some(x)
    }

    fn codes_mut(y: &mut [Self]) -> Option<&mut [u8]> {
        Some(y)
    }

    fn real(_: &[Self]) -> Option<&[f32]> {
        None
    }

    fn real_mut(_: &mut [Self]) -> Option<&mut [f32]> {
        None
    }

    fn read(_: &QuantizedModel, _: Isa, _: usize, x: &[Self], codes: &mut [u8]) {
        codes.copy_from_slice(x);
    }

    fn write(_: &QuantizedModel, _: Isa, _: usize, codes: &[u8], y: &mut [Self]) {
        y.copy_from_slice(codes);
    }

    fn write_real(model: &QuantizedModel, isa: Isa, tensor: usize, real: &[f32], y: &mut [Self]) {
        model.quantize(isa, tensor, real, y);
    }
}
