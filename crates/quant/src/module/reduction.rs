//! Sums and means along an axis, as layers of a graph.

use burn::backend::ir::TensorIr;

use super::constant::Constant;
use super::reader::{Meaning, Read, Reader};
use crate::kernels::Pooling;
use crate::network::Value;
use crate::operation::{Window, plane};

impl Reader<'_> {
    /// The sum along an axis, times a factor, as layers of a graph.
    pub(super) fn sum(&mut self, input: &TensorIr, axis: usize, is_mean: bool) -> Read<Meaning> {
        if let Meaning::Constant(constant) = self.meaning(input)? {
            let len = constant.shape[axis];
            let mut kept = constant.shape.clone();
            kept[axis] = 1;
            let inner: usize = constant.shape[axis + 1..].iter().product();
            let count = constant.values.len() / len.max(1);
            let factor = if is_mean { 1.0 / len as f64 } else { 1.0 };
            let of = |index: usize| {
                let first = index / inner * inner * len + index % inner;
                let line = (0..len).map(|place| f64::from(constant.values[first + place * inner]));
                (line.sum::<f64>() * factor) as f32
            };
            let values = (0..count).map(of).collect();
            return Ok(Meaning::Constant(Constant { shape: kept, values }));
        }
        // The axes of a sample are counted from 1; an axis that is joined with the batch is the first.
        let axis = match (self.recording.joins_batch(&input.shape), axis) {
            (true, 0) => return Err(self.unsupported("it is along the batch")),
            (true, axis) => axis + 1,
            (false, axis) => axis,
        };
        if let Some(meaning) = self.sum_of_tokens(input, axis, is_mean)? {
            return Ok(meaning);
        }
        let (x, shape) = self.value_in_order(input)?;
        let name = self.numbered(if is_mean { "mean" } else { "sum" });
        let weight = |len: usize| if is_mean { 1.0 / len as f32 } else { 1.0 };
        let whole = self.graph.shape(x).to_vec();
        if axis == 1 && shape.len() == 1 {
            let len = whole.iter().product();
            let y = self.graph.linear(&name, x, &vec![weight(len); len], &[0.0]);
            return self.layer(y);
        }
        if shape != whole || !(2..=3).contains(&shape.len()) || !(1..=3).contains(&axis) {
            return Err(self.unsupported("it is along the batch, or of a tensor of other axes"));
        }
        if axis == 1 {
            let weights = vec![weight(whole[0]); whole[0]];
            let y = self.graph.convolution(&name, x, Window::new([1, 1]), 1, &weights, &[0.0]);
            return self.layer(y);
        }
        let len = whole[axis - 1];
        // A line is an image of one row.
        let kernel = if axis == 2 && shape.len() == 3 { [len, 1] } else { [1, len] };
        self.pooled(&name, x, kernel, is_mean)
    }

    /// The sum of all tokens; `None` for other tensors and axes.
    fn sum_of_tokens(
        &mut self,
        input: &TensorIr,
        axis: usize,
        is_mean: bool,
    ) -> Read<Option<Meaning>> {
        let (value, view) = self.viewed(input)?;
        let shape = self.graph.shape(value).to_vec();
        if axis != 1 || view.shape().len() != 2 || !view.is_channels_last(&shape) {
            return Ok(None);
        }
        let name = self.numbered(if is_mean { "mean" } else { "sum" });
        let [_, rows, columns] = plane(&shape);
        self.pooled(&name, value, [rows, columns], is_mean).map(Some)
    }

    /// The mean over windows, or their sum.
    fn pooled(&mut self, name: &str, x: Value, kernel: [usize; 2], is_mean: bool) -> Read<Meaning> {
        let channels = self.graph.shape(x)[0];
        let mean = self.graph.pool(name, x, Window::new(kernel), Pooling::MeanOfImage);
        if is_mean {
            return self.layer(mean);
        }
        let mean = self.added(mean)?;
        let len = kernel[0] * kernel[1];
        let (factors, zeros) = (vec![len as f32; channels], vec![0.0; channels]);
        let y = self.graph.affine(&format!("{name}.factor"), mean, &factors, &zeros);
        self.layer(y)
    }
}
