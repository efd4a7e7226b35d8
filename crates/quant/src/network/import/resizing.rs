//! `Resize` of images and lines.

use super::error::Read;
use super::importer::{Importer, Meaning};
use super::message::Node;
use super::window::pair;
use crate::kernels::Resizing;

/// How far a scale may be from the ratio of two sides.
const NEAR: f32 = 1e-5;

impl<'a> Importer<'a> {
    pub(super) fn resize(&mut self, node: &Node<'a>) -> Read<()> {
        let x = self.input_placed(node, 0)?;
        let shape = x.shape();
        let from = shape.get(1..).unwrap_or_default();
        if !(1..=2).contains(&from.len()) || node.attribute("axes").is_some() {
            return self.refuse("it must resize images or lines, with sides for all axes");
        }
        if node.text("keep_aspect_ratio_policy", "stretch") != "stretch" {
            return self.refuse("its `keep_aspect_ratio_policy` must be stretch");
        }
        let to = self.sizes(node, &shape)?;
        let is_multiple = from.iter().zip(&to).all(|(&from, &to)| to.is_multiple_of(from));
        let mode = node.text("mode", "nearest");
        let places = node.text("coordinate_transformation_mode", "half_pixel");
        let rounding = node.text("nearest_mode", "round_prefer_floor");
        let resizing = match (mode, places, rounding) {
            ("nearest", "asymmetric", "floor") => Resizing::Nearest,
            ("nearest", "half_pixel", "round_prefer_ceil") => Resizing::NearestExact,
            // With whole factors no place is in the middle between two pixels.
            ("nearest", "half_pixel", "round_prefer_floor") if is_multiple => {
                Resizing::NearestExact
            }
            ("linear", "half_pixel", _) => Resizing::Linear,
            ("linear", "pytorch_half_pixel", _) if to.iter().all(|&side| side > 1) => {
                Resizing::Linear
            }
            ("linear", "align_corners", _) => Resizing::LinearCorners,
            _ => {
                return self.refuse(
                    "its mode must be linear (half_pixel, align_corners) or nearest (asymmetric \
                     with floor, half_pixel)",
                );
            }
        };
        if node.integer("antialias", 0) != 0 {
            return self.refuse("it has `antialias`");
        }
        let name = self.layer_name();
        let y = self.graph.resize(&name, x.value, pair(&to, 1), resizing);
        let y = self.record(y, &[&x])?;
        self.set_value(node, y, x.is_coded && resizing.is_nearest())
    }

    /// The sides after the channels, by sizes or by scales.
    fn sizes(&self, node: &Node<'a>, shape: &[usize]) -> Read<Vec<usize>> {
        let reason = "its sizes or scales must be constants that keep batch and channels";
        if node.input(3).is_some() {
            let sizes = self.integers(node, 3)?;
            let sizes = sizes.iter().map(|&side| self.length(side)).collect::<Read<Vec<_>>>()?;
            return match sizes.get(1) == Some(&shape[0]) && sizes.len() == 1 + shape.len() {
                true => Ok(sizes[2..].to_vec()),
                false => self.refuse(reason),
            };
        }
        let scales = match self.meaning(node, 2)? {
            Meaning::Constant(constant) => constant.reals(),
            _ => None,
        };
        let Some(scales) = scales.filter(|scales| scales.len() == 1 + shape.len()) else {
            return self.refuse(reason);
        };
        if scales[..2] != [1.0, 1.0] {
            return self.refuse(reason);
        }
        let mut sides = Vec::new();
        for (&from, scale) in shape[1..].iter().zip(&scales[2..]) {
            let to = (from as f32 * scale).floor();
            if (to / from as f32 / scale - 1.0).abs() > NEAR || !(1.0..16e6).contains(&to) {
                return self.refuse("its scales must be ratios of whole sides; use sizes");
            }
            sides.push(to as usize);
        }
        Ok(sides)
    }
}
