//! Tensors that do not depend on the input: weights, and values computed from them.

use burn::tensor::{DType, Slice, TensorData};

/// Numbers in row-major order.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Constant {
    pub(crate) shape: Vec<usize>,
    pub(crate) values: Vec<f32>,
}

impl Constant {
    /// Numbers of any dtype of floats.
    pub(crate) fn try_from_data(data: &TensorData) -> Option<Self> {
        let shape = data.shape().to_vec();
        let values = data.clone().try_cast(DType::F32).ok()?.try_into_vec::<f32>().ok()?;
        Some(Self { shape, values })
    }

    pub(crate) fn full(shape: &[usize], value: f32) -> Self {
        Self { shape: shape.to_vec(), values: vec![value; shape.iter().product()] }
    }

    /// The number, if all are equal.
    pub(crate) fn one(&self) -> Option<f32> {
        let first = *self.values.first()?;
        self.values.iter().all(|&value| value == first).then_some(first)
    }

    pub(crate) fn map(&self, f: impl Fn(f64) -> f64) -> Self {
        let values = self.values.iter().map(|&value| f(f64::from(value)) as f32).collect();
        Self { shape: self.shape.clone(), values }
    }

    /// Both, broadcast to a common shape.
    pub(crate) fn zip(
        &self,
        other: &Self,
        shape: &[usize],
        f: impl Fn(f64, f64) -> f64,
    ) -> Option<Self> {
        let (a, b) = (self.expand(shape)?, other.expand(shape)?);
        let both = a.values.iter().zip(&b.values);
        let values = both.map(|(&a, &b)| f(a.into(), b.into()) as f32).collect();
        Some(Self { shape: shape.to_vec(), values })
    }

    pub(crate) fn reshape(self, shape: &[usize]) -> Self {
        Self { shape: shape.to_vec(), values: self.values }
    }

    /// Axes of length 1 repeated, and missing first ones added.
    pub(crate) fn expand(&self, shape: &[usize]) -> Option<Self> {
        let missing = shape.len().checked_sub(self.shape.len())?;
        let own: Vec<usize> = vec![1; missing].into_iter().chain(self.shape.clone()).collect();
        let fits = own.iter().zip(shape).all(|(&own, &side)| own == side || own == 1);
        fits.then(|| {
            self.clone().reshape(&own).gather(shape, |place| {
                place.iter().zip(&own).map(|(&at, &own)| if own == 1 { 0 } else { at }).collect()
            })
        })
    }

    /// Axis `i` of the result is axis `axes[i]`.
    pub(crate) fn permute(&self, axes: &[usize]) -> Self {
        let shape: Vec<usize> = axes.iter().map(|&axis| self.shape[axis]).collect();
        self.gather(&shape, |place| {
            let mut from = vec![0; axes.len()];
            axes.iter().zip(place).for_each(|(&axis, &at)| from[axis] = at);
            from
        })
    }

    /// One sample of a batch of equal ones, with a first axis of length 1.
    pub(crate) fn of_sample(&self) -> Option<Self> {
        let len = self.values.len() / self.shape.first().copied().filter(|&len| len > 0)?;
        let first = &self.values[..len];
        self.values
            .chunks_exact(len)
            .all(|sample| sample == first)
            .then(|| Self { shape: [&[1], &self.shape[1..]].concat(), values: first.to_vec() })
    }

    /// A slice, if its step is one.
    pub(crate) fn slice(&self, ranges: &[Slice]) -> Option<Self> {
        if ranges.iter().any(|range| range.step != 1) {
            return None;
        }
        let of = |axis: usize| {
            ranges.get(axis).map_or(0..self.shape[axis], |range| range.to_range(self.shape[axis]))
        };
        let kept: Vec<_> = (0..self.shape.len()).map(of).collect();
        let shape: Vec<usize> = kept.iter().map(ExactSizeIterator::len).collect();
        Some(self.gather(&shape, |place| {
            place.iter().zip(&kept).map(|(at, kept)| at + kept.start).collect()
        }))
    }

    pub(crate) fn softmax(&self, axis: usize) -> Self {
        let mut result = self.map(f64::exp);
        let inner: usize = self.shape[axis + 1..].iter().product();
        let len = self.shape[axis];
        for first in 0..self.values.len() / len {
            let first = first / inner * inner * len + first % inner;
            let of = |index: usize| first + index * inner;
            let value = |index: usize| f64::from(self.values[of(index)]);
            let most = (0..len).map(value).fold(f64::NEG_INFINITY, f64::max);
            let sum: f64 = (0..len).map(|index| (value(index) - most).exp()).sum();
            for index in 0..len {
                result.values[of(index)] = ((value(index) - most).exp() / sum) as f32;
            }
        }
        result
    }

    fn gather(&self, shape: &[usize], from: impl Fn(&[usize]) -> Vec<usize>) -> Self {
        let count: usize = shape.iter().product();
        let mut place = vec![0; shape.len()];
        let mut values = Vec::with_capacity(count);
        for _ in 0..count {
            let at = from(&place).iter().zip(&self.shape).fold(0, |at, (&i, &side)| at * side + i);
            values.push(self.values[at]);
            for axis in (0..shape.len()).rev() {
                place[axis] += 1;
                if place[axis] < shape[axis] {
                    break;
                }
                place[axis] = 0;
            }
        }
        Self { shape: shape.to_vec(), values }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(shape: &[usize]) -> Constant {
        let count: usize = shape.iter().product();
        Constant { shape: shape.to_vec(), values: (0..count).map(|i| i as f32).collect() }
    }

    #[test]
    fn axes_change_places_and_are_cut() {
        let x = counted(&[2, 3]);
        assert_eq!(x.permute(&[1, 0]).values, [0.0, 3.0, 1.0, 4.0, 2.0, 5.0]);
        let part = x.slice(&[Slice::new(0, None, 1), Slice::new(1, Some(2), 1)]).expect("forward");
        assert_eq!((part.shape, part.values), (vec![2, 1], vec![1.0, 4.0]));
        assert!(x.slice(&[Slice::new(0, None, 2)]).is_none());
    }

    #[test]
    fn short_axes_are_repeated_and_others_refused() {
        let x = counted(&[2, 1]);
        assert_eq!(
            x.expand(&[2, 2, 2]).expect("fits").values,
            [0.0, 0.0, 1.0, 1.0, 0.0, 0.0, 1.0, 1.0]
        );
        assert!(x.expand(&[3, 2]).is_none());
        let sum = x.zip(&counted(&[2]), &[2, 2], |a, b| 10.0 * a + b).expect("fits");
        assert_eq!(sum.values, [0.0, 1.0, 10.0, 11.0]);
    }

    #[test]
    fn a_softmax_sums_to_one_along_its_axis() {
        let x = counted(&[2, 3]).softmax(1);
        for row in x.values.chunks(3) {
            assert!((row.iter().sum::<f32>() - 1.0).abs() < 1e-6);
            assert!((row[2] / row[1] - std::f32::consts::E).abs() < 1e-5);
        }
        let x = counted(&[2, 3]).softmax(0);
        assert!((x.values[0] + x.values[3] - 1.0).abs() < 1e-6);
        assert!((x.values[3] / x.values[0] - 3.0_f32.exp()).abs() < 1e-3);
    }
}
