//! The greatest of the windows of a row, channel by channel.

use updraft_simd::{Int8, Int8Kernel};

/// The greatest code of each window of a line, whose pixels are the greatest of a column each.
///
/// The code of a window that lies in the padding is 0.
#[derive(Debug)]
pub(crate) struct MaximumAlong<'a> {
    /// `[pixels][channels]`.
    pub(crate) line: &'a [u8],
    pub(crate) channels: usize,
    pub(crate) kernel: usize,
    pub(crate) stride: usize,
    pub(crate) padding: usize,
    pub(crate) dilation: usize,
    /// `[windows][channels]`.
    pub(crate) to: &'a mut [u8],
}

impl Int8Kernel for MaximumAlong<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Int8>(self, _: S) {
        let Self { line, channels, kernel, stride, padding, dilation, to } = self;
        let pixels = line.len() / channels;
        for (window, to) in to.chunks_exact_mut(channels).enumerate() {
            to.fill(0);
            for entry in 0..kernel {
                let place = (window * stride + entry * dilation).wrapping_sub(padding);
                if place < pixels {
                    let from = &line[place * channels..][..channels];
                    to.iter_mut().zip(from).for_each(|(to, from)| *to = (*to).max(*from));
                }
            }
        }
    }
}
