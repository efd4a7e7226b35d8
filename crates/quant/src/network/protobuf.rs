//! The messages of ONNX that an export needs.
//!
//! Field numbers are those of `onnx.proto` of ONNX 1.14.

use prost::Message;

/// The element type of a tensor, by its number in ONNX.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Element {
    F32 = 1,
    U8 = 2,
    I8 = 3,
    I32 = 6,
    I64 = 7,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Model {
    #[prost(int64, tag = "1")]
    ir_version: i64,
    #[prost(string, tag = "2")]
    producer_name: String,
    #[prost(message, optional, tag = "7")]
    graph: Option<Graph>,
    #[prost(message, repeated, tag = "8")]
    opset_import: Vec<OperatorSet>,
}

#[derive(Clone, PartialEq, Message)]
struct OperatorSet {
    #[prost(string, tag = "1")]
    domain: String,
    #[prost(int64, tag = "2")]
    version: i64,
}

/// A graph under construction.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Graph {
    #[prost(message, repeated, tag = "1")]
    pub(super) node: Vec<Node>,
    #[prost(string, tag = "2")]
    name: String,
    #[prost(message, repeated, tag = "5")]
    pub(super) initializer: Vec<Tensor>,
    #[prost(message, repeated, tag = "11")]
    input: Vec<ValueInfo>,
    #[prost(message, repeated, tag = "12")]
    output: Vec<ValueInfo>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Node {
    #[prost(string, repeated, tag = "1")]
    pub(super) input: Vec<String>,
    #[prost(string, repeated, tag = "2")]
    pub(super) output: Vec<String>,
    #[prost(string, tag = "3")]
    pub(super) name: String,
    #[prost(string, tag = "4")]
    pub(super) op_type: String,
    #[prost(message, repeated, tag = "5")]
    pub(super) attribute: Vec<AttributeField>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct AttributeField {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(float, optional, tag = "2")]
    f: Option<f32>,
    #[prost(int64, optional, tag = "3")]
    i: Option<i64>,
    #[prost(bytes = "vec", optional, tag = "4")]
    s: Option<Vec<u8>>,
    #[prost(int64, repeated, packed = "false", tag = "8")]
    ints: Vec<i64>,
    #[prost(int32, tag = "20")]
    kind: i32,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Tensor {
    #[prost(int64, repeated, packed = "false", tag = "1")]
    dims: Vec<i64>,
    #[prost(int32, tag = "2")]
    data_type: i32,
    #[prost(string, tag = "8")]
    name: String,
    #[prost(bytes = "vec", tag = "9")]
    raw_data: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
struct ValueInfo {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(message, optional, tag = "2")]
    kind: Option<Kind>,
}

#[derive(Clone, PartialEq, Message)]
struct Kind {
    #[prost(message, optional, tag = "1")]
    tensor: Option<TensorKind>,
}

#[derive(Clone, PartialEq, Message)]
struct TensorKind {
    #[prost(int32, tag = "1")]
    elem_type: i32,
    #[prost(message, optional, tag = "2")]
    shape: Option<Axes>,
}

#[derive(Clone, PartialEq, Message)]
struct Axes {
    #[prost(message, repeated, tag = "1")]
    dim: Vec<Axis>,
}

/// The length of an axis, or the name of one of any length.
#[derive(Clone, PartialEq, Message)]
struct Axis {
    #[prost(int64, optional, tag = "1")]
    value: Option<i64>,
    #[prost(string, optional, tag = "2")]
    param: Option<String>,
}

/// A setting of an operator.
#[derive(Debug)]
pub(crate) enum Attribute {
    Integer(i64),
    Integers(Vec<i64>),
    Text(&'static str),
    Real(f32),
}

impl AttributeField {
    pub(super) fn new(name: &str, value: Attribute) -> Self {
        let field = Self { name: name.to_owned(), ..Self::default() };
        match value {
            Attribute::Integer(i) => Self { i: Some(i), kind: 2, ..field },
            Attribute::Text(text) => Self { s: Some(text.into()), kind: 3, ..field },
            Attribute::Integers(ints) => Self { ints, kind: 7, ..field },
            Attribute::Real(f) => Self { f: Some(f), kind: 1, ..field },
        }
    }
}

impl Tensor {
    /// A constant: its element type, shape, and bytes in little endian.
    pub(super) fn new(
        name: impl Into<String>,
        element: Element,
        shape: &[usize],
        raw_data: Vec<u8>,
    ) -> Self {
        let dims = shape.iter().map(|&side| side as i64).collect();
        Self { dims, data_type: element as i32, name: name.into(), raw_data }
    }
}

impl Graph {
    /// The bytes of a file whose inputs and outputs are f32, `[batch, …]`.
    pub(super) fn into_file<'a>(
        mut self,
        inputs: impl Iterator<Item = &'a super::graph::Port>,
        outputs: impl Iterator<Item = &'a super::graph::Port>,
    ) -> Vec<u8> {
        self.name = "quantized".to_owned();
        self.input = inputs.map(ValueInfo::new).collect();
        self.output = outputs.map(ValueInfo::new).collect();
        let operators = OperatorSet { domain: String::new(), version: 19 };
        let model = Model {
            // The version of the format with operator set 19.
            ir_version: 9,
            producer_name: "updraft-quant".to_owned(),
            graph: Some(self),
            opset_import: vec![operators],
        };
        model.encode_to_vec()
    }
}

impl ValueInfo {
    fn new(port: &super::graph::Port) -> Self {
        let batch = Axis { value: None, param: Some("batch".to_owned()) };
        let sides = port.shape.iter().map(|&side| Axis { value: Some(side as i64), param: None });
        let dim = std::iter::once(batch).chain(sides).collect();
        let tensor = TensorKind { elem_type: Element::F32 as i32, shape: Some(Axes { dim }) };
        Self { name: port.name.clone(), kind: Some(Kind { tensor: Some(tensor) }) }
    }
}
