//! The messages of ONNX that an import needs.
//!
//! Field numbers are those of `onnx.proto` of ONNX 1.14. Subgraphs and functions are not read, so
//! that messages contain each other to a fixed depth.

use super::error::{ImportError, Read};
use super::wire::{Content, Fields};

/// The most nodes, tensors and values, and inputs and outputs of a node.
const MOST: usize = 20_000;

/// The most attributes of all nodes together.
const MOST_ATTRIBUTES: usize = 50_000;

/// The most axes of a tensor, with the batch.
pub(super) const MOST_AXES: usize = 8;

/// A model: the version of ONNX's own operators, and its graph.
#[derive(Debug, Default)]
pub(super) struct Model<'a> {
    pub(super) version: u64,
    pub(super) nodes: Vec<Node<'a>>,
    pub(super) initializers: Vec<Tensor<'a>>,
    pub(super) inputs: Vec<ValueInfo<'a>>,
    pub(super) outputs: Vec<&'a str>,
    /// Attributes of all nodes so far.
    attributes: usize,
}

#[derive(Debug, Default)]
pub(super) struct Node<'a> {
    pub(super) inputs: Vec<&'a str>,
    pub(super) outputs: Vec<&'a str>,
    pub(super) name: &'a str,
    pub(super) operation: &'a str,
    pub(super) domain: &'a str,
    pub(super) attributes: Vec<Attribute<'a>>,
}

#[derive(Debug, Default)]
pub(super) struct Attribute<'a> {
    pub(super) name: &'a str,
    pub(super) real: Option<f32>,
    pub(super) integer: Option<i64>,
    pub(super) text: &'a [u8],
    pub(super) tensor: Option<Box<Tensor<'a>>>,
    pub(super) integers: Vec<i64>,
}

#[derive(Debug, Clone, Default)]
pub(super) struct Tensor<'a> {
    pub(super) name: &'a str,
    pub(super) sides: Vec<i64>,
    pub(super) element: u64,
    pub(super) raw: Option<&'a [u8]>,
    /// Bytes of numbers that are stored one by one.
    pub(super) reals: Vec<u8>,
    pub(super) integers: Vec<i64>,
    pub(super) is_external: bool,
}

#[derive(Debug, Default)]
pub(super) struct ValueInfo<'a> {
    pub(super) name: &'a str,
    pub(super) element: u64,
    /// Lengths of axes; names of unknown ones.
    pub(super) sides: Vec<Result<i64, &'a str>>,
}

/// Adds to a list of bounded length.
fn add<T>(list: &mut Vec<T>, item: T, what: &'static str) -> Read<()> {
    if list.len() == MOST {
        return Err(ImportError::TooLarge { what });
    }
    list.push(item);
    Ok(())
}

impl<'a> Model<'a> {
    pub(super) fn read(bytes: &'a [u8]) -> Read<Self> {
        let mut model = Self::default();
        let mut has_graph = false;
        for field in Fields::new(bytes) {
            match field? {
                (7, graph) => {
                    has_graph = true;
                    model.graph(graph.bytes()?)?;
                }
                (8, set) => {
                    let (mut domain, mut version) = ("", 0);
                    for field in Fields::new(set.bytes()?) {
                        match field? {
                            (1, text) => domain = text.text()?,
                            (2, number) => version = number.number()?,
                            _ => {}
                        }
                    }
                    if is_own(domain) {
                        model.version = version;
                    }
                }
                _ => {}
            }
        }
        if has_graph { Ok(model) } else { Err(ImportError::Format { what: "it has no graph" }) }
    }

    fn graph(&mut self, bytes: &'a [u8]) -> Read<()> {
        for field in Fields::new(bytes) {
            let (number, content) = field?;
            match number {
                1 => {
                    let node = Node::read(content.bytes()?, &mut self.attributes)?;
                    add(&mut self.nodes, node, "more than 20,000 nodes")?;
                }
                5 => {
                    let tensor = Tensor::read(content.bytes()?)?;
                    add(&mut self.initializers, tensor, "more than 20,000 constants")?;
                }
                11 => {
                    let input = ValueInfo::read(content.bytes()?)?;
                    add(&mut self.inputs, input, "more than 20,000 inputs")?;
                }
                12 => {
                    let output = ValueInfo::read(content.bytes()?)?;
                    add(&mut self.outputs, output.name, "more than 20,000 outputs")?;
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// Whether a domain is that of ONNX's own operators.
pub(super) fn is_own(domain: &str) -> bool {
    domain.is_empty() || domain == "ai.onnx"
}

impl<'a> Node<'a> {
    /// Counts the attributes of all nodes.
    fn read(bytes: &'a [u8], attributes: &mut usize) -> Read<Self> {
        let mut node = Self::default();
        for field in Fields::new(bytes) {
            let (number, content) = field?;
            match number {
                1 => add(&mut node.inputs, content.text()?, "more than 20,000 inputs of a node")?,
                2 => add(&mut node.outputs, content.text()?, "more than 20,000 outputs of a node")?,
                3 => node.name = content.text()?,
                4 => node.operation = content.text()?,
                5 => {
                    *attributes += 1;
                    if *attributes > MOST_ATTRIBUTES {
                        return Err(ImportError::TooLarge { what: "more than 50,000 attributes" });
                    }
                    node.attributes.push(Attribute::read(content.bytes()?)?);
                }
                7 => node.domain = content.text()?,
                _ => {}
            }
        }
        Ok(node)
    }
}

impl<'a> Attribute<'a> {
    fn read(bytes: &'a [u8]) -> Read<Self> {
        let mut attribute = Self::default();
        for field in Fields::new(bytes) {
            let (number, content) = field?;
            match (number, content) {
                (1, _) => attribute.name = content.text()?,
                (2, Content::Word(word)) => attribute.real = Some(f32::from_le_bytes(word)),
                (3, _) => attribute.integer = Some(content.number()? as i64),
                (4, _) => attribute.text = content.bytes()?,
                (5, _) => attribute.tensor = Some(Box::new(Tensor::read(content.bytes()?)?)),
                (8, _) => content.add_integers(&mut attribute.integers)?,
                _ => {}
            }
        }
        Ok(attribute)
    }
}

impl<'a> Tensor<'a> {
    fn read(bytes: &'a [u8]) -> Read<Self> {
        let mut tensor = Self::default();
        for field in Fields::new(bytes) {
            let (number, content) = field?;
            match number {
                1 => content.add_integers(&mut tensor.sides)?,
                2 => tensor.element = content.number()?,
                4 => content.add_reals(&mut tensor.reals)?,
                5 | 7 => content.add_integers(&mut tensor.integers)?,
                8 => tensor.name = content.text()?,
                9 => tensor.raw = Some(content.bytes()?),
                13 => tensor.is_external = true,
                14 => tensor.is_external |= content.number()? == 1,
                _ => {}
            }
        }
        Ok(tensor)
    }
}

impl<'a> ValueInfo<'a> {
    fn read(bytes: &'a [u8]) -> Read<Self> {
        let mut value = Self::default();
        for field in Fields::new(bytes) {
            match field? {
                (1, name) => value.name = name.text()?,
                (2, kind) => {
                    for field in Fields::new(kind.bytes()?) {
                        if let (1, tensor) = field? {
                            value.tensor(tensor.bytes()?)?;
                        }
                    }
                }
                _ => {}
            }
        }
        Ok(value)
    }

    fn tensor(&mut self, bytes: &'a [u8]) -> Read<()> {
        for field in Fields::new(bytes) {
            match field? {
                (1, element) => self.element = element.number()?,
                (2, shape) => {
                    for field in Fields::new(shape.bytes()?) {
                        if let (1, side) = field? {
                            if self.sides.len() == MOST_AXES {
                                let what = "an input or an output of more than 8 axes";
                                return Err(ImportError::TooLarge { what });
                            }
                            self.sides.push(side_of(side.bytes()?)?);
                        }
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// The length of an axis, or its name; `?` without one.
fn side_of(bytes: &[u8]) -> Read<Result<i64, &str>> {
    let mut side = Err("?");
    for field in Fields::new(bytes) {
        match field? {
            (1, length) => side = Ok(length.number()? as i64),
            (2, name) => side = Err(name.text()?),
            _ => {}
        }
    }
    Ok(side)
}
