//! The OME header of a TIFF: axes and voxel size.

use std::fmt::Write as _;

use roxmltree::{Document, Node};

use crate::pixels::PixelType;
use crate::volume::VolumeSpec;
use crate::volume::spec::VOXEL_UM;

/// Reads an image of the header, and the page of each plane.
#[derive(Debug)]
pub(super) struct OmeImage {
    pub(super) channels: usize,
    pub(super) slices: usize,
    pub(super) frames: usize,
    pub(super) voxel_um: [Option<f64>; 3],
    /// By frame, then slice, then channel divided by the samples of a page.
    pub(super) planes: Vec<usize>,
    height: usize,
    width: usize,
    pixel_type: String,
    samples: usize,
}

/// An attribute of the header, its value, and the expected value.
#[derive(Debug)]
pub(super) struct OmeFault {
    pub(super) field: String,
    pub(super) got: String,
    pub(super) expected: String,
}

fn fault<T>(field: &str, got: impl ToString, expected: impl Into<String>) -> Result<T, OmeFault> {
    let field = format!("{field} of the OME header");
    Err(OmeFault { field, got: got.to_string(), expected: expected.into() })
}

impl OmeImage {
    /// Reads the image with the given number of a file with this many pages.
    ///
    /// # Source
    /// OME-TIFF specification, OME model 6 (openmicroscopy.org), elements `Pixels` and `TiffData`.
    pub(super) fn parse(text: &str, series: usize, pages: usize) -> Result<Self, OmeFault> {
        let document = match Document::parse(text) {
            Ok(document) => document,
            Err(error) => return fault("the XML", error, "well-formed XML"),
        };
        let images = document.root_element().children().filter(|node| is(node, "Image"));
        let images: Vec<_> = images.filter_map(|image| child(&image, "Pixels")).collect();
        let Some(pixels) = images.get(series) else {
            let expected = format!("more than {series}, the series asked for");
            return fault("the number of images", images.len(), expected);
        };
        let size = |name: &str| match number::<usize>(pixels, name)? {
            Some(size) if size > 0 => Ok(size),
            size => fault(name, size.unwrap_or(0), "a number of at least 1"),
        };
        let (channels, slices, frames) = (size("SizeC")?, size("SizeZ")?, size("SizeT")?);
        let samples = match pixels.children().find(|node| is(node, "Channel")) {
            Some(channel) => number(&channel, "SamplesPerPixel")?.unwrap_or(1_usize),
            None => 1,
        };
        if samples == 0 || !channels.is_multiple_of(samples) {
            return fault("SamplesPerPixel", samples, format!("a divisor of SizeC, {channels}"));
        }
        let groups = channels / samples;
        let planes = groups.checked_mul(slices).and_then(|planes| planes.checked_mul(frames));
        if planes.is_none_or(|planes| planes > pages) {
            let got = format!("{channels}x{slices}x{frames}");
            let expected = format!("no more planes than the file has pages, {pages}");
            return fault("SizeC, SizeZ and SizeT", got, expected);
        }
        Ok(Self {
            planes: plane_pages(pixels, [groups, slices, frames], pages)?,
            voxel_um: [voxel(pixels, "Z")?, voxel(pixels, "Y")?, voxel(pixels, "X")?],
            height: size("SizeY")?,
            width: size("SizeX")?,
            pixel_type: pixels.attribute("Type").unwrap_or_default().to_owned(),
            channels,
            slices,
            frames,
            samples,
        })
    }

    /// Whether the pages match the header.
    pub(super) fn check(
        &self,
        samples: usize,
        pixel_type: PixelType,
        [height, width]: [usize; 2],
    ) -> Result<(), OmeFault> {
        if self.samples != samples {
            return fault("SamplesPerPixel", self.samples, format!("{samples}, as the pages have"));
        }
        if self.pixel_type != type_name(pixel_type) {
            let expected = format!("{}, as the pages have", type_name(pixel_type));
            return fault("Type", &self.pixel_type, expected);
        }
        if [self.height, self.width] != [height, width] {
            let expected = format!("{width}x{height}, as the pages have");
            return fault("SizeX and SizeY", format!("{}x{}", self.width, self.height), expected);
        }
        Ok(())
    }
}

/// The header of a file with planes in the order channels, slices, frames.
pub(super) fn header(spec: &VolumeSpec) -> String {
    let [depth, height, width] = spec.sides();
    let (channels, frames) = (spec.raster.channels, spec.frames);
    let mut text = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\
         <OME xmlns=\"http://www.openmicroscopy.org/Schemas/OME/2016-06\">\
         <Image ID=\"Image:0\"><Pixels ID=\"Pixels:0\" DimensionOrder=\"XYCZT\" Type=\"{}\" \
         SizeX=\"{width}\" SizeY=\"{height}\" SizeZ=\"{depth}\" SizeC=\"{channels}\" \
         SizeT=\"{frames}\"",
        type_name(spec.raster.pixel_type)
    );
    for (axis, size) in ["Z", "Y", "X"].into_iter().zip(spec.voxel_um) {
        if let Some(size) = size {
            let _ =
                write!(text, " PhysicalSize{axis}=\"{size}\" PhysicalSize{axis}Unit=\"&#181;m\"");
        }
    }
    text.push('>');
    for channel in 0..channels {
        let _ = write!(text, "<Channel ID=\"Channel:0:{channel}\" SamplesPerPixel=\"1\"/>");
    }
    text.push_str("<TiffData/></Pixels></Image></OME>");
    text
}

const fn type_name(pixel_type: PixelType) -> &'static str {
    match pixel_type {
        PixelType::U8 => "uint8",
        PixelType::U16 => "uint16",
        PixelType::F32 => "float",
    }
}

fn is(node: &Node<'_, '_>, name: &str) -> bool {
    node.tag_name().name() == name
}

fn child<'a, 'b>(node: &Node<'a, 'b>, name: &str) -> Option<Node<'a, 'b>> {
    node.children().find(|node| is(node, name))
}

fn number<T: std::str::FromStr>(node: &Node<'_, '_>, name: &str) -> Result<Option<T>, OmeFault> {
    let Some(text) = node.attribute(name) else { return Ok(None) };
    match text.trim().parse() {
        Ok(number) => Ok(Some(number)),
        Err(_) => fault(name, format!("`{text}`"), "a number"),
    }
}

/// The page of each plane, by frame, then slice, then group of channels.
fn plane_pages(
    pixels: &Node<'_, '_>,
    [groups, slices, frames]: [usize; 3],
    pages: usize,
) -> Result<Vec<usize>, OmeFault> {
    let order = pixels.attribute("DimensionOrder").unwrap_or("XYCZT");
    // The stride of an axis in the order of planes.
    let mut axes = Vec::new();
    for letter in order.strip_prefix("XY").unwrap_or_default().chars() {
        let size = match letter {
            'C' => groups,
            'Z' => slices,
            'T' => frames,
            _ => break,
        };
        axes.push((letter, size));
    }
    let mut letters: Vec<char> = axes.iter().map(|axis| axis.0).collect();
    letters.sort_unstable();
    if letters != ['C', 'T', 'Z'] {
        return fault("DimensionOrder", order, "XY and then C, Z and T in any order");
    }
    // The place of a plane in the order of the file, from [group, slice, frame], and back.
    let count = groups * slices * frames;
    let place = |plane: [usize; 3]| {
        axes.iter().rev().fold(0, |place, &(letter, size)| {
            place * size
                + match letter {
                    'C' => plane[0],
                    'Z' => plane[1],
                    _ => plane[2],
                }
        })
    };
    let mut of_place: Vec<Option<usize>> = vec![None; count];
    let data: Vec<_> = pixels.children().filter(|node| is(node, "TiffData")).collect();
    if data.is_empty() {
        of_place.iter_mut().enumerate().for_each(|(at, page)| *page = Some(at));
    }
    for data in data {
        if let Some(name) = child(&data, "UUID").and_then(|uuid| uuid.attribute("FileName"))
            && pixels
                .children()
                .filter_map(|data| child(&data, "UUID"))
                .any(|uuid| uuid.attribute("FileName").is_some_and(|other| other != name))
        {
            let expected = "one file; list the files of each channel in a manifest";
            return fault("TiffData", format!("spread over files such as `{name}`"), expected);
        }
        let first = ["FirstC", "FirstZ", "FirstT"];
        let mut plane = [0; 3];
        for (at, name) in plane.iter_mut().zip(first) {
            *at = number(&data, name)?.unwrap_or(0_usize);
        }
        // The header counts samples as channels, pages contain groups of samples.
        let ifd: Option<usize> = number(&data, "IFD")?;
        let default = if ifd.is_some() { 1 } else { pages };
        let planes = number(&data, "PlaneCount")?.unwrap_or(default);
        if plane[0] >= groups || plane[1] >= slices || plane[2] >= frames {
            return fault(
                "TiffData",
                format!("at {plane:?}"),
                "a plane within SizeC, SizeZ, SizeT",
            );
        }
        let (start, ifd) = (place(plane), ifd.unwrap_or(0_usize));
        for at in 0..planes.min(count - start) {
            of_place[start + at] = ifd.checked_add(at);
        }
    }
    let mut planes = Vec::with_capacity(count);
    for frame in 0..frames {
        for slice in 0..slices {
            for group in 0..groups {
                let page = of_place[place([group, slice, frame])];
                let Some(page) = page.filter(|&page| page < pages) else {
                    let got =
                        format!("without page for channel {group}, slice {slice}, frame {frame}");
                    return fault("TiffData", got, format!("a page below {pages} for each plane"));
                };
                planes.push(page);
            }
        }
    }
    Ok(planes)
}

/// The size of a voxel along an axis in µm; `None` if it is unknown or not a length.
fn voxel(pixels: &Node<'_, '_>, axis: &str) -> Result<Option<f64>, OmeFault> {
    let name = format!("PhysicalSize{axis}");
    let Some(size) = number::<f64>(pixels, &name)? else { return Ok(None) };
    let unit = pixels.attribute(format!("{name}Unit").as_str()).unwrap_or("µm");
    let factor = match unit {
        "µm" | "μm" | "um" | "micron" => 1.0,
        "nm" => 1e-3,
        "pm" => 1e-6,
        "Å" => 1e-4,
        "mm" => 1e3,
        "cm" => 1e4,
        "m" => 1e6,
        _ => return Ok(None),
    };
    if VOXEL_UM.contains(&(size * factor)) {
        return Ok(Some(size * factor));
    }
    let (least, most) = (*VOXEL_UM.start(), *VOXEL_UM.end());
    fault(&name, format!("{size:e} {unit}"), format!("a length from {least:e} to {most:e} µm"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ome(attributes: &str, data: &str) -> String {
        format!("<OME xmlns=\"o\"><Image><Pixels {attributes}>{data}</Pixels></Image></OME>")
    }

    const SIZES: &str = r#"Type="uint8" SizeX="4" SizeY="3" SizeZ="2" SizeC="3" SizeT="1""#;

    #[test]
    fn planes_follow_the_order_of_dimensions() {
        for (order, expected) in [("XYCZT", [0, 1, 2, 3, 4, 5]), ("XYZCT", [0, 2, 4, 1, 3, 5])] {
            let text = ome(&format!("{SIZES} DimensionOrder=\"{order}\""), "<TiffData/>");
            let image = OmeImage::parse(&text, 0, 6).unwrap();
            assert_eq!(image.planes, expected, "{order}");
        }
        let data = r#"<TiffData IFD="3" FirstZ="0" PlaneCount="3"/>
                      <TiffData IFD="0" FirstZ="1" PlaneCount="3"/>"#;
        let text = ome(&format!("{SIZES} DimensionOrder=\"XYCZT\""), data);
        assert_eq!(OmeImage::parse(&text, 0, 6).unwrap().planes, [3, 4, 5, 0, 1, 2]);
    }

    #[test]
    fn units_become_micrometers() {
        let text = ome(
            &format!("{SIZES} PhysicalSizeX=\"65\" PhysicalSizeXUnit=\"nm\" PhysicalSizeZ=\"0.3\""),
            "",
        );
        assert_eq!(OmeImage::parse(&text, 0, 6).unwrap().voxel_um, [Some(0.3), None, Some(0.065)]);
    }

    #[test]
    fn a_voxel_that_no_microscope_has_is_refused() {
        let parsed = |size: &str, unit: &str| {
            let sizes = format!("{SIZES} PhysicalSizeX=\"{size}\" PhysicalSizeXUnit=\"{unit}\"");
            OmeImage::parse(&ome(&sizes, ""), 0, 6)
        };
        let units = [("1e308", "µm"), ("1e10", "µm"), ("1e4", "m"), ("1e-7", "µm"), ("1e-1", "pm")];
        let wrong = [("0", "µm"), ("-1", "nm"), ("inf", "µm"), ("NaN", "µm")];
        for (size, unit) in units.into_iter().chain(wrong) {
            let OmeFault { field, got, expected } = parsed(size, unit).err().unwrap();
            assert_eq!(field, "PhysicalSizeX of the OME header");
            assert!(got.ends_with(unit) && got.len() < 12, "{got}");
            assert_eq!(expected, "a length from 1e-6 to 1e9 µm");
        }
        for (size, unit) in [("1e9", "µm"), ("1e-6", "µm"), ("1", "pm"), ("100", "m")] {
            assert!(parsed(size, unit).unwrap().voxel_um[2].is_some());
        }
    }

    #[test]
    fn a_header_that_claims_more_than_the_file_has_is_refused() {
        let message = |text: &str| {
            let OmeFault { field, got, expected } = OmeImage::parse(text, 0, 6).unwrap_err();
            format!("{field} is {got}; expected {expected}")
        };
        let many = SIZES.replace("SizeZ=\"2\"", "SizeZ=\"99999999999\"");
        assert_eq!(
            message(&ome(&many, "")),
            "SizeC, SizeZ and SizeT of the OME header is 3x99999999999x1; expected no more planes \
             than the file has pages, 6"
        );
        assert!(message("<OME").starts_with("the XML of the OME header is "));
        assert!(message(&ome(&SIZES.replace("SizeT=\"1\"", "SizeT=\"x\""), "")).contains("SizeT"));
        assert!(
            message(&ome(SIZES, "<TiffData IFD=\"7\" PlaneCount=\"6\"/>")).contains("page below 6")
        );
        assert!(message("<OME/>").starts_with("the number of images of the OME header is 0"));
    }
}
