//! Zeros around the numbers of a tensor, along any axes.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::definition::{
    Around, Codes, FloatJob, Job, Kernel, Operation, Packed, Registered, Work,
};
use super::error::{OperationError, check_count};
use super::parameters::{Lens, Parameters};
use crate::network::{Graph, GraphError, Node, Value};

/// How many zeros are before and behind each axis of a sample.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Pad {
    before: Vec<usize>,
    after: Vec<usize>,
}

/// Zeros before an axis, its length, and zeros behind it.
type Axis = [usize; 3];

impl Graph {
    /// A tensor with so many zeros before and behind each axis of a sample, channels first.
    ///
    /// In int8, codes are copied, and the zeros are the code of zero.
    ///
    /// # Errors
    /// [`GraphError`] if there is not one number for each axis, or the result has more than 2³²
    /// numbers.
    pub fn pad(
        &mut self,
        name: &str,
        x: Value,
        before: &[usize],
        after: &[usize],
    ) -> Result<Value, GraphError> {
        let operation = Pad { before: before.to_vec(), after: after.to_vec() };
        self.layer(name, Work::new(operation, Parameters::default()), &[x])
    }
}

impl Pad {
    /// The axes of a sample, channels first.
    fn axes(&self, shape: &[usize]) -> Vec<Axis> {
        let both = self.before.iter().zip(&self.after);
        shape.iter().zip(both).map(|(&len, (&before, &after))| [before, len, after]).collect()
    }
}

impl Operation for Pad {
    fn shape(&self, x: &[Vec<usize>], lens: Lens) -> Result<Vec<usize>, OperationError> {
        check_count(x, 1)?;
        lens.check(0, 0)?;
        let rank = x[0].len();
        let side = |[before, len, after]: Axis| before.checked_add(len)?.checked_add(after);
        let y: Option<Vec<usize>> = self.axes(&x[0]).into_iter().map(side).collect();
        let numbers =
            |y: &Vec<usize>| y.iter().try_fold(1_usize, |numbers, &side| numbers.checked_mul(side));
        let fits = |y: &Vec<usize>| numbers(y).is_some_and(|count| count <= u32::MAX as usize);
        let is_whole = [self.before.len(), self.after.len()] == [rank; 2];
        y.filter(|y| is_whole && fits(y)).ok_or_else(|| OperationError::Padded {
            shape: x[0].clone(),
            before: self.before.clone(),
            after: self.after.clone(),
        })
    }

    fn run_f32(&self, FloatJob { shapes, x, y, .. }: FloatJob<'_>) {
        y.fill(0.0);
        copy(&merged(&self.axes(&shapes.x[0])), x[0], y);
    }

    fn pack(&self, around: &Around<'_>) -> Packed {
        // The codes of a pixel are its channels.
        let mut axes = self.axes(&around.shapes.x[0]);
        axes.rotate_left(1);
        let numbers = [&around.shapes.x[0], &around.shapes.y].map(|shape| shape.iter().product());
        let zero = around.x[0].zero_point();
        Ok(Some(Arc::new(Padding { axes: merged(&axes), numbers, zero })))
    }

    fn export(&self, node: &mut Node<'_>) -> String {
        let x = node.read(0);
        let ends = |zeros: &[usize]| -> Vec<i64> {
            // The batch is the first axis.
            std::iter::once(0).chain(zeros.iter().map(|&zeros| zeros as i64)).collect()
        };
        let pads = node.integers(".pads", &[ends(&self.before), ends(&self.after)].concat());
        node.push("Pad", &[&x, &pads], "", vec![])
    }

    fn keeps_scheme(&self) -> bool {
        true
    }
}

impl Registered for Pad {
    const KIND: &'static str = "pad";
}

/// Copies codes between codes of zero.
#[derive(Debug)]
struct Padding {
    /// In the order of codes.
    axes: Vec<Axis>,
    /// Numbers of a sample of the input and of the output.
    numbers: [usize; 2],
    zero: u8,
}

impl Kernel for Padding {
    fn run(&self, x: Codes<'_>, y: &mut [u8], _: &mut Job<'_>) {
        let [of_x, of_y] = self.numbers;
        y.fill(self.zero);
        for (x, y) in x(0).chunks_exact(of_x).zip(y.chunks_exact_mut(of_y)) {
            copy(&self.axes, x, y);
        }
    }
}

/// The same axes, of which those without zeros are part of the one before.
fn merged(axes: &[Axis]) -> Vec<Axis> {
    let mut merged: Vec<Axis> = Vec::new();
    for &axis in axes.iter().rev() {
        match merged.last_mut() {
            Some(inner) if inner[0] == 0 && inner[2] == 0 => {
                *inner = axis.map(|numbers| numbers * inner[1]);
            }
            _ => merged.push(axis),
        }
    }
    merged.reverse();
    merged
}

/// Copies numbers to their places between zeros.
fn copy<T: Copy>(axes: &[Axis], x: &[T], y: &mut [T]) {
    match axes {
        [] => y.copy_from_slice(x),
        &[[before, len, _]] => y[before..before + len].copy_from_slice(x),
        &[[before, len, after], ref inner @ ..] => {
            let (of_x, of_y) = (x.len() / len, y.len() / (before + len + after));
            let rows = y[before * of_y..].chunks_exact_mut(of_y);
            x.chunks_exact(of_x).zip(rows).for_each(|(x, y)| copy(inner, x, y));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Against the place of each number by its coordinates.
    #[test]
    fn numbers_are_at_their_coordinates_behind_the_zeros() {
        for axes in [
            vec![[1, 2, 0]],
            vec![[0, 2, 1], [2, 3, 0]],
            vec![[0, 3, 0], [1, 2, 1], [0, 2, 3]],
            vec![[2, 1, 0], [0, 2, 0], [0, 3, 0]],
            vec![[0, 2, 0], [0, 3, 0]],
            vec![[1, 2, 1], [0, 1, 0], [1, 2, 0]],
        ] {
            let count: usize = axes.iter().map(|[_, len, _]| len).product();
            let all = axes.iter().map(|[before, len, after]| before + len + after).product();
            let x: Vec<usize> = (1..=count).collect();
            let mut right = vec![0; all];
            for (at, &number) in x.iter().enumerate() {
                let (mut rest, mut place, mut stride) = (at, 0, 1);
                for [before, len, after] in axes.iter().rev() {
                    place += (before + rest % len) * stride;
                    stride *= before + len + after;
                    rest /= len;
                }
                right[place] = number;
            }
            let mut y = vec![0; all];
            copy(&merged(&axes), &x, &mut y);
            assert_eq!(y, right, "{axes:?}");
        }
    }

    #[test]
    fn axes_without_zeros_are_copied_in_one_run() {
        assert_eq!(merged(&[[1, 4, 2], [0, 3, 0], [0, 5, 0]]), [[15, 60, 30]]);
        assert_eq!(merged(&[[0, 4, 0], [1, 3, 0]]), [[0, 4, 0], [1, 3, 0]]);
    }

    #[test]
    fn zeros_that_do_not_fit_the_axes_are_refused() {
        let none = Lens { weights: 0, bias: 0 };
        let shape = |before: &[usize], after: &[usize]| {
            let pad = Pad { before: before.to_vec(), after: after.to_vec() };
            pad.shape(&[vec![2, 3]], none)
        };
        assert_eq!(shape(&[0, 1], &[2, 0]), Ok(vec![4, 4]));
        let cases: [(&[usize], &[usize]); 5] = [
            (&[0], &[0, 0]),
            (&[0, 0], &[0]),
            (&[0, 0, 0], &[0, 0, 0]),
            (&[usize::MAX, 0], &[0, 0]),
            (&[1 << 16, 1 << 16], &[0, 0]),
        ];
        for (before, after) in cases {
            let error = shape(before, after).expect_err("refused").to_string();
            assert!(error.contains("one number for each axis"), "{error}");
        }
    }
}
