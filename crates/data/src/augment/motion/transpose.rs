//! Exchanging rows and columns.

use crate::raster::RasterSpec;

/// Exchanges rows and columns of every slice of `[slices, height, width, channels]`, which are
/// equally many.
pub(in crate::augment) fn transpose<T: Copy>(old: &[T], new: &mut [T], spec: &RasterSpec) {
    let (side, channels) = (spec.width, spec.channels);
    let slice = side * side * channels;
    for (old, new) in old.chunks_exact(slice).zip(new.chunks_exact_mut(slice)) {
        for (at, pixel) in new.chunks_exact_mut(channels).enumerate() {
            let from = (at % side * side + at / side) * channels;
            pixel.copy_from_slice(&old[from..][..channels]);
        }
    }
}
