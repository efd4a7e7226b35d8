//! Formats of layers that are named in full and in part.

use updraft_quant::{
    Calibration, Graph, Quantization, QuantizeError, QuantizedModel, WeightFormat,
};

type Built<T> = Result<T, Box<dyn std::error::Error>>;

const INPUTS: [f32; 4] = [1.0, 2.0, -1.0, 0.5];

fn format(bits: u8) -> WeightFormat {
    WeightFormat::try_new(bits).expect("supported")
}

/// A layer `first+relu` and one after it.
fn network() -> Built<Graph> {
    let mut graph = Graph::new();
    let x = graph.input("x", &[2])?;
    let first = graph.linear("first", x, &[1.0, 2.0, -0.5, 0.25], &[0.0; 2])?;
    let relu = graph.rectifier("relu", first);
    graph.linear("last", relu, &[1.0, -1.0], &[0.0])?;
    Ok(graph)
}

fn by() -> Quantization {
    Quantization::new(Calibration::MinMax)
}

/// The format of the first layer.
fn first_of(by: Quantization) -> Built<Option<WeightFormat>> {
    let model = QuantizedModel::try_quantize(&network()?, [&INPUTS], by)?;
    let layers = model.plan().layers;
    assert_eq!(layers[0].name, "first+relu");
    Ok(layers[0].weights)
}

#[test]
fn the_full_name_of_a_layer_has_priority_over_a_part_in_any_order() -> Built<()> {
    let (full, part) = (("first+relu", format(2)), ("first", format(4)));
    for [one, other] in [[full, part], [part, full]] {
        let by = by().layer(one.0, one.1).layer(other.0, other.1);
        assert_eq!(first_of(by)?, Some(format(2)), "{} first", one.0);
    }
    // Parts do not count beside the full name.
    let by = by().layer("first", format(4)).layer("relu", format(8)).layer("first+relu", format(2));
    assert_eq!(first_of(by)?, Some(format(2)));
    Ok(())
}

#[test]
fn two_parts_of_a_layer_with_different_formats_are_refused_in_any_order() -> Built<()> {
    for names in [["first", "relu"], ["relu", "first"]] {
        let by = by().layer(names[0], format(4)).layer(names[1], format(2));
        let error = by.check(&network()?).expect_err("refused");
        assert!(matches!(error, QuantizeError::TwoFormats { .. }), "{error}");
        let [first, second] = names;
        let expected = format!("`{first}` and `{second}` are parts of one layer, `first+relu`,");
        assert!(error.to_string().starts_with(&expected), "{error}");
    }
    // The same format twice is no contradiction.
    let same = by().layer("first", format(4)).layer("relu", format(4));
    assert_eq!(first_of(same)?, Some(format(4)));
    // A later call with the same name replaces the earlier one.
    let again = by().layer("first", format(4)).layer("first", format(2));
    assert_eq!(first_of(again)?, Some(format(2)));
    Ok(())
}
