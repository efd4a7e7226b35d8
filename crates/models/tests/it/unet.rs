//! U-Nets beside MONAI's `DynUNet` and a plain U-Net in `PyTorch`, with the same parameters.
//!
//! The numbers are printed by `benches/peers/unet_golden.py` (`PyTorch` 2.15.0, MONAI 1.6.1).

// tidy: long because the numbers of every network stand beside its settings

use burn::module::{Module, ModuleMapper, Param};
use burn::tensor::{Device, Tensor, TensorData};
use updraft_models::{
    Downsampling, UNetBlock, UNetConfig, UNetConfigError, UNetNormalization, Upsampling,
};

/// An output of a peer, of filters 4, 6 and 8, one channel in and two out.
struct Golden {
    axes: usize,
    block: UNetBlock,
    normalization: UNetNormalization,
    downsampling: Downsampling,
    /// With whether there is a bias.
    upsampling: (Upsampling, bool),
    slope: f64,
    parameters: usize,
    /// The values at the flat indices `j n / 8`, of `n`.
    values: [f64; 8],
    mean: f64,
    std: f64,
}

impl Golden {
    fn config(&self) -> UNetConfig {
        UNetConfig::new(1, 2, &[4, 6, 8])
            .with_block(self.block)
            .with_normalization(self.normalization)
            .with_downsampling(self.downsampling)
            .with_upsampling(self.upsampling.0, self.upsampling.1)
            .with_negative_slope(self.slope)
    }

    fn check(&self, name: &str, output: &[f32]) {
        let numbers: Vec<f64> = output.iter().map(|&value| f64::from(value)).collect();
        let count = numbers.len() as f64;
        let mean = numbers.iter().sum::<f64>() / count;
        let variance = numbers.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / count;
        let values = self.values.iter().enumerate();
        let values = values.map(|(at, &value)| (numbers[at * numbers.len() / 8], value));
        for (got, expected) in values.chain([(mean, self.mean), (variance.sqrt(), self.std)]) {
            // f32 beside f64, over eleven layers of numbers about 1.
            assert!(
                (got - expected).abs() < 2e-5 * (1.0 + expected.abs()),
                "{name}: {got} {expected}"
            );
        }
    }
}

const GOLDEN: &[Golden] = &[
    Golden {
        axes: 2,
        block: UNetBlock::Residual,
        normalization: UNetNormalization::Instance,
        downsampling: Downsampling::Strided,
        upsampling: (Upsampling::Transposed, false),
        slope: 0.01,
        parameters: 3654,
        values: [
            0.229154048,
            0.439550897,
            -0.809952904,
            -0.516785133,
            0.27195418,
            0.18342092,
            -0.294372809,
            -0.598754796,
        ],
        mean: 0.148508015,
        std: 0.683836808,
    },
    Golden {
        axes: 2,
        block: UNetBlock::Plain,
        normalization: UNetNormalization::Instance,
        downsampling: Downsampling::Strided,
        upsampling: (Upsampling::Transposed, false),
        slope: 0.01,
        parameters: 3542,
        values: [
            -0.947709496,
            -0.564143429,
            0.400105112,
            -0.621940985,
            -1.03381632,
            -1.53769438,
            -0.0370015739,
            1.10456867,
        ],
        mean: -0.236012013,
        std: 0.656942625,
    },
    Golden {
        axes: 2,
        block: UNetBlock::Residual,
        normalization: UNetNormalization::Group(2),
        downsampling: Downsampling::Strided,
        upsampling: (Upsampling::Transposed, false),
        slope: 0.01,
        parameters: 3654,
        values: [
            0.273764684,
            1.15775304,
            -0.603342281,
            -0.409290561,
            0.62864966,
            0.145801412,
            -0.319590656,
            -0.727776713,
        ],
        mean: 0.216580083,
        std: 0.81748105,
    },
    Golden {
        axes: 2,
        block: UNetBlock::Plain,
        normalization: UNetNormalization::Group(2),
        downsampling: Downsampling::Strided,
        upsampling: (Upsampling::Transposed, false),
        slope: 0.01,
        parameters: 3542,
        values: [
            -0.226485272,
            -0.259207932,
            -0.464322201,
            -0.454193768,
            -0.352171245,
            -0.835820755,
            0.225505647,
            0.162758906,
        ],
        mean: -0.0962690666,
        std: 0.647129344,
    },
    Golden {
        axes: 2,
        block: UNetBlock::Residual,
        normalization: UNetNormalization::Batch,
        downsampling: Downsampling::Strided,
        upsampling: (Upsampling::Transposed, false),
        slope: 0.01,
        parameters: 3654,
        values: [
            0.603647763,
            2.88965203,
            -1.0725838,
            -0.656038197,
            1.15531897,
            3.15661021,
            -0.553874382,
            -0.747032635,
        ],
        mean: 0.39486821,
        std: 1.60927838,
    },
    Golden {
        axes: 2,
        block: UNetBlock::Plain,
        normalization: UNetNormalization::Batch,
        downsampling: Downsampling::Strided,
        upsampling: (Upsampling::Transposed, false),
        slope: 0.01,
        parameters: 3542,
        values: [
            -0.534099121,
            -0.405070428,
            -0.177011895,
            -0.464737253,
            -0.269155298,
            -1.61841193,
            -0.216131645,
            1.19981909,
        ],
        mean: -0.259728628,
        std: 0.87063266,
    },
    Golden {
        axes: 2,
        block: UNetBlock::Plain,
        normalization: UNetNormalization::Batch,
        downsampling: Downsampling::MaxPool,
        upsampling: (Upsampling::Transposed, true),
        slope: 0.0,
        parameters: 3552,
        values: [
            -0.354566666,
            -0.43461204,
            -0.641064554,
            -0.797656887,
            -0.951061503,
            -1.41955291,
            -0.341973228,
            0.0370912079,
        ],
        mean: -0.673075464,
        std: 1.00639169,
    },
    Golden {
        axes: 2,
        block: UNetBlock::Plain,
        normalization: UNetNormalization::Batch,
        downsampling: Downsampling::MaxPool,
        upsampling: (Upsampling::Linear, true),
        slope: 0.0,
        parameters: 3336,
        values: [
            -3.25735656,
            -0.849082701,
            1.67500223,
            -0.31302822,
            -0.713863764,
            -0.907081489,
            -0.988309867,
            -0.331435671,
        ],
        mean: -1.44352086,
        std: 3.39422554,
    },
    Golden {
        axes: 3,
        block: UNetBlock::Residual,
        normalization: UNetNormalization::Instance,
        downsampling: Downsampling::Strided,
        upsampling: (Upsampling::Transposed, false),
        slope: 0.01,
        parameters: 10206,
        values: [
            0.736089445,
            0.610674841,
            -0.861548498,
            -1.08703526,
            0.514251143,
            0.265562058,
            -0.845534919,
            -0.259372758,
        ],
        mean: 0.142652763,
        std: 0.729857995,
    },
    Golden {
        axes: 3,
        block: UNetBlock::Plain,
        normalization: UNetNormalization::Instance,
        downsampling: Downsampling::Strided,
        upsampling: (Upsampling::Transposed, false),
        slope: 0.01,
        parameters: 10094,
        values: [
            -1.11637489,
            -0.622571353,
            1.22999034,
            0.476521778,
            -0.322992783,
            -0.37023688,
            -0.348127757,
            -0.112143146,
        ],
        mean: -0.237726977,
        std: 0.766849756,
    },
    Golden {
        axes: 3,
        block: UNetBlock::Residual,
        normalization: UNetNormalization::Group(2),
        downsampling: Downsampling::Strided,
        upsampling: (Upsampling::Transposed, false),
        slope: 0.01,
        parameters: 10206,
        values: [
            0.216985245,
            0.24906209,
            -0.249628997,
            -0.232150269,
            0.0818657572,
            0.0142900141,
            -0.370550747,
            0.324132628,
        ],
        mean: 0.0537275953,
        std: 0.338978332,
    },
    Golden {
        axes: 3,
        block: UNetBlock::Plain,
        normalization: UNetNormalization::Group(2),
        downsampling: Downsampling::Strided,
        upsampling: (Upsampling::Transposed, false),
        slope: 0.01,
        parameters: 10094,
        values: [
            -1.01213212,
            -0.502483136,
            0.614959663,
            -0.262050717,
            -0.446519119,
            -0.800101658,
            -0.202870952,
            0.168538054,
        ],
        mean: -0.305261024,
        std: 0.686102738,
    },
    Golden {
        axes: 3,
        block: UNetBlock::Residual,
        normalization: UNetNormalization::Batch,
        downsampling: Downsampling::Strided,
        upsampling: (Upsampling::Transposed, false),
        slope: 0.01,
        parameters: 10206,
        values: [
            0.48797494,
            -0.556877957,
            0.727975793,
            1.49775102,
            0.0356333788,
            0.0602128516,
            0.596409045,
            0.959299991,
        ],
        mean: 0.543005147,
        std: 0.811407972,
    },
    Golden {
        axes: 3,
        block: UNetBlock::Plain,
        normalization: UNetNormalization::Batch,
        downsampling: Downsampling::Strided,
        upsampling: (Upsampling::Transposed, false),
        slope: 0.01,
        parameters: 10094,
        values: [
            -1.27705171,
            -0.471896143,
            1.53657094,
            -0.359181099,
            -1.00371555,
            -0.518154496,
            0.609971334,
            -0.016848625,
        ],
        mean: -0.109874633,
        std: 1.13387296,
    },
    Golden {
        axes: 3,
        block: UNetBlock::Plain,
        normalization: UNetNormalization::Batch,
        downsampling: Downsampling::MaxPool,
        upsampling: (Upsampling::Transposed, true),
        slope: 0.0,
        parameters: 10104,
        values: [
            -1.10018693,
            -1.38756811,
            -0.0160359433,
            0.190984714,
            -1.40587204,
            -1.17259783,
            0.212706471,
            0.0339783468,
        ],
        mean: -0.595587262,
        std: 0.757055799,
    },
    Golden {
        axes: 3,
        block: UNetBlock::Plain,
        normalization: UNetNormalization::Batch,
        downsampling: Downsampling::MaxPool,
        upsampling: (Upsampling::Linear, true),
        slope: 0.0,
        parameters: 9600,
        values: [
            -1.09742479,
            -3.48914193,
            -0.013274323,
            1.70656759,
            -1.39704839,
            -2.15156703,
            0.174096173,
            0.766767082,
        ],
        mean: -0.774921046,
        std: 1.89283044,
    },
];

/// Parameters by the formula of the peers' script.
struct ByFormula {
    path: Vec<String>,
    /// Trained tensors so far.
    trained: usize,
    /// The number of the last scale of a normalization.
    scale: usize,
}

impl ModuleMapper for ByFormula {
    fn enter_module(&mut self, name: &str, _: &str) {
        self.path.push(name.to_owned());
    }

    fn exit_module(&mut self, _: &str, _: &str) {
        self.path.pop();
    }

    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let name = self.path.last().expect("a parameter has a name").clone();
        let (shape, device) = (param.dims(), param.val().device());
        let count: usize = shape.iter().product();
        let is_running = name.starts_with("running");
        let number = if is_running { self.scale } else { self.trained };
        let fan: usize = shape[1..].iter().product();
        let size = if D == 1 { 0.5 } else { 2.0 / (fan as f64).sqrt() };
        let value = |i: usize| {
            let angle = 0.7 * (i * i) as f64 + 0.3 * number as f64;
            (match name.as_str() {
                "gamma" => 1.0 + size * angle.sin(),
                "running_mean" => 0.2 * angle.sin(),
                "running_var" => 1.0 + 0.5 * angle.cos(),
                _ => size * angle.sin(),
            }) as f32
        };
        if name == "gamma" {
            self.scale = self.trained;
        }
        self.trained += usize::from(!is_running);
        let values: Vec<f32> = (0..count).map(value).collect();
        param.map(|_| Tensor::from_data(TensorData::new(values, shape), &device))
    }
}

fn by_formula<M: Module>(network: M) -> M {
    network.map(&mut ByFormula { path: Vec::new(), trained: 0, scale: 0 })
}

fn input<const D: usize>(shape: [usize; D], device: &Device) -> Tensor<D> {
    let value = |i: usize| ((0.37 * i as f64).sin() + 0.5 * (0.11 * i as f64).cos()) as f32;
    let values: Vec<f32> = (0..shape.iter().product()).map(value).collect();
    Tensor::from_data(TensorData::new(values, shape), device)
}

#[test]
fn outputs_and_parameter_counts_are_those_of_monai_and_pytorch() {
    let device = Device::flex();
    for (index, golden) in GOLDEN.iter().enumerate() {
        let config = golden.config();
        let (parameters, output) = if golden.axes == 2 {
            let network = by_formula(config.init_2d(&device));
            (trained(&network), network.forward(input([2, 1, 16, 12], &device)).into_data())
        } else {
            let network = by_formula(config.init_3d(&device));
            (trained(&network), network.forward(input([2, 1, 8, 8, 12], &device)).into_data())
        };
        let name = format!("golden {index}, {} axes", golden.axes);
        assert_eq!(parameters, golden.parameters, "{name}");
        golden.check(&name, &output.iter().collect::<Vec<f32>>());
    }
}

/// Parameters that are trained: running statistics are not.
fn trained<M: Module>(network: &M) -> usize {
    struct Trained(usize, Vec<String>);
    impl burn::module::ModuleVisitor for Trained {
        fn enter_module(&mut self, name: &str, _: &str) {
            self.1.push(name.to_owned());
        }

        fn exit_module(&mut self, _: &str, _: &str) {
            self.1.pop();
        }

        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
            if !self.1.last().is_some_and(|name| name.starts_with("running")) {
                self.0 += param.dims().iter().product::<usize>();
            }
        }
    }
    let mut counted = Trained(0, Vec::new());
    network.visit(&mut counted);
    counted.0
}

#[test]
fn published_sizes_have_the_published_numbers_of_parameters() {
    let device = Device::flex();
    let residual = UNetConfig::new(1, 1, &[16, 32, 64]);
    assert_eq!(trained(&residual.init_2d(&device)), 119_825);
    assert_eq!(trained(&residual.init_3d(&device)), 342_321);
    let plain = |filters: &[usize]| {
        UNetConfig::new(1, 1, filters)
            .with_block(UNetBlock::Plain)
            .with_normalization(UNetNormalization::Batch)
            .with_downsampling(Downsampling::MaxPool)
            .with_upsampling(Upsampling::Transposed, true)
            .with_negative_slope(0.0)
    };
    assert_eq!(trained(&plain(&[8, 16, 32, 64]).init_2d(&device)), 121_033);
    assert_eq!(trained(&plain(&[6, 12, 24]).init_3d(&device)), 48_019);
}

#[test]
fn deep_outputs_begin_with_the_output_and_have_its_sides() {
    let device = Device::flex();
    let config = UNetConfig::new(1, 2, &[2, 3, 4, 5]).with_deep_supervision(2);
    let network = config.init_2d(&device);
    let x = input([1, 1, 16, 24], &device);
    let outputs = network.forward_deep(x.clone());
    assert_eq!(outputs.len(), 3);
    assert!(outputs.iter().all(|output| output.dims() == [1, 2, 16, 24]));
    assert_eq!(outputs[0].to_data(), network.forward(x).to_data());
}

#[test]
fn multiply_adds_are_those_of_the_layers_by_hand() {
    let device = Device::flex();
    // Sides 8 and 4; a level of two filters, one of three.
    let encoder = (9 * 2 + 9 * 2 * 2 + 2) * 64 + (9 * 2 * 3 + 9 * 3 * 3 + 2 * 3) * 16;
    let decoder = 4 * 3 * 2 * 16 + (9 * 4 * 2 + 9 * 2 * 2) * 64;
    let network = UNetConfig::new(1, 1, &[2, 3]).init_2d(&device);
    assert_eq!(network.multiply_adds::<4>(&[8, 8]), encoder + decoder + 2 * 64);
    let plain = UNetConfig::new(1, 1, &[2, 3])
        .with_block(UNetBlock::Plain)
        .with_downsampling(Downsampling::MaxPool)
        .with_upsampling(Upsampling::Linear, true);
    let encoder = (27 * 2 + 27 * 2 * 2) * 512 + (27 * 2 * 3 + 27 * 3 * 3) * 64;
    let decoder = 3 * 2 * 64 + (27 * 4 * 2 + 27 * 2 * 2) * 512;
    let counted = plain.init_3d(&device).multiply_adds::<5>(&[8, 8, 8]);
    assert_eq!(counted, encoder + decoder + 2 * 512);
}

#[test]
fn every_value_out_of_range_is_named() {
    let good = UNetConfig::new(1, 1, &[4, 8]);
    assert_eq!(good.validate(), Ok(()));
    let grouped = |groups| good.clone().with_normalization(UNetNormalization::Group(groups));
    for (config, name) in [
        (UNetConfig::new(0, 1, &[4, 8]), "`in_channels` is 0"),
        (UNetConfig::new(1, 5000, &[4, 8]), "`out_channels` is 5000"),
        (UNetConfig::new(1, 1, &[4]), "`filters` has 1 level; expected 2 to "),
        (UNetConfig::new(1, 1, &[4, 0]), "`filters[1]` is 0"),
        (grouped(0), "the 0 groups"),
        (grouped(8), "`filters[0]` is 4; expected a multiple of the 8 groups"),
        (good.clone().with_negative_slope(f64::NAN), "`negative_slope` is NaN"),
        (good.clone().with_deep_supervision(1), "`deep_supervision` is 1; expected at most 0"),
    ] {
        let error: UNetConfigError = config.validate().expect_err(name);
        assert!(error.to_string().contains(name), "{error}");
    }
}

#[test]
#[should_panic(expected = "axis 3 of the input is 10; expected a multiple of 4, such as 12")]
fn a_side_that_cannot_be_halved_is_refused() {
    let device = Device::flex();
    let network = UNetConfig::new(1, 1, &[2, 2, 2]).init_2d(&device);
    let _ = network.forward(Tensor::<4>::zeros([1, 1, 8, 10], &device));
}
