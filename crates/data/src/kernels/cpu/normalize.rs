//! Normalization of bytes, vectorized.

use updraft_simd::dispatch;

use crate::pixels::Element;

/// The map `byte · scale + shift`: one rounded product and one rounded sum in f32, never fused, so
/// that all instruction sets compute the same bits.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Affine {
    pub(crate) scale: f32,
    pub(crate) shift: f32,
}

impl Affine {
    /// `(byte / 255 − mean) / std`.
    pub(crate) fn normalizing(mean: f32, std: f32) -> Self {
        Self::scaled(255.0, mean, std)
    }

    /// `(value / one − mean) / std`.
    pub(crate) fn scaled(one: f64, mean: f32, std: f32) -> Self {
        let (mean, std) = (f64::from(mean), f64::from(std));
        Self { scale: (1.0 / (one * std)) as f32, shift: (-mean / std) as f32 }
    }

    #[inline(always)]
    fn apply<T: Element>(self, value: T) -> f32 {
        value.to_f32() * self.scale + self.shift
    }
}

/// Appends values of any number of channels as planes, each with its own scale and shift.
///
/// Values of an incomplete last pixel are ignored.
pub(crate) fn append_channels<T: Element>(values: &[T], affine: &[Affine], to: &mut Vec<f32>) {
    match affine {
        [only] => to.extend(values.iter().map(|&value| only.apply(value))),
        _ => {
            for (channel, map) in affine.iter().enumerate() {
                let pixels = values.chunks_exact(affine.len());
                to.extend(pixels.map(|pixel| map.apply(pixel[channel])));
            }
        }
    }
}

dispatch! {
    /// Appends every byte as a number.
    pub(crate) fn append_values(_simd, bytes: &[u8], affine: Affine, to: &mut Vec<f32>) {
        to.extend(bytes.iter().map(|&byte| affine.apply(byte)));
    }

    /// Appends the pixels of an image of three channels as three planes, each with its own scale
    /// and shift.
    ///
    /// Bytes of an incomplete last pixel are ignored.
    pub(crate) fn append_planes(
        _simd,
        pixels: &[u8],
        affine: &[Affine; 3],
        to: &mut Vec<f32>,
    ) {
        let (pixels, _) = pixels.as_chunks::<3>();
        for (channel, affine) in affine.iter().enumerate() {
            to.extend(pixels.iter().map(|pixel| affine.apply(pixel[channel])));
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use updraft_simd::Isa;

    use super::*;

    fn bits(values: &[f32]) -> Vec<u32> {
        values.iter().map(|value| value.to_bits()).collect()
    }

    proptest! {
        #[test]
        fn every_path_computes_the_bits_of_the_formula(
            bytes in prop::collection::vec(any::<u8>(), 0..300),
            maps in prop::array::uniform3((-4.0_f32..4.0, -4.0_f32..4.0)),
        ) {
            let maps = maps.map(|(scale, shift)| Affine { scale, shift });
            let formula = |map: &Affine, byte: &u8| f32::from(*byte) * map.scale + map.shift;
            let values: Vec<f32> = bytes.iter().map(|byte| formula(&maps[0], byte)).collect();
            let mut planes = Vec::new();
            for (channel, map) in maps.iter().enumerate() {
                let whole = bytes.chunks_exact(3);
                planes.extend(whole.map(|pixel| formula(map, &pixel[channel])));
            }
            for isa in Isa::BASES.into_iter().filter(|isa| isa.is_available()) {
                let vectors = isa.vectors();
                let mut got = vec![7.0];
                append_values(vectors, &bytes, maps[0], &mut got);
                prop_assert_eq!(bits(&got[1..]), bits(&values), "{}", isa);
                let mut got = vec![7.0];
                append_planes(vectors, &bytes, &maps, &mut got);
                prop_assert_eq!(bits(&got[1..]), bits(&planes), "{}", isa);
            }
        }
    }
}
