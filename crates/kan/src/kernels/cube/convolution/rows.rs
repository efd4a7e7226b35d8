//! The rows of a launch.

/// Bytes of a part's patches, their gradients and the rows of outputs, at most, unless
/// [`LEAST_ROWS`] have more.
const PART_BYTES: usize = 64 << 20;

/// A part has at least so many rows, and a multiple of them unless it is the last: fewer would not
/// fill the tiles of the linear kernels.
const LEAST_ROWS: usize = 128;

/// Some rows of a group of channels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rows {
    /// The first row.
    pub(crate) first: u32,
    pub(crate) count: u32,
    /// The group, for kernels that do not compute all of them.
    pub(crate) group: u32,
    /// Channels of the group.
    pub(crate) channels: u32,
    /// Outputs of the group.
    pub(crate) outputs: u32,
}

/// Rows of a part, but for the last, for so many inputs and outputs of a row.
pub(crate) fn rows_of_part(inputs: usize, outputs: usize) -> usize {
    let bytes = size_of::<f32>() * (2 * inputs + outputs);
    (PART_BYTES / bytes).max(LEAST_ROWS) / LEAST_ROWS * LEAST_ROWS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_hold_at_most_their_bytes_and_fill_tiles() {
        // 64 channels of 3 × 3 taps to 64 outputs: 13,797 rows fit.
        assert_eq!(rows_of_part(64 * 9, 64), 107 * 128);
        assert!(4 * (2 * 64 * 9 + 64) * rows_of_part(64 * 9, 64) <= PART_BYTES);
        assert_eq!(rows_of_part(1 << 20, 64), 128);
    }
}
