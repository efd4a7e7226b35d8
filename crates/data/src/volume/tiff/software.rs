//! The program that a TIFF names as its writer.

use std::io::{self, BufReader, ErrorKind, Read, Seek};
use std::path::Path;

use super::first_directory::FirstDirectory;
use crate::regular_file::open_regular;

/// The tag `Software`, and the type of a text.
const SOFTWARE: u64 = 305;
const ASCII: u64 = 2;

/// The bytes of the text that are read.
const MOST_BYTES: u64 = 256;

/// The program that a TIFF names as its writer, such as
/// [`TiffWriteConfig::software`](crate::TiffWriteConfig::software); `None` for a TIFF that names none,
/// and for another file.
///
/// # Errors
/// Those of the system for a file that cannot be read.
pub fn tiff_software(path: impl AsRef<Path>) -> io::Result<Option<String>> {
    match software(&mut BufReader::new(open_regular(path.as_ref())?)) {
        // The file ends before the tag, or an offset is none.
        Err(cause)
            if matches!(cause.kind(), ErrorKind::UnexpectedEof | ErrorKind::InvalidInput) =>
        {
            Ok(None)
        }
        found => found,
    }
}

fn software(reader: &mut (impl Read + Seek)) -> io::Result<Option<String>> {
    let mut directory = FirstDirectory::open(reader)?;
    while let Some(entry) = directory.next_entry()? {
        if (entry.tag, entry.kind) == (SOFTWARE, ASCII) {
            let bytes = directory.bytes(&entry, MOST_BYTES)?;
            let text = String::from_utf8_lossy(&bytes);
            return Ok(Some(text.trim_end_matches('\0').to_owned()));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::raster::Raster;
    use crate::volume::{
        OpenConfig, TiffVolume, TiffWriteConfig, Volume, VolumeSource, write_volume,
    };

    #[test]
    fn the_program_is_read_as_it_was_written_and_changes_no_value() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.tif");
        let raster = Raster::try_new(2, &[3, 4, 5], vec![7_u16; 120]).unwrap();
        let volume = Volume::try_new("v", vec![raster], [None; 3]).unwrap();
        for big in [false, true] {
            for software in [None, Some("ab"), Some("a program of many letters")] {
                let config =
                    TiffWriteConfig { big: Some(big), software, ..TiffWriteConfig::default() };
                write_volume(&path, &volume, &config).unwrap();
                let found = tiff_software(&path).unwrap();
                assert_eq!(found.as_deref(), software, "{big}");
                let read = TiffVolume::open(&path, &OpenConfig::default()).unwrap();
                assert_eq!(read.spec(), volume.spec());
                assert_eq!(Volume::load(&read).unwrap().frames(), volume.frames());
            }
        }
        let whole = fs::read(&path).unwrap();
        for length in [0, 3, 8, 100] {
            fs::write(&path, &whole[..length]).unwrap();
            assert_eq!(tiff_software(&path).unwrap(), None, "{length}");
        }
        fs::write(&path, [&b"MM\0\x2b\0\x08\0\0"[..], &[0xFF; 8]].concat()).unwrap();
        assert_eq!(tiff_software(&path).unwrap(), None);
        fs::write(&path, "a text of another kind").unwrap();
        assert_eq!(tiff_software(&path).unwrap(), None);
        assert!(tiff_software(dir.path().join("gone")).is_err());
    }
}
