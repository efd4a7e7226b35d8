//! A convolution of functions in closed form, and the partition of its channels.

use std::ops::Range;

use updraft_simd::Isa;

use super::region::Region;
use crate::kernels::coefficients::Coefficients;
use crate::kernels::conv::{ConvGeometry, Shapes};
use crate::kernels::dense::layer::{DenseLayer, DenseWeights, Parameters, TERMS};
use crate::kernels::dense::pixels::Pixels;
use crate::kernels::winograd;

/// What the rows of a tile divide on every instruction set.
const TILE: usize = 12;

/// A convolution of sums of functions in closed form.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DenseConv<'a> {
    /// The functions of a pixel's channels; the outputs are those of a group.
    pub(crate) pixel: &'a DenseLayer,
    /// The sizes; its grid is not used.
    pub(crate) geometry: &'a ConvGeometry,
}

impl<'a> DenseConv<'a> {
    /// The plan for Winograd's algorithm, where it takes less time than computing the products of every
    /// tap, with so many parameters of a channel's functions.
    pub(in super::super) fn plan(
        &self,
        isa: Isa,
        parameters: usize,
        has_base: bool,
        shapes: Shapes,
    ) -> Option<winograd::Plan> {
        let DenseLayer { inputs, groups, .. } = *self.pixel;
        // The functions of a vector's channels have the same parameters.
        let are_whole = || {
            let counts = [inputs / groups, inputs / self.geometry.groups];
            counts.iter().all(|count| count.is_multiple_of(isa.lanes()))
        };
        let are_equal = groups == 1 || parameters == 0 || are_whole();
        let terms = self.pixel.count() + usize::from(has_base);
        are_equal.then(|| winograd::Plan::of(isa, self.geometry, shapes, terms, terms)).flatten()
    }

    /// The same with the functions.
    pub(super) fn by_winograd(
        self,
        isa: Isa,
        parameters: &'a Parameters<'a>,
        has_base: bool,
        shapes: Shapes,
    ) -> Option<(winograd::Plan, Pixels<'a>)> {
        let plan = self.plan(isa, parameters.trained(), has_base, shapes)?;
        Some((plan, Pixels { layer: self.pixel, parameters, has_base }))
    }

    /// What the values of the functions are multiplied with.
    pub(super) fn coefficients<'w>(&self, weights: &DenseWeights<'w>) -> Coefficients<'w> {
        Coefficients {
            functions: weights.coefficients,
            count: self.pixel.count(),
            base: weights.base,
            factors: None,
            outputs: self.pixel.outputs,
        }
    }
}

/// What a pass over a convolution's images needs to know.
pub(super) struct Plan<'a> {
    pub(super) conv: DenseConv<'a>,
    pub(super) shapes: Shapes,
    pub(super) region: Region,
    /// Functions of a channel, and the base branch.
    pub(super) terms: usize,
}

impl<'a> Plan<'a> {
    pub(super) fn new(conv: DenseConv<'a>, shapes: Shapes, has_base: bool) -> Self {
        let terms = conv.pixel.count() + usize::from(has_base);
        Self { conv, shapes, region: Region::new(conv.geometry, shapes), terms }
    }

    /// Input channels of a group.
    pub(super) const fn of_group(&self) -> usize {
        self.conv.pixel.inputs / self.conv.geometry.groups
    }

    /// Channels whose functions are evaluated together.
    fn chunk(&self) -> usize {
        (TERMS / self.terms).clamp(1, self.of_group())
    }

    /// The chunks of a group's channels.
    pub(super) fn chunks_of(&self, group: usize) -> impl Iterator<Item = Range<usize>> + use<> {
        let (of_group, chunk) = (self.of_group(), self.chunk());
        let (first, end) = (group * of_group, (group + 1) * of_group);
        (first..end).step_by(chunk).map(move |first| first..(first + chunk).min(end))
    }

    /// Those of all groups, each with its group.
    pub(super) fn chunks(&self) -> impl Iterator<Item = (usize, Range<usize>)> + '_ {
        let groups = 0..self.conv.geometry.groups;
        groups.flat_map(|group| self.chunks_of(group).map(move |chunk| (group, chunk)))
    }

    pub(super) fn chunk_count(&self) -> usize {
        self.conv.geometry.groups * self.of_group().div_ceil(self.chunk())
    }

    /// Terms of a whole chunk.
    pub(super) fn most_terms(&self) -> usize {
        self.chunk() * self.terms
    }

    /// Coefficients and weights of the base branch.
    pub(super) fn weights(&self) -> usize {
        let edges = self.conv.geometry.taps() * self.conv.pixel.outputs;
        self.conv.pixel.inputs * edges * self.terms
    }

    /// Outputs with those that fill the last tile.
    pub(super) const fn tiled_outputs(&self) -> usize {
        self.conv.pixel.outputs.next_multiple_of(TILE)
    }

    /// A tap's weights of some channels: for each channel the rows of its functions, and that of the
    /// base branch.
    pub(super) fn rows_of<'w>(
        &self,
        weights: &DenseWeights<'w>,
        tap: usize,
        channels: Range<usize>,
    ) -> impl Iterator<Item = (&'w [f32], Option<&'w [f32]>)> + use<'w> {
        let DenseWeights { coefficients, base, .. } = *weights;
        let (taps, outputs) = (self.conv.geometry.taps(), self.conv.pixel.outputs);
        let count = self.conv.pixel.count() * outputs;
        channels.map(move |channel| {
            let input = channel * taps + tap;
            let of_base = base.map(|base| &base[input * outputs..][..outputs]);
            (&coefficients[input * count..][..count], of_base)
        })
    }
}
