//! Pooling of one feature map: first the rows of a window, as vectors, then its columns.

use updraft_simd::dispatch;

use super::pooling::{PoolGeometry, Pooling, Window};

impl Window {
    #[inline(always)]
    pub(super) fn inputs(self) -> impl Iterator<Item = usize> {
        (0..self.count).map(move |tap| self.start + tap * self.step)
    }
}

/// The larger; NaN is larger than all.
#[inline(always)]
fn larger(a: f32, b: f32) -> f32 {
    if b > a || b.is_nan() { b } else { a }
}

/// Reduces the rows of every window into `row`, then the columns into the result.
#[inline(always)]
fn join(
    geometry: &PoolGeometry,
    x: &[f32],
    y: &mut [f32],
    row: &mut [f32],
    both: impl Fn(f32, f32) -> f32,
    finish: impl Fn(f32, usize) -> f32,
) {
    let [_, width] = geometry.input();
    let [rows, columns] = geometry.windows();
    for (window, y) in rows.iter().zip(y.chunks_exact_mut(columns.len())) {
        row.copy_from_slice(&x[window.start * width..][..width]);
        for input in window.inputs().skip(1) {
            for (row, &x) in row.iter_mut().zip(&x[input * width..][..width]) {
                *row = both(*row, x);
            }
        }
        for (column, y) in columns.iter().zip(y) {
            let rest = column.inputs().skip(1);
            let joined = rest.fold(row[column.start], |joined, input| both(joined, row[input]));
            *y = finish(joined, window.divisor * column.divisor);
        }
    }
}

dispatch! {
    /// Pools a feature map; `row` is room for one row of the input.
    pub(crate) fn pool(
        _simd,
        pooling: Pooling,
        geometry: &PoolGeometry,
        x: &[f32],
        y: &mut [f32],
        row: &mut [f32],
    ) {
        match pooling {
            Pooling::Max => join(geometry, x, y, row, larger, |largest, _| largest),
            Pooling::Average => {
                join(geometry, x, y, row, |a, b| a + b, |sum, divisor| sum / divisor as f32);
            }
        }
    }

    /// Reduces a slice into the result of the slices before.
    pub(crate) fn join_slices(_simd, pooling: Pooling, x: &[f32], joined: &mut [f32]) {
        match pooling {
            Pooling::Max => {
                for (joined, &x) in joined.iter_mut().zip(x) {
                    *joined = larger(*joined, x);
                }
            }
            Pooling::Average => {
                for (joined, &x) in joined.iter_mut().zip(x) {
                    *joined += x;
                }
            }
        }
    }

    /// Adds to `dx` the contribution of the outputs' gradients to each input of a feature map, from
    /// `[x, dy]`;
    /// `row` as above.
    pub(crate) fn gradient(
        _simd,
        pooling: Pooling,
        geometry: &PoolGeometry,
        inputs: [&[f32]; 2],
        dx: &mut [f32],
        row: &mut [f32],
    ) {
        match pooling {
            Pooling::Max => gradient_of_max(geometry, inputs, dx),
            Pooling::Average => gradient_of_average(geometry, inputs[1], dx, row),
        }
    }
}

#[inline(always)]
fn gradient_of_max(geometry: &PoolGeometry, [x, dy]: [&[f32]; 2], dx: &mut [f32]) {
    let [_, width] = geometry.input();
    let [rows, columns] = geometry.windows();
    for (window, dy) in rows.iter().zip(dy.chunks_exact(columns.len())) {
        for (column, &dy) in columns.iter().zip(dy) {
            let mut best = window.start * width + column.start;
            for input in window.inputs() {
                for input in column.inputs().map(|column| input * width + column) {
                    if x[input] > x[best] || (x[input].is_nan() && !x[best].is_nan()) {
                        best = input;
                    }
                }
            }
            dx[best] += dy;
        }
    }
}

#[inline(always)]
fn gradient_of_average(geometry: &PoolGeometry, dy: &[f32], dx: &mut [f32], row: &mut [f32]) {
    let [_, width] = geometry.input();
    let [rows, columns] = geometry.windows();
    for (window, dy) in rows.iter().zip(dy.chunks_exact(columns.len())) {
        row.fill(0.0);
        for (column, &dy) in columns.iter().zip(dy) {
            let share = dy / (window.divisor * column.divisor) as f32;
            column.inputs().for_each(|input| row[input] += share);
        }
        for input in window.inputs() {
            for (dx, &row) in dx[input * width..][..width].iter_mut().zip(&*row) {
                *dx += row;
            }
        }
    }
}

/// Adds to `dx`, a volume, the contribution of the gradients of a slice of maxima.
pub(super) fn gradient_of_max_3d(
    geometry: &PoolGeometry,
    depth: Window,
    x: &[f32],
    dy: &[f32],
    dx: &mut [f32],
) {
    let [height, width] = geometry.input();
    let [rows, columns] = geometry.windows();
    for (window, dy) in rows.iter().zip(dy.chunks_exact(columns.len())) {
        for (column, &dy) in columns.iter().zip(dy) {
            let mut best = (depth.start * height + window.start) * width + column.start;
            for row in depth
                .inputs()
                .flat_map(|slice| window.inputs().map(move |row| (slice * height + row) * width))
            {
                for input in column.inputs().map(|column| row + column) {
                    if x[input] > x[best] || (x[input].is_nan() && !x[best].is_nan()) {
                        best = input;
                    }
                }
            }
            dx[best] += dy;
        }
    }
}
