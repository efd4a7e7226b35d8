//! Moving by whole pixels.

use crate::raster::RasterSpec;

/// Moves `[slices, height, width, channels]` by whole slices, rows and columns, and mirrors it at
/// its edges to fill the uncovered area (the edge itself is not repeated).
///
/// Each move is shorter than its side.
pub(in crate::augment) fn shift<T: Copy>(
    old: &[T],
    new: &mut [T],
    spec: &RasterSpec,
    [slices, down, right]: [isize; 3],
) {
    let (depth, height, width) = (spec.slices(), spec.height, spec.width);
    let channels = spec.channels;
    let stride = channels * width;
    // The columns that stay inside are copied at once; only the uncovered ones are mirrored one by
    // one.
    let shown = right.max(0) as usize..(width as isize + right.min(0)) as usize;
    let from = (shown.start as isize - right) as usize;
    for (slice, new) in new.chunks_exact_mut(stride * height).enumerate() {
        let old = &old[stride * height * mirror(slice as isize - slices, depth)..];
        for (row, new) in new.chunks_exact_mut(stride).enumerate() {
            let old = &old[stride * mirror(row as isize - down, height)..][..stride];
            let values = channels * shown.start..channels * shown.end;
            let count = values.len();
            new[values].copy_from_slice(&old[channels * from..][..count]);
            for column in (0..shown.start).chain(shown.end..width) {
                let mirrored = mirror(column as isize - right, width);
                for channel in 0..channels {
                    new[channels * column + channel] = old[channels * mirrored + channel];
                }
            }
        }
    }
}

/// The pixel at a position up to `length − 1` beyond either edge.
fn mirror(position: isize, length: usize) -> usize {
    let last = length as isize - 1;
    let inside = if position < 0 { -position } else { position };
    (if inside > last { 2 * last - inside } else { inside }) as usize
}
