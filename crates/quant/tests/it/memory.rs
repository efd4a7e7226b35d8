//! Allocations, counted on the thread that runs.

use allocation_counter::measure;
use updraft_quant::slices::{Isa, Pooling};
use updraft_quant::{
    Binary, Calibration, Function, Graph, Quantization, QuantizedModel, Unary, Window, Workspace,
};
use updraft_testing::scattered;

type Built<T> = Result<T, Box<dyn std::error::Error>>;

/// Every kind of layer with an int8 kernel.
fn network() -> Built<Graph> {
    let mut graph = Graph::new();
    let x = graph.input("image", &[3, 12, 12])?;
    let same = Window { padding: [1; 2], ..Window::new([3, 3]) };
    let stem = graph.convolution("stem", x, same, 1, &scattered(1, 8 * 27), &[0.1; 8])?;
    let identity = Function::identity();
    let silu = Function::binary(Binary::Multiply, &identity, &identity.then(Unary::Sigmoid));
    let curved = graph.function("silu", stem, &silu)?;
    let deep = graph.convolution("depthwise", curved, same, 8, &scattered(2, 72), &[0.0; 8])?;
    let sum = graph.add("sum", deep, curved)?;
    let product = graph.multiply("product", sum, curved)?;
    let both = graph.concatenate("both", &[product, sum], 0)?;
    let halved = Window { stride: [2; 2], ..Window::new([2, 2]) };
    let most = graph.pool("most", both, halved, Pooling::Maximum)?;
    let mean = graph.pool("mean", most, Window::new([6, 6]), Pooling::MeanOfImage)?;
    let hidden = graph.linear("hidden", mean, &scattered(3, 16 * 20), &[0.0; 20])?;
    let hidden = graph.rectifier("relu", hidden);
    graph.linear("answer", hidden, &scattered(4, 20 * 5), &[0.0; 5])?;
    Ok(graph)
}

#[test]
fn an_int8_model_allocates_nothing_after_its_first_run() -> Built<()> {
    let set = scattered(5, 432 * 16);
    let model = QuantizedModel::try_quantize(&network()?, [&set], Calibration::MinMax)?;
    assert!(model.plan().is_int8(), "{}", model.plan());
    let (x, mut y, mut workspace) = (scattered(6, 432 * 9), vec![0.0; 45], Workspace::new());
    for isa in Isa::DOTS.into_iter().filter(|isa| isa.is_available()) {
        let mut run = || model.run(isa, &x, &mut y, &mut workspace, 1);
        run();
        assert_eq!(measure(run).count_total, 0, "{isa}");
    }
    Ok(())
}

#[test]
fn one_model_serves_many_threads_at_once() -> Built<()> {
    let set = scattered(5, 432 * 16);
    // A layer in f32 has memory of its own in each workspace.
    let by = Quantization::new(Calibration::MinMax).keep(["depthwise"]);
    let model = QuantizedModel::try_quantize(&network()?, [&set], by)?;
    assert!(!model.plan().is_int8());
    let answers = |seed: u32| {
        let (x, mut y) = (scattered(seed, 432 * 3), vec![0.0; 15]);
        model.run(Isa::detect(), &x, &mut y, &mut Workspace::new(), 1);
        y
    };
    let right: Vec<Vec<f32>> = (0..4).map(answers).collect();
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|seed| scope.spawn(move || answers(seed))).collect();
        for (thread, right) in threads.into_iter().zip(&right) {
            assert_eq!(&thread.join().expect("no panic"), right);
        }
    });
    Ok(())
}

#[test]
fn ten_times_the_images_calibrate_in_the_same_memory() -> Built<()> {
    let graph = network()?;
    for calibration in [Calibration::MinMax, Calibration::Entropy] {
        let most = |batches: u32| {
            measure(|| {
                // Each batch is created when it is requested, and dropped.
                let set = (0..batches).map(|seed| scattered(seed + 1, 432 * 8));
                QuantizedModel::try_quantize(&graph, set, calibration).expect("a model");
            })
            .bytes_max
        };
        let (few, many) = (most(4), most(40));
        assert_eq!(few, many, "{calibration:?}");
    }
    Ok(())
}
