//! Every promised name; removing one breaks this file, not a user.

use updraft_quant::slices::{
    Addend, Isa, Pooling, QuantizedAdd, QuantizedConvolution, QuantizedLinear, QuantizedPooling,
    Scratch, dequantize, quantize, quantize_images,
};
use updraft_quant::{
    ActivationScheme, Arithmetic, Binary, Calibrated, Calibration, Comparison, EvaluateError,
    Evaluation, FileError, Function, Graph, GraphError, LayerComparison, LayerEvaluation,
    ObserveError, Observer, OutputScheme, Plan, PlannedLayer, Quantization, QuantizeError,
    QuantizedModel, QuantizedWeights, Reason, SchemeError, Unary, Value, WeightError, Window,
    Workspace,
};
#[cfg(feature = "burn")]
use updraft_quant::{CaptureError, Place};

#[test]
fn every_promised_name_is_there() {
    fn names<T>() {}
    names::<(Addend<'_>, Isa, Pooling, Scratch)>();
    names::<(QuantizedAdd, QuantizedConvolution, QuantizedLinear, QuantizedPooling)>();
    names::<(ActivationScheme, OutputScheme, QuantizedWeights, SchemeError, WeightError)>();
    names::<(Calibration, ObserveError, Observer)>();
    names::<(Comparison, Graph, GraphError, LayerComparison, LayerEvaluation, Value, Window)>();
    names::<(Binary, Function, Unary, Calibrated, Quantization)>();
    names::<(Evaluation, EvaluateError, LayerEvaluation)>();
    names::<(Arithmetic, Plan, PlannedLayer, Reason)>();
    #[cfg(feature = "burn")]
    names::<(CaptureError, Place)>();
    names::<(FileError, QuantizeError, QuantizedModel, Workspace)>();
    let _ = (dequantize, quantize, quantize_images);
}

#[test]
fn errors_are_errors() {
    fn is_error<T: std::error::Error + Send + Sync + 'static>() {}
    is_error::<SchemeError>();
    is_error::<WeightError>();
    is_error::<ObserveError>();
    is_error::<GraphError>();
    is_error::<QuantizeError>();
    is_error::<FileError>();
}
