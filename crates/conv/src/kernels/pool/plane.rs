//! Pooling of one feature map: first the rows of a window, as vectors, then its columns.

use updraft_simd::dispatch;

use super::pooling::{Pooling, Window};

/// The windows of a feature map, or of a slice of a volume.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Plane<'a> {
    /// Height and width of the input.
    pub(super) size: [usize; 2],
    /// Of rows and columns.
    pub(super) windows: [&'a [Window]; 2],
}

impl Plane<'_> {
    /// Numbers of the input.
    pub(super) const fn input_len(&self) -> usize {
        self.size[0] * self.size[1]
    }

    /// Numbers of the output.
    pub(super) const fn output_len(&self) -> usize {
        self.windows[0].len() * self.windows[1].len()
    }

    /// Whether the windows of a row are its pairs of neighbors, which vectors compute.
    fn has_pairs(&self) -> bool {
        let columns = self.windows[1];
        columns.iter().enumerate().all(|(index, window)| {
            let pair = Window { start: 2 * index, count: 2, step: 1, divisor: columns[0].divisor };
            *window == pair
        })
    }

    /// Whether they are, and rows belong to one window each.
    pub(super) fn has_apart_pairs(&self) -> bool {
        let rows = self.windows[0];
        let are_apart = rows.windows(2).all(|two| two[1].start >= two[0].start + two[0].extent());
        are_apart && self.has_pairs()
    }
}

impl Plane<'_> {
    /// The width and the windows of a row, if every window is two rows and two columns next to the
    /// one before.
    pub(super) fn squares(&self) -> Option<[usize; 2]> {
        let [rows, columns] = self.windows;
        let are_pairs = rows.iter().enumerate().all(|(index, window)| {
            let Window { start, count, step, .. } = *window;
            (start, count, step) == (2 * index, 2, 1)
        });
        (are_pairs && self.has_pairs()).then_some([self.size[1], columns.len()])
    }
}

impl Window {
    /// The depth of a feature map.
    pub(super) const ONE: Self = Self { start: 0, count: 1, step: 1, divisor: 1 };

    /// Inputs from the first to the last.
    const fn extent(self) -> usize {
        (self.count - 1) * self.step + 1
    }

    #[inline(always)]
    pub(super) fn inputs(self) -> impl Iterator<Item = usize> + Clone {
        (0..self.count).map(move |tap| self.start + tap * self.step)
    }
}

/// The larger; NaN is larger than all.
#[inline(always)]
pub(super) fn larger(a: f32, b: f32) -> f32 {
    if b > a || b.is_nan() { b } else { a }
}

/// Whether a number is the maximum of a window in place of one before it.
#[inline(always)]
pub(super) fn replaces(number: f32, best: f32) -> bool {
    number > best || (number.is_nan() && !best.is_nan())
}

/// Reduces the rows of every window into `row`, then the columns into the result.
#[inline(always)]
fn join(
    plane: Plane<'_>,
    x: &[f32],
    y: &mut [f32],
    row: &mut [f32],
    both: impl Fn(f32, f32) -> f32,
    finish: impl Fn(f32, usize) -> f32,
) {
    let Plane { size: [_, width], windows: [rows, columns] } = plane;
    let has_pairs = plane.has_pairs();
    for (window, y) in rows.iter().zip(y.chunks_exact_mut(columns.len())) {
        row.copy_from_slice(&x[window.start * width..][..width]);
        for input in window.inputs().skip(1) {
            for (row, &x) in row.iter_mut().zip(&x[input * width..][..width]) {
                *row = both(*row, x);
            }
        }
        if has_pairs {
            let divisor = window.divisor * columns[0].divisor;
            for (&[left, right], y) in row.as_chunks().0.iter().zip(y) {
                *y = finish(both(left, right), divisor);
            }
            continue;
        }
        for (column, y) in columns.iter().zip(y) {
            let rest = column.inputs().skip(1);
            let joined = rest.fold(row[column.start], |joined, input| both(joined, row[input]));
            *y = finish(joined, window.divisor * column.divisor);
        }
    }
}

/// Reduces the rows of every window over the slices of `depth`, then pairs of neighbors.
///
/// Four rows are read at once, so that a window of two slices and rows writes no row twice.
#[inline(always)]
fn join_pairs(
    plane: Plane<'_>,
    depth: Window,
    x: &[f32],
    y: &mut [f32],
    row: &mut [f32],
    both: impl Fn(f32, f32) -> f32,
    finish: impl Fn(f32, usize) -> f32,
) {
    let Plane { size: [height, width], windows: [rows, columns] } = plane;
    for (window, y) in rows.iter().zip(y.chunks_exact_mut(columns.len())) {
        let slices = depth.inputs().map(|slice| slice * height);
        let mut taps = slices
            .flat_map(|slice| window.inputs().map(move |row| (slice + row) * width))
            .map(|tap| &x[tap..][..width]);
        let (count, mut next) = (depth.count * window.count, || taps.next().unwrap_or_default());
        if count == 4 {
            let [a, b, c, d] = [next(), next(), next(), next()];
            for ((((row, &a), &b), &c), &d) in row.iter_mut().zip(a).zip(b).zip(c).zip(d) {
                *row = both(both(a, b), both(c, d));
            }
        } else {
            row.copy_from_slice(next());
            for _ in 1..count {
                for (row, &x) in row.iter_mut().zip(next()) {
                    *row = both(*row, x);
                }
            }
        }
        let divisor = depth.divisor * window.divisor * columns[0].divisor;
        for (&[left, right], y) in row.as_chunks().0.iter().zip(y) {
            *y = finish(both(left, right), divisor);
        }
    }
}

/// [`gradient_of_max`] of windows whose columns are pairs of neighbors.
#[inline(always)]
fn gradient_of_max_of_pairs(
    Plane { size: [height, width], windows: [rows, columns] }: Plane<'_>,
    depth: Window,
    [x, dy]: [&[f32]; 2],
    dx: &mut [f32],
    row: &mut [f32],
) {
    // Of each window the maximum so far, and its place among the window's numbers.
    let (best, place) = row[..2 * columns.len()].split_at_mut(columns.len());
    for (window, dy) in rows.iter().zip(dy.chunks_exact(columns.len())) {
        let slices = depth.inputs().map(|slice| slice * height);
        let taps = slices.flat_map(|slice| window.inputs().map(move |row| (slice + row) * width));
        best.fill(f32::NEG_INFINITY);
        place.fill(0.0);
        let mut first = 0.0;
        for tap in taps.clone() {
            let pairs = x[tap..][..width].as_chunks().0;
            for ((best, place), &[left, right]) in best.iter_mut().zip(&mut *place).zip(pairs) {
                let is_left = replaces(left, *best);
                let (now, at) = if is_left { (left, first) } else { (*best, *place) };
                let is_right = replaces(right, now);
                (*best, *place) = if is_right { (right, first + 1.0) } else { (now, at) };
            }
            first += 2.0;
        }
        first = 0.0;
        for tap in taps {
            let pairs = dx[tap..][..width].as_chunks_mut().0;
            for (([left, right], &place), &dy) in pairs.iter_mut().zip(&*place).zip(dy) {
                *left += if place == first { dy } else { 0.0 };
                *right += if place == first + 1.0 { dy } else { 0.0 };
            }
            first += 2.0;
        }
    }
}

dispatch! {
    /// Pools a feature map; `row` is room for one row of the input.
    pub(crate) fn pool(
        _simd,
        pooling: Pooling,
        plane: Plane<'_>,
        x: &[f32],
        y: &mut [f32],
        row: &mut [f32],
    ) {
        match pooling {
            Pooling::Max => join(plane, x, y, row, larger, |largest, _| largest),
            Pooling::Average => {
                join(plane, x, y, row, |a, b| a + b, |sum, divisor| sum / divisor as f32);
            }
        }
    }

    /// Pools the slices of `depth` of a volume whose windows have [apart
    /// pairs](Plane::has_apart_pairs); `row` as above.
    pub(crate) fn pool_pairs(
        _simd,
        pooling: Pooling,
        plane: Plane<'_>,
        depth: Window,
        x: &[f32],
        y: &mut [f32],
        row: &mut [f32],
    ) {
        match pooling {
            Pooling::Max => join_pairs(plane, depth, x, y, row, larger, |largest, _| largest),
            Pooling::Average => {
                let mean = |sum: f32, divisor: usize| sum / divisor as f32;
                join_pairs(plane, depth, x, y, row, |a, b| a + b, mean);
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

    /// Adds to `dx`, a feature map or a volume, the gradients of a plane of maxima, from `[x, dy]`;
    /// `depth` is their window of slices; `row` as above.
    pub(crate) fn gradient_of_max(
        _simd,
        plane: Plane<'_>,
        depth: Window,
        inputs: [&[f32]; 2],
        dx: &mut [f32],
        row: &mut [f32],
    ) {
        if plane.has_pairs() {
            return gradient_of_max_of_pairs(plane, depth, inputs, dx, row);
        }
        let [x, dy] = inputs;
        let Plane { size: [height, width], windows: [rows, columns] } = plane;
        for (window, dy) in rows.iter().zip(dy.chunks_exact(columns.len())) {
            for (column, &dy) in columns.iter().zip(dy) {
                let mut best = (depth.start * height + window.start) * width + column.start;
                for slice in depth.inputs() {
                    for row in window.inputs().map(|row| (slice * height + row) * width) {
                        for input in column.inputs().map(|column| row + column) {
                            if replaces(x[input], x[best]) {
                                best = input;
                            }
                        }
                    }
                }
                dx[best] += dy;
            }
        }
    }

    /// Adds to `dx`, a feature map, the gradients of its averages; `row` as above.
    pub(crate) fn gradient_of_average(
        _simd,
        plane: Plane<'_>,
        dy: &[f32],
        dx: &mut [f32],
        row: &mut [f32],
    ) {
        let Plane { size: [_, width], windows: [rows, columns] } = plane;
        let has_pairs = plane.has_pairs();
        for (window, dy) in rows.iter().zip(dy.chunks_exact(columns.len())) {
            row.fill(0.0);
            if has_pairs {
                let divisor = (window.divisor * columns[0].divisor) as f32;
                for (pair, &dy) in row.as_chunks_mut::<2>().0.iter_mut().zip(dy) {
                    *pair = [dy / divisor; 2];
                }
            }
            let columns = if has_pairs { &[] } else { columns };
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
}
