//! Reading regions of a TIFF.

use std::fs::File;
use std::io::BufReader;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use ::tiff::decoder::{Decoder, Limits};
use ::tiff::tags::Tag;

use crate::digest::Digest;
use crate::error::{DataError, VolumeError};
use crate::pixels::{Element, PixelType};
use crate::raster::{Raster, RasterSpec};
use crate::volume::imagej::{Hyperstack, claimed_images};
use crate::volume::ome::{OmeFault, OmeImage};
use crate::volume::open::{OpenConfig, PageAxis};
use crate::volume::source::check_region;
use crate::volume::tiff::claims::check_first;
use crate::volume::tiff::page::{Chunks, Page, PageFault, check_page};
use crate::volume::{Region, VolumeSource, VolumeSpec};

type FileDecoder = Decoder<BufReader<File>>;

/// A TIFF, `BigTIFF` or OME-TIFF as a volume: read region by region, strip by strip or tile by
/// tile.
///
/// Values are u8, u16 or f32, in strips or tiles, uncompressed or compressed with `PackBits`, LZW
/// or Deflate, with any predictor; the samples of a pixel are channels. Axes and the size of a
/// voxel come from the OME header; without one, [`OpenConfig::pages`] decides what pages are, and
/// the voxel size is unknown. Every page is checked when the file is opened: it must match the
/// others, and no strip may claim more than its bytes can contain. The fingerprint covers name,
/// length and header of the file, not its values.
pub struct TiffVolume {
    path: PathBuf,
    spec: VolumeSpec,
    /// Samples of each pixel of a page.
    samples: usize,
    /// The page of each plane: by frame, then slice, then channel divided by the samples.
    planes: Vec<usize>,
    fingerprint: String,
    file_bytes: u64,
    idle: Mutex<Vec<FileDecoder>>,
}

impl TiffVolume {
    /// Opens a file and checks every page of it.
    ///
    /// # Errors
    /// [`DataError::Open`] for a file that cannot be opened, [`VolumeError::Tiff`] for one that is
    /// damaged or not a TIFF, [`VolumeError::Field`] for a tag or an attribute of the OME header
    /// that is not supported, or that claims more than the file contains.
    pub fn open(path: impl AsRef<Path>, config: &OpenConfig) -> Result<Self, DataError> {
        let path = path.as_ref().to_owned();
        let open = |cause| DataError::Open { path: path.clone(), cause };
        let file_bytes = File::open(&path).and_then(|file| file.metadata()).map_err(open)?.len();
        let (mut decoder, pages, description) = caught(&path, 0, || scan(&path, file_bytes))?;
        let field = |field: &str, got: String, expected: String| {
            let (path, field) = (path.clone(), field.to_owned());
            DataError::from(VolumeError::Field { path, field, got, expected })
        };
        let ome = description.as_deref().filter(|text| text.contains("<OME"));
        let ome = ome.map(|text| OmeImage::parse(text, config.series, pages.len())).transpose();
        let ome =
            ome.map_err(|OmeFault { field: name, got, expected }| field(&name, got, expected))?;
        let first = pages[ome.as_ref().map_or(0, |ome| ome.planes[0])];
        let raster = |channels, depth| RasterSpec {
            pixel_type: first.pixel_type,
            channels,
            depth,
            height: first.height,
            width: first.width,
        };
        let (spec, planes) = match ome {
            Some(ome) => {
                ome.check(first.samples, first.pixel_type, [first.height, first.width]).map_err(
                    |OmeFault { field: name, got, expected }| field(&name, got, expected),
                )?;
                let depth = (ome.slices > 1).then_some(ome.slices);
                let raster = raster(ome.channels, depth);
                (VolumeSpec { raster, frames: ome.frames, voxel_um: ome.voxel_um }, ome.planes)
            }
            None => {
                let count = pages.len();
                let description = description.as_deref().unwrap_or_default();
                if let Some(images) =
                    claimed_images(description).filter(|it| *it != count.to_string())
                {
                    let expected = format!(
                        "{count}, the pages of the file (above 4 GiB, ImageJ writes one page for all \
                         images, which is not supported: save as OME-TIFF)"
                    );
                    return Err(field("`images` of ImageJ's description", images.into(), expected));
                }
                let stack = Hyperstack::parse(description);
                let stack = stack.map_err(|(key, got)| {
                    let expected = "a whole number of at least 1".to_owned();
                    field(&format!("`{key}` of ImageJ's description"), got, expected)
                })?;
                if let Some(stack) = stack.filter(|stack| stack.pages() != Some(count)) {
                    let Hyperstack { channels, slices, frames } = stack;
                    let got = format!("{channels}x{slices}x{frames}");
                    let expected = format!("as many planes as the file has pages, {count}");
                    let name = "channels, slices and frames of ImageJ's description";
                    return Err(field(name, got, expected));
                }
                let (channels, depth, frames) = match (stack, config.pages) {
                    (Some(Hyperstack { channels, slices, frames }), _) => {
                        (channels, (slices > 1).then_some(slices), frames)
                    }
                    _ if count == 1 => (1, None, 1),
                    (None, PageAxis::Depth) => (1, Some(count), 1),
                    (None, PageAxis::Frames) => (1, None, count),
                    (None, PageAxis::Channels) => (count, None, 1),
                };
                let raster = raster(channels * first.samples, depth);
                let spec = VolumeSpec { raster, frames, voxel_um: [None; 3] };
                (spec, (0..count).collect())
            }
        };
        if let Some(&other) = planes.iter().find(|&&page| pages[page] != first) {
            let page = pages[other];
            let text = |page: Page| {
                let Page { pixel_type, samples, height, width } = page;
                format!("{pixel_type}, {samples} samples of {width}x{height}")
            };
            let expected = format!("{}, as its first page", text(first));
            return Err(field(&format!("page {other}"), text(page), expected));
        }
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let digest = Digest::new("updraft tiff").text(&name).number(file_bytes as usize);
        let digest = planes.iter().fold(spec.describe(digest), |digest, &page| digest.number(page));
        let fingerprint = digest.hex();
        // Leaves the decoder at a page that the next read may need.
        let _ = decoder.seek_to_image(0);
        let idle = Mutex::new(vec![decoder]);
        Ok(Self { path, spec, samples: first.samples, planes, fingerprint, file_bytes, idle })
    }

    /// The file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Calls `work` with an idle decoder, or with a new one.
    fn with_decoder<T>(
        &self,
        work: impl FnOnce(&mut FileDecoder) -> Result<T, DataError>,
    ) -> Result<T, DataError> {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut decoder = match idle {
            Some(decoder) => decoder,
            None => caught(&self.path, 0, || open_decoder(&self.path, self.file_bytes))?,
        };
        // A decoder that failed is in an unknown state, so it is dropped.
        let result = work(&mut decoder)?;
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(decoder);
        Ok(result)
    }

    fn read_as<T: Sample>(&self, region: &Region) -> Result<Vec<T>, DataError> {
        let spec = self.spec.of_region(region);
        let mut values = vec![T::default(); spec.values().expect("no more than the file holds")];
        let slice_values = spec.channels * spec.height * spec.width;
        let pages = self.spec.raster.channels / self.samples;
        self.with_decoder(|decoder| {
            let mut chunk = Vec::new();
            for slice in 0..region.sides[0] {
                for group in 0..pages {
                    let at = region.frame * self.spec.sides()[0] + region.origin[0] + slice;
                    let page = self.planes[at * pages + group];
                    let into = Destination {
                        values: &mut values[slice * slice_values..][..slice_values],
                        channels: spec.channels,
                        first_channel: group * self.samples,
                        origin: [region.origin[1], region.origin[2]],
                        sides: [region.sides[1], region.sides[2]],
                    };
                    caught(&self.path, page, || {
                        decoder.seek_to_image(page)?;
                        let (page, chunks) = check_page(decoder, self.file_bytes)?;
                        if page.pixel_type != T::TYPE || page.samples != self.samples {
                            return Err(PageFault::Decoder("the file changed".to_owned()));
                        }
                        read_page(decoder, &page, &chunks, &mut chunk, into)
                    })?;
                }
            }
            Ok(())
        })?;
        Ok(values)
    }
}

impl VolumeSource for TiffVolume {
    fn name(&self) -> String {
        self.path.display().to_string()
    }

    fn spec(&self) -> &VolumeSpec {
        &self.spec
    }

    fn read(&self, region: &Region) -> Result<Raster<'static>, DataError> {
        check_region(&self.spec, region);
        let spec = self.spec.of_region(region);
        Ok(match spec.pixel_type {
            PixelType::U8 => Raster::of(spec, self.read_as::<u8>(region)?),
            PixelType::U16 => Raster::of(spec, self.read_as::<u16>(region)?),
            PixelType::F32 => Raster::of(spec, self.read_as::<f32>(region)?),
        })
    }

    fn fingerprint(&self) -> String {
        self.fingerprint.clone()
    }
}

/// The destination of one page's values: a part of `[rows, columns, channels]`.
struct Destination<'a, T> {
    values: &'a mut [T],
    channels: usize,
    first_channel: usize,
    origin: [usize; 2],
    sides: [usize; 2],
}

/// Decodes the chunks that overlap a part of a page.
fn read_page<T: Sample>(
    decoder: &mut FileDecoder,
    page: &Page,
    chunks: &Chunks,
    bytes: &mut Vec<u8>,
    into: Destination<'_, T>,
) -> Result<(), PageFault> {
    let ([top, left], [rows, columns]) = (into.origin, into.sides);
    let samples = if chunks.is_planar { 1 } else { page.samples };
    for plane in 0..page.samples / samples {
        for down in top / chunks.height..=(top + rows - 1) / chunks.height {
            for across in left / chunks.width..=(left + columns - 1) / chunks.width {
                let index = plane * chunks.count + down * chunks.across + across;
                let index = u32::try_from(index)?;
                let layout = decoder.image_chunk_buffer_layout(index)?;
                bytes.resize(layout.len, 0);
                decoder.read_chunk_bytes(index, bytes)?;
                let (chunk_top, chunk_left) = (down * chunks.height, across * chunks.width);
                let chunk_columns = chunks.width.min(page.width - chunk_left);
                let stride = layout.row_stride.map_or(0, |stride| stride.get());
                let shown = left.max(chunk_left)..(left + columns).min(chunk_left + chunk_columns);
                for row in top.max(chunk_top)..(top + rows).min(chunk_top + chunks.height) {
                    let first = (shown.start - chunk_left) * samples * size_of::<T>();
                    let from = &bytes[(row - chunk_top) * stride + first..];
                    let from = &from[..shown.len() * samples * size_of::<T>()];
                    let to = (row - top) * columns + shown.start - left;
                    let to = &mut into.values[to * into.channels..][..shown.len() * into.channels];
                    let first = into.first_channel + plane;
                    let pixels = to.chunks_exact_mut(into.channels);
                    for (to, from) in pixels.zip(from.chunks_exact(samples * size_of::<T>())) {
                        let from = from.chunks_exact(size_of::<T>()).map(T::from_bytes);
                        for (to, value) in to[first..][..samples].iter_mut().zip(from) {
                            *to = value;
                        }
                    }
                }
            }
        }
    }
    Ok(())
}

/// A value in the decoder's bytes, in native byte order.
trait Sample: Element {
    const TYPE: PixelType;

    fn from_bytes(bytes: &[u8]) -> Self;
}

macro_rules! sample {
    ($type:ty, $kind:ident) => {
        impl Sample for $type {
            const TYPE: PixelType = PixelType::$kind;

            fn from_bytes(bytes: &[u8]) -> Self {
                Self::from_ne_bytes(bytes.try_into().expect("as many bytes as the type has"))
            }
        }
    };
}

sample!(u8, U8);
sample!(u16, U16);
sample!(f32, F32);

/// A decoder whose memory for a tag or a chunk is limited by the file's size.
fn open_decoder(path: &Path, file_bytes: u64) -> Result<FileDecoder, PageFault> {
    let mut reader = BufReader::new(File::open(path)?);
    check_first(&mut reader, file_bytes)?;
    let decoder = Decoder::new(reader)?;
    let mut limits = Limits::default();
    let bytes = usize::try_from(file_bytes).unwrap_or(usize::MAX);
    limits.ifd_value_size = bytes;
    limits.intermediate_buffer_size = bytes;
    // This limits the values of a tag, each of which takes 32 bytes; `check_page` limits the size
    // of chunks.
    limits.decoding_buffer_size = bytes.saturating_mul(32);
    Ok(decoder.with_limits(limits))
}

/// Every page, and the description of the first one.
fn scan(
    path: &Path,
    file_bytes: u64,
) -> Result<(FileDecoder, Vec<Page>, Option<String>), PageFault> {
    let mut decoder = open_decoder(path, file_bytes)?;
    let description = decoder.find_tag(Tag::ImageDescription)?;
    let description = description.map(|value| value.into_string()).transpose().unwrap_or_default();
    let (mut pages, mut bytes) = (Vec::new(), 0_u64);
    loop {
        let (page, chunks) = check_page(&mut decoder, file_bytes)?;
        pages.push(page);
        // Otherwise a small file with one strip shared by many pages would be a huge volume.
        bytes = bytes.saturating_add(chunks.bytes);
        if bytes > file_bytes {
            let expected = format!("at most the {file_bytes} bytes of the file, each once");
            return Err(PageFault::Tag(
                "the bytes of all strips or tiles",
                bytes.to_string(),
                expected,
            ));
        }
        if !decoder.more_images() {
            break;
        }
        decoder.seek_to_image(pages.len())?;
    }
    Ok((decoder, pages, description))
}

/// Runs the decoder; a panic (`tiff` 0.11 multiplies header values unchecked) is reported as a
/// damaged file.
fn caught<T>(
    path: &Path,
    page: usize,
    work: impl FnOnce() -> Result<T, PageFault>,
) -> Result<T, DataError> {
    let result = catch_unwind(AssertUnwindSafe(work));
    let result =
        result.unwrap_or_else(|_| Err(PageFault::Decoder("a number overflows".to_owned())));
    result.map_err(|fault| {
        let path = path.to_owned();
        DataError::from(match fault {
            PageFault::Decoder(cause) => VolumeError::Tiff { path, page, cause },
            PageFault::Tag(tag, got, expected) => {
                let field = tag.to_owned();
                VolumeError::Field { path, field, got, expected }
            }
        })
    })
}
