//! Images with their channels side by side: planes of channels become pixels, and pixels planes.
#![expect(unsafe_code, reason = "squares are transposed through pointers that were checked once")]

use crate::{Isa, MAX_LANES, Simd, dispatch};

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
    transpose_checked(isa.vectors(), from, [rows, columns], from_pitch, to, to_pitch);
}

/// The first lines of squares along a side that they fill, the last of which may begin earlier than the
/// one before ends.
#[inline(always)]
fn starts(lines: usize, lanes: usize) -> impl Iterator<Item = usize> {
    (0..lines).step_by(lanes).map(move |start| start.min(lines - lanes))
}

/// A transpose that is at least a square of lanes.
///
/// # Safety
/// [`transpose`] has checked the slices, and neither side is shorter than a vector.
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
    for outer in starts(outer, S::LANES) {
        for inner in starts(inner, S::LANES) {
            let [row, column] = if is_along_rows { [inner, outer] } else { [outer, inner] };
            let source = from.wrapping_add(row * from_pitch + column);
            let target = to.wrapping_add(column * to_pitch + row);
            // SAFETY: the square lies in both slices, whose ends were checked.
            unsafe { simd.transpose(source, from_pitch, target, to_pitch) };
        }
    }
}

/// A transpose of at most as many rows and columns as lanes, through a square of its own.
#[inline(always)]
fn part<S: Simd>(
    simd: S,
    from: &[f32],
    [rows, columns]: [usize; 2],
    from_pitch: usize,
    to: &mut [f32],
    to_pitch: usize,
) {
    let mut square = [0.0; MAX_LANES * MAX_LANES];
    let mut transposed = square;
    for row in 0..rows {
        let line = &from[row * from_pitch..];
        // A vector may be read beyond the part, whose other numbers are dropped below.
        let read = if line.len() < S::LANES { columns } else { S::LANES };
        simd.write(&mut square[row * S::LANES..], simd.read(&line[..read]));
    }
    // SAFETY: both have room for a square of the widest vectors, and are apart.
    unsafe { simd.transpose(square.as_ptr(), S::LANES, transposed.as_mut_ptr(), S::LANES) };
    for column in 0..columns {
        let line = simd.read(&transposed[column * S::LANES..]);
        simd.write(&mut to[column * to_pitch..][..rows], line);
    }
}

dispatch! {
    /// A transpose whose slices were checked.
    fn transpose_checked(
        simd,
        from: &[f32],
        size: [usize; 2],
        from_pitch: usize,
        to: &mut [f32],
        to_pitch: usize,
    ) {
        transpose_by(simd, from, size, from_pitch, to, to_pitch);
    }
}

#[inline(always)]
fn transpose_by<S: Simd>(
    simd: S,
    from: &[f32],
    [rows, columns]: [usize; 2],
    from_pitch: usize,
    to: &mut [f32],
    to_pitch: usize,
) {
    if rows >= S::LANES && columns >= S::LANES {
        // SAFETY: `transpose` has checked the slices, and the condition both sides.
        return unsafe { squares(simd, from, [rows, columns], from_pitch, to, to_pitch) };
    }
    for row in (0..rows).step_by(S::LANES) {
        for column in (0..columns).step_by(S::LANES) {
            let size = [(rows - row).min(S::LANES), (columns - column).min(S::LANES)];
            let from = &from[row * from_pitch + column..];
            let to = &mut to[column * to_pitch + row..];
            part(simd, from, size, from_pitch, to, to_pitch);
        }
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

    const SIZES: [[usize; 2]; 9] =
        [[1, 1], [16, 16], [19, 35], [40, 7], [7, 40], [15, 15], [3, 5], [16, 1], [24, 17]];

    #[test]
    fn rows_become_columns() {
        for (isa, [rows, columns]) in isas().flat_map(|isa| SIZES.map(|size| (isa, size))) {
            let from: Vec<f32> = (0..rows * (columns + 3)).map(|at| at as f32).collect();
            let mut to = vec![-1.0; columns * (rows + 2)];
            transpose(isa, &from, [rows, columns], columns + 3, &mut to, rows + 2);
            for (row, column) in (0..rows * columns).map(|at| (at / columns, at % columns)) {
                let expected = from[row * (columns + 3) + column];
                assert_eq!(to[column * (rows + 2) + row], expected, "{isa}, {rows}, {columns}");
            }
            let between = to.chunks(rows + 2).flat_map(|column| &column[rows..]);
            assert!(between.copied().all(|number| number == -1.0), "{isa}, {rows}, {columns}");
        }
    }
}
