//! Whether a JPEG has its end.

/// Whether the marker that ends the image is there.
///
/// Decoders fill what a cut file lacks with gray and call it success, so the markers are walked
/// here. Segments are skipped by their length, which keeps the end marker of an embedded
/// thumbnail from counting; in entropy-coded data a 0xFF byte is always followed by 0x00 or a
/// restart marker, so whatever else follows it is a marker.
///
/// # Source
/// ITU-T T.81, annex B.1.1.
pub(crate) fn has_end(bytes: &[u8]) -> bool {
    const END_OF_IMAGE: u8 = 0xD9;
    let mut rest = bytes;
    loop {
        let Some(at) = rest.iter().position(|&byte| byte == 0xFF) else { return false };
        rest = &rest[at..];
        let Some(at) = rest.iter().position(|&byte| byte != 0xFF) else { return false };
        let marker = rest[at];
        rest = &rest[at + 1..];
        match marker {
            END_OF_IMAGE => return true,
            // A stuffed zero, a reserved marker without length, a restart, the start of image.
            0x00 | 0x01 | 0xD0..=0xD8 => {}
            _ => {
                let Some(length) = rest.first_chunk::<2>() else { return false };
                let length = usize::from(u16::from_be_bytes(*length));
                let Some(after) = rest.get(length.max(2)..) else { return false };
                rest = after;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_end_marker_of_the_image_itself_counts() {
        // Start, a comment of 4 bytes that holds an end marker, a scan with a stuffed byte.
        let image = [
            0xFF, 0xD8, 0xFF, 0xFE, 0x00, 0x04, 0xFF, 0xD9, 0xFF, 0xDA, 0x00, 0x02, 0x12, 0xFF,
            0x00, 0xFF, 0xD0, 0x34, 0xFF, 0xFF, 0xD9, 0x00,
        ];
        assert!(has_end(&image));
        for cut in 0..image.len() - 1 {
            assert!(!has_end(&image[..cut]), "{cut}");
        }
    }
}
