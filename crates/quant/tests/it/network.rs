//! Networks from f32 to int8 and back.

use updraft_quant::slices::{Isa, Pooling};
use updraft_quant::{
    Arithmetic, Calibration, Comparison, Graph, Quantization, QuantizedModel, Reason, Value,
    Window, Workspace,
};
use updraft_testing::scattered;

const SAME: Window = Window { padding: [1; 2], ..Window::new([3, 3]) };

type Built<T> = Result<T, Box<dyn std::error::Error>>;

/// A convolution with batch norm, whose weights keep the size of the activations.
pub(super) fn block(
    graph: &mut Graph,
    name: &str,
    x: Value,
    window: Window,
    outputs: usize,
    groups: usize,
) -> Built<Value> {
    let inputs = graph.shape(x)[0];
    let each = inputs / groups * window.kernel[0] * window.kernel[1];
    let size = (3.0 / each as f32).sqrt();
    let seed = 7 + name.len() as u32 * 31 + outputs as u32;
    let weights: Vec<f32> = scattered(seed, outputs * each).iter().map(|w| w * size).collect();
    let y = graph.convolution(name, x, window, groups, &weights, &vec![0.0; outputs])?;
    let spread: Vec<f32> = scattered(seed + 1, outputs).iter().map(|v| 0.3 + 0.2 * v).collect();
    let mean: Vec<f32> = scattered(seed + 2, outputs).iter().map(|m| 0.1 * m).collect();
    let gamma = vec![1.0; outputs];
    Ok(graph.batch_norm("norm", y, &gamma, &scattered(seed + 3, outputs), &mean, &spread, 1e-5)?)
}

/// A residual network with a stride, a depthwise convolution, and all kinds of pooling.
fn residual() -> Built<Graph> {
    let mut graph = Graph::new();
    let image = graph.input("image", &[3, 16, 16])?;
    let stem = block(&mut graph, "stem", image, SAME, 16, 1)?;
    let stem = graph.rectifier("relu", stem);
    let inner = block(&mut graph, "first", stem, SAME, 16, 1)?;
    let inner = graph.rectifier("relu", inner);
    let inner = block(&mut graph, "second", inner, SAME, 16, 1)?;
    let sum = graph.add("sum", inner, stem)?;
    let sum = graph.rectifier("relu", sum);
    let halved = Window { stride: [2; 2], ..Window::new([2, 2]) };
    let pooled = graph.pool("maximum", sum, halved, Pooling::Maximum)?;
    let deep = block(&mut graph, "depthwise", pooled, SAME, 16, 16)?;
    let wide = block(&mut graph, "pointwise", deep, Window::new([1, 1]), 40, 1)?;
    let wide = graph.rectifier("relu", wide);
    let window = Window { stride: [2; 2], ..SAME };
    let small = graph.pool("mean", wide, window, Pooling::MeanWithPadding)?;
    let weights: Vec<f32> = scattered(99, 10 * 40 * 16).iter().map(|w| w * 0.05).collect();
    graph.linear("head", small, &weights, &scattered(98, 10))?;
    Ok(graph)
}

fn images(seed: u32, count: usize) -> Vec<f32> {
    scattered(seed, count * 3 * 16 * 16)
}

#[test]
fn a_small_network_by_hand() -> Built<()> {
    let mut graph = Graph::new();
    // Two maps: twice the image less one, and minus the image; batch norm halves the first.
    let (x, point) = (graph.input("image", &[1, 2, 2])?, Window::new([1, 1]));
    let maps = graph.convolution("maps", x, point, 1, &[2.0, -1.0], &[-1.0, 0.0])?;
    let (zeros, ones) = ([0.0; 2], [1.0; 2]);
    let maps = graph.batch_norm("norm", maps, &ones, &zeros, &zeros, &[4.0, 1.0], 0.0)?;
    let maps = graph.rectifier("relu", maps);
    // One weight for each map and pixel, in the order channel, row, column.
    graph.linear("sum", maps, &[1.0, 10.0, 100.0, 1000.0, 1.0, 2.0, 3.0, 4.0], &[0.5])?;
    let image = [1.0, 0.5, -1.0, 0.75];
    let model = QuantizedModel::try_quantize(&graph, [image], Calibration::MinMax)?;
    let mut answer = [0.0];
    model.run(Isa::detect(), &image, &mut answer, &mut Workspace::new(), 1);
    // (2·1 − 1)/2 = 0.5 and 0, 0, (2·0.75 − 1)/2 = 0.25 of the first map; 1 of the second.
    let right = 0.5 + 0.0 + 0.0 + 250.0 + 3.0 + 0.5;
    assert!((answer[0] - right).abs() < 0.02 * right, "{} is not {right}", answer[0]);
    Ok(())
}

#[test]
fn a_residual_network_keeps_its_answers() -> Built<()> {
    let graph = residual()?;
    // Entropy compares distributions, not errors: it also clips uniform noise.
    for (calibration, least_db) in [
        (Calibration::MinMax, 27.0),
        (Calibration::Percentile(0.9999), 27.0),
        (Calibration::Entropy, 12.0),
        (Calibration::MeanSquaredError, 27.0),
    ] {
        let set = [images(1, 20), images(2, 12)];
        let model = QuantizedModel::try_quantize(&graph, &set, calibration)?;
        let comparison = Comparison::new(&graph, &model, [images(3, 50)], Isa::detect());
        assert_eq!(comparison.samples, 50);
        let answer = comparison.layers.last().expect("layers");
        assert!(answer.sqnr_db > least_db, "{calibration:?}: {comparison:#?}");
        let names: Vec<&str> = comparison.layers.iter().map(|layer| layer.name.as_str()).collect();
        assert_eq!(
            names,
            [
                "stem+norm+relu",
                "first+norm+relu",
                "second+norm+sum+relu",
                "maximum",
                "depthwise+norm",
                "pointwise+norm+relu",
                "mean",
                "head"
            ]
        );
        let work: usize = comparison.layers.iter().map(|layer| layer.multiply_adds).sum();
        let right = 256 * 16 * 27 + 2 * 256 * 16 * 144 + 64 * 16 * 9 + 64 * 40 * 16 + 6400;
        assert_eq!(work, right);
    }
    Ok(())
}

#[test]
fn paths_threads_and_batches_change_no_bit() -> Built<()> {
    let graph = residual()?;
    let model = QuantizedModel::try_quantize(&graph, [images(1, 16)], Calibration::MinMax)?;
    let x = images(4, 9);
    let mut right = vec![0.0; 90];
    model.run(Isa::Portable, &x, &mut right, &mut Workspace::new(), 1);
    for isa in Isa::DOTS.into_iter().filter(|isa| isa.is_available()) {
        let mut workspace = Workspace::new();
        for threads in [1, 2, 5] {
            let mut y = vec![f32::NAN; 90];
            model.run(isa, &x, &mut y, &mut workspace, threads);
            assert_eq!(y, right, "{isa} with {threads} threads");
        }
        for (x, right) in x.chunks(768).zip(right.chunks(10)) {
            let mut y = [0.0; 10];
            model.run(isa, x, &mut y, &mut workspace, 1);
            assert_eq!(y, right, "{isa}, one image");
        }
    }
    Ok(())
}

#[test]
fn the_workspace_grows_at_the_first_call_alone() -> Built<()> {
    let graph = residual()?;
    let model = QuantizedModel::try_quantize(&graph, [images(1, 4)], Calibration::MinMax)?;
    let (x, mut y, mut workspace) = (images(5, 6), vec![0.0; 60], Workspace::new());
    model.run(Isa::detect(), &x, &mut y, &mut workspace, 1);
    let bytes = workspace.bytes();
    for _ in 0..3 {
        model.run(Isa::detect(), &x, &mut y, &mut workspace, 1);
        assert_eq!(workspace.bytes(), bytes);
    }
    Ok(())
}

#[test]
fn what_leads_nowhere_is_left_out_and_what_is_read_twice_is_kept() -> Built<()> {
    let mut graph = Graph::new();
    let point = Window::new([1, 1]);
    let x = graph.input("image", &[2, 3, 3])?;
    let first = graph.convolution("first", x, point, 1, &[1.0, 0.5, -0.5, 1.0], &[0.1, 0.0])?;
    graph.convolution("dead", x, point, 1, &[1.0, 1.0], &[0.0])?;
    // Read by the rectifier and by the sum: the rectifier may not change it.
    let cut = graph.rectifier("cut", first);
    graph.add("sum", cut, first)?;
    let set = scattered(11, 2 * 9 * 40);
    let model = QuantizedModel::try_quantize(&graph, [&set], Calibration::MinMax)?;
    let comparison = Comparison::new(&graph, &model, [&set], Isa::detect());
    let names: Vec<&str> = comparison.layers.iter().map(|layer| layer.name.as_str()).collect();
    assert_eq!(names, ["first", "cut", "sum"]);
    for layer in &comparison.layers {
        assert!(layer.sqnr_db > 38.0, "{comparison:?}");
    }
    // By the definition, on one image.
    let image = &set[..18];
    let mut y = [0.0; 18];
    model.run(Isa::detect(), image, &mut y, &mut Workspace::new(), 1);
    for pixel in 0..9 {
        let (a, b) = (image[pixel], image[9 + pixel]);
        for (channel, value) in [a + 0.5 * b + 0.1, b - 0.5 * a].into_iter().enumerate() {
            let right = value + value.max(0.0);
            let given = y[9 * channel + pixel];
            assert!((given - right).abs() < 0.05, "{given} is not {right}");
        }
    }
    Ok(())
}

/// Sums of a convolution and what it reads: on either side, through a factor, one behind another,
/// one whose convolution is rectified, and one whose convolution is read again.
fn sums() -> Built<Graph> {
    let mut graph = Graph::new();
    let x = graph.input("image", &[8, 6, 6])?;
    let left = block(&mut graph, "left", x, SAME, 8, 1)?;
    let left = graph.add("a", left, x)?;
    let halved = graph.affine("half", left, &[0.5; 8], &[0.0; 8])?;
    let right = block(&mut graph, "right", left, SAME, 8, 8)?;
    let right = graph.add("b", halved, right)?;
    let right = graph.rectifier("relu", right);
    let point = block(&mut graph, "point", right, Window::new([1, 1]), 8, 1)?;
    let thirds = graph.affine("third", point, &[0.25; 8], &[0.0; 8])?;
    let point = graph.add("c", right, thirds)?;
    let cut = block(&mut graph, "cut", point, SAME, 8, 2)?;
    let cut = graph.rectifier("relu", cut);
    let cut = graph.add("d", cut, point)?;
    let twice = block(&mut graph, "twice", cut, SAME, 8, 1)?;
    let once = graph.add("e", twice, cut)?;
    graph.multiply("product", once, twice)?;
    Ok(graph)
}

#[test]
fn a_convolution_adds_the_other_summand_and_rounds_once() -> Built<()> {
    let graph = sums()?;
    let set = scattered(31, 8 * 36 * 40);
    let by = || Quantization::new(Calibration::MinMax);
    let comparison = |by: Quantization| -> Built<(QuantizedModel, Comparison)> {
        let model = QuantizedModel::try_quantize(&graph, [&set], by)?;
        let comparison = Comparison::new(&graph, &model, [&set], Isa::detect());
        Ok((model, comparison))
    };
    let (joined, once) = comparison(by())?;
    let (separate, twice) = comparison(by().separate_sums())?;
    let names = |comparison: &Comparison| -> Vec<String> {
        comparison.layers.iter().map(|layer| layer.name.clone()).collect()
    };
    assert_eq!(
        names(&once),
        [
            "left+norm+a",
            "right+norm+b+relu",
            "point+norm+third+c",
            "cut+norm+relu",
            "d",
            "twice+norm",
            "e",
            "product"
        ]
    );
    assert_eq!(twice.layers.len(), 11);
    let of = |comparison: &Comparison, name: &str| {
        let named = comparison.layers.iter().find(|layer| layer.name.ends_with(name));
        named.expect("a layer of the name").sqnr_db
    };
    for sum in ["a", "b+relu", "c", "product"] {
        let (once, twice) = (of(&once, sum), of(&twice, sum));
        assert!(once > twice, "{sum}: {once} dB in place of {twice}");
        assert!(once > 30.0, "{sum}: {once} dB");
    }

    let x = &set[..8 * 36 * 5];
    for model in [&joined, &separate] {
        let mut right = vec![0.0; x.len()];
        model.run(Isa::Portable, x, &mut right, &mut Workspace::new(), 1);
        let read = QuantizedModel::try_from_bytes(&model.to_bytes())?;
        let comparison = Comparison::new(&graph, &read, [x], Isa::Portable);
        assert_eq!(comparison.layers.len(), read.plan().layers.len());
        for isa in Isa::DOTS.into_iter().filter(|isa| isa.is_available()) {
            for threads in [1, 2, 8] {
                let mut y = vec![f32::NAN; x.len()];
                read.run(isa, x, &mut y, &mut Workspace::new(), threads);
                assert_eq!(y, right, "{isa} with {threads} threads");
            }
        }
    }

    // In f32 the sum is the convolution's, too.
    let kept = by().keep(["left", "third", "b"]);
    let (kept, comparison) = comparison(kept)?;
    let in_floats = |layer: &&updraft_quant::PlannedLayer| layer.arithmetic != Arithmetic::Int8;
    assert_eq!(kept.plan().layers.iter().filter(in_floats).count(), 3);
    assert!(of(&comparison, "product") > of(&once, "product"));
    Ok(())
}

#[test]
fn a_layer_whose_sums_could_overflow_runs_in_f32() -> Built<()> {
    // 255·127 for each of 70 000 products is more than 31 bits hold.
    let inputs = 70_000;
    let mut graph = Graph::new();
    let x = graph.input("image", &[inputs, 1, 1])?;
    let sum = graph.linear("sum", x, &vec![1.0 / inputs as f32; inputs], &[0.5])?;
    graph.linear("twice", sum, &[2.0], &[0.0])?;
    // No negative numbers, so that the code of zero is 0 and all sums have one sign.
    let set: Vec<f32> = scattered(21, 4 * inputs).into_iter().map(f32::abs).collect();
    let model = QuantizedModel::try_quantize(&graph, [&set], Calibration::MinMax)?;
    let plan = model.plan();
    let reason = plan.layers[0].arithmetic;
    assert!(matches!(reason, Arithmetic::F32(Reason::Overflow { channel: 0, .. })), "{plan}");
    assert_eq!(plan.layers[1].arithmetic, Arithmetic::Int8);
    assert!(plan.to_string().starts_with("sum: f32: sums of channel 0 may reach"), "{plan}");
    let mut y = [0.0; 4];
    model.run(Isa::detect(), &set, &mut y, &mut Workspace::new(), 2);
    for (y, x) in y.iter().zip(set.chunks(inputs)) {
        let mean: f64 = x.iter().map(|&x| f64::from(x)).sum::<f64>() / inputs as f64;
        assert!((f64::from(*y) - 2.0 * (mean + 0.5)).abs() < 0.02, "{y}");
    }
    Ok(())
}

#[test]
fn an_outlier_channel_distinguishes_the_methods() -> Built<()> {
    let mut graph = Graph::new();
    let x = graph.input("image", &[8, 8, 8])?;
    let depthwise = graph.convolution("depthwise", x, SAME, 8, &scattered(3, 72), &[0.0; 8])?;
    let weights: Vec<f32> = scattered(4, 16 * 8);
    graph.convolution("pointwise", depthwise, Window::new([1, 1]), 1, &weights, &[0.0; 16])?;
    // One number in about ten thousand is two hundred times the others.
    let mut set = scattered(5, 512 * 40);
    set.iter_mut().step_by(9_973).for_each(|value| *value = 200.0);
    let clean = scattered(6, 512 * 20);
    let decibels = |calibration| -> Built<f64> {
        let model = QuantizedModel::try_quantize(&graph, [&set], calibration)?;
        let comparison = Comparison::new(&graph, &model, [&clean], Isa::detect());
        Ok(comparison.layers[1].sqnr_db)
    };
    let whole = decibels(Calibration::MinMax)?;
    let middle = decibels(Calibration::Percentile(0.99))?;
    assert!(middle > whole + 10.0, "{middle} dB and {whole} dB");
    Ok(())
}

/// A convolution, its mean, and two linear layers with `hidden` numbers between them; where
/// `is_joined`, a window over the whole image is added to the mean.
fn with_tail(hidden: usize, is_joined: bool) -> Built<Graph> {
    let mut graph = Graph::new();
    let image = graph.input("image", &[3, 16, 16])?;
    let maps = block(&mut graph, "maps", image, SAME, 16, 1)?;
    let maps = graph.rectifier("relu", maps);
    let mut mean = graph.pool("mean", maps, Window::new([16, 16]), Pooling::MeanOfImage)?;
    if is_joined {
        let whole = block(&mut graph, "whole", image, Window::new([16, 16]), 16, 1)?;
        mean = graph.add("joined", mean, whole)?;
    }
    let first = graph.linear("hidden", mean, &scattered(1, 16 * hidden), &scattered(2, hidden))?;
    let first = graph.rectifier("relu", first);
    graph.linear("answer", first, &scattered(3, 5 * hidden), &scattered(4, 5))?;
    Ok(graph)
}

#[test]
fn a_little_work_on_means_of_images_stays_in_f32_where_that_is_asked() -> Built<()> {
    let set = images(5, 8);
    let arithmetics = |graph: &Graph, by: Quantization| -> Built<Vec<Arithmetic>> {
        let model = QuantizedModel::try_quantize(graph, [&set], by)?;
        let plan = model.plan();
        assert_eq!(QuantizedModel::try_from_bytes(&model.to_bytes())?.plan(), plan);
        Ok(plan.layers.iter().map(|layer| layer.arithmetic).collect())
    };
    let by = || Quantization::new(Calibration::MinMax);
    let (int8, tail) = (Arithmetic::Int8, Arithmetic::F32(Reason::Tail));
    let graph = with_tail(8, false)?;
    assert_eq!(arithmetics(&graph, by())?, [int8; 4]);
    assert_eq!(arithmetics(&graph, by().float_tail())?, [int8, tail, tail, tail]);
    let named = by().float_tail().keep(["hidden"]);
    let kept = Arithmetic::F32(Reason::Kept);
    assert_eq!(arithmetics(&graph, named)?, [int8, tail, kept, tail]);
    // 21·hidden of 110 592 multiply-adds: more than a hundredth.
    assert_eq!(arithmetics(&with_tail(60, false)?, by().float_tail())?, [int8; 4]);
    // Another tensor that is read together with a mean represents pixels, too.
    assert_eq!(arithmetics(&with_tail(8, true)?, by().float_tail())?, [int8; 5]);

    let run = |by: Quantization| -> Built<f64> {
        let model = QuantizedModel::try_quantize(&graph, [&set], by)?;
        let comparison = Comparison::new(&graph, &model, [&set], Isa::detect());
        Ok(comparison.layers.last().ok_or("no layer")?.sqnr_db)
    };
    let (all, with_tail) = (run(by())?, run(by().float_tail())?);
    assert!(with_tail > all, "{with_tail} dB in place of {all}");

    let model = QuantizedModel::try_quantize(&graph, [&set], by().float_tail())?;
    let mut answers = Vec::new();
    for isa in Isa::DOTS.into_iter().filter(|isa| isa.is_available()) {
        for threads in [1, 3] {
            let mut y = vec![0.0; 8 * 5];
            model.run(isa, &set, &mut y, &mut Workspace::new(), threads);
            answers.push(y);
        }
    }
    assert!(answers.iter().all(|y| *y == answers[0]), "paths or threads differ");
    Ok(())
}
