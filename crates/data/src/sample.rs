//! Reads a sample: a raster and its target.

use std::borrow::Cow;

use crate::digest::Digest;
use crate::raster::Raster;

/// A sample: the input and the target of a model.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample<'a> {
    /// What the model sees.
    pub raster: Raster<'a>,
    /// What it is to predict.
    pub target: SampleTarget<'a>,
}

/// The target of one sample.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum SampleTarget<'a> {
    /// No target, or the sample is its own target.
    None,
    /// A class, counted from 0.
    Class(usize),
    /// Values, equally many for every sample.
    Values(Cow<'a, [f32]>),
    /// An image to predict; augmentation moves it with the sample, interpolated bilinearly.
    Image(Raster<'a>),
    /// A mask: the label of every pixel or voxel, one channel of u8 or u16; augmentation moves it
    /// with the sample, by nearest neighbor.
    Labels(Raster<'a>),
}

impl Sample<'_> {
    /// The bytes of the raster and of the target.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.raster.bytes() + self.target.bytes()
    }

    /// The same sample with borrowed values.
    #[must_use]
    pub fn borrowed(&self) -> Sample<'_> {
        Sample { raster: self.raster.borrowed(), target: self.target.borrowed() }
    }

    /// The same sample with owned values.
    #[must_use]
    pub fn into_owned(self) -> Sample<'static> {
        Sample { raster: self.raster.into_owned(), target: self.target.into_owned() }
    }

    pub(crate) fn describe(&self, digest: Digest) -> Digest {
        self.target.describe(self.raster.describe(digest))
    }
}

impl SampleTarget<'_> {
    /// The target's raster, if it has one.
    #[must_use]
    pub const fn raster(&self) -> Option<&Raster<'_>> {
        match self {
            Self::Image(raster) | Self::Labels(raster) => Some(raster),
            Self::None | Self::Class(_) | Self::Values(_) => None,
        }
    }

    fn bytes(&self) -> usize {
        match self {
            Self::None => 0,
            Self::Class(_) => size_of::<usize>(),
            Self::Values(values) => size_of_val(&**values),
            Self::Image(raster) | Self::Labels(raster) => raster.bytes(),
        }
    }

    /// The bytes of the values, little-endian; a class has none.
    pub(crate) fn to_le_bytes(&self) -> Cow<'_, [u8]> {
        match self {
            Self::None | Self::Class(_) => Cow::Borrowed(&[]),
            Self::Values(values) => values.iter().flat_map(|value| value.to_le_bytes()).collect(),
            Self::Image(raster) | Self::Labels(raster) => raster.pixels().to_le_bytes(),
        }
    }

    fn borrowed(&self) -> SampleTarget<'_> {
        match self {
            Self::None => SampleTarget::None,
            Self::Class(class) => SampleTarget::Class(*class),
            Self::Values(values) => SampleTarget::Values(Cow::Borrowed(values)),
            Self::Image(raster) => SampleTarget::Image(raster.borrowed()),
            Self::Labels(raster) => SampleTarget::Labels(raster.borrowed()),
        }
    }

    fn into_owned(self) -> SampleTarget<'static> {
        match self {
            Self::None => SampleTarget::None,
            Self::Class(class) => SampleTarget::Class(class),
            Self::Values(values) => SampleTarget::Values(Cow::Owned(values.into_owned())),
            Self::Image(raster) => SampleTarget::Image(raster.into_owned()),
            Self::Labels(raster) => SampleTarget::Labels(raster.into_owned()),
        }
    }

    fn describe(&self, digest: Digest) -> Digest {
        match self {
            Self::None => digest.text("no target"),
            Self::Class(class) => digest.text("class").number(*class),
            Self::Values(values) => {
                let digest = digest.text("values").number(values.len());
                values.iter().fold(digest, |digest, &value| digest.float(value))
            }
            Self::Image(raster) => raster.describe(digest.text("image")),
            Self::Labels(raster) => raster.describe(digest.text("labels")),
        }
    }
}
