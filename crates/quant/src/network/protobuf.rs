//! The few messages of ONNX that an export needs, in protobuf's wire format.
//!
//! Field numbers are those of `onnx.proto` of ONNX 1.14.

/// The element type of a tensor, by its number in ONNX.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Element {
    F32 = 1,
    U8 = 2,
    I8 = 3,
    I32 = 6,
    I64 = 7,
}

/// A constant: its element type, shape, and bytes in little endian.
#[derive(Debug)]
pub(super) struct Tensor {
    element: Element,
    shape: Vec<u64>,
    bytes: Vec<u8>,
}

impl Tensor {
    pub(super) fn new(element: Element, shape: &[usize], bytes: &[u8]) -> Self {
        let shape = shape.iter().map(|&side| side as u64).collect();
        Self { element, shape, bytes: bytes.to_vec() }
    }

    pub(super) fn integers(values: &[i64]) -> Self {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        Self::new(Element::I64, &[values.len()], &bytes)
    }
}

/// A setting of an operator.
#[derive(Debug)]
pub(super) enum Attribute {
    Integer(i64),
    Integers(Vec<i64>),
}

/// A model that grows node by node.
#[derive(Debug)]
pub(super) struct Model {
    producer: &'static str,
    graph: Message,
}

impl Model {
    pub(super) fn new(producer: &'static str) -> Self {
        Self { producer, graph: Message::default() }
    }

    /// An operator with one output, after which the node is named.
    pub(super) fn node(
        &mut self,
        operator: &str,
        inputs: &[&str],
        output: &str,
        attributes: &[(&str, Attribute)],
    ) {
        let mut node = Message::default();
        inputs.iter().for_each(|input| node.bytes(1, input.as_bytes()));
        node.bytes(2, output.as_bytes());
        node.bytes(3, output.as_bytes());
        node.bytes(4, operator.as_bytes());
        for (name, value) in attributes {
            let mut attribute = Message::default();
            attribute.bytes(1, name.as_bytes());
            match value {
                Attribute::Integer(value) => {
                    attribute.integer(3, *value as u64);
                    attribute.integer(20, 2);
                }
                Attribute::Integers(values) => {
                    values.iter().for_each(|&value| attribute.integer(8, value as u64));
                    attribute.integer(20, 7);
                }
            }
            node.bytes(5, &attribute.0);
        }
        self.graph.bytes(1, &node.0);
    }

    /// A constant.
    pub(super) fn initializer(&mut self, name: &str, tensor: &Tensor) {
        let mut message = Message::default();
        tensor.shape.iter().for_each(|&side| message.integer(1, side));
        message.integer(2, tensor.element as u64);
        message.bytes(8, name.as_bytes());
        message.bytes(9, &tensor.bytes);
        self.graph.bytes(5, &message.0);
    }

    /// The bytes of the file, with f32 tensors `[batch, …]` going in and out.
    pub(super) fn finish(mut self, input: (&str, &[usize]), output: (&str, &[usize])) -> Vec<u8> {
        self.graph.bytes(2, b"quantized");
        self.graph.bytes(11, &value(input).0);
        self.graph.bytes(12, &value(output).0);
        let mut operators = Message::default();
        operators.bytes(1, b"");
        operators.integer(2, 19);
        let mut model = Message::default();
        // The version of the format that came with operator set 19.
        model.integer(1, 9);
        model.bytes(2, self.producer.as_bytes());
        model.bytes(7, &self.graph.0);
        model.bytes(8, &operators.0);
        model.0
    }
}

/// A tensor of f32 with a first axis of any length.
fn value((name, shape): (&str, &[usize])) -> Message {
    let mut axes = Message::default();
    let mut batch = Message::default();
    batch.bytes(2, b"batch");
    axes.bytes(1, &batch.0);
    for &side in shape {
        let mut axis = Message::default();
        axis.integer(1, side as u64);
        axes.bytes(1, &axis.0);
    }
    let mut tensor = Message::default();
    tensor.integer(1, Element::F32 as u64);
    tensor.bytes(2, &axes.0);
    let mut kind = Message::default();
    kind.bytes(1, &tensor.0);
    let mut value = Message::default();
    value.bytes(1, name.as_bytes());
    value.bytes(2, &kind.0);
    value
}

/// Fields, one after the other.
#[derive(Debug, Default)]
struct Message(Vec<u8>);

impl Message {
    fn integer(&mut self, field: u64, value: u64) {
        self.varint(field << 3);
        self.varint(value);
    }

    fn bytes(&mut self, field: u64, bytes: &[u8]) {
        self.varint(field << 3 | 2);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    /// Seven bits a byte, the lowest first; a set top bit says that more follow.
    fn varint(&mut self, value: u64) {
        let mut rest = value;
        while rest >= 0x80 {
            self.0.push(rest as u8 | 0x80);
            rest >>= 7;
        }
        self.0.push(rest as u8);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_as_the_wire_format_has_them() {
        let mut message = Message::default();
        // 150 in field 1 and "testing" in field 2, as protobuf's documentation shows them.
        message.integer(1, 150);
        message.bytes(2, b"testing");
        let right = [&[0x08, 0x96, 0x01, 0x12, 0x07][..], b"testing"].concat();
        assert_eq!(message.0, right);
    }

    #[test]
    fn a_negative_number_takes_ten_bytes() {
        let mut message = Message::default();
        message.integer(3, -1_i64 as u64);
        assert_eq!(message.0.len(), 11);
        assert_eq!(message.0[10], 0x01);
    }
}
