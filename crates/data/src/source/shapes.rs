//! The shapes that generated images draw.

/// A shape around the origin that reaches about 1 from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    Disc,
    Ring,
    Cross,
    Stripes,
}

impl Shape {
    pub(crate) const ALL: [Self; 4] = [Self::Disc, Self::Ring, Self::Cross, Self::Stripes];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Disc => "disc",
            Self::Ring => "ring",
            Self::Cross => "cross",
            Self::Stripes => "stripes",
        }
    }

    /// Whether the shape covers a point.
    pub(crate) fn covers(self, x: f32, y: f32) -> bool {
        let radius2 = x * x + y * y;
        let bar = |along: f32, across: f32| along.abs() < 1.0 && across.abs() < 0.27;
        match self {
            Self::Disc => radius2 < 0.72,
            Self::Ring => (0.3..1.0).contains(&radius2),
            Self::Cross => bar(x, y) || bar(y, x),
            // Five bars of width 0.25, three of them drawn.
            Self::Stripes => radius2 < 1.2 && (x * 2.0 + 0.25).rem_euclid(1.0) < 0.5,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_shapes_cover_the_same_points() {
        let points = |shape: Shape| -> Vec<bool> {
            let grid = |at: usize| at as f32 / 10.0 - 1.05;
            (0..21 * 21).map(|at| shape.covers(grid(at % 21), grid(at / 21))).collect()
        };
        for (at, one) in Shape::ALL.into_iter().enumerate() {
            for other in &Shape::ALL[at + 1..] {
                let pairs = points(one).into_iter().zip(points(*other));
                let differing = pairs.filter(|(a, b)| a != b).count();
                assert!(differing > 80, "{one:?} {other:?}: {differing}");
            }
        }
    }
}
