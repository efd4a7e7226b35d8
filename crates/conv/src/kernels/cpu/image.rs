//! Images as the inner loops want them: padded by zeros, or pixel by pixel.
#![expect(unsafe_code, reason = "reads and writes through pointers that were checked once")]

use super::vector::Simd;
use crate::kernels::path::Path;

/// Copies `[channels][height][width]` into `[channels][padded.0][padded.1]`, `before` rows and
/// columns from its start; what lies around it is left as it is.
pub(crate) fn pad(
    image: &[f32],
    [height, width]: [usize; 2],
    before: [usize; 2],
    padded: [usize; 2],
    to: &mut [f32],
) {
    let [top, left] = before;
    let planes = image.chunks_exact(height * width);
    for (plane, to) in planes.zip(to.chunks_exact_mut(padded[0] * padded[1])) {
        let inside = &mut to[top * padded[1]..];
        for (row, to) in plane.chunks_exact(width).zip(inside.chunks_mut(padded[1])) {
            copy(row, &mut to[left..left + width]);
        }
    }
}

/// Copies a short row; calling the system's copy costs more than the copy.
#[inline(always)]
fn copy(from: &[f32], to: &mut [f32]) {
    const STEP: usize = 8;
    let (from_parts, from_rest) = from.as_chunks::<STEP>();
    let (to_parts, to_rest) = to.as_chunks_mut::<STEP>();
    for (from, to) in from_parts.iter().zip(to_parts) {
        *to = *from;
    }
    for (from, to) in from_rest.iter().zip(to_rest) {
        *to = *from;
    }
}

/// Writes the transpose: `to[column][row] = from[row][column]`, rows and columns `pitch` apart.
///
/// # Panics
/// If a slice is too short, or the path is not available.
pub(crate) fn transpose(
    path: Path,
    from: &[f32],
    [rows, columns]: [usize; 2],
    from_pitch: usize,
    to: &mut [f32],
    to_pitch: usize,
) {
    assert!(path.is_available(), "this CPU has no {path}");
    if rows == 0 || columns == 0 {
        return;
    }
    assert!((rows - 1) * from_pitch + columns <= from.len(), "the source is too short");
    assert!((columns - 1) * to_pitch + rows <= to.len(), "the target is too short");
    let lanes = super::lanes(path);
    let (square_rows, square_columns) = (rows / lanes * lanes, columns / lanes * lanes);
    let squares = [square_rows, square_columns];
    match path {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: the path is available.
        Path::Avx512 => unsafe { super::avx512::squares(from, squares, from_pitch, to, to_pitch) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: the path is available.
        Path::Avx2 => unsafe { super::avx2::squares(from, squares, from_pitch, to, to_pitch) },
        // SAFETY: every CPU has it.
        _ => unsafe { super::portable::squares(from, squares, from_pitch, to, to_pitch) },
    }
    for row in 0..rows {
        let done = if row < square_rows { square_columns } else { 0 };
        for column in done..columns {
            to[column * to_pitch + row] = from[row * from_pitch + column];
        }
    }
}

/// The part of a transpose that is whole squares of lanes.
///
/// # Safety
/// [`transpose`] has checked the slices.
#[inline(always)]
pub(super) unsafe fn squares<S: Simd>(
    simd: S,
    from: &[f32],
    [rows, columns]: [usize; 2],
    from_pitch: usize,
    to: &mut [f32],
    to_pitch: usize,
) {
    for row in (0..rows).step_by(S::LANES) {
        for column in (0..columns).step_by(S::LANES) {
            let source = from.as_ptr().wrapping_add(row * from_pitch + column);
            let target = to.as_mut_ptr().wrapping_add(column * to_pitch + row);
            // SAFETY: the square lies in both slices, whose ends were checked.
            unsafe { simd.transpose(source, from_pitch, target, to_pitch) };
        }
    }
}

/// A path's `squares`.
macro_rules! entries {
    ($(#[$feature:meta])* $kind:ty = $proof:expr) => {
        /// Transposes whole squares.
        ///
        /// # Safety
        /// The CPU has what this path needs, and [`image::transpose`] has checked the slices.
        $(#[$feature])*
        pub(super) unsafe fn squares(
            from: &[f32],
            size: [usize; 2],
            from_pitch: usize,
            to: &mut [f32],
            to_pitch: usize,
        ) {
            // SAFETY: the caller promises the check.
            unsafe { image::squares::<$kind>($proof, from, size, from_pitch, to, to_pitch) };
        }
    };
}
pub(super) use entries;
