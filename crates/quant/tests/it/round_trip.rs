//! Running a quantized model, and comparing it with the same from a file.

use updraft_quant::slices::Isa;
use updraft_quant::{
    Calibration, Comparison, Graph, Port, Quantization, QuantizedModel, Workspace,
};

pub(crate) type Built<T> = Result<T, Box<dyn std::error::Error>>;

/// The outputs for samples one after the other.
pub(crate) fn answers(model: &QuantizedModel, isa: Isa, x: &[f32], threads: usize) -> Vec<f32> {
    let numbers: usize = model.outputs().map(Port::numbers).sum();
    let mut y = vec![0.0; x.len() / model.inputs()[0].numbers() * numbers];
    model.run(isa, x, &mut y, &mut Workspace::new(), threads);
    y
}

/// The largest difference.
pub(crate) fn furthest(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
}

/// Quantizes a graph, all of it and with one layer kept in f32: it is near the graph, and a file of
/// it has the same answers on every instruction set and number of threads.
pub(crate) fn survives_a_file(graph: &Graph, set: &[f32], kept: &str) -> Built<()> {
    let model = QuantizedModel::try_quantize(graph, [set], Calibration::MinMax)?;
    assert!(model.plan().is_int8(), "{}", model.plan());
    let comparison = Comparison::new(graph, &model, [set], Isa::detect());
    assert!(comparison.outputs_db[0] > 32.0, "{comparison:#?}");
    let right = answers(&model, Isa::Portable, set, 1);
    let read = QuantizedModel::try_from_bytes(&model.to_bytes())?;
    assert_eq!(read.to_onnx(), model.to_onnx());
    for isa in Isa::DOTS.into_iter().filter(|isa| isa.is_available()) {
        for threads in [1, 3] {
            assert_eq!(answers(&read, isa, set, threads), right, "{isa}");
        }
    }
    let by = Quantization::new(Calibration::MinMax).keep([kept]);
    let kept = QuantizedModel::try_quantize(graph, [set], by)?;
    let read = QuantizedModel::try_from_bytes(&kept.to_bytes())?;
    assert_eq!(answers(&read, Isa::detect(), set, 1), answers(&kept, Isa::detect(), set, 1));
    Ok(())
}
