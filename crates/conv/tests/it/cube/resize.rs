//! Linear interpolation on GPUs against the definition in f64.

use burn::tensor::{Device, FloatDType, Tensor, TensorData};
use updraft_conv::{Alignment, resize2d, resize3d};
use updraft_testing::{Numbers, assert_close, gpus, scattered, tolerance};

const ALIGNMENTS: [Alignment; 2] = [Alignment::Edges, Alignment::Corners];

/// The factor of an input in an output on one axis, by the definition.
fn hat([from, to]: [usize; 2], [input, output]: [usize; 2], alignment: Alignment) -> f64 {
    let (from, to) = (from as f64, to as f64);
    let (input, output) = (input as f64, output as f64);
    let at = match alignment {
        Alignment::Edges => (to + 0.5) * input / output - 0.5,
        Alignment::Corners => to * (input - 1.0) / (output - 1.0).max(1.0),
    };
    (1.0 - (at.clamp(0.0, input - 1.0) - from).abs()).max(0.0)
}

/// The results of so many planes, and the gradients of `Σ y·dy`.
fn expected(
    planes: usize,
    [input, output]: [[usize; 3]; 2],
    alignment: Alignment,
    [x, dy]: [&[f32]; 2],
) -> [Vec<f64>; 2] {
    let flat = |sides: [usize; 3], at: usize| {
        [at / sides[2] / sides[1], at / sides[2] % sides[1], at % sides[2]]
    };
    let [pixels, results]: [usize; 2] = [input, output].map(|sides| sides.iter().product());
    let mut right = [vec![0.0; planes * results], vec![0.0; planes * pixels]];
    for to in 0..results {
        for from in 0..pixels {
            let (at, of) = (flat(output, to), flat(input, from));
            let factor: f64 = (0..3)
                .map(|axis| hat([of[axis], at[axis]], [input[axis], output[axis]], alignment))
                .product();
            for plane in 0..planes {
                let (to, from) = (plane * results + to, plane * pixels + from);
                right[0][to] += factor * f64::from(x[from]);
                right[1][from] += factor * f64::from(dy[to]);
            }
        }
    }
    right
}

/// Checks results and gradients of an operation on `[2, 3]` planes.
fn check<const D: usize>(
    device: &Device,
    [input, output]: [[usize; 3]; 2],
    alignment: Alignment,
    shapes: [[usize; D]; 2],
    resize: impl Fn(Tensor<D>) -> Tensor<D>,
) {
    let [x, dy] = [(1, shapes[0]), (2, shapes[1])]
        .map(|(seed, shape)| scattered(seed, shape.iter().product()));
    let tensor = |values: &[f32], shape: [usize; D]| {
        Tensor::<D>::from_data(TensorData::new(values.to_vec(), shape), device)
    };
    let of_device = tensor(&x, shapes[0]).require_grad();
    let y = resize(of_device.clone());
    assert_eq!(y.dims(), shapes[1]);
    let gradient = || {
        let gradients = (resize(of_device.clone()) * tensor(&dy, shapes[1])).sum().backward();
        of_device.grad(&gradients).expect("takes part")
    };
    let dx = gradient();
    assert_close(&gradient().numbers(), &dx.numbers(), tolerance::EXACT);
    let right = expected(6, [input, output], alignment, [&x, &dy]);
    assert_close(&y.numbers(), &right[0], tolerance::F32);
    assert_close(&dx.numbers(), &right[1], tolerance::F32);
}

#[test]
fn images_and_volumes_have_the_values_of_the_definition_and_the_same_gradients_twice() {
    for device in gpus().into_iter().map(Device::autodiff) {
        for alignment in ALIGNMENTS {
            for (input, output) in
                [([3, 4], [6, 8]), ([5, 1], [9, 3]), ([6, 7], [2, 1]), ([4, 5], [4, 5])]
            {
                let shapes = [input, output].map(|[rows, columns]| [2, 3, rows, columns]);
                let sides = [input, output].map(|[rows, columns]| [1, rows, columns]);
                check(&device, sides, alignment, shapes, |x| resize2d(x, output, alignment));
            }
            for (input, output) in [([2, 3, 4], [4, 6, 8]), ([4, 1, 3], [3, 5, 3])] {
                let shapes =
                    [input, output].map(|[depth, rows, columns]| [2, 3, depth, rows, columns]);
                check(&device, [input, output], alignment, shapes, |x| {
                    resize3d(x, output, alignment)
                });
            }
        }
    }
}

#[test]
fn narrow_types_are_rounded_once_and_no_images_are_allowed() {
    for device in gpus() {
        let none = Tensor::<4>::zeros([0, 2, 3, 4], &device);
        assert_eq!(resize2d(none, [6, 8], Alignment::Edges).dims(), [0, 2, 6, 8]);
        if !device.supports_dtype(FloatDType::F16) {
            continue;
        }
        let shape = [1, 2, 3, 4];
        let x = TensorData::new(scattered(1, 24), shape);
        let x = Tensor::<4>::from_data(x, &device).cast(FloatDType::F16);
        let y = resize2d(x.clone(), [6, 8], Alignment::Edges);
        assert_eq!(y.dtype(), x.dtype());
        let wide = resize2d(x.cast(FloatDType::F32), [6, 8], Alignment::Edges);
        assert_close(&y.numbers(), &wide.cast(FloatDType::F16).numbers(), tolerance::EXACT);
    }
}
