//! A part of a picture or a volume, and where such parts lie to cover it.

/// A part of an array of two or three axes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Window<'a> {
    pub(crate) whole: &'a [usize],
    pub(crate) origin: Vec<usize>,
    pub(crate) shape: &'a [usize],
}

impl Window<'_> {
    /// Appends the part of every channel of `values`, `[channels, …whole]`.
    pub(crate) fn copy(&self, values: &[f32], part: &mut Vec<f32>) {
        for channel in values.chunks_exact(self.whole.iter().product()) {
            self.copy_axis(0, channel, part);
        }
    }

    fn copy_axis(&self, axis: usize, values: &[f32], part: &mut Vec<f32>) {
        let stride: usize = self.whole[axis + 1..].iter().product();
        let rows = &values[self.origin[axis] * stride..][..self.shape[axis] * stride];
        if stride == 1 {
            part.extend_from_slice(rows);
            return;
        }
        for row in rows.chunks_exact(stride) {
            self.copy_axis(axis + 1, row, part);
        }
    }
}

/// Where windows of one length begin along an axis so that they cover it: every `step`, and the
/// last one at the very end.
pub(crate) fn starts(whole: usize, window: usize, step: usize) -> Vec<usize> {
    let last = whole - window;
    let mut starts: Vec<usize> = (0..last).step_by(step).collect();
    starts.push(last);
    starts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_cut_out_of_every_channel() {
        let values: Vec<f32> = (0..48_u8).map(f32::from).collect();
        let mut part = Vec::new();
        let window = Window { whole: &[2, 3, 4], origin: vec![1, 1, 2], shape: &[1, 2, 2] };
        window.copy(&values, &mut part);
        assert_eq!(part, [18.0, 19.0, 22.0, 23.0, 42.0, 43.0, 46.0, 47.0]);
    }

    #[test]
    fn windows_cover_an_axis_to_its_end() {
        assert_eq!(starts(10, 4, 4), [0, 4, 6]);
        assert_eq!(starts(8, 4, 4), [0, 4]);
        assert_eq!(starts(4, 4, 1), [0]);
        assert_eq!(starts(9, 4, 2), [0, 2, 4, 5]);
    }
}
