//! The kernels of convolutions against the closed forms in f64, for every instruction set of this
//! processor.

use updraft_simd::Isa;
use updraft_testing::scattered;

use super::{DenseConv, dense_conv_backward, dense_conv_forward};
use crate::basis::{Basis, Centers};
use crate::grid::Grid;
use crate::kernels::activation::Activation;
use crate::kernels::conv::{BaseBranch, ConvAxis, ConvGeometry, Shapes};
use crate::kernels::dense::tests::{assert_close, bases, silu};
use crate::kernels::dense::{DenseGradients, DenseLayer, DenseScratch, DenseWeights};

/// A convolution's sizes: batch, channels, groups, groups of functions, axes and image.
struct Sizes {
    batch: usize,
    channels: [usize; 2],
    groups: [usize; 2],
    axes: Vec<ConvAxis>,
    image: Vec<usize>,
}

fn axis(kernel: usize, stride: usize, padding: usize, dilation: usize) -> ConvAxis {
    ConvAxis { kernel, stride, padding, dilation }
}

fn sizes() -> Vec<Sizes> {
    let of = |batch, channels, groups, axes: &[ConvAxis], image: &[usize]| Sizes {
        batch,
        channels,
        groups,
        axes: axes.to_vec(),
        image: image.to_vec(),
    };
    vec![
        // One pixel.
        of(1, [1, 1], [1, 1], &[axis(1, 1, 0, 1)], &[1]),
        // Several images in a block.
        of(7, [3, 5], [1, 1], &[axis(3, 1, 1, 1); 2], &[5, 4]),
        // Several chunks of channels, and blocks of rows.
        of(2, [40, 13], [1, 2], &[axis(3, 1, 1, 1), axis(2, 1, 0, 1)], &[19, 23]),
        // Strides that leave pixels out, dilation and groups.
        of(3, [4, 6], [2, 4], &[axis(3, 2, 2, 2), axis(2, 3, 1, 1)], &[13, 17]),
        of(2, [2, 4], [2, 1], &[axis(4, 3, 5, 2)], &[31]),
        // A line longer than a block.
        of(2, [2, 3], [1, 1], &[axis(5, 1, 2, 1)], &[601]),
        of(1, [1, 2], [1, 1], &[axis(2, 2, 0, 3)], &[777]),
        // Volumes, with one plane and several in a block.
        of(
            2,
            [2, 34],
            [1, 2],
            &[axis(2, 1, 1, 1), axis(3, 1, 0, 1), axis(1, 1, 0, 1)],
            &[3, 20, 15],
        ),
        of(2, [3, 3], [3, 1], &[axis(3, 2, 1, 1), axis(2, 1, 1, 1), axis(3, 1, 0, 1)], &[6, 3, 4]),
        // By Winograd's algorithm: several images in a box, and groups of functions and of channels.
        of(17, [18, 17], [1, 1], &[axis(3, 1, 1, 1); 2], &[8, 7]),
        of(4, [32, 32], [2, 2], &[axis(3, 1, 2, 1), axis(3, 1, 0, 1)], &[14, 18]),
    ]
}

struct Case {
    geometry: ConvGeometry,
    pixel: DenseLayer,
    shapes: Shapes,
    coefficients: Vec<f32>,
    functions: Vec<f32>,
    base: Option<Vec<f32>>,
    bias: Option<Vec<f32>>,
    x: Vec<f32>,
    dy: Vec<f32>,
}

/// Outputs, then the gradients of `x`, coefficients, functions, base branch and bias.
type Numbers<T> = [Vec<T>; 6];

impl Case {
    fn new(basis: Basis, sizes: &Sizes, is_whole: bool) -> Self {
        let Sizes { batch, channels, groups: [groups, function_groups], axes, image } = sizes;
        let grid = Grid::uniform(-1.0, 1.0, 1, 0).unwrap();
        let (activation, branch) = (Activation::Silu, BaseBranch::ConvOfActivation);
        let geometry =
            ConvGeometry::try_new(grid, *channels, *groups, axes, activation, branch).unwrap();
        let shapes = geometry.shapes_of(*batch, image).unwrap();
        let [inputs, outputs] = [channels[0], channels[1] / groups];
        let times = |seed: u32, count: usize, by: f32| -> Vec<f32> {
            scattered(seed, count).into_iter().map(|number| number * by).collect()
        };
        let mut functions = Vec::new();
        for group in 0..*function_groups {
            let by = 1.0 + 0.1 * group as f64;
            functions.extend(basis.parameters().into_iter().map(|number| (number * by) as f32));
        }
        let edges = geometry.edges();
        Self {
            coefficients: times(1, edges * basis.count(), 1.0),
            functions,
            base: is_whole.then(|| times(2, edges, 1.0)),
            bias: is_whole.then(|| times(3, channels[1], 1.0)),
            x: times(4, batch * inputs * shapes.in_pixels(), 3.0),
            dy: times(6, batch * channels[1] * shapes.out_pixels(), 1.0),
            pixel: DenseLayer { basis, inputs, outputs, groups: *function_groups, activation },
            geometry,
            shapes,
        }
    }

    fn run(&self, isa: Isa, threads: usize, scratch: &mut DenseScratch) -> Numbers<f32> {
        let nan = |count: usize| vec![f32::NAN; count];
        let weights = DenseWeights {
            coefficients: &self.coefficients,
            functions: &self.functions,
            base: self.base.as_deref(),
            bias: self.bias.as_deref(),
        };
        let conv = DenseConv { pixel: &self.pixel, geometry: &self.geometry };
        let mut y = nan(self.dy.len());
        let (x, shapes) = (&self.x, self.shapes);
        dense_conv_forward(isa, conv, &weights, x, shapes, &mut y, scratch, threads);
        let mut dx = nan(self.x.len());
        let mut coefficients = nan(self.coefficients.len());
        let mut functions = nan(self.functions.len());
        let mut base = self.base.as_ref().map(|base| nan(base.len()));
        let mut bias = self.bias.as_ref().map(|bias| nan(bias.len()));
        let wanted = DenseGradients {
            x: Some(&mut dx),
            seen: None,
            coefficients: Some(&mut coefficients),
            functions: (!functions.is_empty()).then_some(&mut functions[..]),
            base: base.as_deref_mut(),
            bias: bias.as_deref_mut(),
        };
        let dy = &self.dy;
        dense_conv_backward(isa, conv, &weights, x, dy, shapes, wanted, scratch, threads);
        let [base, bias] = [base, bias].map(Option::unwrap_or_default);
        [y, dx, coefficients, functions, base, bias]
    }

    /// Calls `edge` for each tap of each output: image, output channel, output pixel, input channel,
    /// the input of the weights, and the pixel if it is no padding.
    fn for_edges(&self, mut edge: impl FnMut([usize; 5], Option<usize>)) {
        let Self { geometry, shapes, pixel, .. } = self;
        let [_, height, width] = shapes.output;
        let of_group = pixel.inputs / geometry.groups();
        for image in 0..shapes.batch {
            for output in 0..geometry.out_channels() {
                for out in 0..shapes.out_pixels() {
                    let place = [out / (height * width), out / width % height, out % width];
                    for within in 0..of_group {
                        let channel = output / pixel.outputs * of_group + within;
                        for (tap, taps) in geometry.places().enumerate() {
                            let at = |axis: usize| {
                                let own = geometry.axes[axis];
                                let padded = place[axis] * own.stride + taps[axis] * own.dilation;
                                let pixel = padded.checked_sub(own.padding);
                                pixel.filter(|&pixel| pixel < shapes.input[axis])
                            };
                            let seen = match [0, 1, 2].map(at) {
                                [Some(z), Some(y), Some(x)] => {
                                    let [_, height, width] = shapes.input;
                                    Some((z * height + y) * width + x)
                                }
                                _ => None,
                            };
                            let input = channel * geometry.taps() + tap;
                            edge([image, output, out, channel, input], seen);
                        }
                    }
                }
            }
        }
    }

    fn reference(&self) -> Numbers<f64> {
        let DenseLayer { basis, inputs, outputs, groups, .. } = self.pixel;
        let (count, shapes) = (basis.count(), self.shapes);
        let functions: Vec<f64> = self.functions.iter().map(|&number| number.into()).collect();
        let each = functions.len() / groups;
        let own = |channel: usize| &functions[channel * groups / inputs * each..][..each];
        // The pixels of each channel, then one of padding.
        let pixels = shapes.in_pixels();
        let of_plane = pixels + 1;
        let mut x = vec![0.0; shapes.batch * inputs * of_plane];
        for (plane, x) in x.chunks_mut(of_plane).enumerate() {
            for (pixel, x) in x[..pixels].iter_mut().enumerate() {
                *x = f64::from(self.x[plane * pixels + pixel]);
            }
        }
        let channel_of = |at: usize| at / of_plane % inputs;
        let values: Vec<Vec<f64>> =
            x.iter().enumerate().map(|(at, &x)| basis.values(x, own(channel_of(at)))).collect();
        let mut y = vec![0.0; self.dy.len()];
        let mut of_values = vec![vec![0.0; count]; x.len()];
        let mut of_branch = vec![0.0; x.len()];
        let mut of_coefficients = vec![0.0; self.coefficients.len()];
        let mut of_base = vec![0.0; self.base.as_ref().map_or(0, Vec::len)];
        let mut of_bias = vec![0.0; self.bias.as_ref().map_or(0, Vec::len)];
        let all = self.geometry.out_channels();
        for (at, (y, &dy)) in y.iter_mut().zip(&self.dy).enumerate() {
            let output = at / shapes.out_pixels() % all;
            if let Some(bias) = &self.bias {
                *y += f64::from(bias[output]);
                of_bias[output] += f64::from(dy);
            }
        }
        self.for_edges(|[image, output, out, channel, input], seen| {
            let at = (image * inputs + channel) * of_plane + seen.unwrap_or(pixels);
            let of_output = (image * all + output) * shapes.out_pixels() + out;
            let dy = f64::from(self.dy[of_output]);
            for function in 0..count {
                let edge = (input * count + function) * outputs + output % outputs;
                let by = f64::from(self.coefficients[edge]);
                y[of_output] += by * values[at][function];
                of_coefficients[edge] += dy * values[at][function];
                of_values[at][function] += dy * by;
            }
            if let Some(base) = &self.base {
                let edge = input * outputs + output % outputs;
                y[of_output] += f64::from(base[edge]) * silu(x[at])[0];
                of_base[edge] += dy * silu(x[at])[0];
                of_branch[at] += dy * f64::from(base[edge]);
            }
        });
        let mut dx = Vec::new();
        let mut of_functions = vec![0.0; functions.len()];
        for (at, &x) in x.iter().enumerate() {
            let (channel, parameters) = (channel_of(at), own(channel_of(at)));
            let slopes = basis.slopes(x, parameters);
            let slope: f64 = slopes.iter().zip(&of_values[at]).map(|(slope, of)| slope * of).sum();
            if at % of_plane < pixels {
                dx.push(slope + of_branch[at] * silu(x)[1]);
            }
            for parameter in 0..each {
                let step = 1e-5;
                let [above, below] = [step, -step].map(|step| {
                    let mut moved = parameters.to_vec();
                    moved[parameter] += step;
                    basis.values(x, &moved)
                });
                let of = above.iter().zip(below).zip(&of_values[at]);
                let sum: f64 = of.map(|((above, below), of)| of * (above - below)).sum();
                of_functions[channel * groups / inputs * each + parameter] += sum / (2.0 * step);
            }
        }
        [y, dx, of_coefficients, of_functions, of_base, of_bias]
    }
}

fn isas() -> impl Iterator<Item = Isa> {
    Isa::BASES.into_iter().filter(|isa| isa.is_available())
}

#[test]
fn outputs_and_all_gradients_are_those_in_f64() {
    for (index, basis) in bases().into_iter().enumerate() {
        for (number, sizes) in sizes().iter().enumerate() {
            let is_whole = (index + number) % 2 == 0;
            let case = Case::new(basis, sizes, is_whole);
            let expected = case.reference();
            for isa in isas() {
                let found = case.run(isa, 1, &mut DenseScratch::default());
                assert_close(&found, &expected, format_args!("{isa}, {basis:?}, sizes {number}"));
            }
        }
    }
}

#[test]
fn large_convolutions_are_computed_by_winograds_algorithm() {
    for sizes in &sizes()[sizes().len() - 2..] {
        let case = Case::new(Basis::Rational, sizes, true);
        let conv = DenseConv { pixel: &case.pixel, geometry: &case.geometry };
        let parameters = case.functions.len() / case.pixel.groups;
        for isa in isas() {
            assert!(conv.plan(isa, parameters, true, case.shapes).is_some(), "{isa}");
        }
    }
}

#[test]
fn threads_and_the_scratch_of_other_calls_change_no_bit() {
    let centers = Centers { functions: 5, low: -1.5, high: 2.0 };
    for basis in [Basis::Gaussian(centers), Basis::Fourier { frequencies: 2 }, Basis::Rational] {
        let mut scratch = DenseScratch::default();
        for sizes in sizes() {
            let case = Case::new(basis, &sizes, true);
            for isa in isas() {
                let bits = |threads: usize, scratch: &mut DenseScratch| {
                    case.run(isa, threads, scratch)
                        .map(|all| all.into_iter().map(f32::to_bits).collect::<Vec<u32>>())
                };
                let expected = bits(1, &mut DenseScratch::default());
                for threads in [2, 5] {
                    assert!(bits(threads, &mut scratch) == expected, "{isa}, {basis:?}");
                }
            }
        }
    }
}

#[test]
fn a_pixel_that_is_not_finite_reaches_the_outputs_that_see_it_alone() {
    let sizes = Sizes {
        batch: 2,
        channels: [2, 3],
        groups: [1, 1],
        axes: vec![axis(2, 1, 0, 1); 2],
        image: vec![4, 5],
    };
    for basis in bases() {
        for isa in isas() {
            let clean = Case::new(basis, &sizes, false).run(isa, 1, &mut DenseScratch::default());
            for value in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
                let mut case = Case::new(basis, &sizes, false);
                // Of the second image, channel 1, row 1 and column 2.
                let pixel = (2 + 1) * 20 + 5 + 2;
                case.x[pixel] = value;
                let values = basis.values(value.into(), &basis.parameters());
                let slopes = basis.slopes(value.into(), &basis.parameters());
                let [y, dx, ..] = case.run(isa, 1, &mut DenseScratch::default());
                for (at, (y, clean)) in y.iter().zip(&clean[0]).enumerate() {
                    let (image, row, column) = (at / 36, at / 4 % 3, at % 4);
                    let sees = image == 1 && row < 2 && (1..3).contains(&column);
                    let is_nan = sees && values.iter().any(|value| value.is_nan());
                    assert_eq!(y.is_nan(), is_nan, "{isa}, {basis:?}, {value}: {at}");
                    assert!(sees || y == clean, "{isa}, {basis:?}, {value}: {at}");
                }
                for (at, dx) in dx.iter().enumerate() {
                    let is_nan = at == pixel && slopes.iter().any(|slope| slope.is_nan());
                    assert_eq!(dx.is_nan(), is_nan, "{isa}, {basis:?}, {value}: dx {at}");
                }
            }
        }
    }
}

#[test]
fn an_empty_batch_has_no_outputs_and_gradients_of_zero() {
    let sizes = Sizes {
        batch: 0,
        channels: [2, 3],
        groups: [1, 1],
        axes: vec![axis(2, 1, 0, 1)],
        image: vec![4],
    };
    for isa in isas() {
        let case = Case::new(Basis::Rational, &sizes, true);
        let found = case.run(isa, 2, &mut DenseScratch::default());
        assert!(found[..2].iter().all(Vec::is_empty));
        assert!(found.iter().flatten().all(|&gradient| gradient == 0.0), "{isa}");
    }
}
