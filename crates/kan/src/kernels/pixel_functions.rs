//! The functions of pixels whose channels lie side by side.

use updraft_simd::Simd;

/// The functions of channels, or of inputs of a linear layer, which are the same for all channels of a
/// vector: those of a basis, then that of the base branch, if there is one. Each of them is a term.
pub(crate) trait PixelFunctions: Copy + Send + Sync {
    /// Trained parameters of the functions of a channel.
    fn trained(self) -> usize;

    /// Writes the values, `[pixels][terms][channels]`, of a block of channels from a first one on,
    /// `[pixels][channels]`.
    fn values<S: Simd>(self, simd: S, channel: usize, pixels: &[f32], values: &mut [f32]);

    /// Replaces pixels, `[pixels][channels]`, by their gradients, from those of the values,
    /// `[pixels][pitch]`, of which each has `[terms][channels]`.
    ///
    /// The gradients of trained parameters are added to `sums`, `[parameters][channels]`, if it is not
    /// empty. `scratch` has room for the values of a pixel.
    #[expect(clippy::too_many_arguments, reason = "a pass's inputs, outputs and memory")]
    fn gradients<S: Simd>(
        self,
        simd: S,
        channel: usize,
        pixels: &mut [f32],
        values: &mut [f32],
        pitch: usize,
        sums: &mut [f32],
        scratch: &mut [f32],
    );
}
