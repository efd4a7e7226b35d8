//! Linear interpolation of volumes, axis by axis: trilinear, and bilinear with a depth of 1.
//!
//! Rows are widened first, where a slice is smallest; height and depth are then sums of whole rows
//! and slices.

use std::ops::Range;

use updraft_simd::{Isa, Pieces, Vectors, dispatch, over, threads};

use crate::kernels::geometry::GeometryError;
use crate::kernels::scratch::{CACHE_LINE, Scratch};

/// The alignment of input and output positions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub enum Alignment {
    /// The outer edges of the outer voxels; positions beyond the first and last voxel have its
    /// value.
    #[default]
    Edges,
    /// The centers of the outer voxels.
    Corners,
}

/// The two inputs of an output on one axis.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Place {
    pub(crate) low: usize,
    pub(crate) high: usize,
    /// The distance from the lower one, 0 to 1.
    pub(crate) weight: f32,
}

/// The inputs of every output of an axis, whose sides are at least 1.
pub(crate) fn places(input: usize, output: usize, alignment: Alignment) -> Vec<Place> {
    let (from, to) = (input as f64, output as f64);
    let place = |index: usize| {
        let at = match alignment {
            Alignment::Edges => ((index as f64 + 0.5) * from / to - 0.5).max(0.0),
            Alignment::Corners if output == 1 => 0.0,
            Alignment::Corners => index as f64 * (from - 1.0) / (to - 1.0),
        };
        let low = (at as usize).min(input - 1);
        let high = (low + 1).min(input - 1);
        Place { low, high, weight: (at - low as f64).min(1.0) as f32 }
    };
    (0..output).map(place).collect()
}

/// A change of size, checked once; axes are depth, height and width.
///
/// Input and output are contiguous: `[planes, depth, height, width]`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct LinearResize {
    planes: usize,
    input: [usize; 3],
    places: [Vec<Place>; 3],
}

impl LinearResize {
    /// From one size to another, for so many samples times channels, which may be none.
    ///
    /// # Errors
    /// [`GeometryError`] for a side of 0, or tensors that cannot be addressed.
    pub(crate) fn try_new(
        planes: usize,
        input: [usize; 3],
        output: [usize; 3],
        alignment: Alignment,
    ) -> Result<Self, GeometryError> {
        for (name, sides) in [("a side of the input", input), ("a side of the output", output)] {
            if sides.contains(&0) {
                return Err(GeometryError::Zero { name });
            }
            let numbers = sides.iter().try_fold(planes, |all, &side| all.checked_mul(side));
            if numbers.is_none_or(|numbers| numbers >= isize::MAX as usize / 4) {
                return Err(GeometryError::TooLarge);
            }
        }
        let places = [0, 1, 2].map(|axis: usize| places(input[axis], output[axis], alignment));
        Ok(Self { planes, input, places })
    }

    /// Depth, height and width of the output.
    #[must_use]
    pub(crate) fn output(&self) -> [usize; 3] {
        self.places.each_ref().map(Vec::len)
    }

    /// Depth, height and width of the input.
    #[must_use]
    pub(crate) const fn input(&self) -> [usize; 3] {
        self.input
    }

    /// Numbers of the input.
    #[must_use]
    pub(crate) fn input_len(&self) -> usize {
        self.planes * self.input_plane()
    }

    /// Numbers of the output.
    #[must_use]
    pub(crate) fn output_len(&self) -> usize {
        self.planes * self.output_plane()
    }

    pub(crate) fn input_plane(&self) -> usize {
        self.input.iter().product()
    }

    pub(crate) fn output_plane(&self) -> usize {
        self.output().iter().product()
    }

    /// Numbers of a slice of the output.
    fn slice(&self) -> usize {
        self.places[1].len() * self.places[2].len()
    }

    /// The size of a thread's work space: two slices of the output, and a slice of resized rows.
    fn own_len(&self) -> usize {
        2 * self.slice().next_multiple_of(CACHE_LINE) + self.input[1] * self.places[2].len()
    }
}

/// Interpolates every plane.
///
/// # Panics
/// If a slice has another length than `geometry` says, or the CPU does not have `isa`.
pub(crate) fn resize_into<'a>(
    isa: Isa,
    geometry: &LinearResize,
    x: &[f32],
    y: impl Pieces<Piece = &'a mut [f32]>,
    scratch: &mut Scratch,
    asked_threads: usize,
) {
    assert_eq!(x.len(), geometry.input_len(), "numbers of the input");
    let vectors = isa.vectors();
    let plane = geometry.input_plane();
    let (_, mut own) = scratch.split(0, threads(asked_threads), geometry.own_len());
    over(y, &mut own, |index, y, own| {
        widen(vectors, geometry, &x[index * plane..][..plane], y, own);
    });
}

/// The input's gradient of [`resize_into`], `dx = ∂(Σ y·dy)/∂x`.
///
/// # Panics
/// As [`resize_into`].
pub(crate) fn resize_gradient_into<'a>(
    isa: Isa,
    geometry: &LinearResize,
    dy: &[f32],
    dx: impl Pieces<Piece = &'a mut [f32]>,
    scratch: &mut Scratch,
    asked_threads: usize,
) {
    assert_eq!(dy.len(), geometry.output_len(), "numbers of the output");
    let vectors = isa.vectors();
    let plane = geometry.output_plane();
    let (_, mut own) = scratch.split(0, threads(asked_threads), geometry.own_len());
    over(dx, &mut own, |index, dx, own| {
        narrow(vectors, geometry, &dy[index * plane..][..plane], dx, own);
    });
}

/// The parts of a thread's work space: the lower and the higher slice, and resized rows.
fn parts<'a>(geometry: &LinearResize, own: &'a mut [f32]) -> ([&'a mut [f32]; 2], &'a mut [f32]) {
    let slice = geometry.slice();
    let (first, own) = own.split_at_mut(slice.next_multiple_of(CACHE_LINE));
    let (second, rows) = own.split_at_mut(slice.next_multiple_of(CACHE_LINE));
    let rows = &mut rows[..geometry.input[1] * geometry.places[2].len()];
    ([&mut first[..slice], &mut second[..slice]], rows)
}

/// The range of a row of a slice.
const fn row(index: usize, width: usize) -> Range<usize> {
    index * width..(index + 1) * width
}

/// A plane of the output.
fn widen(vectors: Vectors, geometry: &LinearResize, x: &[f32], y: &mut [f32], own: &mut [f32]) {
    let LinearResize { input: [_, height, width], places: [depths, heights, widths], .. } =
        geometry;
    let ([mut low, mut high], rows) = parts(geometry, own);
    let columns = widths.len();
    let mut fill = |slice: usize, to: &mut [f32]| {
        let x = &x[slice * height * width..][..height * width];
        for (x, to) in x.chunks_exact(*width).zip(rows.chunks_exact_mut(columns)) {
            for (place, to) in widths.iter().zip(to) {
                *to = x[place.low] + place.weight * (x[place.high] - x[place.low]);
            }
        }
        for (place, to) in heights.iter().zip(to.chunks_exact_mut(columns)) {
            let [a, b] = [place.low, place.high].map(|index| &rows[row(index, columns)]);
            blend(vectors, place.weight, a, b, to);
        }
    };
    // The slices of the input that the two contain.
    let (mut of_low, mut of_high) = (usize::MAX, usize::MAX);
    for (place, y) in depths.iter().zip(y.chunks_exact_mut(geometry.slice())) {
        if place.low != of_low {
            std::mem::swap(&mut low, &mut high);
            std::mem::swap(&mut of_low, &mut of_high);
        }
        if place.low != of_low {
            fill(place.low, low);
            of_low = place.low;
        }
        if place.high == place.low {
            y.copy_from_slice(low);
            continue;
        }
        if place.high != of_high {
            fill(place.high, high);
            of_high = place.high;
        }
        blend(vectors, place.weight, low, high, y);
    }
}

/// A plane of the input's gradient.
fn narrow(vectors: Vectors, geometry: &LinearResize, dy: &[f32], dx: &mut [f32], own: &mut [f32]) {
    let LinearResize { input: [_, height, width], places: [depths, heights, widths], .. } =
        geometry;
    let ([mut low, mut high], rows) = parts(geometry, own);
    let columns = widths.len();
    dx.fill(0.0);
    // Adds the gradient of a slice of the output's height and width to one of the input.
    let mut add_slice = |slice: usize, from: &[f32]| {
        rows.fill(0.0);
        for (place, from) in heights.iter().zip(from.chunks_exact(columns)) {
            add(vectors, 1.0 - place.weight, from, &mut rows[row(place.low, columns)]);
            if place.weight != 0.0 {
                add(vectors, place.weight, from, &mut rows[row(place.high, columns)]);
            }
        }
        let dx = &mut dx[slice * height * width..][..height * width];
        for (dx, from) in dx.chunks_exact_mut(*width).zip(rows.chunks_exact(columns)) {
            for (place, from) in widths.iter().zip(from) {
                dx[place.low] += (1.0 - place.weight) * from;
                dx[place.high] += place.weight * from;
            }
        }
    };
    let mut held = depths.first().map_or(0, |place| place.low);
    low.fill(0.0);
    high.fill(0.0);
    for (place, dy) in depths.iter().zip(dy.chunks_exact(geometry.slice())) {
        // The positions ascend: slices before them are complete.
        while held < place.low {
            add_slice(held, low);
            std::mem::swap(&mut low, &mut high);
            high.fill(0.0);
            held += 1;
        }
        if place.high == place.low {
            add(vectors, 1.0, dy, low);
            continue;
        }
        add(vectors, 1.0 - place.weight, dy, low);
        add(vectors, place.weight, dy, high);
    }
    add_slice(held, low);
    if held + 1 < geometry.input[0] {
        add_slice(held + 1, high);
    }
}

dispatch! {
    /// `y = a + weight·(b − a)`.
    fn blend(_simd, weight: f32, a: &[f32], b: &[f32], y: &mut [f32]) {
        for ((&a, &b), y) in a.iter().zip(b).zip(y) {
            *y = a + weight * (b - a);
        }
    }

    /// `y += weight·x`.
    fn add(_simd, weight: f32, x: &[f32], y: &mut [f32]) {
        for (&x, y) in x.iter().zip(y) {
            *y += weight * x;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use updraft_simd::Cut;
    use updraft_testing::scattered;

    /// Every output as a sum of inputs, by the definition: `(output, input, factor)`.
    fn products(
        input: [usize; 3],
        output: [usize; 3],
        alignment: Alignment,
    ) -> Vec<(usize, usize, f64)> {
        let hat = |axis: usize, to: usize, from: usize| {
            let (of, into) = (input[axis] as f64, output[axis] as f64);
            let at = match alignment {
                Alignment::Edges => (to as f64 + 0.5) * of / into - 0.5,
                Alignment::Corners => to as f64 * (of - 1.0) / (into - 1.0).max(1.0),
            };
            (1.0 - (at.clamp(0.0, of - 1.0) - from as f64).abs()).max(0.0)
        };
        let mut all = Vec::new();
        let flat = |sides: [usize; 3], at: usize| {
            [at / sides[2] / sides[1], at / sides[2] % sides[1], at % sides[2]]
        };
        for to in 0..output.iter().product() {
            for from in 0..input.iter().product() {
                let (at, of) = (flat(output, to), flat(input, from));
                let factor: f64 = (0..3).map(|axis| hat(axis, at[axis], of[axis])).product();
                if factor > 0.0 {
                    all.push((to, from, factor));
                }
            }
        }
        all
    }

    #[test]
    fn sizes_change_with_their_gradients_as_defined_for_any_number_of_threads() {
        for (input, output) in [
            ([2, 3, 4], [4, 6, 8]),
            ([1, 5, 3], [1, 9, 7]),
            ([4, 1, 2], [3, 1, 5]),
            ([3, 4, 5], [3, 4, 5]),
            ([5, 4, 6], [2, 1, 3]),
            ([1, 1, 1], [3, 2, 4]),
        ] {
            for alignment in [Alignment::Edges, Alignment::Corners] {
                let geometry = LinearResize::try_new(3, input, output, alignment).expect("valid");
                let x = scattered(1, geometry.input_len());
                let dy = scattered(2, geometry.output_len());
                let mut right = [vec![0.0; dy.len()], vec![0.0; x.len()]];
                let [voxels, results] = [geometry.input_plane(), geometry.output_plane()];
                for (to, from, factor) in products(input, output, alignment) {
                    for plane in 0..3 {
                        let (to, from) = (plane * results + to, plane * voxels + from);
                        right[0][to] += factor * f64::from(x[from]);
                        right[1][from] += factor * f64::from(dy[to]);
                    }
                }
                for isa in Isa::BASES.into_iter().filter(|isa| isa.is_available()) {
                    for threads in [1, 2, 5] {
                        let mut scratch = Scratch::new();
                        let (mut y, mut dx) = (vec![f32::NAN; dy.len()], vec![f32::NAN; x.len()]);
                        let s = &mut scratch;
                        let to = Cut::new(&mut y, geometry.output_plane());
                        resize_into(isa, &geometry, &x, to, s, threads);
                        let to = Cut::new(&mut dx, geometry.input_plane());
                        resize_gradient_into(isa, &geometry, &dy, to, s, threads);
                        for (given, right) in [&y, &dx].into_iter().zip(&right) {
                            for (given, right) in given.iter().zip(right) {
                                let error = (f64::from(*given) - right).abs();
                                let context = format!("{isa} {input:?} {output:?} {alignment:?}");
                                assert!(error < 1e-5, "{context}: {given} is not {right}");
                            }
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn what_is_not_finite_stays_near_its_place_and_no_planes_are_allowed() {
        let geometry =
            LinearResize::try_new(1, [4, 4, 4], [8, 8, 8], Alignment::Edges).expect("valid");
        let mut x = vec![1.0; 64];
        x[0] = f32::NAN;
        let mut y = vec![0.0; 512];
        let to = Cut::new(&mut y, 512);
        resize_into(Isa::detect(), &geometry, &x, to, &mut Scratch::new(), 1);
        assert!(y[0].is_nan() && y[511] == 1.0 && y[7] == 1.0);
        let none = LinearResize::try_new(0, [4; 3], [8; 3], Alignment::Edges).expect("valid");
        let to = Cut::new(&mut [], 512);
        resize_into(Isa::detect(), &none, &[], to, &mut Scratch::new(), 2);
        let refused = LinearResize::try_new(1, [4, 0, 4], [8; 3], Alignment::Edges);
        assert!(refused.is_err_and(|error| error.to_string().contains("a side of the input is 0")));
    }
}
