//! Numbers of a tensor in another order: axes that are turned, cut or repeated.

use std::sync::{Arc, OnceLock};

use serde::{Deserialize, Serialize};

use super::definition::{
    Around, Codes, FloatJob, Job, Kernel, Operation, Packed, Registered, Work,
};
use super::error::{OperationError, check_count};
use super::parameters::{Lens, Parameters};
#[cfg(feature = "cube")]
use super::window::channels_and_pixels;
#[cfg(feature = "cube")]
use crate::kernels::cube::{CubeCopies, Places, Uploaded};
use crate::network::{Attribute, Graph, GraphError, Node, Value};

/// The most axes that a file may declare.
const MOST_AXES: usize = 16;

/// Row `i` of the output, in row-major order, is number `offset + Σ place·stride` of the input, with
/// the places of `i` along the axes.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Rearrange {
    shape: Vec<usize>,
    /// Length and stride, from the outermost to the innermost.
    axes: Vec<[usize; 2]>,
    offset: usize,
}

impl Rearrange {
    /// The place of each number in the input, channels first.
    fn places(&self) -> Vec<usize> {
        let mut places = vec![self.offset];
        for &[len, stride] in &self.axes {
            let of = |&first: &usize| (0..len).map(move |at| first + at * stride);
            places = places.iter().flat_map(of).collect();
        }
        places
    }

    /// The same with both tensors in the order of codes, pixels first.
    fn places_of_codes(&self, x: &[usize]) -> Vec<u32> {
        let pixels = |shape: &[usize]| shape[1..].iter().product::<usize>();
        let (of_x, of_y) = (pixels(x), pixels(&self.shape));
        let (channels_x, channels_y) = (x[0], self.shape[0]);
        let places = self.places();
        let place = |code: usize| {
            let from = places[code % channels_y * of_y + code / channels_y];
            (from % of_x * channels_x + from / of_x) as u32
        };
        (0..places.len()).map(place).collect()
    }
}

impl Graph {
    /// A tensor of `shape` whose numbers, in row-major order, are those at `offset + Σ place·stride`
    /// of the input, with the places along `axes`, each a length and a stride, outermost first.
    ///
    /// It turns axes, cuts out parts and repeats numbers. In int8, codes are copied.
    ///
    /// # Errors
    /// [`GraphError`] if the axes have another number of places than the shape, or reach beyond the
    /// input.
    pub fn rearrange(
        &mut self,
        name: &str,
        x: Value,
        shape: &[usize],
        axes: &[[usize; 2]],
        offset: usize,
    ) -> Result<Value, GraphError> {
        let operation = Rearrange { shape: shape.to_vec(), axes: axes.to_vec(), offset };
        self.layer(name, Work::new(operation, Parameters::default()), &[x])
    }
}

impl Operation for Rearrange {
    fn shape(&self, x: &[Vec<usize>], lens: Lens) -> Result<Vec<usize>, OperationError> {
        check_count(x, 1)?;
        lens.check(0, 0)?;
        let Self { shape, axes, offset } = self;
        let product = |mut lens: Box<dyn Iterator<Item = usize> + '_>| {
            lens.try_fold(1_usize, |product, len| product.checked_mul(len))
        };
        let numbers = product(Box::new(shape.iter().copied()));
        let places = product(Box::new(axes.iter().map(|&[len, _]| len)));
        let last = axes.iter().try_fold(*offset, |last, &[len, stride]| {
            len.checked_sub(1)?.checked_mul(stride)?.checked_add(last)
        });
        let count: usize = x[0].iter().product();
        let fits = axes.len() <= MOST_AXES
            && !shape.is_empty()
            && numbers.is_some_and(|numbers| numbers > 0 && numbers <= u32::MAX as usize)
            && numbers == places
            && last.is_some_and(|last| last < count)
            && count <= u32::MAX as usize;
        match fits {
            true => Ok(shape.clone()),
            false => Err(OperationError::Places { from: x[0].clone(), to: shape.clone() }),
        }
    }

    fn run_f32(&self, FloatJob { x, y, .. }: FloatJob<'_>) {
        let Some((&[len, stride], outer)) = self.axes.split_last() else {
            y[0] = x[0][self.offset];
            return;
        };
        let outer = Self { axes: outer.to_vec(), shape: Vec::new(), offset: self.offset };
        for (y, first) in y.chunks_exact_mut(len).zip(outer.places()) {
            for (at, y) in y.iter_mut().enumerate() {
                *y = x[0][first + at * stride];
            }
        }
    }

    fn pack(&self, around: &Around<'_>) -> Packed {
        let x = around.shapes.x[0].clone();
        Ok(Some(Arc::new(Copies { order: self.clone(), x, places: OnceLock::new() })))
    }

    #[cfg(feature = "cube")]
    fn upload(&self, client: &cubecl::client::Client, around: &Around<'_>) -> Uploaded {
        let [x, y] = [&around.shapes.x[0], &self.shape];
        let [channels, pixels] = channels_and_pixels(y);
        let [channels_of_x, pixels_of_x] = channels_and_pixels(x);
        let places = self.places_of_codes(x).into_iter().map(|place| place as usize);
        let places = Places::of_samples(channels, [pixels_of_x, channels_of_x], places);
        Ok(Box::new(CubeCopies::new(client, [channels, pixels], &[(places, None)])))
    }

    /// A `Gather` from the flattened tensor.
    fn export(&self, node: &mut Node<'_>) -> String {
        let count = node.shapes().x[0].iter().product();
        let x = node.read_as(0, &[count]);
        let places: Vec<i64> = self.places().into_iter().map(|place| place as i64).collect();
        let places = node.integers(".places", &places);
        let axis = vec![("axis", Attribute::Integer(1))];
        let y = node.push("Gather", &[&x, &places], "", axis);
        let shape = self.shape.clone();
        if shape.len() == 1 { y } else { node.shaped(&y, &shape) }
    }

    fn keeps_scheme(&self) -> bool {
        true
    }
}

impl Registered for Rearrange {
    const KIND: &'static str = "rearrange";
}

/// Copies codes in another order.
#[derive(Debug)]
struct Copies {
    order: Rearrange,
    /// The shape of the input.
    x: Vec<usize>,
    /// The place in the input of each code of the output, computed by the first run: a file of few
    /// bytes may declare a large output.
    places: OnceLock<Vec<u32>>,
}

impl Kernel for Copies {
    fn run(&self, x: Codes<'_>, y: &mut [u8], _: &mut Job<'_>) {
        let places = self.places.get_or_init(|| self.order.places_of_codes(&self.x));
        let len: usize = self.x.iter().product();
        for (x, y) in x(0).chunks_exact(len).zip(y.chunks_exact_mut(places.len())) {
            for (y, &place) in y.iter_mut().zip(places) {
                *y = x[place as usize];
            }
        }
    }
}
