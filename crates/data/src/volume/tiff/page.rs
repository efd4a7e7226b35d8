//! One page of a TIFF, with its claims checked against the file's size.

use std::io::{Read, Seek};

use ::tiff::decoder::{ChunkType, Decoder};
use ::tiff::tags::{CompressionMethod, Tag};

use crate::pixels::PixelType;

/// What one page has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Page {
    pub(super) pixel_type: PixelType,
    /// Samples of each pixel.
    pub(super) samples: usize,
    pub(super) height: usize,
    pub(super) width: usize,
}

/// How the values of a page are divided into strips or tiles.
#[derive(Debug, Clone, Copy)]
pub(super) struct Chunks {
    /// Whether each chunk contains one sample per pixel.
    pub(super) is_planar: bool,
    pub(super) height: usize,
    pub(super) width: usize,
    pub(super) across: usize,
    /// Chunks of one plane.
    pub(super) count: usize,
    /// The bytes of all chunks in the file.
    pub(super) bytes: u64,
}

/// Why a page cannot be read.
#[derive(Debug)]
pub(super) enum PageFault {
    /// The decoder's message.
    Decoder(String),
    /// A tag, its value, and the expected value.
    Tag(&'static str, String, String),
}

impl<E: std::error::Error> From<E> for PageFault {
    fn from(error: E) -> Self {
        Self::Decoder(explained(error.to_string()))
    }
}

/// The decoder's message, or what it means for a file.
fn explained(message: String) -> String {
    const MEANINGS: [(&str, &str); 2] = [
        ("failed to fill whole buffer", "it ends before the data that its header promises"),
        (
            "inconsistent sizes encountered",
            "its ImageWidth and ImageLength do not match its strips or tiles",
        ),
    ];
    let known = MEANINGS.into_iter().find(|(part, _)| message.contains(part));
    known.map_or(message, |(_, meaning)| meaning.to_owned())
}

/// The largest expansion of a compressed byte.
///
/// # Source
/// `PackBits`: 128 of 2 (TIFF 6.0, section 9). LZW: a code of at least 9 bits stands for at most
/// 4096 bytes (TIFF 6.0, section 13). Deflate: 1032 (zlib's technical notes).
const fn most_bytes(compression: CompressionMethod) -> Option<u64> {
    match compression {
        CompressionMethod::None => Some(1),
        CompressionMethod::PackBits => Some(64),
        CompressionMethod::LZW => Some(3641),
        CompressionMethod::Deflate | CompressionMethod::OldDeflate => Some(1032),
        _ => None,
    }
}

/// Reads the decoder's current page, and checks that each chunk lies in the file and can contain
/// what it claims.
pub(super) fn check_page<R: Read + Seek>(
    decoder: &mut Decoder<R>,
    file_bytes: u64,
) -> Result<(Page, Chunks), PageFault> {
    let (width, height) = decoder.dimensions()?;
    let samples: u16 = decoder.find_tag_unsigned(Tag::SamplesPerPixel)?.unwrap_or(1);
    let bits = decoder.find_tag_unsigned_vec::<u16>(Tag::BitsPerSample)?.unwrap_or_else(|| vec![1]);
    let format = decoder.find_tag_unsigned_vec::<u16>(Tag::SampleFormat)?.unwrap_or_default();
    let pixel_type = match (bits.first(), format.first().copied().unwrap_or(1)) {
        (Some(8), 1) => PixelType::U8,
        (Some(16), 1) => PixelType::U16,
        (Some(32), 3) => PixelType::F32,
        (bits, format) => {
            let kind = ["of no format", "unsigned", "signed", "floating-point"];
            let kind = kind.get(usize::from(format)).unwrap_or(&"undefined");
            let got = format!("{} bits, {kind}", bits.copied().unwrap_or(0));
            let expected = "unsigned of 8 or 16 bits, or floating-point of 32".to_owned();
            return Err(PageFault::Tag("BitsPerSample", got, expected));
        }
    };
    let delivered = decoder.colortype()?.num_samples();
    if delivered != samples {
        let expected = format!("{delivered}, as its PhotometricInterpretation has");
        return Err(PageFault::Tag("SamplesPerPixel", samples.to_string(), expected));
    }
    let samples = usize::from(samples);
    let page = Page { pixel_type, samples, height: height as usize, width: width as usize };
    let chunks = check_chunks(decoder, &page, file_bytes)?;
    Ok((page, chunks))
}

fn check_chunks<R: Read + Seek>(
    decoder: &mut Decoder<R>,
    page: &Page,
    file_bytes: u64,
) -> Result<Chunks, PageFault> {
    let method: u16 = decoder.find_tag_unsigned(Tag::Compression)?.unwrap_or(1);
    let Some(most) = most_bytes(CompressionMethod::from_u16_exhaustive(method)) else {
        let expected = "1 (none), 5 (LZW), 8 (Deflate) or 32773 (PackBits)".to_owned();
        return Err(PageFault::Tag("Compression", method.to_string(), expected));
    };
    let is_tiled = decoder.get_chunk_type() == ChunkType::Tile;
    let (width, height) = decoder.chunk_dimensions();
    let (width, mut height) = (width as usize, height as usize);
    if !is_tiled {
        height = height.min(page.height);
    }
    let planar: u16 = decoder.find_tag_unsigned(Tag::PlanarConfiguration)?.unwrap_or(1);
    let is_planar = planar == 2 && page.samples > 1;
    let across = page.width.div_ceil(width);
    let count = across * page.height.div_ceil(height);
    let planes = if is_planar { page.samples } else { 1 };
    let (offsets, lengths) = if is_tiled {
        (Tag::TileOffsets, Tag::TileByteCounts)
    } else {
        (Tag::StripOffsets, Tag::StripByteCounts)
    };
    let offsets = decoder.get_tag_u64_vec(offsets)?;
    let lengths = decoder.get_tag_u64_vec(lengths)?;
    if count.checked_mul(planes) != Some(offsets.len()) {
        let (got, expected) = (offsets.len().to_string(), format!("{count} for each plane"));
        return Err(PageFault::Tag("the number of strips or tiles", got, expected));
    }
    let of_pixel = if is_planar { 1 } else { page.samples } * page.pixel_type.bytes();
    for (at, (&offset, &length)) in offsets.iter().zip(&lengths).enumerate() {
        if offset.checked_add(length).is_none_or(|end| end > file_bytes) {
            let got = format!("bytes {offset} to {}", u128::from(offset) + u128::from(length));
            let expected = format!("within the {file_bytes} bytes of the file; get it again");
            return Err(PageFault::Tag("the place of a strip or tile", got, expected));
        }
        let first_row = at % count / across * height;
        let rows = if is_tiled { height } else { height.min(page.height - first_row) };
        let bytes = rows as u128 * width as u128 * of_pixel as u128;
        if bytes > u128::from(length) * u128::from(most) {
            let got = format!("{width}x{rows} pixels in {length} bytes");
            let expected = format!("at most {most} bytes of pixels for each byte");
            return Err(PageFault::Tag("a strip or tile", got, expected));
        }
    }
    // Each chunk lies in the file, so the sum can be as large as the file size times the number of
    // chunks.
    let bytes = lengths.iter().fold(0, |sum: u64, &length| sum.saturating_add(length));
    Ok(Chunks { is_planar, height, width, across, count, bytes })
}
