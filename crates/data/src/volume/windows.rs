//! Whole volumes in adjacent windows, as samples.

use crate::augment::NormalizeChannels;
use crate::digest::Digest;
use crate::error::DataError;
use crate::random::{Purpose, Random};
use crate::raster::Raster;
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
    noise: Option<WindowNoise>,
}

/// Noise of the inputs of windows.
#[derive(Debug, Clone, Copy)]
struct WindowNoise {
    std: f32,
    seed: u64,
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
        Self { patches, regions, noise: None }
    }

    /// Adds normal noise of this standard deviation to the inputs, and none to the targets: the same
    /// noise whenever a window is read. Inputs become f32.
    #[must_use]
    pub fn with_noise(self, std: f32, seed: u64) -> Self {
        Self { noise: Some(WindowNoise { std, seed }), ..self }
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
        let sample = self.patches.sample(*volume, region)?;
        let Some(WindowNoise { std, seed }) = self.noise else { return Ok(sample) };
        let spec = *sample.raster.spec();
        let planes = NormalizeChannels::default().planes(&sample.raster)?;
        let positions = planes.len() / spec.channels;
        let mut random = Random::new(Purpose::WindowNoise, seed, 0, index as u64);
        let noisy = |at: usize| {
            // A raster has the channels of a position next to each other.
            let clean = planes[at % spec.channels * positions + at / spec.channels];
            clean + std * random.normal() as f32
        };
        let values: Vec<f32> = (0..planes.len()).map(noisy).collect();
        let raster = Raster::try_new(spec.channels, &spec.sides(), values)?;
        Ok(Sample { raster, ..sample })
    }

    fn fingerprint(&self) -> String {
        let digest = Digest::new("updraft volume windows").text(&self.patches.fingerprint());
        match self.noise {
            Some(WindowNoise { std, seed }) => digest.float(std).text(&seed.to_string()).hex(),
            None => digest.hex(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::pixels::Pixels;
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

    #[test]
    fn noise_keeps_the_channels_apart() {
        for channels in [1, 2, 3] {
            let values: Vec<u16> = (0..channels * 6 * 8).map(|at| 100 * at as u16).collect();
            let raster = Raster::try_new(channels, &[6, 8], values).unwrap();
            let volume = Volume::try_new("v", vec![raster], [None; 3]).unwrap();
            let input: Arc<dyn crate::volume::VolumeSource> = Arc::new(volume);
            let windows = || {
                let target = VolumeTarget::Image(input.clone());
                let pairs = vec![VolumePair { input: input.clone(), target }];
                let config = PatchConfig::new(&[6, 4], 1);
                VolumeWindows::new(VolumePatches::try_new(pairs, config, &mut |_| {}).unwrap())
            };
            let (plain, noisy) = (windows(), windows().with_noise(1e-6, 1));
            for index in 0..plain.len() {
                let [clean, with] = [&plain, &noisy].map(|windows| {
                    let sample = windows.read(index).unwrap();
                    NormalizeChannels::default().planes(&sample.raster).unwrap()
                });
                assert_ne!(with, clean);
                let near = with.iter().zip(&clean).all(|(a, b)| (a - b).abs() < 1e-4);
                assert!(near, "{channels} channels");
            }
        }
    }

    #[test]
    fn noise_is_that_of_the_window_and_leaves_the_target() {
        let plain = windows(&[40, 60], &[20, 30]);
        let noisy = |std, seed| windows(&[40, 60], &[20, 30]).with_noise(std, seed);
        let planes = |windows: &VolumeWindows, index| {
            let sample = windows.read(index).unwrap();
            let target = sample.target.raster().unwrap().clone().into_owned();
            (NormalizeChannels::default().planes(&sample.raster).unwrap(), target)
        };
        let by = noisy(3.0, 7);
        let mut differences = Vec::new();
        for index in 0..plain.len() {
            let ((clean, target), (input, same)) = (planes(&plain, index), planes(&by, index));
            assert_eq!((&input, target), (&planes(&by, index).0, same), "the second reading");
            assert_ne!(input, planes(&noisy(3.0, 8), index).0, "another seed");
            differences.extend(input.iter().zip(&clean).map(|(a, b)| f64::from(a - b)));
        }
        assert_ne!(differences[..600], differences[600..1200], "another window");
        let count = differences.len() as f64;
        let mean = differences.iter().sum::<f64>() / count;
        let variance = differences.iter().map(|x| x * x).sum::<f64>() / count;
        assert!(mean.abs() < 0.2 && (8.0..10.0).contains(&variance), "{mean} {variance}");
        let prints = [&plain, &by, &noisy(3.0, 8), &noisy(2.0, 7)].map(SampleSource::fingerprint);
        assert_eq!(prints.iter().collect::<std::collections::BTreeSet<_>>().len(), 4);
    }
}
