//! Invalid networks and data are refused with the position and the remedy.

use std::error::Error;

use updraft_quant::slices::Pooling;
use updraft_quant::{Calibration, Graph, QuantizedModel, Window};

/// An error with all its causes.
fn chain(error: &dyn Error) -> String {
    let mut chain = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        chain = format!("{chain}: {error}");
        cause = error.source();
    }
    chain
}

#[test]
fn layers_that_do_not_fit_are_refused_by_name() -> Result<(), Box<dyn Error>> {
    let mut graph = Graph::new();
    let x = graph.input("image", &[2, 4, 4])?;
    let point = Window::new([1, 1]);
    let mut refused = |said: &str, add: &dyn Fn(&mut Graph) -> Option<Box<dyn Error>>| {
        let before = format!("{graph:?}");
        let message = chain(&*add(&mut graph).expect(said));
        assert!(message.contains(said), "{message} does not say {said}");
        assert_eq!(format!("{graph:?}"), before, "a refused layer leaves nothing behind");
    };
    fn failed<T, E: Error + 'static>(result: Result<T, E>) -> Option<Box<dyn Error>> {
        result.err().map(Into::into)
    }
    refused("layer `c`: expected 6 weights, got 5", &|graph| {
        failed(graph.convolution("c", x, point, 1, &[1.0; 5], &[0.0; 3]))
    });
    refused("layer `c`: weights 1 is NaN", &|graph| {
        failed(graph.convolution("c", x, point, 1, &[1.0, f32::NAN], &[0.0]))
    });
    refused("output channels is 0", &|graph| failed(graph.convolution("c", x, point, 1, &[], &[])));
    refused("the dilated kernel is 5 high, the padded input only 4", &|graph| {
        failed(graph.convolution("c", x, Window::new([5, 1]), 1, &[1.0; 10], &[0.0]))
    });
    refused("layer `n`: the variance -1 of channel 1", &|graph| {
        failed(graph.batch_norm("n", x, &[1.0; 2], &[0.0; 2], &[0.0; 2], &[1.0, -1.0], 1e-5))
    });
    refused("layer `n`: expected 2 means, got 3", &|graph| {
        failed(graph.batch_norm("n", x, &[1.0; 2], &[0.0; 2], &[0.0; 3], &[1.0; 2], 1e-5))
    });
    refused("layer `l`: expected 32 weights, got 31", &|graph| {
        failed(graph.linear("l", x, &[1.0; 31], &[0.0]))
    });
    refused("layer `l`: expected 1 biases, got 0", &|graph| failed(graph.linear("l", x, &[], &[])));
    refused("layer `p`: some windows lie in the padding alone", &|graph| {
        let window = Window { padding: [2, 2], ..Window::new([2, 2]) };
        failed(graph.pool("p", x, window, Pooling::Maximum))
    });
    let other = graph.convolution("c", x, point, 1, &[1.0; 6], &[0.0; 3])?;
    let message = graph.add("s", x, other).expect_err("shapes differ").to_string();
    assert_eq!(
        message,
        "layer `s`: the summands are [[2, 4, 4], [3, 4, 4]]; both must have one shape"
    );
    let message = graph.input("x", &[3, 0, 4]).expect_err("empty").to_string();
    assert_eq!(message, "input `x` of [3, 0, 4], channels first, contains no numbers");
    Ok(())
}

#[test]
fn data_that_cannot_calibrate_is_refused_by_place() -> Result<(), Box<dyn Error>> {
    let mut graph = Graph::new();
    let nothing: [Vec<f32>; 0] = [];
    let quantize = |graph: &Graph, batches: &[Vec<f32>]| {
        chain(
            &QuantizedModel::try_quantize(graph, batches, Calibration::Entropy)
                .expect_err("refused"),
        )
    };
    assert!(quantize(&graph, &nothing).contains("the graph has no layer"));
    let x = graph.input("image", &[1, 1, 2])?;
    let hidden = graph.linear("hidden", x, &[1.0, 1.0], &[0.0])?;
    let hidden = graph.rectifier("relu", hidden);
    graph.linear("answer", hidden, &[1.0], &[0.0])?;
    assert!(quantize(&graph, &nothing).contains("the calibration set has no sample"));
    assert!(quantize(&graph, &[vec![1.0; 4], vec![1.0; 3]]).contains(
        "calibration batch 1 has [3] numbers; for each input they must be the same multiple"
    ));
    let message = quantize(&graph, &[vec![1.0, f32::NAN]]);
    assert!(message.contains("layer `image`"), "{message}");
    assert!(message.contains("number 1 of the batch is NaN"), "{message}");
    let message = quantize(&graph, &[vec![0.0, 0.0]]);
    assert!(message.contains("layer `image`"), "{message}");
    assert!(message.contains("only zero"), "{message}");
    let message = quantize(&graph, &[vec![f32::MAX, f32::MAX]]);
    assert!(message.contains("layer `hidden+relu`") && message.contains("inf"), "{message}");
    Ok(())
}
