//! Views of a value's numbers: turned, cut and reshaped axes without a copy.

/// One sample of a value, seen along burn's axes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct View {
    /// The parts of each axis, from the outermost to the innermost; none for a length of 1.
    axes: Vec<Vec<Part>>,
    /// The place of the first number.
    offset: usize,
}

/// A run of numbers with a constant distance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) len: usize,
    pub(crate) stride: usize,
}

impl View {
    /// All numbers in row-major order.
    pub(crate) fn of(shape: &[usize]) -> Self {
        let mut axes = Vec::new();
        let mut stride = 1;
        for &len in shape.iter().rev() {
            axes.push(joined([Part { len, stride }]));
            stride *= len;
        }
        axes.reverse();
        Self { axes, offset: 0 }
    }

    /// The numbers of a value of the graph whose channels, its first axis, are seen as the last one.
    pub(crate) fn channels_last(shape: &[usize]) -> Self {
        let mut view = Self::of(shape);
        view.axes.rotate_left(1);
        view
    }

    pub(crate) fn shape(&self) -> Vec<usize> {
        let len = |axis: &Vec<Part>| axis.iter().map(|part| part.len).product();
        self.axes.iter().map(len).collect()
    }

    /// All parts, from the outermost axis to the innermost, and the place of the first number.
    pub(crate) fn parts(&self) -> (Vec<Part>, usize) {
        (joined(self.axes.iter().flatten().copied()), self.offset)
    }

    /// Whether it is every one of `count` numbers in order.
    pub(crate) fn is_whole(&self, count: usize) -> bool {
        self.parts() == (joined([Part { len: count, stride: 1 }]), 0)
    }

    /// Whether it is every number of a value of the graph, with the channels as the last axis.
    pub(crate) fn is_channels_last(&self, shape: &[usize]) -> bool {
        self.axes.len() > 1
            && self.turned_last().is_whole(shape.iter().product())
            && self.shape().last() == shape.first()
    }

    /// Axis `i` of the result is axis `axes[i]`.
    pub(crate) fn permuted(&self, axes: &[usize]) -> Self {
        let axes = axes.iter().map(|&axis| self.axes[axis].clone()).collect();
        Self { axes, ..*self }
    }

    /// The last axis as the first one.
    pub(crate) fn turned_last(&self) -> Self {
        let mut turned = self.clone();
        turned.axes.rotate_right(1);
        turned
    }

    /// The last two axes swapped.
    pub(crate) fn transposed(&self) -> Self {
        let mut transposed = self.clone();
        let axes = transposed.axes.len();
        transposed.axes.swap(axes - 2, axes - 1);
        transposed
    }

    /// The same numbers in the same order along other axes; `None` if an axis would not have a
    /// constant distance.
    pub(crate) fn reshaped(&self, shape: &[usize]) -> Option<Self> {
        let mut parts = self.parts().0;
        parts.reverse();
        let mut axes = Vec::new();
        for &len in shape {
            let (mut axis, mut needed) = (Vec::new(), len);
            while needed > 1 {
                let part = parts.pop()?;
                if needed % part.len == 0 {
                    axis.push(part);
                    needed /= part.len;
                } else if part.len % needed == 0 {
                    let inner = part.len / needed;
                    axis.push(Part { len: needed, stride: part.stride * inner });
                    parts.push(Part { len: inner, stride: part.stride });
                    needed = 1;
                } else {
                    return None;
                }
            }
            axes.push(joined(axis));
        }
        parts.is_empty().then_some(Self { axes, ..*self })
    }

    /// Some places of an axis; `None` if the places of that axis have no constant distance.
    #[cfg_attr(
        not(any(feature = "burn", test)),
        expect(dead_code, reason = "for networks out of modules")
    )]
    pub(crate) fn sliced(&self, axis: usize, first: usize, len: usize) -> Option<Self> {
        self.taken(axis, first, &[Part { len, stride: 1 }])
    }

    /// The same of places that are `first + Σ place·stride` of the axis.
    pub(crate) fn taken(&self, axis: usize, first: usize, by: &[Part]) -> Option<Self> {
        let mut taken = self.clone();
        let stride = match self.axes[axis][..] {
            [] => 0,
            [Part { stride, .. }] => stride,
            _ => {
                let all = [Part { len: self.shape()[axis], stride: 1 }];
                return (first == 0 && by == all).then_some(taken);
            }
        };
        let of_numbers = by.iter().map(|by| Part { len: by.len, stride: by.stride * stride });
        taken.axes[axis] = joined(of_numbers);
        taken.offset += first * stride;
        Some(taken)
    }

    /// Axes of length 1 repeated, and missing first ones added; `None` if others differ.
    pub(crate) fn expanded(&self, shape: &[usize]) -> Option<Self> {
        let missing = shape.len().checked_sub(self.axes.len())?;
        let own = std::iter::repeat_n(Vec::new(), missing).chain(self.axes.iter().cloned());
        let axes = own.zip(shape).map(|(axis, &len)| {
            let own: usize = axis.iter().map(|part| part.len).product();
            match own {
                _ if own == len => Some(axis),
                1 => Some(joined([Part { len, stride: 0 }])),
                _ => None,
            }
        });
        Some(Self { axes: axes.collect::<Option<_>>()?, ..*self })
    }
}

/// Parts without those of length 1, and with neighbors of one distance as a single part.
fn joined(parts: impl IntoIterator<Item = Part>) -> Vec<Part> {
    let mut all: Vec<Part> = Vec::new();
    for part in parts {
        match all.last_mut() {
            _ if part.len == 1 => {}
            Some(outer) if outer.stride == part.len * part.stride => {
                *outer = Part { len: outer.len * part.len, stride: part.stride };
            }
            _ => all.push(part),
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The place of every number of a view, in order.
    fn places(view: &View) -> Vec<usize> {
        let (parts, offset) = view.parts();
        let mut places = vec![offset];
        for Part { len, stride } in parts {
            let of = |&first: &usize| (0..len).map(move |at| first + at * stride);
            places = places.iter().flat_map(of).collect();
        }
        places
    }

    #[test]
    fn heads_are_split_turned_and_joined() {
        // Tokens of two heads of three numbers: [5, 6] as [5, 2, 3], as [2, 5, 3].
        let heads = View::of(&[5, 6]).reshaped(&[5, 2, 3]).expect("split").permuted(&[1, 0, 2]);
        assert_eq!(heads.shape(), [2, 5, 3]);
        assert_eq!(places(&heads)[..4], [0, 1, 2, 6]);
        assert_eq!(places(&heads)[15..18], [3, 4, 5]);
        let back = heads.permuted(&[1, 0, 2]).reshaped(&[5, 6]).expect("joined");
        assert!(back.is_whole(30), "{back:?}");
        // Parts of one axis are kept apart where they have to be.
        let mixed = heads.reshaped(&[10, 3]).expect("two parts");
        assert_eq!(places(&mixed), places(&heads));
        assert_eq!(mixed.reshaped(&[4, 5, 3]), None);
    }

    #[test]
    fn channels_last_is_recognized_also_of_split_pixels() {
        let view = View::channels_last(&[6, 2, 5]);
        assert_eq!(view.shape(), [2, 5, 6]);
        assert!(view.is_channels_last(&[6, 2, 5]));
        let flat = view.reshaped(&[10, 6]).expect("pixels in a row");
        assert!(flat.is_channels_last(&[6, 2, 5]) && flat.is_channels_last(&[6, 10]));
        assert!(!View::of(&[10, 6]).is_channels_last(&[10, 6]));
        assert!(!flat.is_whole(60) && flat.turned_last().is_whole(60));
        assert_eq!(places(&flat)[..3], [0, 10, 20]);
    }

    #[test]
    fn slices_and_repeated_axes_have_the_right_places() {
        let view = View::of(&[4, 3]);
        let row = view.sliced(0, 2, 1).expect("one row");
        assert_eq!((row.shape(), places(&row)), (vec![1, 3], vec![6, 7, 8]));
        let ends = row.taken(1, 0, &[Part { len: 2, stride: 2 }]).expect("every second column");
        assert_eq!((ends.shape(), places(&ends)), (vec![1, 2], vec![6, 8]));
        let nested = [Part { len: 2, stride: 7 }, Part { len: 2, stride: 2 }];
        let nested = View::of(&[12]).taken(0, 1, &nested).expect("an axis of one part");
        assert_eq!((nested.shape(), places(&nested)), (vec![4], vec![1, 3, 8, 10]));
        let repeated = row.expanded(&[2, 2, 3]).expect("repeated");
        assert_eq!(places(&repeated), [6, 7, 8, 6, 7, 8, 6, 7, 8, 6, 7, 8]);
        assert_eq!(view.expanded(&[5, 3]), None);
        assert_eq!(view.expanded(&[3]), None);
        let columns = view.permuted(&[1, 0]).sliced(1, 1, 2).expect("rows 1 and 2");
        assert_eq!(places(&columns), [3, 6, 4, 7, 5, 8]);
        let parts = view.permuted(&[1, 0]).reshaped(&[12]).expect("one axis of two parts");
        assert_eq!(parts.sliced(0, 1, 3), None);
        assert_eq!(parts.sliced(0, 0, 12), Some(parts.clone()));
    }
}
