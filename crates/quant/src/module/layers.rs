//! Layers with parameters or windows, and those that take all channels together.

use burn::backend::ir::{
    AdaptiveAvgPool2dOpIr, AvgPool2dOpIr, BatchNormOpIr, Conv2dOpIr, MaxPool2dOpIr, TensorIr,
};

use super::constant::Constant;
use super::reader::{Meaning, Read, Reader};
use crate::kernels::Pooling;
use crate::network::{Value, Window};

impl Reader<'_> {
    pub(super) fn convolution(&mut self, conv: &Conv2dOpIr, layer: Option<&str>) -> Read<Meaning> {
        let (x, _) = self.value(&conv.x)?;
        let weights = self.constant(&conv.weight, "its weights depend on the image")?;
        let bias = self.bias(conv.bias.as_ref(), weights.shape[0])?;
        let options = &conv.options;
        if options.padding.iter().any(|(before, after)| before != after) {
            return Err(self.unsupported("its padding differs between two sides"));
        }
        let window = Window {
            kernel: [weights.shape[2], weights.shape[3]],
            stride: options.stride,
            padding: options.padding.map(|(before, _)| before),
            dilation: options.dilation,
        };
        let name = self.named(layer, "convolution");
        let y = self.graph.convolution(&name, x, window, options.groups, &weights.values, &bias);
        let y = self.layer(y)?;
        Ok(self.image(y))
    }

    /// A product with weights `[inputs, outputs]`.
    pub(super) fn linear(
        &mut self,
        x: &TensorIr,
        weight: &TensorIr,
        bias: Option<&TensorIr>,
        layer: Option<&str>,
    ) -> Read<Meaning> {
        let (x, shape) = self.value(x)?;
        let weights =
            self.constant(weight, "it multiplies two tensors that depend on the image")?;
        if shape.len() != 1 || weights.shape.len() != 2 {
            return Err(self.unsupported("it is not the product of one row of numbers an image"));
        }
        let bias = self.bias(bias, weights.shape[1])?;
        let weights = weights.permute(&[1, 0]);
        let name = self.named(layer, "linear");
        let y = self.graph.linear(&name, x, &weights.values, &bias);
        let y = self.layer(y)?;
        Ok(self.given(y, vec![bias.len()]))
    }

    fn bias(&self, bias: Option<&TensorIr>, outputs: usize) -> Read<Vec<f32>> {
        let told = "its bias depends on the image";
        let bias = bias.map(|bias| self.constant(bias, told)).transpose()?;
        Ok(bias.map_or(vec![0.0; outputs], |bias| bias.values))
    }

    pub(super) fn batch_norm(
        &mut self,
        norm: &BatchNormOpIr,
        layer: Option<&str>,
    ) -> Read<Meaning> {
        let (x, shape) = self.value(&norm.x)?;
        self.check_channels(x, &shape)?;
        let told = "its parameters depend on the image";
        let parameters = [&norm.gamma, &norm.beta, &norm.mean, &norm.variance];
        let mut constants = Vec::new();
        for tensor in parameters {
            constants.push(self.constant(tensor, told)?.values);
        }
        let name = self.named(layer, "norm");
        let [gamma, beta, mean, variance] = [0, 1, 2, 3].map(|index| constants[index].as_slice());
        let epsilon = norm.epsilon.elem::<f64>();
        let y = self.graph.batch_norm(&name, x, gamma, beta, mean, variance, epsilon);
        let y = self.layer(y)?;
        Ok(self.given(y, shape))
    }

    pub(super) fn average_pool(&mut self, pool: &AvgPool2dOpIr) -> Read<Meaning> {
        let pooling = match pool.count_include_pad {
            true => Pooling::MeanWithPadding,
            false => Pooling::MeanOfImage,
        };
        let window =
            Window { stride: pool.stride, padding: pool.padding, ..Window::new(pool.kernel_size) };
        self.pool(&pool.x, window, pooling, pool.ceil_mode, &pool.out)
    }

    pub(super) fn max_pool(&mut self, pool: &MaxPool2dOpIr) -> Read<Meaning> {
        let window = Window {
            kernel: pool.kernel_size,
            stride: pool.stride,
            padding: pool.padding,
            dilation: pool.dilation,
        };
        self.pool(&pool.x, window, Pooling::Maximum, pool.ceil_mode, &pool.out)
    }

    pub(super) fn adaptive_pool(&mut self, pool: &AdaptiveAvgPool2dOpIr) -> Read<Meaning> {
        let sides = [pool.x.shape[2], pool.x.shape[3]];
        let output = pool.output_size;
        if [0, 1].iter().any(|&axis| output[axis] == 0 || !sides[axis].is_multiple_of(output[axis]))
        {
            return Err(self.unsupported("its windows differ in size"));
        }
        let kernel = [sides[0] / output[0], sides[1] / output[1]];
        let window = Window { stride: kernel, ..Window::new(kernel) };
        self.pool(&pool.x, window, Pooling::MeanOfImage, false, &pool.out)
    }

    fn pool(
        &mut self,
        x: &TensorIr,
        window: Window,
        pooling: Pooling,
        reaches_beyond: bool,
        out: &TensorIr,
    ) -> Read<Meaning> {
        let (x, _) = self.value(x)?;
        let name = self.numbered("pool");
        let y = self.graph.pool(&name, x, window, pooling);
        let y = self.layer(y)?;
        // Windows that may reach beyond the image matter only where one does.
        if reaches_beyond && self.graph.shape(y)[1..] != out.shape.to_vec()[2..] {
            return Err(self.unsupported("its last windows reach beyond the image"));
        }
        Ok(self.image(y))
    }

    pub(super) fn concatenate(&mut self, tensors: &[TensorIr], axis: usize) -> Read<Meaning> {
        let mut values = Vec::new();
        let mut ranks = Vec::new();
        for tensor in tensors {
            let (value, shape) = self.value(tensor)?;
            values.push(value);
            ranks.push(shape.len());
        }
        if axis != 1 || ranks.iter().any(|&rank| rank != ranks[0]) {
            return Err(self.unsupported("it joins another axis than the channels"));
        }
        let name = self.numbered("concatenate");
        let y = self.graph.concatenate(&name, &values);
        let y = self.layer(y)?;
        let whole = self.graph.shape(y);
        let is_flat = ranks.first() == Some(&1);
        let shape = if is_flat { vec![whole.iter().product()] } else { whole.to_vec() };
        Ok(self.given(y, shape))
    }

    pub(super) fn softmax(&mut self, input: &TensorIr, axis: usize) -> Read<Meaning> {
        if let Meaning::Constant(constant) = self.meaning(input)? {
            return Ok(Meaning::Constant(constant.softmax(axis)));
        }
        let (x, shape) = self.value(input)?;
        self.check_channels(x, &shape)?;
        if axis != 1 {
            return Err(self.unsupported("it is over another axis than the channels"));
        }
        let name = self.numbered("softmax");
        let y = self.graph.softmax(&name, x);
        Ok(self.given(y, shape))
    }

    /// The sum along an axis, times a factor: all of it as layers that a graph has.
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
        let (x, shape) = self.value(input)?;
        let [channels, height, width] = self.graph.shape(x);
        let name = self.numbered(if is_mean { "mean" } else { "sum" });
        let weight = |len: usize| if is_mean { 1.0 / len as f32 } else { 1.0 };
        let y = match (axis, shape.len()) {
            (1, 1) => {
                let len = channels * height * width;
                let y = self.graph.linear(&name, x, &vec![weight(len); len], &[0.0]);
                let y = self.layer(y)?;
                return Ok(self.given(y, vec![1]));
            }
            (1, 3) => {
                let weights = vec![weight(channels); channels];
                self.graph.convolution(&name, x, Window::new([1, 1]), 1, &weights, &[0.0])
            }
            (2 | 3, 3) => {
                let kernel = if axis == 2 { [height, 1] } else { [1, width] };
                let len = kernel[0] * kernel[1];
                let mean = self.graph.pool(&name, x, Window::new(kernel), Pooling::MeanOfImage);
                let mean = self.layer(mean)?;
                let factor = if is_mean { 1.0 } else { len as f32 };
                match is_mean {
                    true => Ok(mean),
                    false => self.graph.affine(
                        &format!("{name}.factor"),
                        mean,
                        &vec![factor; channels],
                        &vec![0.0; channels],
                    ),
                }
            }
            _ => return Err(self.unsupported("it is along the batch")),
        };
        let y = self.layer(y)?;
        Ok(self.image(y))
    }

    /// Whether axis 1 holds the channels and nothing else.
    pub(super) fn check_channels(&self, value: Value, shape: &[usize]) -> Read<()> {
        let [_, height, width] = self.graph.shape(value);
        if shape.len() == 3 || height * width == 1 {
            return Ok(());
        }
        Err(self.unsupported("it takes the numbers of a flattened image for channels"))
    }

    fn image(&self, value: Value) -> Meaning {
        self.given(value, self.graph.shape(value).to_vec())
    }

    fn named(&mut self, layer: Option<&str>, kind: &'static str) -> String {
        layer.map_or_else(|| self.numbered(kind), str::to_owned)
    }
}
