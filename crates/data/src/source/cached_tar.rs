//! A gzipped tar, decompressed once into a tar with a checksum file.

use std::fs;
use std::io::Seek;
use std::path::{Path, PathBuf};

use crate::cache::{AtomicFile, CacheUse};
use crate::digest::Checksum;
use crate::error::DataError;
use crate::progress::Progress;
use crate::regular_file::{open_regular, read_regular};
use crate::source::inflate::{inflate_to, is_gzip};
use crate::trace;

/// The decompressed tar of an archive, created if it is not in `folder` yet; a plain archive
/// itself.
pub(super) fn cached_tar(
    path: &Path,
    folder: &Path,
    progress: &mut dyn FnMut(Progress),
) -> Result<(PathBuf, CacheUse), DataError> {
    let open = |cause| DataError::Open { path: path.to_owned(), cause };
    let mut file = open_regular(path).map_err(open)?;
    if !is_gzip(&file).map_err(open)? {
        return Ok((path.to_owned(), CacheUse::NotNeeded));
    }
    let (contents, _) = Checksum::of(&file).map_err(open)?;
    file.rewind().map_err(open)?;
    let tar = folder.join(format!("{}.tar", &contents.hex()[..32]));
    let used = match check(&tar) {
        Ok(()) => return Ok((tar, CacheUse::Reused)),
        Err(None) => CacheUse::Built,
        Err(Some(reason)) => CacheUse::Rebuilt { reason },
    };
    trace::cache(&tar, &used);
    let mut whole = AtomicFile::create(&tar)?;
    let (mut checksum, mut bytes) = (Checksum::default(), 0);
    inflate_to(file, path, u64::MAX, progress, &mut |piece| {
        checksum.update(piece);
        bytes += piece.len();
        whole.write(piece)
    })?;
    trace::inflated(path, bytes);
    // The old checksum is removed first: a tar without one is not a cache.
    let _ = fs::remove_file(seal(&tar));
    whole.finish()?;
    let mut line = AtomicFile::create(&seal(&tar))?;
    line.write(checksum.hex().as_bytes())?;
    line.finish()?;
    Ok((tar, used))
}

/// More bytes than a checksum has.
const MOST_SEAL: u64 = 1 << 12;

/// The file with a tar's checksum: 64 hexadecimal digits.
fn seal(tar: &Path) -> PathBuf {
    tar.with_extension("tar.sha256")
}

/// Whether a tar is intact; the reason is `None` if it does not exist.
fn check(tar: &Path) -> Result<(), Option<String>> {
    if !tar.exists() {
        return Err(None);
    }
    let reason = |text: &str| Some(format!("`{}` {text}", tar.display()));
    let file = open_regular(tar).map_err(|_| reason("cannot be opened"))?;
    let expected = read_regular(seal(tar), MOST_SEAL).map_err(|_| reason("has no checksum"))?;
    let (got, _) = Checksum::of(file).map_err(|_| reason("cannot be read"))?;
    if got.hex().as_bytes() == expected { Ok(()) } else { Err(reason("does not fit its checksum")) }
}
