//! Whole volumes in adjacent windows, as samples.

use crate::digest::Digest;
use crate::error::DataError;
use crate::sample::Sample;
use crate::source::SampleSource;
use crate::volume::{Region, VolumePatches};

/// All volumes of a [`VolumePatches`], frame by frame, in adjacent windows of a patch's size, for
/// evaluation.
///
/// If a side is not a multiple of the window's, the last window is moved back to the end, so a part
/// of it appears twice. The windows and their order depend only on the volumes and the sides.
pub struct VolumeWindows {
    patches: VolumePatches,
    /// The volume and the region of each window.
    regions: Vec<(usize, Region)>,
}

impl VolumeWindows {
    /// Creates the windows of volumes that were checked and normalized for patches.
    #[must_use]
    pub fn new(patches: VolumePatches) -> Self {
        let mut regions = Vec::new();
        let sides = patches.region_sides();
        for (volume, pair) in patches.pairs().iter().enumerate() {
            let spec = pair.input.spec();
            let [depths, rows, columns] =
                [0, 1, 2].map(|axis| origins(spec.sides()[axis], sides[axis]));
            for frame in 0..spec.frames {
                for &depth in &depths {
                    for &row in &rows {
                        let region = |column| Region { frame, origin: [depth, row, column], sides };
                        regions.extend(columns.iter().map(|&column| (volume, region(column))));
                    }
                }
            }
        }
        Self { patches, regions }
    }

    /// The volumes of the windows.
    #[must_use]
    pub const fn patches(&self) -> &VolumePatches {
        &self.patches
    }
}

/// The starts of windows along an axis.
fn origins(side: usize, window: usize) -> Vec<usize> {
    (0..side.div_ceil(window)).map(|at| (at * window).min(side - window)).collect()
}

impl SampleSource for VolumeWindows {
    fn len(&self) -> usize {
        self.regions.len()
    }

    fn name(&self, index: usize) -> String {
        let (volume, Region { frame, origin, .. }) = &self.regions[index];
        let name = self.patches.pairs()[*volume].input.name();
        format!("frame {frame} of {name}, the window at {origin:?}")
    }

    fn read(&self, index: usize) -> Result<Sample<'_>, DataError> {
        let (volume, region) = &self.regions[index];
        self.patches.sample(*volume, region)
    }

    fn fingerprint(&self) -> String {
        Digest::new("updraft volume windows").text(&self.patches.fingerprint()).hex()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::pixels::Pixels;
    use crate::raster::Raster;
    use crate::volume::{PatchConfig, Volume, VolumePair, VolumeTarget};

    fn windows(sides: &[usize], patch: &[usize]) -> VolumeWindows {
        let values: Vec<u8> = (0..sides.iter().product::<usize>()).map(|at| at as u8).collect();
        let raster = Raster::try_new(1, sides, values).unwrap();
        let volume = Volume::try_new("v", vec![raster.clone(), raster], [None; 3]).unwrap();
        let volume: Arc<dyn crate::volume::VolumeSource> = Arc::new(volume);
        let target = VolumeTarget::Labels(volume.clone());
        let pairs = vec![VolumePair { input: volume, target }];
        let config = PatchConfig::new(patch, 1);
        VolumeWindows::new(VolumePatches::try_new(pairs, config, &mut |_| {}).unwrap())
    }

    #[test]
    fn every_position_of_every_frame_is_seen() {
        for (sides, patch, expected) in [
            (vec![5, 7], vec![2, 3], 2 * 3 * 3),
            (vec![2, 3, 4], vec![1, 3, 2], 2 * 2 * 2),
            // Slices of a volume.
            (vec![2, 3, 4], vec![3, 4], 2 * 2),
        ] {
            let windows = windows(&sides, &patch);
            assert_eq!(windows.len(), expected, "{sides:?} {patch:?}");
            let mut seen = vec![false; sides.iter().product()];
            for index in 0..windows.len() {
                let sample = windows.read(index).unwrap();
                assert_eq!(sample.raster.spec().sides(), patch, "{}", windows.name(index));
                let Pixels::U8(values) = sample.raster.pixels() else { panic!("u8") };
                values.iter().for_each(|&value| seen[usize::from(value)] = true);
                assert_eq!(sample.target.raster().unwrap().pixels(), sample.raster.pixels());
            }
            assert!(seen.into_iter().all(|seen| seen), "{sides:?} {patch:?}");
        }
    }
}
