//! The normalization of a channel as a line.

use cubecl::prelude::*;

/// The result before the activation is `(x − mean)·scale + shift`.
#[derive(CubeType)]
pub(super) struct Line {
    pub(super) mean: f32,
    /// `γ/√(variance + ε)`.
    pub(super) scale: f32,
    /// `β`.
    pub(super) shift: f32,
}

/// The line of a channel.
#[cube]
pub(super) fn line_of(
    channel: u32,
    gamma: &[f32],
    beta: &[f32],
    mean: &[f32],
    variance: &[f32],
    epsilon: f32,
) -> Line {
    let at = channel as usize;
    Line { mean: mean[at], scale: gamma[at] / f32::sqrt(variance[at] + epsilon), shift: beta[at] }
}

/// The line of a channel that is stored in `[3, channels]`.
#[cfg(feature = "autodiff")]
#[cube]
pub(super) fn line_at(lines: &[f32], channel: u32, channels: u32) -> Line {
    let (at, distance) = (channel as usize, channels as usize);
    Line { mean: lines[at], scale: lines[distance + at], shift: lines[distance * 2usize + at] }
}

/// The result before residual and activation.
#[cube]
pub(super) fn on_line(number: f32, line: &Line) -> f32 {
    (number - line.mean) * line.scale + line.shift
}
