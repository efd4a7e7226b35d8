//! Operations that change no number but its place: turned, cut, repeated and joined axes.

use burn::backend::ir::{BaseOperationIr, OperationIr, TensorIr};
use burn::tensor::{DType, Slice};

use super::constant::Constant;
use super::error::CaptureError;
use super::reader::{Meaning, Read, Reader};
use crate::network::{GraphError, Value};
use crate::view::{Part, View};

impl Reader<'_> {
    /// Reads an operation that changes no number; `None` if it is another one.
    pub(super) fn order(&mut self, operation: &OperationIr) -> Read<Option<Meaning>> {
        let OperationIr::BaseFloat(operation) = operation else { return Ok(None) };
        let meaning = match operation {
            BaseOperationIr::Reshape(reshape) => self.reshape(&reshape.input, &reshape.out),
            BaseOperationIr::Cast(cast) => match cast.out.dtype {
                DType::F32 => self.meaning(&cast.input),
                dtype => Err(CaptureError::DType { place: self.place.clone(), dtype }),
            },
            BaseOperationIr::Slice(slice) => self.slice(&slice.tensor, &slice.ranges),
            BaseOperationIr::SwapDims(swap) => {
                let mut axes: Vec<usize> = (0..swap.input.shape.len()).collect();
                axes.swap(swap.dim1, swap.dim2);
                self.permute(&swap.input, &axes)
            }
            BaseOperationIr::Permute(permute) => self.permute(&permute.input, &permute.axes),
            BaseOperationIr::Expand(expand) => self.expand(&expand.input, &expand.out),
            BaseOperationIr::RepeatDim(repeat) if repeat.tensor.shape[repeat.dim] == 1 => {
                self.expand(&repeat.tensor, &repeat.out)
            }
            // Numbers that are assigned before they are read.
            BaseOperationIr::Zeros(zeros) | BaseOperationIr::Empty(zeros) => {
                Ok(Meaning::Constant(Constant::full(&zeros.out.shape.to_vec(), 0.0)))
            }
            BaseOperationIr::Ones(ones) => {
                Ok(Meaning::Constant(Constant::full(&ones.out.shape.to_vec(), 1.0)))
            }
            _ => return Ok(None),
        };
        meaning.map(Some)
    }

    /// The same numbers of a sample along other axes.
    fn reshape(&mut self, input: &TensorIr, out: &TensorIr) -> Read<Meaning> {
        match self.meaning(input)? {
            Meaning::Constant(constant) => {
                Ok(Meaning::Constant(constant.reshape(&out.shape.to_vec())))
            }
            Meaning::Value { value, function, view } => {
                let shape = self.recording.of_sample(&out.shape);
                if shape.iter().product::<usize>() != view.shape().iter().product::<usize>() {
                    return Err(self.unsupported("it divides samples of the batch"));
                }
                if let Some(view) = view.reshaped(&shape) {
                    return Ok(Meaning::Value { value, function, view });
                }
                let (value, own) = self.value_in_order(input)?;
                let view = View::of(&own).reshaped(&shape);
                let view = view.ok_or_else(|| self.unsupported("its shapes differ"))?;
                Ok(Meaning::of(value, view))
            }
        }
    }

    fn slice(&mut self, input: &TensorIr, ranges: &[Slice]) -> Read<Meaning> {
        if ranges.iter().any(|range| range.step != 1) {
            return Err(self.unsupported("it goes by steps"));
        }
        if let Meaning::Constant(constant) = self.meaning(input)? {
            let part = constant.slice(ranges);
            return part.map(Meaning::Constant).ok_or_else(|| self.unsupported("it goes by steps"));
        }
        self.check_batch(input)?;
        let of = |(range, &len): (&Slice, &usize)| range.to_range(len);
        let ranges: Vec<_> = ranges.iter().zip(&input.shape.to_vec()).map(of).collect();
        if ranges.first().is_some_and(|range| *range != (0..input.shape[0])) {
            return Err(self.unsupported("it cuts samples out of the batch"));
        }
        let Meaning::Value { value, function, view } = self.meaning(input)? else {
            unreachable!("constants were read before")
        };
        let sliced = |view: View| {
            let mut ranges = ranges.iter().skip(1).enumerate();
            ranges.try_fold(view, |view, (axis, range)| view.sliced(axis, range.start, range.len()))
        };
        if let Some(view) = sliced(view) {
            return Ok(Meaning::Value { value, function, view });
        }
        let (value, shape) = self.value(input)?;
        Ok(Meaning::of(value, sliced(View::of(&shape)).expect("axes of one part")))
    }

    fn permute(&mut self, input: &TensorIr, axes: &[usize]) -> Read<Meaning> {
        match self.meaning(input)? {
            Meaning::Constant(constant) => Ok(Meaning::Constant(constant.permute(axes))),
            Meaning::Value { value, function, view } => {
                self.check_batch(input)?;
                if axes[0] != 0 {
                    return Err(self.unsupported("it turns the axis of the batch"));
                }
                let axes: Vec<usize> = axes[1..].iter().map(|axis| axis - 1).collect();
                Ok(Meaning::Value { value, function, view: view.permuted(&axes) })
            }
        }
    }

    fn expand(&mut self, input: &TensorIr, out: &TensorIr) -> Read<Meaning> {
        let reason = || self.unsupported("its shapes differ");
        match self.meaning(input)? {
            Meaning::Constant(constant) => {
                let expanded = constant.expand(&out.shape.to_vec());
                expanded.map(Meaning::Constant).ok_or_else(reason)
            }
            Meaning::Value { value, function, view } => {
                self.check_batch(input)?;
                if out.shape.len() != input.shape.len() || out.shape[0] != input.shape[0] {
                    return Err(self.unsupported("it repeats samples of the batch"));
                }
                let view = view.expanded(&out.shape[1..]).ok_or_else(reason)?;
                Ok(Meaning::Value { value, function, view })
            }
        }
    }

    /// Checks that the first axis is the batch alone.
    fn check_batch(&self, tensor: &TensorIr) -> Read<()> {
        match self.recording.joins_batch(&tensor.shape) {
            true => Err(self.unsupported("its first axis is the batch with another axis")),
            false => Ok(()),
        }
    }

    /// The numbers of a view as a value of `shape`.
    pub(super) fn rearranged(&mut self, value: Value, view: &View, shape: &[usize]) -> Read<Value> {
        let (parts, offset) = view.parts();
        let axes: Vec<_> = parts.iter().map(|&Part { len, stride }| [len, stride]).collect();
        let name = self.numbered("rearrange");
        let y = self.graph.rearrange(&name, value, shape, &axes, offset);
        self.added(y)
    }

    /// A part of a value of `shape`: axes with the first place and the number of places.
    pub(crate) fn part(
        &self,
        value: Value,
        shape: &[usize],
        mut places: impl Iterator<Item = (usize, usize, usize)>,
    ) -> Meaning {
        let view = places
            .try_fold(View::of(shape), |view, (axis, first, len)| view.sliced(axis, first, len));
        Meaning::of(value, view.expect("axes of one part"))
    }

    /// A tensor as a value whose channels are burn's last axis.
    pub(crate) fn tokens(&mut self, tensor: &TensorIr) -> Read<Value> {
        let (value, view) = self.viewed(tensor)?;
        let shape = view.shape();
        let [pixels @ .., channels] = &shape[..] else {
            return Err(self.unsupported("a sample has a single number without an axis"));
        };
        if pixels.is_empty() {
            return self.value_in_order(tensor).map(|(value, _)| value);
        }
        if view.is_channels_last(self.graph.shape(value)) {
            return Ok(value);
        }
        let shape = [*channels, pixels.iter().product()];
        let value = self.rearranged(value, &view.turned_last(), &shape)?;
        let seen = View::channels_last(&shape).reshaped(&view.shape()).expect("the same pixels");
        self.meanings.insert(tensor.id, Meaning::of(value, seen));
        Ok(value)
    }

    /// Whether a sample of a tensor has a single axis.
    pub(crate) fn is_row(&mut self, tensor: &TensorIr) -> Read<bool> {
        Ok(self.viewed(tensor)?.1.shape().len() == 1)
    }

    /// Records the output of a layer whose channels are burn's last axis.
    pub(crate) fn tokens_of(&self, result: Result<Value, GraphError>) -> Read<Meaning> {
        let value = self.added(result)?;
        Ok(Meaning::of(value, View::channels_last(self.graph.shape(value))))
    }

    /// A tensor as a value whose numbers are all of its own, with the channels as the first or the
    /// last axis.
    pub(super) fn in_order(&mut self, tensor: &TensorIr) -> Read<(Value, View)> {
        let (value, view) = self.viewed(tensor)?;
        if view.is_channels_last(self.graph.shape(value)) {
            return Ok((value, view));
        }
        let (value, shape) = self.value_in_order(tensor)?;
        Ok((value, View::of(&shape)))
    }

    /// Two tensors of one shape as values whose channels are burn's last axis, if those of one are.
    pub(crate) fn both(&mut self, tensors: [&TensorIr; 2]) -> Read<Option<[Value; 2]>> {
        let [(a, of_a), (b, of_b)] = [self.viewed(tensors[0])?, self.viewed(tensors[1])?];
        let is_last = |value, view: &View| view.is_channels_last(self.graph.shape(value));
        if of_a.shape() != of_b.shape() || !(is_last(a, &of_a) || is_last(b, &of_b)) {
            return Ok(None);
        }
        let (a, b) = (self.tokens(tensors[0])?, self.tokens(tensors[1])?);
        let [of_a, of_b] = [a, b].map(|value| self.graph.shape(value).to_vec());
        if of_a != of_b {
            // The pixels of one are split into rows and columns, those of the other are not.
            return Ok(None);
        }
        Ok(Some([a, b]))
    }

    /// A tensor whose axes of length 1 are repeated to the shape of a result.
    pub(crate) fn repeated(&mut self, tensor: &TensorIr, out: &TensorIr) -> Read<Value> {
        let (value, view) = self.viewed(tensor)?;
        let shape = self.recording.of_sample(&out.shape);
        let repeated = view.expanded(&shape);
        let repeated = repeated.ok_or_else(|| self.unsupported("its shapes do not fit"))?;
        match repeated.is_whole(self.graph.shape(value).iter().product()) {
            true => self.shaped(value, &shape),
            false => self.rearranged(value, &repeated, &shape),
        }
    }

    /// A tensor of matrices as a value, and whether its last two axes are swapped there.
    pub(crate) fn matrices(&mut self, tensor: &TensorIr) -> Read<(Value, bool)> {
        let (value, view) = self.viewed(tensor)?;
        let shape = view.shape();
        if shape.len() < 2 {
            return Err(self.unsupported("a sample is no matrix"));
        }
        let transposed = view.transposed();
        let count = self.graph.shape(value).iter().product();
        if !view.is_whole(count) && transposed.is_whole(count) {
            let shape = transposed.shape();
            let value = self.shaped(value, &shape)?;
            return Ok((value, true));
        }
        let (value, shape) = self.value_in_order(tensor)?;
        Ok((self.shaped(value, &shape)?, false))
    }

    /// A value in another shape: without a layer if it has it already.
    fn shaped(&mut self, value: Value, shape: &[usize]) -> Read<Value> {
        if self.graph.shape(value) == shape {
            return Ok(value);
        }
        self.rearranged(value, &View::of(shape), shape)
    }

    /// Tensors joined along burn's axis `dim`.
    pub(crate) fn joined(&mut self, tensors: &[TensorIr], dim: usize) -> Read<Meaning> {
        let mut constants = Vec::new();
        let mut is_tokens = false;
        for tensor in tensors {
            match self.meaning(tensor)? {
                Meaning::Constant(constant) => constants.push(constant),
                Meaning::Value { value, view, .. } => {
                    is_tokens |= view.is_channels_last(self.graph.shape(value));
                }
            }
        }
        if dim == 0 {
            return Err(self.unsupported("it joins batches"));
        }
        for tensor in tensors {
            if let Meaning::Value { .. } = self.meaning(tensor)? {
                self.check_batch(tensor)?;
            }
        }
        let axes = tensors[0].shape.len() - 1;
        if !constants.is_empty() {
            return self.extended(tensors, dim);
        }
        if is_tokens && axes == 2 {
            let mut values = Vec::new();
            for tensor in tensors {
                let value = self.tokens(tensor)?;
                let [channels, pixels] = [tensor.shape[2], tensor.shape[1]];
                values.push(self.shaped(value, &[channels, pixels])?);
            }
            let name = self.numbered("concatenate");
            let y = self.graph.concatenate(&name, &values, 2 - dim);
            return self.tokens_of(y);
        }
        let mut values = Vec::new();
        for tensor in tensors {
            let (value, shape) = self.value(tensor)?;
            if shape.len() != axes {
                return Err(self.unsupported("its tensors have different axes"));
            }
            let is_kept = dim == 1 || self.graph.shape(value) == shape;
            values.push(if is_kept { value } else { self.shaped(value, &shape)? });
        }
        let name = self.numbered("concatenate");
        let y = self.graph.concatenate(&name, &values, dim - 1);
        self.layer(y)
    }

    /// Tokens with constant ones before or after them.
    fn extended(&mut self, tensors: &[TensorIr], dim: usize) -> Read<Meaning> {
        let reason =
            "it joins a constant with other tensors than tokens `[batch, tokens, channels]`";
        let [first, second] = tensors else { return Err(self.unsupported(reason)) };
        let is_after = matches!(self.meaning(first)?, Meaning::Value { .. });
        let (x, constant) = if is_after { (first, second) } else { (second, first) };
        if dim != 1 || x.shape.len() != 3 {
            return Err(self.unsupported(reason));
        }
        let constant = self.constant(constant, reason)?;
        let differs = || self.unsupported("its constant differs between samples");
        let constant = constant.of_sample().ok_or_else(differs)?;
        let value = self.tokens(x)?;
        let value = self.shaped(value, &[x.shape[2], x.shape[1]])?;
        let name = self.numbered("extend");
        let numbers = constant.permute(&[0, 2, 1]).values;
        let y = self.graph.extend(&name, value, &numbers, is_after);
        self.tokens_of(y)
    }
}
