//! Batches of samples for networks with one input or several.

use super::graph::Port;

/// Some samples: for each input of a network the numbers of all of them, `[n, channels, …]`.
///
/// A slice or vector of numbers is the batch of a network with one input; a list of them is one
/// with an element for each input.
pub trait Samples {
    /// The numbers of an input.
    fn input(&self, index: usize) -> &[f32];

    /// The number of inputs.
    fn inputs(&self) -> usize;
}

/// The interface of samples.
pub(super) trait SamplesExt: Samples {
    /// The number of samples; `None` if the inputs are not the same whole number of them.
    fn count(&self, ports: &[Port]) -> Option<usize> {
        let count = self.input(0).len() / ports[0].numbers();
        let mut inputs = ports.iter().enumerate();
        let is_whole = self.inputs() == ports.len()
            && inputs.all(|(index, port)| self.input(index).len() == count * port.numbers());
        is_whole.then_some(count)
    }

    /// The numbers of one sample.
    fn one(&self, input: usize, numbers: usize, sample: usize) -> &[f32] {
        &self.input(input)[sample * numbers..][..numbers]
    }
}

impl<S: Samples + ?Sized> SamplesExt for S {}

impl<S: Samples + ?Sized> Samples for &S {
    fn input(&self, index: usize) -> &[f32] {
        (**self).input(index)
    }

    fn inputs(&self) -> usize {
        (**self).inputs()
    }
}

/// One input.
macro_rules! one {
    ($([$($generics:tt)*] $kind:ty),+) => {$(
        impl<$($generics)*> Samples for $kind {
            fn input(&self, _: usize) -> &[f32] {
                self
            }

            fn inputs(&self) -> usize {
                1
            }
        }
    )+};
}
one!([] Vec<f32>, [] [f32], [const N: usize] [f32; N]);

/// An element for each input.
macro_rules! several {
    ($([$($generics:tt)*] $kind:ty),+) => {$(
        impl<$($generics)*> Samples for $kind {
            fn input(&self, index: usize) -> &[f32] {
                &self[index]
            }

            fn inputs(&self) -> usize {
                self.len()
            }
        }
    )+};
}
several!([] Vec<Vec<f32>>, [] [&[f32]], [const N: usize] [&[f32]; N], [const N: usize] [Vec<f32>; N]);
