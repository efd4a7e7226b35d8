//! Layers that take each number, pixel or channel for itself.

use super::function::Function;
use super::graph::{Graph, GraphError, Operation, Value, check};

impl Graph {
    /// `max(x, 0)`.
    ///
    /// # Panics
    /// If the value is another graph's.
    pub fn rectifier(&mut self, name: &str, x: Value) -> Value {
        let shape = self.shape(x);
        self.push(name, Operation::Rectifier, &[x], shape)
    }

    /// `f(x)`, number by number; in eight bits a table of 256 codes, whatever the function.
    ///
    /// # Errors
    /// [`GraphError::NotFinite`] for a function `a·x + b` whose `a` or `b` no f32 holds.
    ///
    /// # Panics
    /// If the value is another graph's.
    pub fn function(
        &mut self,
        name: &str,
        x: Value,
        function: &Function,
    ) -> Result<Value, GraphError> {
        let shape = self.shape(x);
        if function.is_rectifier() {
            return Ok(self.rectifier(name, x));
        }
        if let Some([factor, offset]) = function.line() {
            if [factor, offset] == [1.0, 0.0] {
                return Ok(x);
            }
            let (scale, shift) = (vec![factor as f32; shape[0]], vec![offset as f32; shape[0]]);
            return self.affine(name, x, &scale, &shift);
        }
        Ok(self.push(name, Operation::Function(function.clone()), &[x], shape))
    }

    /// `x·scale + shift`, with one number for each channel.
    ///
    /// # Errors
    /// [`GraphError`] for another length, or NaN and infinity.
    pub fn affine(
        &mut self,
        name: &str,
        x: Value,
        scale: &[f32],
        shift: &[f32],
    ) -> Result<Value, GraphError> {
        let shape = self.shape(x);
        check(name, "scales", shape[0], scale)?;
        check(name, "shifts", shape[0], shift)?;
        let (scale, shift) = (scale.to_vec(), shift.to_vec());
        Ok(self.push(name, Operation::Affine { scale, shift }, &[x], shape))
    }

    /// `a + b`.
    ///
    /// # Errors
    /// [`GraphError::Summands`] if their shapes differ.
    pub fn add(&mut self, name: &str, a: Value, b: Value) -> Result<Value, GraphError> {
        let shapes = [a, b].map(|value| self.shape(value));
        if shapes[0] != shapes[1] {
            let layer = name.to_owned();
            return Err(GraphError::Summands { layer, a: shapes[0], b: shapes[1] });
        }
        Ok(self.push(name, Operation::Add, &[a, b], shapes[0]))
    }

    /// `a·b`, number by number; a second factor of one pixel multiplies every pixel of the first.
    ///
    /// # Errors
    /// [`GraphError::Factors`] if their shapes do not fit.
    pub fn multiply(&mut self, name: &str, a: Value, b: Value) -> Result<Value, GraphError> {
        let shapes = [a, b].map(|value| self.shape(value));
        let of_pixels = [shapes[0][0], 1, 1];
        if shapes[1] != shapes[0] && shapes[1] != of_pixels {
            let layer = name.to_owned();
            return Err(GraphError::Factors { layer, a: shapes[0], b: shapes[1] });
        }
        Ok(self.push(name, Operation::Multiply, &[a, b], shapes[0]))
    }

    /// The channels of some values, one value behind the other.
    ///
    /// # Errors
    /// [`GraphError::Joined`] for no value, or values that differ in height or width.
    pub fn concatenate(&mut self, name: &str, values: &[Value]) -> Result<Value, GraphError> {
        let shapes: Vec<_> = values.iter().map(|&value| self.shape(value)).collect();
        let sides = |shape: &[usize; 3]| [shape[1], shape[2]];
        if shapes.is_empty() || shapes.iter().any(|shape| sides(shape) != sides(&shapes[0])) {
            return Err(GraphError::Joined { layer: name.to_owned(), shapes });
        }
        let channels = shapes.iter().map(|shape| shape[0]).sum();
        let shape = [channels, shapes[0][1], shapes[0][2]];
        Ok(self.push(name, Operation::Concatenate, values, shape))
    }

    /// `e^x / Σ e^x` over the channels of each pixel; it has no form in eight bits and runs in f32.
    ///
    /// # Panics
    /// If the value is another graph's.
    pub fn softmax(&mut self, name: &str, x: Value) -> Value {
        let shape = self.shape(x);
        self.push(name, Operation::Softmax, &[x], shape)
    }
}
