//! Images with their channels side by side: planes of channels become pixels, and pixels planes.
#![expect(unsafe_code, reason = "squares are transposed through pointers that were checked once")]

use crate::{Isa, Simd, dispatch};

/// Copies a part of an image to `[rows][columns][filled]`, with zeros outside of the image and for
/// channels that it does not have.
///
/// Channels of the image are `plane` numbers apart, and `filled` is at least their number. The first row
/// and column of the part may be negative or beyond the image.
///
/// # Panics
/// If a slice is too short, `filled` is less than the channels, or the CPU does not have `isa`.
#[expect(clippy::too_many_arguments, reason = "the size and place of a part of an image")]
pub fn by_pixel(
    isa: Isa,
    image: &[f32],
    plane: usize,
    [channels, filled]: [usize; 2],
    [height, width]: [usize; 2],
    first: [isize; 2],
    [rows, columns]: [usize; 2],
    to: &mut [f32],
) {
    assert!(filled >= channels, "room for all channels");
    let numbers = rows.saturating_mul(columns).saturating_mul(filled);
    assert!(numbers <= to.len(), "the target is too short");
    if numbers == 0 {
        return;
    }
    let inside = |axis: usize, count: usize, size: usize| {
        let from = first[axis].clamp(0, size as isize);
        let before = ((from - first[axis]) as usize).min(count);
        (from as usize, before, (count - before).min(size - from as usize))
    };
    let (top, above, own_rows) = inside(0, rows, height);
    let (left, before, own_columns) = inside(1, columns, width);
    for (row, line) in to.chunks_exact_mut(columns * filled).take(rows).enumerate() {
        if filled > channels || !(above..above + own_rows).contains(&row) || own_columns == 0 {
            line.fill(0.0);
            continue;
        }
        line[..before * filled].fill(0.0);
        line[(before + own_columns) * filled..].fill(0.0);
    }
    if own_columns == 0 {
        return;
    }
    // Vector by vector of channels, whose planes are then read one row after the other.
    for channel in (0..channels).step_by(isa.lanes()) {
        let count = isa.lanes().min(channels - channel);
        for row in 0..own_rows {
            let from = &image[channel * plane + (top + row) * width + left..];
            let to = &mut to[((above + row) * columns + before) * filled + channel..];
            transpose(isa, from, [count, own_columns], plane, to, filled);
        }
    }
}

/// Writes the transpose: `to[column][row] = from[row][column]`, rows and columns `pitch` apart.
///
/// # Panics
/// If a slice is too short, or the CPU does not have `isa`.
pub fn transpose(
    isa: Isa,
    from: &[f32],
    [rows, columns]: [usize; 2],
    from_pitch: usize,
    to: &mut [f32],
    to_pitch: usize,
) {
    assert!(isa.is_available(), "this CPU has no {isa}");
    if rows == 0 || columns == 0 {
        return;
    }
    let end = |count: usize, pitch: usize, len: usize| {
        (count - 1).saturating_mul(pitch).saturating_add(len)
    };
    assert!(end(rows, from_pitch, columns) <= from.len(), "the source is too short");
    assert!(end(columns, to_pitch, rows) <= to.len(), "the target is too short");
    let lanes = isa.lanes();
    let (square_rows, square_columns) = (rows / lanes * lanes, columns / lanes * lanes);
    let squares = [square_rows, square_columns];
    transpose_squares(isa.vectors(), from, squares, from_pitch, to, to_pitch);
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
unsafe fn squares<S: Simd>(
    simd: S,
    from: &[f32],
    [rows, columns]: [usize; 2],
    from_pitch: usize,
    to: &mut [f32],
    to_pitch: usize,
) {
    let (from, to) = (from.as_ptr(), to.as_mut_ptr());
    // Along the side with the longer distance between lines, whose lines share sets of the cache.
    let is_along_rows = to_pitch > from_pitch;
    let [outer, inner] = if is_along_rows { [columns, rows] } else { [rows, columns] };
    for outer in (0..outer).step_by(S::LANES) {
        for inner in (0..inner).step_by(S::LANES) {
            let [row, column] = if is_along_rows { [inner, outer] } else { [outer, inner] };
            let source = from.wrapping_add(row * from_pitch + column);
            let target = to.wrapping_add(column * to_pitch + row);
            // SAFETY: the square lies in both slices, whose ends were checked.
            unsafe { simd.transpose(source, from_pitch, target, to_pitch) };
        }
    }
}

dispatch! {
    /// Transposes whole squares that were checked.
    fn transpose_squares(
        simd,
        from: &[f32],
        size: [usize; 2],
        from_pitch: usize,
        to: &mut [f32],
        to_pitch: usize,
    ) {
        // SAFETY: `transpose` has checked the slices.
        unsafe { squares(simd, from, size, from_pitch, to, to_pitch) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn isas() -> impl Iterator<Item = Isa> {
        Isa::BASES.into_iter().filter(|isa| isa.is_available())
    }

    #[test]
    fn a_part_of_an_image_has_zeros_where_it_reaches_over() {
        let (channels, [height, width]) = (19, [5, 21]);
        let image: Vec<f32> = (1..=channels * height * width).map(|at| at as f32).collect();
        let filled = 32;
        for first in [[-1, -2], [2, 3], [4, 20], [-9, -9], [7, 30]] {
            let size = [4, 23];
            for isa in isas() {
                let mut to = vec![f32::NAN; size[0] * size[1] * filled];
                let plane = height * width;
                by_pixel(
                    isa,
                    &image,
                    plane,
                    [channels, filled],
                    [height, width],
                    first,
                    size,
                    &mut to,
                );
                for (at, &number) in to.iter().enumerate() {
                    let (pixel, channel) = (at / filled, at % filled);
                    let row = first[0] + (pixel / size[1]) as isize;
                    let column = first[1] + (pixel % size[1]) as isize;
                    let is_inside = (0..height as isize).contains(&row)
                        && (0..width as isize).contains(&column)
                        && channel < channels;
                    let expected = if is_inside {
                        image[channel * plane + row as usize * width + column as usize]
                    } else {
                        0.0
                    };
                    assert_eq!(number, expected, "{isa}: {first:?}, {at}");
                }
            }
        }
    }

    #[test]
    fn rows_become_columns() {
        for (isa, [rows, columns]) in
            isas().flat_map(|isa| [[1, 1], [16, 16], [19, 35], [40, 7]].map(|size| (isa, size)))
        {
            let from: Vec<f32> = (0..rows * (columns + 3)).map(|at| at as f32).collect();
            let mut to = vec![-1.0; columns * (rows + 2)];
            transpose(isa, &from, [rows, columns], columns + 3, &mut to, rows + 2);
            for (row, column) in (0..rows * columns).map(|at| (at / columns, at % columns)) {
                let expected = from[row * (columns + 3) + column];
                assert_eq!(to[column * (rows + 2) + row], expected, "{isa}, {rows}, {columns}");
            }
        }
    }
}
