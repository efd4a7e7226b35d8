//! Networks from codes to codes.

use std::error::Error;

use updraft_quant::slices::{Isa, Pooling};
use updraft_quant::{Calibration, Graph, Quantization, QuantizedModel, Window, Workspace};
use updraft_testing::scattered;

const CHANNELS: usize = 5;
const SIDE: usize = 7;
const SAMPLES: usize = 3;
const EACH: usize = CHANNELS * SIDE * SIDE;

/// A rectified convolution, which is an output and is read, its mean, and a product of that.
fn graph() -> Graph {
    let mut graph = Graph::new();
    let image = graph.input("image", &[CHANNELS, SIDE, SIDE]).expect("a valid input");
    let same = Window { padding: [1; 2], ..Window::new([3; 2]) };
    let weights = scattered(2, 8 * CHANNELS * 9);
    let y = graph.convolution("conv", image, same, 1, &weights, &[0.1; 8]).expect("it fits");
    let y = graph.rectifier("relu", y);
    let mean = graph.pool("mean", y, Window::new([SIDE; 2]), Pooling::MeanOfImage);
    let weights = scattered(4, 3 * 8);
    let answers = graph.linear("answers", mean.expect("it fits"), &weights, &[0.0; 3]);
    graph.output("answers", answers.expect("it fits"));
    graph.output("image", y);
    graph.output("twice", y);
    graph
}

fn samples() -> Vec<f32> {
    scattered(1, SAMPLES * EACH)
}

/// Codes of numbers with the channels last.
fn codes(x: &[f32], channels: usize, code: impl Fn(f32) -> u8) -> Vec<u8> {
    let pixels = x.len() / SAMPLES / channels;
    let of = |at: usize| {
        let (sample, pixel, channel) =
            (at / channels / pixels, at / channels % pixels, at % channels);
        code(x[(sample * channels + channel) * pixels + pixel])
    };
    (0..x.len()).map(of).collect()
}

#[test]
fn codes_give_the_codes_of_the_numbers_that_real_inputs_give() -> Result<(), Box<dyn Error>> {
    for by in [
        Quantization::new(Calibration::MinMax),
        Quantization::new(Calibration::MinMax).keep(["conv"]),
        Quantization::new(Calibration::MinMax).keep(["answers"]),
    ] {
        let model = QuantizedModel::try_quantize(&graph(), [samples()], by)?;
        let lens = [3, 8 * SIDE * SIDE, 8 * SIDE * SIDE];
        let mut real = lens.map(|len| vec![0.0; SAMPLES * len]);
        let isa = Isa::detect();
        let mut workspace = Workspace::new();
        let outputs = &mut real.each_mut().map(Vec::as_mut_slice);
        let scheme = model.input_scheme(0);
        let x = codes(&samples(), CHANNELS, |x| scheme.code(x));
        // A layer in f32 reads real inputs as they are.
        let zero = f32::from(scheme.zero_point());
        let of_codes = |x| (f32::from(scheme.code(x)) - zero) * scheme.scale();
        let numbers: Vec<f32> = samples().into_iter().map(of_codes).collect();
        model.run_all(isa, &[&numbers], outputs, &mut workspace, 1);
        for threads in [1, 2] {
            let mut given = lens.map(|len| vec![0; SAMPLES * len]);
            let outputs = &mut given.each_mut().map(Vec::as_mut_slice);
            model.run_codes(isa, &[&x], outputs, &mut workspace, threads);
            for (output, (given, (real, channels))) in
                given.iter().zip(real.iter().zip([3, 8, 8])).enumerate()
            {
                let scheme = model.output_scheme(output);
                assert_eq!(*given, codes(real, channels, |x| scheme.code(x)), "output {output}");
            }
        }
    }
    Ok(())
}

#[test]
#[should_panic(expected = "numbers of output `twice`")]
fn an_output_of_another_length_is_a_bug_of_the_caller() {
    let model = QuantizedModel::try_quantize(&graph(), [samples()], Calibration::MinMax);
    let mut given = [3, 392, 391].map(|len| vec![0; len]);
    let outputs = &mut given.each_mut().map(Vec::as_mut_slice);
    let model = model.expect("calibrated");
    model.run_codes(Isa::detect(), &[&[0; EACH]], outputs, &mut Workspace::new(), 1);
}
