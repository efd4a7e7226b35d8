//! The `ImageDescription` of a hyperstack that `ImageJ` or Fiji wrote: the axes of its pages.

/// The sizes of the axes; pages are in the order channels, slices, frames, the first fastest.
///
/// # Source
/// `TiffEncoder` and `FileOpener` of `ImageJ` 1 (imagej.net): lines `key=value` after `ImageJ=version`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Hyperstack {
    pub(super) channels: usize,
    pub(super) slices: usize,
    pub(super) frames: usize,
}

/// The start of the description.
const START: &str = "ImageJ=";

/// The number of images that a description of `ImageJ` claims, if it does.
///
/// A file above 4 GiB has one page and all images behind each other, which no TIFF reader sees.
pub(super) fn claimed_images(text: &str) -> Option<&str> {
    let is_own = text.trim_start().starts_with(START);
    let mut values = text.lines().filter_map(|line| line.trim().strip_prefix("images="));
    values.next().filter(|_| is_own)
}

impl Hyperstack {
    /// The axes of a description; `None` if it is not `ImageJ`'s, or names less than two axes with more
    /// than one page: `ImageJ` users store frames as slices, too, so that a single axis is no evidence.
    ///
    /// # Errors
    /// The field and its value, if a size is not a whole number of at least 1.
    pub(super) fn parse(text: &str) -> Result<Option<Self>, (&'static str, String)> {
        if !text.trim_start().starts_with(START) {
            return Ok(None);
        }
        let size = |key: &'static str| {
            let values = text.lines().filter_map(|line| line.trim().split_once('='));
            let value = values.filter(|(name, _)| *name == key).map(|(_, value)| value).next();
            match value.map(|value| (value, value.parse::<usize>())) {
                None => Ok(1),
                Some((_, Ok(size))) if size >= 1 => Ok(size),
                Some((value, _)) => Err((key, value.to_owned())),
            }
        };
        let [channels, slices, frames] = [size("channels")?, size("slices")?, size("frames")?];
        let axes = [channels, slices, frames].into_iter().filter(|&size| size > 1).count();
        Ok((axes >= 2).then_some(Self { channels, slices, frames }))
    }

    /// The pages that the sizes need; `None` if they overflow.
    pub(super) fn pages(self) -> Option<usize> {
        self.channels.checked_mul(self.slices)?.checked_mul(self.frames)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_those_of_the_lines() {
        let text = "ImageJ=1.53t\nimages=12\nchannels=2\nslices=3\nframes=2\nhyperstack=true\n";
        let stack = Hyperstack::parse(text).unwrap().unwrap();
        assert_eq!(stack, Hyperstack { channels: 2, slices: 3, frames: 2 });
        assert_eq!(stack.pages(), Some(12));
        let text = "ImageJ=1.53t\r\nslices=3\r\nchannels=2\r\n";
        let stack = Hyperstack::parse(text).unwrap().unwrap();
        assert_eq!(stack, Hyperstack { channels: 2, slices: 3, frames: 1 });
    }

    #[test]
    fn one_axis_and_other_descriptions_say_nothing() {
        for text in ["ImageJ=1.53t\nslices=10\n", "ImageJ=1.53t\n", "channels=2\nslices=3\n", ""] {
            assert_eq!(Hyperstack::parse(text), Ok(None), "{text}");
        }
    }

    #[test]
    fn images_are_counted_in_descriptions_of_imagej_only() {
        assert_eq!(claimed_images("ImageJ=1.53t\nimages=5000\nslices=5000\n"), Some("5000"));
        assert_eq!(claimed_images("ImageJ=1.53t\nslices=5000\n"), None);
        assert_eq!(claimed_images("images=5000\n"), None);
    }

    #[test]
    fn sizes_that_are_no_numbers_are_named() {
        for (text, fault) in [
            ("ImageJ=1\nchannels=0\nslices=2", ("channels", "0")),
            ("ImageJ=1\nchannels=2\nslices=-2", ("slices", "-2")),
            ("ImageJ=1\nframes=x", ("frames", "x")),
        ] {
            assert_eq!(Hyperstack::parse(text), Err((fault.0, fault.1.to_owned())));
        }
        let huge = Hyperstack { channels: usize::MAX, slices: 2, frames: 1 };
        assert_eq!(huge.pages(), None);
    }
}
