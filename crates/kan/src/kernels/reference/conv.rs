//! A convolution and its gradients: every tap of every output, every basis.

use super::basis::{bases, slopes};
use super::layer::{Derivatives, Parameters, slope, value};
use crate::kernels::conv::{BaseBranch, ConvGeometry};

/// A convolution's outputs, `[batch, out_channels, pixels]`, of images `x`, `[batch, in_channels,
/// shape]`, as [`ConvGeometry`] defines them.
///
/// # Panics
/// If a length or the shape does not fit the geometry.
#[must_use]
pub fn conv_forward(
    geometry: &ConvGeometry,
    parameters: &Parameters,
    x: &[f64],
    shape: &[usize],
) -> Vec<f64> {
    let mut y = Vec::new();
    for_each_output(geometry, x.len(), shape, |output, taps| {
        let sums = sums(geometry, parameters, x, output.channel, taps);
        y.push(sums.of_output(geometry, parameters, output.channel));
    });
    y
}

/// The gradients of `Σ y·dy`.
///
/// # Panics
/// If a length or the shape does not fit the geometry.
#[must_use]
pub fn conv_backward(
    geometry: &ConvGeometry,
    parameters: &Parameters,
    x: &[f64],
    shape: &[usize],
    dy: &[f64],
) -> Derivatives {
    let zeros = |like: &[f64]| vec![0.0; like.len()];
    let mut of = Parameters {
        spline: zeros(&parameters.spline),
        base: zeros(&parameters.base),
        scaler: zeros(&parameters.scaler),
        bias: zeros(&parameters.bias),
    };
    let mut dx = zeros(x);
    let outputs = geometry.pixel.out_features();
    let count = geometry.grid().bases();
    let mut dy = dy.iter();
    for_each_output(geometry, x.len(), shape, |output, taps| {
        let dy = dy.next().expect("as many gradients as outputs");
        if let Some(bias) = of.bias.get_mut(output.channel) {
            *bias += dy;
        }
        let column = output.channel % outputs;
        // The base branch's function of the sum has one slope for all taps.
        let of_sum = match geometry.base_branch() {
            BaseBranch::ConvOfActivation => 1.0,
            BaseBranch::ActivationOfConv => slope(
                geometry.activation(),
                sums(geometry, parameters, x, output.channel, taps).base,
            ),
        };
        for tap in taps {
            let at = tap.pixel.map_or(0.0, |pixel| x[pixel]);
            let (values, steps) =
                (bases(geometry.grid(), tap.channel, at), slopes(geometry.grid(), tap.channel, at));
            let edge = tap.input * outputs + column;
            let mut of_pixel = 0.0;
            if let Some(base) = parameters.base.get(edge) {
                let (value, slope) = match geometry.base_branch() {
                    BaseBranch::ConvOfActivation => {
                        (value(geometry.activation(), at), slope(geometry.activation(), at))
                    }
                    BaseBranch::ActivationOfConv => (at, 1.0),
                };
                of.base[edge] += dy * of_sum * value;
                of_pixel += dy * of_sum * base * slope;
            }
            let scaler = parameters.scaler.get(edge).copied().unwrap_or(1.0);
            for basis in 0..count {
                let coefficient = (tap.input * count + basis) * outputs + column;
                of.spline[coefficient] += dy * scaler * values[basis];
                of_pixel += dy * scaler * parameters.spline[coefficient] * steps[basis];
                if let Some(of_scaler) = of.scaler.get_mut(edge) {
                    *of_scaler += dy * parameters.spline[coefficient] * values[basis];
                }
            }
            if let Some(pixel) = tap.pixel {
                dx[pixel] += of_pixel;
            }
        }
    });
    Derivatives { x: dx, parameters: of }
}

/// An output of an image.
struct Output {
    channel: usize,
}

/// A tap of an input channel for one output.
struct Tap {
    channel: usize,
    /// The row of its weights.
    input: usize,
    /// The index of its pixel in `x`; `None` outside the image.
    pixel: Option<usize>,
}

/// The sums of an output.
struct Sums {
    splines: f64,
    base: f64,
}

impl Sums {
    fn of_output(&self, geometry: &ConvGeometry, parameters: &Parameters, channel: usize) -> f64 {
        let base = match geometry.base_branch() {
            _ if parameters.base.is_empty() => 0.0,
            BaseBranch::ConvOfActivation => self.base,
            BaseBranch::ActivationOfConv => value(geometry.activation(), self.base),
        };
        parameters.bias.get(channel).copied().unwrap_or(0.0) + self.splines + base
    }
}

fn sums(
    geometry: &ConvGeometry,
    parameters: &Parameters,
    x: &[f64],
    channel: usize,
    taps: &[Tap],
) -> Sums {
    let (outputs, count) = (geometry.pixel.out_features(), geometry.grid().bases());
    let column = channel % outputs;
    let mut sums = Sums { splines: 0.0, base: 0.0 };
    for tap in taps {
        let at = tap.pixel.map_or(0.0, |pixel| x[pixel]);
        let edge = tap.input * outputs + column;
        if let Some(base) = parameters.base.get(edge) {
            sums.base += base
                * match geometry.base_branch() {
                    BaseBranch::ConvOfActivation => value(geometry.activation(), at),
                    BaseBranch::ActivationOfConv => at,
                };
        }
        let scaler = parameters.scaler.get(edge).copied().unwrap_or(1.0);
        for (basis, value) in bases(geometry.grid(), tap.channel, at).iter().enumerate() {
            let coefficient = (tap.input * count + basis) * outputs + column;
            sums.splines += scaler * parameters.spline[coefficient] * value;
        }
    }
    sums
}

/// Calls `work` with each output of each image, in their order, and its taps.
fn for_each_output(
    geometry: &ConvGeometry,
    numbers: usize,
    shape: &[usize],
    mut work: impl FnMut(Output, &[Tap]),
) {
    let on_three = |sizes: &[usize]| {
        let mut all = [1; 3];
        all[3 - sizes.len()..].copy_from_slice(sizes);
        all
    };
    let output = on_three(&geometry.output_shape(shape).expect("the shape of an image"));
    let input = on_three(shape);
    let pixels = input.iter().product::<usize>();
    let channels = geometry.in_channels();
    let of_group = channels / geometry.groups();
    let outputs = geometry.pixel.out_features();
    for image in 0..numbers / (channels * pixels) {
        for channel in 0..geometry.out_channels() {
            for place in 0..output.iter().product::<usize>() {
                let p = [
                    place / (output[1] * output[2]),
                    place / output[2] % output[1],
                    place % output[2],
                ];
                let mut taps = Vec::new();
                for own in 0..of_group {
                    let channel = channel / outputs * of_group + own;
                    for (tap, k) in geometry.places().enumerate() {
                        let mut pixel = Some(0);
                        for axis in 0..3 {
                            let sizes = geometry.axes[axis];
                            let at = p[axis] * sizes.stride + k[axis] * sizes.dilation;
                            let at = at.checked_sub(sizes.padding).filter(|&at| at < input[axis]);
                            pixel = pixel.zip(at).map(|(pixel, at)| pixel * input[axis] + at);
                        }
                        let first = (image * channels + channel) * pixels;
                        let input = channel * geometry.taps() + tap;
                        taps.push(Tap { channel, input, pixel: pixel.map(|pixel| first + pixel) });
                    }
                }
                work(Output { channel }, &taps);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grid::Grid;
    use crate::kernels::activation::Activation;
    use crate::kernels::conv::ConvAxis;

    fn numbers(count: usize) -> Vec<f64> {
        (0..count).map(|index| ((index * 7919 + 13) % 101) as f64 / 50.0 - 1.0).collect()
    }

    /// Two taps with linear splines over the knots −1, 0, 1, 2: at 1/4 the bases are 3/4 and 1/4, at
    /// the zero beyond the image 1 and 0.
    #[test]
    fn two_taps_have_their_values_by_hand() {
        let grid = Grid::uniform(0.0, 1.0, 1, 1).unwrap();
        let axis = ConvAxis { padding: 1, ..ConvAxis::new(2) };
        for base_branch in [BaseBranch::ConvOfActivation, BaseBranch::ActivationOfConv] {
            let geometry = ConvGeometry::try_new(
                grid.clone(),
                [1, 1],
                1,
                &[axis],
                Activation::Identity,
                base_branch,
            )
            .unwrap();
            let parameters = Parameters {
                spline: vec![2.0, 7.0, 5.0, 3.0],
                base: vec![2.0, 3.0],
                ..Parameters::default()
            };
            // Left: 2 by the zero, then 5·¾ + 3·¼ + 3·¼; right: 2·¾ + 7·¼ + 2·¼ and 5 by the zero.
            let y = conv_forward(&geometry, &parameters, &[0.25], &[1]);
            assert_eq!(y, [2.0 + 3.75 + 0.75 + 0.75, 1.5 + 1.75 + 0.5 + 5.0]);
        }
    }

    #[test]
    fn the_gradients_are_those_of_finite_differences() {
        let axes = [
            ConvAxis { kernel: 2, stride: 2, padding: 1, dilation: 1 },
            ConvAxis { kernel: 2, stride: 1, padding: 1, dilation: 2 },
        ];
        for base_branch in [BaseBranch::ConvOfActivation, BaseBranch::ActivationOfConv] {
            let grid = Grid::uniform(-1.0, 1.0, 3, 3).unwrap();
            let geometry =
                ConvGeometry::try_new(grid, [4, 2], 2, &axes, Activation::Silu, base_branch)
                    .unwrap();
            let edges = geometry.edges();
            let parameters = Parameters {
                spline: numbers(edges * 6),
                base: numbers(edges),
                scaler: numbers(edges),
                bias: numbers(2),
            };
            let (x, shape) = (numbers(2 * 4 * 3 * 4), [3, 4]);
            let count = conv_forward(&geometry, &parameters, &x, &shape).len();
            let dy = numbers(count);
            let loss = |parameters: &Parameters, x: &[f64]| -> f64 {
                let y = conv_forward(&geometry, parameters, x, &shape);
                y.iter().zip(&dy).map(|(y, dy)| y * dy).sum()
            };
            let found = conv_backward(&geometry, &parameters, &x, &shape, &dy);
            let step = 1e-6;
            let close = |expected: f64, actual: f64| {
                assert!((expected - actual).abs() < 1e-7, "{expected} and {actual}");
            };
            for index in 0..x.len() {
                let moved = |by: f64| {
                    let mut x = x.clone();
                    x[index] += by;
                    loss(&parameters, &x)
                };
                close((moved(step) - moved(-step)) / (2.0 * step), found.x[index]);
            }
            let field: [fn(&mut Parameters) -> &mut Vec<f64>; 4] =
                [|p| &mut p.spline, |p| &mut p.base, |p| &mut p.scaler, |p| &mut p.bias];
            for field in field {
                let mut gradients = found.parameters.clone();
                for (index, &gradient) in field(&mut gradients).iter().enumerate() {
                    let moved = |by: f64| {
                        let mut parameters = parameters.clone();
                        field(&mut parameters)[index] += by;
                        loss(&parameters, &x)
                    };
                    close((moved(step) - moved(-step)) / (2.0 * step), gradient);
                }
            }
        }
    }
}
