//! Int8 networks on every GPU that is found: the bits of the CPU, or an error with the layer.

use burn::tensor::{Device, Tensor, TensorData};
use updraft_quant::slices::{Isa, Pooling, Resizing};
use updraft_quant::{
    Binary, Calibration, DeviceError, DeviceInt8Network, DeviceReason, Function, Graph,
    Quantization, QuantizedModel, Unary, Value, Window, Workspace,
};
use updraft_testing::{gpus, scattered};

type Built<T> = Result<T, Box<dyn std::error::Error>>;

const SAME: Window = Window { padding: [1; 2], ..Window::new([3, 3]) };

fn by() -> Quantization {
    Quantization::new(Calibration::MinMax)
}

/// Numbers of some samples, for inputs with so many numbers each.
fn samples(seed: u32, count: usize, sizes: &[usize]) -> Vec<Vec<f32>> {
    let of = |(at, size): (usize, &usize)| scattered(seed + at as u32, count * size);
    sizes.iter().enumerate().map(of).collect()
}

fn quantized(graph: &Graph, sizes: &[usize], by: Quantization) -> Built<QuantizedModel> {
    Ok(QuantizedModel::try_quantize(graph, [&samples(11, 8, sizes)], by)?)
}

/// The outputs of a model, in bits.
fn outputs(
    model: &QuantizedModel,
    x: &[Vec<f32>],
    run: impl FnOnce(&[&[f32]], &mut [&mut [f32]]),
) -> Vec<Vec<u32>> {
    let samples = x[0].len() / model.inputs()[0].numbers();
    let x: Vec<&[f32]> = x.iter().map(Vec::as_slice).collect();
    let lens = model.outputs().map(|port| samples * port.numbers());
    let mut y: Vec<Vec<f32>> = lens.map(|len| vec![f32::NAN; len]).collect();
    let mut to: Vec<&mut [f32]> = y.iter_mut().map(Vec::as_mut_slice).collect();
    run(&x, &mut to);
    y.iter().map(|y| y.iter().map(|number| number.to_bits()).collect()).collect()
}

/// Compares the outputs on every GPU with those of the CPU.
fn check(model: &QuantizedModel, sizes: &[usize], count: usize) -> Built<()> {
    // Beyond what calibration saw, so that codes saturate.
    let mut x = samples(50, count, sizes);
    x.iter_mut().flatten().for_each(|number| *number *= 1.3);
    let isa = Isa::detect().dot();
    let right = outputs(model, &x, |x, y| model.run_all(isa, x, y, &mut Workspace::new(), 1));
    for device in gpus() {
        let network = DeviceInt8Network::try_new(model, &device)?;
        assert_eq!(network.plan(), model.plan());
        for _ in 0..2 {
            let given = outputs(model, &x, |x, y| {
                let ran = network.run_all(x, y, &mut Workspace::new(), 1);
                ran.expect("the device works");
            });
            assert!(given == right, "{device:?}: {given:?} is not {right:?}");
        }
    }
    Ok(())
}

fn convolution(
    graph: &mut Graph,
    x: Value,
    window: Window,
    outputs: usize,
    groups: usize,
) -> Built<Value> {
    let each = graph.shape(x)[0] / groups * window.kernel[0] * window.kernel[1];
    let size = (3.0 / each as f32).sqrt();
    let weights = scattered((outputs + 7 * groups) as u32, outputs * each);
    let weights: Vec<f32> = weights.iter().map(|weight| weight * size).collect();
    let bias = scattered(3, outputs);
    Ok(graph.convolution("convolution", x, window, groups, &weights, &bias)?)
}

/// Residual sums, strides, groups, depthwise layers, and pooling, to an output of channels.
fn features(graph: &mut Graph) -> Built<Value> {
    let image = graph.input("image", &[3, 9, 7])?;
    let stem = convolution(graph, image, SAME, 10, 1)?;
    let stem = graph.rectifier("relu", stem);
    let inner = convolution(graph, stem, SAME, 10, 1)?;
    let sum = graph.add("sum", inner, stem)?;
    let sum = graph.rectifier("relu", sum);
    let deep = convolution(graph, sum, SAME, 10, 10)?;
    let halved = Window { stride: [2; 2], ..SAME };
    let most = graph.pool("most", deep, halved, Pooling::Maximum)?;
    let grouped = convolution(graph, most, SAME, 6, 2)?;
    Ok(graph.pool("mean", grouped, SAME, Pooling::MeanWithPadding)?)
}

#[test]
fn a_convolutional_network_has_the_bits_of_the_cpu() -> Built<()> {
    let mut graph = Graph::new();
    let small = features(&mut graph)?;
    graph.linear("head", small, &scattered(99, 5 * 6 * 20), &scattered(98, 5))?;
    let model = quantized(&graph, &[189], by())?;
    assert!(model.plan().is_int8(), "{}", model.plan());
    for count in [1, 3] {
        check(&model, &[189], count)?;
    }
    Ok(())
}

#[test]
fn layers_in_f32_at_the_end_are_computed_on_the_cpu_with_its_bits() -> Built<()> {
    let mut graph = Graph::new();
    let features = features(&mut graph)?;
    let whole = Window::new([5, 4]);
    let mean = graph.pool("whole", features, whole, Pooling::MeanOfImage)?;
    let head = graph.linear("head", mean, &scattered(99, 5 * 6), &scattered(98, 5))?;
    let shares = graph.softmax("shares", head, 0)?;
    graph.output("shares", shares);
    graph.output("features", features);
    let model = quantized(&graph, &[189], by().float_tail())?;
    let in_f32 =
        model.plan().layers.iter().filter(|it| it.arithmetic.to_string() != "int8").count();
    assert_eq!(in_f32, 3, "{}", model.plan());
    check(&model, &[189], 3)
}

#[test]
fn element_wise_layers_and_joined_axes_have_the_bits_of_the_cpu() -> Built<()> {
    let mut graph = Graph::new();
    let (line, row) = (graph.input("line", &[5, 12])?, graph.input("row", &[6])?);
    let window = Window { padding: [0, 1], ..Window::new([1, 3]) };
    let line = convolution(&mut graph, line, window, 7, 1)?;
    let identity = Function::identity();
    let silu = Function::binary(Binary::Multiply, &identity, &identity.then(Unary::Sigmoid));
    let curved = graph.function("silu", line, &silu)?;
    let gate = graph.linear("gate", row, &scattered(2, 7 * 6), &[0.2; 7])?;
    let gated = graph.multiply("gated", curved, gate)?;
    let product = graph.multiply("product", gated, line)?;
    let channels = graph.concatenate("channels", &[product, curved, line], 0)?;
    let pixels = graph.concatenate("pixels", &[product, gated], 1)?;
    // Every other pixel as a channel.
    let turned = graph.rearrange("turned", pixels, &[12, 7], &[[12, 2], [7, 24]], 0)?;
    let answer = graph.linear("answer", turned, &scattered(4, 3 * 84), &[0.1; 3])?;
    let mixed = convolution(&mut graph, channels, Window::new([1, 1]), 2, 1)?;
    for (name, value) in [("answer", answer), ("mixed", mixed), ("turned", turned), ("gate", gate)]
    {
        graph.output(name, value);
    }
    let model = quantized(&graph, &[60, 6], by())?;
    assert!(model.plan().is_int8(), "{}", model.plan());
    check(&model, &[60, 6], 3)
}

#[test]
fn resized_images_and_blocks_of_pixels_have_the_bits_of_the_cpu() -> Built<()> {
    for resizing in
        [Resizing::Nearest, Resizing::NearestExact, Resizing::Linear, Resizing::LinearCorners]
    {
        let mut graph = Graph::new();
        let image = graph.input("image", &[3, 4, 5])?;
        let wide = convolution(&mut graph, image, SAME, 12, 1)?;
        let blocks = graph.depth_to_space("blocks", wide, 2)?;
        let resized = graph.resize("resized", blocks, [5, 11], resizing)?;
        convolution(&mut graph, resized, SAME, 2, 1)?;
        let model = quantized(&graph, &[60], by())?;
        assert!(model.plan().is_int8(), "{}", model.plan());
        check(&model, &[60], 2)?;
    }
    Ok(())
}

#[test]
fn a_layer_that_a_device_cannot_compute_is_an_error_with_its_name() -> Built<()> {
    let graph_with = |layer: &dyn Fn(&mut Graph, Value) -> Built<Value>| -> Built<Graph> {
        let mut graph = Graph::new();
        let x = graph.input("x", &[4, 6])?;
        let x = layer(&mut graph, x)?;
        convolution(&mut graph, x, Window::new([1, 1]), 3, 1)?;
        Ok(graph)
    };
    let softmax = graph_with(&|graph, x| Ok(graph.softmax("attention", x, 0)?))?;
    let normal = graph_with(&|graph, x| Ok(graph.normalize("norm", x, 1e-5)?))?;
    let plain = graph_with(&|_, x| Ok(x))?;
    let [softmax, normal] = [quantized(&softmax, &[24], by())?, quantized(&normal, &[24], by())?];
    let in_f32 = quantized(&plain, &[24], by().keep(["convolution"]))?;
    for device in gpus() {
        let refused = |model: &QuantizedModel| {
            DeviceInt8Network::try_new(model, &device).expect_err("refused")
        };
        let error = refused(&softmax);
        let is_float = matches!(&error, DeviceError::Layer { layer, operation: "softmax",
            cause: DeviceReason::Float { .. } } if layer == "attention");
        assert!(is_float, "{error}");
        let text = "layer `attention` (softmax) cannot run on the device: it runs in f32 (it has no int8 \
                    kernel), and layer `convolution` after it in int8";
        assert!(error.to_string().starts_with(text), "{error}");
        let error = refused(&normal);
        let is_f64 = matches!(&error, DeviceError::Layer { layer, operation: "normalize",
            cause: DeviceReason::NeedsF64 } if layer == "norm");
        assert!(is_f64, "{error}");
        assert_eq!(refused(&in_f32), DeviceError::NoInt8Layer);
    }
    // `gpus` holds off other tests on devices, and so has ended here.
    let _alone = updraft_testing::alone();
    let error = DeviceInt8Network::try_new(&softmax, &Device::flex()).expect_err("refused");
    assert!(matches!(error, DeviceError::NoGpu { .. }), "{error}");
    Ok(())
}

#[test]
fn tensors_of_any_device_are_inputs_and_outputs() -> Built<()> {
    let mut graph = Graph::new();
    let small = features(&mut graph)?;
    graph.linear("head", small, &scattered(99, 5 * 6 * 20), &scattered(98, 5))?;
    let model = quantized(&graph, &[189], by())?;
    let x = scattered(7, 2 * 189);
    let mut right = vec![0.0; 10];
    model.run(Isa::Portable, &x, &mut right, &mut Workspace::new(), 1);
    for device in gpus() {
        let network = DeviceInt8Network::try_new(&model, &device)?;
        let data = TensorData::new(x.clone(), [2, 3, 9, 7]);
        let x = Tensor::<4>::from_data(data, &device);
        let y: Tensor<2> = network.forward(x, &mut Workspace::new(), 1)?;
        let y: Vec<f32> = y.into_data().try_to_vec().expect("f32");
        assert_eq!(y, right);
        // No sample.
        let none = Tensor::<4>::zeros([0, 3, 9, 7], &device);
        let y: Tensor<2> = network.forward(none, &mut Workspace::new(), 1)?;
        assert_eq!(y.dims(), [0, 5]);
    }
    Ok(())
}
