//! Maxima of squares of two rows and two columns, in vectors of numbers that are side by side in a row.
#![expect(unsafe_code, reason = "vectors are read from slices whose lengths were checked")]

use updraft_simd::{MAX_LANES, Simd, dispatch};

use super::plane::{larger, replaces};

dispatch! {
    /// Writes the maxima of a feature map of this width, in rows of so many windows.
    pub(super) fn maxima(_simd, sizes: [usize; 2], x: &[f32], y: &mut [f32]) {
        let [width, windows] = sizes;
        for (rows, y) in x.chunks(2 * width).zip(y.chunks_exact_mut(windows)) {
            let (upper, lower) = rows.split_at(width);
            let rows = upper.as_chunks::<2>().0.iter().zip(lower.as_chunks::<2>().0);
            for ((upper, lower), y) in rows.zip(y) {
                let [left, right] = [0, 1].map(|side| larger(upper[side], lower[side]));
                *y = larger(left, right);
            }
        }
    }

    /// Writes the gradients of `x`, of which `dy` are those of the maxima.
    pub(super) fn gradients(simd, sizes: [usize; 2], inputs: [&[f32]; 2], dx: &mut [f32]) {
        gradients_by(simd, sizes, inputs, dx);
    }
}

#[inline(always)]
fn gradients_by<S: Simd>(
    simd: S,
    [width, windows]: [usize; 2],
    [x, dy]: [&[f32]; 2],
    dx: &mut [f32],
) {
    let (pairs, rest) = dx.split_at_mut(2 * width * (dy.len() / windows));
    rest.fill(0.0);
    let has_nan = x.iter().fold(false, |has_nan, x| has_nan | x.is_nan());
    let rows = x.chunks(2 * width).zip(pairs.chunks_exact_mut(2 * width));
    for ((x, dx), dy) in rows.zip(dy.chunks_exact(windows)) {
        let x = x.split_at(width);
        let (upper, lower) = dx.split_at_mut(width);
        for row in [&mut *upper, &mut *lower] {
            row[2 * windows..].fill(0.0);
        }
        if has_nan {
            one_by_one([x.0, x.1], dy, [upper, lower]);
        } else {
            in_vectors(simd, [x.0, x.1], dy, [upper, lower]);
        }
    }
}

/// The gradients of two rows without NaN.
#[inline(always)]
fn in_vectors<S: Simd>(simd: S, x: [&[f32]; 2], dy: &[f32], [dx_upper, dx_lower]: [&mut [f32]; 2]) {
    let is_right: [f32; MAX_LANES] = std::array::from_fn(|lane| (lane % 2) as f32);
    let (is_right, zero, half) = (simd.read(&is_right), simd.zero(), simd.splat(0.5));
    let one = simd.splat(1.0);
    for window in (0..dy.len()).step_by(S::LANES / 2) {
        let place = 2 * window..2 * dy.len().min(window + S::LANES / 2);
        let [upper, lower] = x.map(|row| simd.read(&row[place.clone()]));
        let of_columns = simd.larger(upper, lower);
        let largest = simd.larger(of_columns, simd.swap_neighbors(of_columns));
        // 1 where a number is the maximum of its window, and of equals the first.
        let [upper, lower] = [upper, lower].map(|row| simd.where_below([row, largest], zero, one));
        let first = |row: S::Vector| {
            let before = simd.multiply(simd.swap_neighbors(row), is_right);
            simd.where_below([before, half], row, zero)
        };
        let is_above = simd.larger(upper, simd.swap_neighbors(upper));
        let lower = simd.where_below([is_above, half], lower, zero);
        let dy = read_twice(simd, &dy[window..]);
        let of = |is_first: S::Vector| simd.where_below([half, is_first], dy, zero);
        simd.write(&mut dx_upper[place.clone()], of(first(upper)));
        simd.write(&mut dx_lower[place], of(first(lower)));
    }
}

/// The first numbers, each in two neighboring lanes.
#[inline(always)]
fn read_twice<S: Simd>(simd: S, from: &[f32]) -> S::Vector {
    if from.len() >= S::LANES / 2 {
        // SAFETY: the slice has half a vector's numbers.
        return unsafe { simd.load_twice(from.as_ptr()) };
    }
    let mut numbers = [0.0; MAX_LANES / 2];
    numbers[..from.len()].copy_from_slice(from);
    // SAFETY: these are half a vector's numbers, or more.
    unsafe { simd.load_twice(numbers.as_ptr()) }
}

/// The gradients of two rows, where NaN is larger than all.
fn one_by_one(x: [&[f32]; 2], dy: &[f32], dx: [&mut [f32]; 2]) {
    let [upper, lower] = x.map(|row| row.as_chunks::<2>().0);
    let [dx_upper, dx_lower] = dx.map(|row| row.as_chunks_mut::<2>().0);
    for (window, &dy) in dy.iter().enumerate() {
        let ([a, b], [c, d]) = (upper[window], lower[window]);
        let (mut best, mut place) = (a, 0);
        for (number, at) in [b, c, d].into_iter().zip(1..) {
            if replaces(number, best) {
                (best, place) = (number, at);
            }
        }
        let of = |at: usize| if place == at { dy } else { 0.0 };
        dx_upper[window] = [of(0), of(1)];
        dx_lower[window] = [of(2), of(3)];
    }
}

#[cfg(test)]
mod tests {
    use updraft_simd::Isa;

    use super::*;

    /// The gradients by the definition: of equals the first number has it, and NaN is larger than all.
    fn expected([width, height]: [usize; 2], x: &[f32], dy: &[f32]) -> Vec<f32> {
        let mut dx = vec![0.0; x.len()];
        for (at, &dy) in dy.iter().enumerate() {
            let (row, column) = (at / (width / 2), at % (width / 2));
            assert!(row < height / 2);
            let corner = 2 * row * width + 2 * column;
            let square = [corner, corner + 1, corner + width, corner + width + 1];
            let first_nan = square.into_iter().find(|&at| x[at].is_nan());
            let largest = square.map(|at| x[at]).into_iter().fold(f32::NEG_INFINITY, f32::max);
            let first = square.into_iter().find(|&at| x[at] == largest);
            dx[first_nan.or(first).expect("a maximum")] = dy;
        }
        dx
    }

    #[test]
    fn the_first_of_equal_numbers_has_the_gradient_also_beside_nan() {
        for size @ [width, height] in [[2, 2], [7, 7], [15, 15], [31, 4], [33, 3], [48, 2]] {
            let windows = width / 2;
            // Few different numbers, so that windows have ties of every kind.
            let mut x: Vec<f32> =
                (0..width * height).map(|at| ((at * 7919 % 101) % 3) as f32 - 1.0).collect();
            let dy: Vec<f32> = (1..=windows * (height / 2)).map(|at| at as f32).collect();
            for nan in [None, Some(0), Some(width + 1)] {
                if let Some(nan) = nan {
                    x[nan] = f32::NAN;
                }
                for isa in Isa::BASES.into_iter().filter(|isa| isa.is_available()) {
                    let mut dx = vec![f32::NAN; x.len()];
                    gradients(isa.vectors(), [width, windows], [&x, &dy], &mut dx);
                    assert_eq!(dx, expected(size, &x, &dy), "{isa}, {size:?}, {nan:?}");
                }
            }
        }
    }
}
