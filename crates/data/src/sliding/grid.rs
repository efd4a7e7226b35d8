//! The positions of windows along an axis, and its padding.

use serde::{Deserialize, Serialize};

/// The padding of a volume that is smaller than the window.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Padding {
    /// This value.
    Constant(f32),
    /// The value at the end.
    Replicate,
    /// Mirrors the volume at its ends, which are not repeated.
    Reflect,
}

/// The windows along one axis.
///
/// As in MONAI 1.6.1: the axis is padded on both sides to the window, the larger half at the end; a
/// window begins every `⌊window · (1 − overlap)⌋` positions, at least one, and the last one is
/// moved back to the end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Grid {
    /// Places of the volume.
    pub(super) side: usize,
    /// Places of a window.
    pub(super) window: usize,
    /// Padding before the volume.
    pub(super) before: usize,
    /// The starts of windows, including the padding.
    pub(super) starts: Vec<usize>,
}

impl Grid {
    pub(super) fn new(side: usize, window: usize, overlap: f64) -> Self {
        let padded = side.max(window);
        let step = if window == padded {
            window
        } else {
            ((window as f64 * (1.0 - overlap)) as usize).max(1)
        };
        let last = padded - window;
        let mut starts: Vec<usize> = (0..last).step_by(step).collect();
        starts.push(last);
        Self { side, window, before: (padded - side) / 2, starts }
    }

    /// The position in the volume for a position in a window; `None` for constant padding.
    pub(super) fn shown(&self, start: usize, at: usize, padding: Padding) -> Option<usize> {
        let place = (start + at) as i64 - self.before as i64;
        let last = self.side as i64 - 1;
        if (0..=last).contains(&place) {
            return Some(place as usize);
        }
        match padding {
            Padding::Constant(_) => None,
            Padding::Replicate => Some(place.clamp(0, last) as usize),
            Padding::Reflect if last == 0 => Some(0),
            Padding::Reflect => {
                let inside = place.rem_euclid(2 * last);
                Some((if inside > last { 2 * last - inside } else { inside }) as usize)
            }
        }
    }

    /// The positions of a window that lie in the volume, and the first of them in the volume.
    pub(super) fn inside(&self, start: usize) -> (std::ops::Range<usize>, usize) {
        let first = self.before.saturating_sub(start);
        let end = (self.before + self.side - start).min(self.window);
        (first..end, start + first - self.before)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_cover_an_axis_as_in_monai() {
        let starts = |side, window, overlap| Grid::new(side, window, overlap).starts;
        assert_eq!(starts(13, 6, 0.25), [0, 4, 7]);
        assert_eq!(starts(10, 4, 0.0), [0, 4, 6]);
        assert_eq!(starts(8, 4, 0.0), [0, 4]);
        assert_eq!(starts(4, 4, 0.9), [0]);
        assert_eq!(starts(6, 4, 0.99), [0, 1, 2]);
    }

    #[test]
    fn a_short_axis_is_padded_and_the_window_is_not_cut() {
        let grid = Grid::new(3, 6, 0.5);
        assert_eq!((grid.before, grid.starts.clone(), grid.inside(0)), (1, vec![0], (1..4, 0)));
        let shown = |padding| (0..6).map(|at| grid.shown(0, at, padding)).collect::<Vec<_>>();
        assert_eq!(shown(Padding::Constant(0.0)), [None, Some(0), Some(1), Some(2), None, None]);
        assert_eq!(shown(Padding::Replicate), [0, 0, 1, 2, 2, 2].map(Some));
        assert_eq!(shown(Padding::Reflect), [1, 0, 1, 2, 1, 0].map(Some));
    }
}
