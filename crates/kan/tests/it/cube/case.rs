//! A layer with parameters, a batch and what both should give, for tests on GPUs.

use burn::backend::{Backend as _, DTypeUsage, Dispatch};
use burn::module::Param;
use burn::tensor::{DType, Device, Tensor, TensorData};
use updraft_kan::slices::Grid;
use updraft_kan::slices::reference::{self, Parameters};
use updraft_kan::{CubeForm, KanLinear, KanLinearConfig, LayerPath};

/// The largest error allowed, relative to the largest value: f32 sums, and exponentials of drivers.
pub(super) const CLOSE: f64 = 1e-5;

/// The same for factors of TF32, which have 11 bits.
const CLOSE_OF_TF32: f64 = 2e-3;

/// The same for factors of bf16, which have 8 bits.
const CLOSE_OF_BF16: f64 = 2e-2;

/// The lower bound of the largest value: terms are about 1, and their sum may cancel.
const LEAST_SCALE: f64 = 1.0;

/// Pseudorandom numbers between -scale and scale, the same in every run.
pub(super) fn numbers(count: usize, seed: u64, scale: f32) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        scale * ((state >> 40) as f32 / 8_388_608.0 - 1.0)
    };
    std::iter::repeat_with(next).take(count).collect()
}

/// A layer with its parameters, a batch and the gradients of its outputs.
#[derive(Debug, Clone)]
pub(super) struct Case {
    pub(super) config: KanLinearConfig,
    /// The knots of each input, instead of those of the config.
    pub(super) grid: Option<Grid>,
    pub(super) batch: usize,
    pub(super) spline: Vec<f32>,
    pub(super) base: Option<Vec<f32>>,
    pub(super) scaler: Option<Vec<f32>>,
    pub(super) bias: Option<Vec<f32>>,
    pub(super) x: Vec<f32>,
    pub(super) dy: Vec<f32>,
}

/// The results of a case: `y`, then the gradients of `x` and of the parameters.
pub(super) type Results = [Vec<f32>; 6];

pub(super) const NAMES: [&str; 6] = ["y", "dx", "d spline", "d base", "d scaler", "d bias"];

impl Case {
    pub(super) fn new(config: KanLinearConfig, batch: usize) -> Self {
        let (inputs, outputs) = (config.in_features, config.out_features);
        let bases = config.intervals + config.degree;
        let edges = |seed| numbers(inputs * outputs, seed, 1.0);
        Self {
            batch,
            spline: numbers(inputs * bases * outputs, 1, 1.0),
            base: config.activation.map(|_| edges(2)),
            scaler: config.scaler.then(|| edges(3)),
            bias: config.bias.then(|| numbers(outputs, 4, 1.0)),
            x: numbers(batch * inputs, 5, 1.9),
            dy: numbers(batch * outputs, 6, 1.0),
            grid: None,
            config,
        }
    }

    /// The same over uneven knots of each input, of which some coincide if they may, from about -1.5
    /// to 1.5.
    pub(super) fn uneven(self, may_coincide: bool) -> Self {
        let KanLinearConfig { in_features, intervals, degree, outside, .. } = self.config;
        let count = intervals + 2 * degree;
        let knots = (0..in_features).flat_map(|input| {
            let steps = numbers(count, 10 + input as u64, 1.0).into_iter().enumerate();
            let steps = steps.map(move |(at, step)| {
                // Single knots at the ends of the domain, so that no basis is empty there.
                let is_inside = (degree + 1..degree + intervals - 1).contains(&at);
                let coincides = may_coincide && is_inside && step < -0.5;
                if coincides { 0.0 } else { (3.0 + 2.0 * step) / intervals as f32 }
            });
            let start = -1.5 * (1.0 + 2.0 * degree as f32 / intervals as f32);
            let mut knots = vec![start];
            knots.extend(steps.scan(start, |knot, step| {
                *knot += step;
                Some(*knot)
            }));
            knots
        });
        let grid = Grid::per_feature(in_features, knots.collect(), intervals, degree);
        let grid = grid.expect("ascending knots").with_outside(outside);
        Self { grid: Some(grid), ..self }
    }

    pub(super) fn layer(&self, device: &Device) -> KanLinear {
        let Self { config, spline, .. } = self;
        let (inputs, outputs) = (config.in_features, config.out_features);
        let mut layer = config.init(device);
        let tensor = |values: &Vec<f32>| TensorData::new(values.clone(), [inputs, outputs]);
        let edges =
            |values: &Vec<f32>| Param::from_tensor(Tensor::from_data(tensor(values), device));
        let bases = config.intervals + config.degree;
        let data = TensorData::new(spline.clone(), [inputs, bases, outputs]);
        layer.spline = Param::from_tensor(Tensor::from_data(data, device));
        layer.base = self.base.as_ref().map(edges);
        layer.scaler = self.scaler.as_ref().map(edges);
        let bias = |values: &Vec<f32>| Tensor::from_data(&values[..], device);
        layer.bias = self.bias.as_ref().map(|values| Param::from_tensor(bias(values)));
        match &self.grid {
            Some(grid) => layer.with_grid(grid.clone()).expect("of as many inputs and bases"),
            None => layer,
        }
    }

    /// The forms of our own products that compute the layer in f32.
    pub(super) fn forms(&self) -> &'static [CubeForm] {
        let bases = self.config.intervals + self.config.degree;
        let is_closed = self.grid.is_none() && (1..=3).contains(&self.config.degree);
        match is_closed && bases + usize::from(self.base.is_some()) <= 32 {
            true => &[CubeForm::Sparse, CubeForm::Dense],
            false => &[CubeForm::Sparse],
        }
    }

    /// The results on a device with autodiff, by the kernels for GPUs.
    pub(super) fn run(&self, device: &Device, form: CubeForm) -> Results {
        let layer = self.layer(device);
        assert_eq!(layer.plain_reason(), None);
        assert_eq!(layer.path(), LayerPath::Cube);
        self.run_layer(device, layer.with_path(LayerPath::CubeIn(form)))
    }

    /// The results of this layer on a device with autodiff.
    pub(super) fn run_layer(&self, device: &Device, layer: KanLinear) -> Results {
        let (inputs, outputs) = (self.config.in_features, self.config.out_features);
        let data = TensorData::new(self.x.clone(), [self.batch, inputs]);
        let x = Tensor::<2>::from_data(data, device).require_grad();
        let data = TensorData::new(self.dy.clone(), [self.batch, outputs]);
        let dy = Tensor::<2>::from_data(data, device);
        let y = layer.forward(x.clone());
        let gradients = (y.clone() * dy).sum().backward();
        let edges = |edges: &Option<Param<Tensor<2>>>| {
            let of = edges.as_ref().map(|edges| edges.val().grad(&gradients).expect("takes part"));
            of.map(values).unwrap_or_default()
        };
        let bias = layer.bias.as_ref().map(|bias| bias.val().grad(&gradients).expect("takes part"));
        [
            values(y),
            values(x.grad(&gradients).expect("takes part")),
            values(layer.spline.val().grad(&gradients).expect("takes part")),
            edges(&layer.base),
            edges(&layer.scaler),
            bias.map(values).unwrap_or_default(),
        ]
    }

    fn expected(&self) -> [Vec<f64>; 6] {
        let wide = |slice: &[f32]| slice.iter().map(|&value| f64::from(value)).collect::<Vec<_>>();
        let optional = |slice: &Option<Vec<f32>>| slice.as_deref().map(wide).unwrap_or_default();
        let parameters = Parameters {
            spline: wide(&self.spline),
            base: optional(&self.base),
            scaler: optional(&self.scaler),
            bias: optional(&self.bias),
        };
        let layer = self.layer(&Device::flex());
        let (x, dy) = (wide(&self.x), wide(&self.dy));
        let y = reference::forward(layer.geometry(), &parameters, &x);
        let of = reference::backward(layer.geometry(), &parameters, &x, &dy);
        let Parameters { spline, base, scaler, bias } = of.parameters;
        [y, of.x, spline, base, scaler, bias]
    }

    /// Compares the kernels with the reference, and prints the largest error.
    pub(super) fn check(&self, device: &Device) {
        for &form in self.forms() {
            self.check_form(device, form, CLOSE);
        }
    }

    /// Compares the form of expanded bases in f32 with the reference.
    pub(super) fn check_expanded(&self, device: &Device) {
        self.check_form(device, CubeForm::Expanded, close_to_burn(device));
    }

    /// Compares the forms of tensor cores with the reference, where the device has any.
    pub(super) fn check_tensor_cores(&self, device: &Device) {
        for form in tensor_core_forms(device) {
            self.check_form(device, form, CLOSE_OF_BF16);
        }
    }

    fn check_form(&self, device: &Device, form: CubeForm, close: f64) {
        self.check_results(&self.run(device, form), &form.to_string(), close);
    }

    /// Compares results with the reference.
    pub(super) fn check_results(&self, actual: &Results, form: &str, close: f64) {
        for ((name, actual), expected) in NAMES.iter().zip(actual).zip(&self.expected()) {
            let error = error(actual, expected);
            let grid = if self.grid.is_some() { ", knots of each input" } else { "" };
            let case = format!("{form}, batch {}, {:?}{grid}", self.batch, self.config);
            assert!(error <= close, "{name} differs by {error:e}, {case}");
        }
    }
}

/// The largest error allowed of products that are burn's, which are in TF32 on NVIDIA's cards.
pub(super) fn close_to_burn(device: &Device) -> f64 {
    let is_tf32 = format!("{device:?}").contains("Cuda");
    if is_tf32 { CLOSE_OF_TF32 } else { CLOSE }
}

/// The forms whose numbers a device multiplies on tensor cores.
pub(super) fn tensor_core_forms(device: &Device) -> Vec<CubeForm> {
    let forms = [
        (CubeForm::Bf16, DType::BF16),
        (CubeForm::F16, DType::F16),
        (CubeForm::ExpandedBf16, DType::BF16),
        (CubeForm::ExpandedF16, DType::F16),
    ];
    let is_accelerated = |dtype| {
        let usage = Dispatch::dtype_usage(device.as_dispatch(), dtype);
        usage.contains(DTypeUsage::Accelerated)
    };
    forms.into_iter().filter(|&(_, dtype)| is_accelerated(dtype)).map(|(form, _)| form).collect()
}

pub(super) fn values<const D: usize>(tensor: Tensor<D>) -> Vec<f32> {
    tensor.into_data().try_to_vec().expect("f32")
}

/// The largest difference, relative to the largest finite expected value; non-finite values have to
/// be equal.
pub(super) fn error(actual: &[f32], expected: &[f64]) -> f64 {
    assert_eq!(actual.len(), expected.len());
    let finite = expected.iter().filter(|value| value.is_finite());
    let scale = finite.fold(LEAST_SCALE, |most, value| most.max(value.abs()));
    let errors = actual.iter().zip(expected).map(|(&actual, &expected)| {
        let actual = f64::from(actual);
        if expected.is_finite() {
            let difference = (actual - expected).abs() / scale;
            if difference.is_nan() { f64::INFINITY } else { difference }
        } else if actual.is_nan() && expected.is_nan() || actual == expected {
            0.0
        } else {
            f64::INFINITY
        }
    });
    errors.fold(0.0, f64::max)
}

/// All results in bits.
pub(super) fn bits(results: &Results) -> Vec<u32> {
    results.iter().flatten().map(|value| value.to_bits()).collect()
}
