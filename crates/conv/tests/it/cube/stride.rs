//! Convolutions of volumes with windows smaller than their stride, and transposed ones, against the
//! definition in f64.

use burn::tensor::ops::{ConvOptions, ConvTransposeOptions};
use burn::tensor::{Device, Tensor, TensorData};
use updraft_conv::{conv_transpose3d, conv3d};
use updraft_testing::{Numbers, assert_close, gpus, scattered, tolerance};

/// A convolution without groups.
struct Case {
    /// `[batch, channels, depth, height, width]`.
    x: [usize; 5],
    /// `[outputs, channels, depth, height, width]`.
    weight: [usize; 5],
    stride: [usize; 3],
    padding: [usize; 3],
    dilation: [usize; 3],
}

impl Case {
    fn output(&self) -> [usize; 5] {
        let side = |axis: usize| {
            let padded = self.x[axis + 2] + 2 * self.padding[axis];
            let reach = self.dilation[axis] * (self.weight[axis + 2] - 1) + 1;
            (padded - reach) / self.stride[axis] + 1
        };
        [self.x[0], self.weight[0], side(0), side(1), side(2)]
    }

    /// The results, and the gradients of `Σ y·dy` for the input and the weights.
    fn expected(&self, [x, weight, dy]: [&[f32]; 3]) -> [Vec<f64>; 3] {
        let flat = |dims: [usize; 5], at: [usize; 5]| {
            at.iter().zip(dims).fold(0, |flat, (&at, side)| flat * side + at)
        };
        let output = self.output();
        let mut right = [dy, x, weight].map(|values| vec![0.0; values.len()]);
        for result in places(output) {
            for tap in places([1, self.x[1], self.weight[2], self.weight[3], self.weight[4]]) {
                let place = [0, 1, 2].map(|axis: usize| {
                    (result[axis + 2] * self.stride[axis] + tap[axis + 2] * self.dilation[axis])
                        .checked_sub(self.padding[axis])
                        .filter(|&at| at < self.x[axis + 2])
                });
                let [Some(z), Some(y), Some(x_at)] = place else { continue };
                let to = flat(output, result);
                let from = flat(self.x, [result[0], tap[1], z, y, x_at]);
                let by = flat(self.weight, [result[1], tap[1], tap[2], tap[3], tap[4]]);
                let [x, weight, dy] = [x[from], weight[by], dy[to]].map(f64::from);
                right[0][to] += x * weight;
                right[1][from] += dy * weight;
                right[2][by] += dy * x;
            }
        }
        right
    }

    fn check(&self, device: &Device) {
        let numbers = |seed, dims: [usize; 5]| scattered(seed, dims.iter().product());
        let (x, weight) = (numbers(1, self.x), numbers(2, self.weight));
        let dy = numbers(3, self.output());
        let right = self.expected([&x, &weight, &dy]);
        let tensor = |values: Vec<f32>, dims: [usize; 5]| {
            Tensor::<5>::from_data(TensorData::new(values, dims), device)
        };
        let x = tensor(x, self.x).require_grad();
        let weight = tensor(weight, self.weight).require_grad();
        let options = ConvOptions::new(self.stride, self.padding, self.dilation, 1);
        let y = conv3d(x.clone(), weight.clone(), None, options);
        assert_eq!(y.dims(), self.output());
        let gradients = (y.clone() * tensor(dy, self.output())).sum().backward();
        let gradient = |of: &Tensor<5>| of.grad(&gradients).expect("takes part").numbers();
        assert_close(&y.numbers(), &right[0], tolerance::F32_DEEP);
        assert_close(&gradient(&x), &right[1], tolerance::F32_DEEP);
        assert_close(&gradient(&weight), &right[2], tolerance::F32_DEEP);
    }

    /// Checks the transposed convolution of `dy`, whose result is the gradient of `x`: the sum of its
    /// products with `x` has the other gradients.
    fn check_transposed(&self, device: &Device) {
        let numbers = |seed, dims: [usize; 5]| scattered(seed, dims.iter().product());
        let (x, weight) = (numbers(1, self.x), numbers(2, self.weight));
        let dy = numbers(3, self.output());
        let bias = scattered(4, self.x[1]);
        let [y, mut dx, dweight] = self.expected([&x, &weight, &dy]);
        let voxels: usize = self.x[2..].iter().product();
        for (plane, dx) in dx.chunks_mut(voxels).enumerate() {
            dx.iter_mut().for_each(|dx| *dx += f64::from(bias[plane % self.x[1]]));
        }
        let tensor = |values: Vec<f32>, dims: [usize; 5]| {
            Tensor::<5>::from_data(TensorData::new(values, dims), device)
        };
        let input = tensor(dy, self.output()).require_grad();
        let weight = tensor(weight, self.weight).require_grad();
        let bias = Tensor::<1>::from_data(TensorData::new(bias, [self.x[1]]), device);
        let output = self.output();
        // What the convolution leaves out at the end.
        let rest = [0, 1, 2].map(|axis: usize| {
            let reach = self.dilation[axis] * (self.weight[axis + 2] - 1) + 1;
            let all = (output[axis + 2] - 1) * self.stride[axis] + reach;
            self.x[axis + 2] + 2 * self.padding[axis] - all
        });
        let options = ConvTransposeOptions::new(self.stride, self.padding, rest, self.dilation, 1);
        let found = conv_transpose3d(input.clone(), weight.clone(), Some(bias), options);
        assert_eq!(found.dims(), self.x);
        let gradients = (found.clone() * tensor(x, self.x)).sum().backward();
        let gradient = |of: &Tensor<5>| of.grad(&gradients).expect("takes part").numbers();
        assert_close(&found.numbers(), &dx, tolerance::F32_DEEP);
        assert_close(&gradient(&input), &y, tolerance::F32_DEEP);
        assert_close(&gradient(&weight), &dweight, tolerance::F32_DEEP);
    }
}

/// All places of a tensor in their order.
fn places(dims: [usize; 5]) -> impl Iterator<Item = [usize; 5]> {
    (0..dims.iter().product()).map(move |mut flat: usize| {
        let mut place = [0; 5];
        for (at, side) in place.iter_mut().zip(dims).rev() {
            *at = flat % side;
            flat /= side;
        }
        place
    })
}

/// The sides of volumes with the kernels, strides, paddings and dilations of windows.
const WINDOWS: [[[usize; 3]; 5]; 8] = [
    [[4, 6, 8], [1, 1, 1], [2, 2, 2], [0, 0, 0], [1, 1, 1]],
    [[5, 3, 7], [1, 1, 1], [2, 3, 2], [0, 0, 0], [1, 1, 1]],
    [[5, 6, 4], [3, 1, 1], [2, 2, 1], [1, 0, 0], [1, 1, 1]],
    [[4, 4, 5], [3, 3, 3], [2, 2, 2], [1, 1, 1], [1, 1, 1]],
    [[4, 4, 6], [2, 2, 2], [2, 2, 2], [0, 0, 0], [1, 1, 1]],
    // Gaps between windows, with padding that they reach and leave.
    [[5, 7, 8], [1, 2, 2], [2, 3, 3], [1, 0, 1], [1, 1, 1]],
    [[4, 9, 9], [1, 2, 2], [1, 5, 4], [0, 1, 0], [1, 2, 1]],
    [[7, 4, 6], [2, 1, 1], [5, 1, 2], [0, 0, 0], [2, 1, 2]],
];

#[test]
fn windows_shorter_than_their_stride_have_the_gradients_of_the_definition() {
    for device in gpus().into_iter().map(Device::autodiff) {
        for [sides, kernel, stride, padding, dilation] in WINDOWS {
            let x = [2, 3, sides[0], sides[1], sides[2]];
            let weight = [4, 3, kernel[0], kernel[1], kernel[2]];
            Case { x, weight, stride, padding, dilation }.check(&device);
        }
    }
}

#[test]
fn transposed_convolutions_are_the_gradients_of_convolutions_with_their_windows() {
    for device in gpus().into_iter().map(Device::autodiff) {
        for [sides, kernel, stride, padding, dilation] in WINDOWS {
            let x = [2, 3, sides[0], sides[1], sides[2]];
            let weight = [4, 3, kernel[0], kernel[1], kernel[2]];
            Case { x, weight, stride, padding, dilation }.check_transposed(&device);
        }
    }
}
