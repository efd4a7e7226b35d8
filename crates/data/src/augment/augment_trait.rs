//! The trait of a random transform.

use std::fmt::Debug;

use crate::augment::Canvas;
use crate::digest::Digest;
use crate::error::DataError;
use crate::random::Random;
use crate::raster::RasterSpec;

/// A random change to training samples.
///
/// What it does to a sample is a function of (seed, epoch, sample index) and of the transforms
/// listed before it, for any number of workers. A transform that moves pixels uses the methods of
/// [`Canvas`], which move the target in the same way.
///
/// # Example
/// ```
/// use updraft_data::{
///     Augment, Axis, Canvas, DataError, Digest, Random, Raster, RasterSpec, SampleTarget,
/// };
///
/// /// Turns half of the samples upside down.
/// #[derive(Debug)]
/// struct UpsideDown;
///
/// impl Augment for UpsideDown {
///     fn validate(&self, _: &RasterSpec) -> Result<(), DataError> {
///         Ok(())
///     }
///
///     fn describe(&self, digest: Digest) -> Digest {
///         digest.text("upside down")
///     }
///
///     fn apply(&self, random: &mut Random, canvas: &mut Canvas) {
///         if random.coin() {
///             canvas.flip(Axis::Height);
///         }
///     }
/// }
///
/// let mut canvas = Canvas::default();
/// canvas.load(&Raster::try_new(1, &[2, 1], vec![1_u16, 2])?, &SampleTarget::None)?;
/// UpsideDown.apply(&mut Random::for_augment(7, 0, 0), &mut canvas);
/// assert_eq!(canvas.raster(), Raster::try_new(1, &[2, 1], vec![2_u16, 1])?);
/// # Ok::<(), updraft_data::DataError>(())
/// ```
pub trait Augment: Debug + Send + Sync {
    /// Checks the transform's settings, and whether it supports such samples.
    ///
    /// # Errors
    /// [`DataError::Setting`] naming the setting that is out of range, [`DataError::Augment`] for
    /// samples that the transform does not support.
    fn validate(&self, sample: &RasterSpec) -> Result<(), DataError>;

    /// Adds the transform's name and settings to the fingerprint of a loader's settings.
    fn describe(&self, digest: Digest) -> Digest;

    /// Transforms the sample on the canvas.
    fn apply(&self, random: &mut Random, canvas: &mut Canvas);
}

/// Checks that a setting is in its range.
pub(super) fn check_range(
    name: &'static str,
    value: f32,
    low: f32,
    high: f32,
) -> Result<(), DataError> {
    if (low..=high).contains(&value) {
        return Ok(());
    }
    let expected = format!("{low} to {high}");
    Err(DataError::Setting { name, value: value.to_string(), expected })
}

/// Returns an error for samples without depth.
pub(super) fn needs_depth(transform: &'static str, sample: &RasterSpec) -> Result<(), DataError> {
    if sample.depth.is_some() {
        return Ok(());
    }
    let (expected, got) = ("volumes, [depth, height, width]", sample.to_string());
    Err(DataError::Augment { transform, expected, got })
}
