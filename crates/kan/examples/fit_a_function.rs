//! Fits `exp(sin(πa) + b²)` with a network of two layers, by gradient descent with the
//! kernels only:
//! `cargo run -p updraft-kan --no-default-features --features std --example fit_a_function`.
#![expect(clippy::print_stdout, reason = "an example shows what it found")]

use updraft_kan::slices::{
    Activation, Gradients, Grid, Isa, LayerError, LayerGeometry, Scratch, Weights, backward,
    forward,
};

/// Points of the unit square, along each axis.
const POINTS: usize = 24;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    fit().map(|_| ())
}

/// The mean squared error at the end.
fn fit() -> Result<f32, Box<dyn std::error::Error>> {
    let mut inner = Layer::new(LayerGeometry::try_new(grid(-1.0, 1.0)?, 2, 3, Activation::Silu)?);
    let mut outer = Layer::new(LayerGeometry::try_new(grid(-2.0, 2.0)?, 3, 1, Activation::Silu)?);
    let (mut x, mut target) = (Vec::new(), Vec::new());
    for point in 0..POINTS * POINTS {
        let at = |index: usize| index as f32 / (POINTS - 1) as f32 * 1.98 - 0.99;
        let (a, b) = (at(point % POINTS), at(point / POINTS));
        x.extend([a, b]);
        target.push(((std::f32::consts::PI * a).sin() + b * b).exp());
    }

    let (mut scratch, mut loss) = (Scratch::new(), f32::INFINITY);
    for step in 0..=2000 {
        let hidden = inner.forward(&x, &mut scratch)?;
        let y = outer.forward(&hidden, &mut scratch)?;
        let count = target.len() as f32;
        let errors: Vec<f32> = y.iter().zip(&target).map(|(y, t)| y - t).collect();
        if step % 400 == 0 {
            loss = errors.iter().map(|error| error * error).sum::<f32>() / count;
            println!("step {step}: mean squared error {loss:.5}");
        }
        let dy: Vec<f32> = errors.iter().map(|error| 2.0 * error / count).collect();
        let of_hidden = outer.descend(&hidden, &dy, &mut scratch)?;
        inner.descend(&x, &of_hidden, &mut scratch)?;
    }
    Ok(loss)
}

fn grid(low: f32, high: f32) -> Result<Grid, updraft_kan::slices::GridError> {
    Grid::uniform(low, high, 6, 3)
}

/// A layer with its coefficients.
struct Layer {
    geometry: LayerGeometry,
    spline: Vec<f32>,
}

impl Layer {
    /// Pseudorandom coefficients, the same in every run.
    fn new(geometry: LayerGeometry) -> Self {
        let count = geometry.edges() * geometry.grid().bases();
        let spline = (0..count).map(|index| ((index * 7919) % 101) as f32 / 100.0 - 0.5).collect();
        Self { geometry, spline }
    }

    fn weights(&self) -> Weights<'_> {
        Weights { spline: &self.spline, ..Weights::default() }
    }

    fn forward(&self, x: &[f32], scratch: &mut Scratch) -> Result<Vec<f32>, LayerError> {
        let batch = x.len() / self.geometry.in_features();
        let mut y = vec![0.0; batch * self.geometry.out_features()];
        forward(Isa::detect(), &self.geometry, self.weights(), x, &mut y, scratch, 1)?;
        Ok(y)
    }

    /// Takes a step along the gradient, and returns the gradient of the inputs.
    fn descend(
        &mut self,
        x: &[f32],
        dy: &[f32],
        scratch: &mut Scratch,
    ) -> Result<Vec<f32>, LayerError> {
        const LEARNING_RATE: f32 = 0.3;
        let (mut dx, mut of_spline) = (vec![0.0; x.len()], vec![0.0; self.spline.len()]);
        let gradients =
            Gradients { x: Some(&mut dx), spline: Some(&mut of_spline), ..Gradients::default() };
        let (isa, weights) = (Isa::detect(), self.weights());
        backward(isa, &self.geometry, weights, x, dy, gradients, scratch, 1)?;
        for (coefficient, gradient) in self.spline.iter_mut().zip(of_spline) {
            *coefficient -= LEARNING_RATE * gradient;
        }
        Ok(dx)
    }
}

#[test]
fn the_function_is_fitted() {
    let loss = fit().expect("a layer");
    assert!(loss < 5e-3, "{loss}");
}
