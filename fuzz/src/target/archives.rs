//! IDX files, CIFAR's records and archives, and tar archives of images.

use updraft_data::{
    CifarFiles, CifarLabels, CifarPart, CifarRecords, IdxArray, ImageSource, TarImages,
};

use super::pictures::png;
use crate::scratch;

pub(super) fn idx(bytes: &[u8]) {
    if let Ok(array) = IdxArray::parse(bytes) {
        // An axis of length 0 makes an array without values, whatever the others claim.
        let is_empty = array.shape.contains(&0);
        assert!(is_empty || array.shape.iter().product::<usize>() <= bytes.len());
    }
}

pub(super) fn idx_seeds() -> Vec<Vec<u8>> {
    let of = |code: u8, shape: &[u32], values: &[u8]| {
        let mut bytes = vec![0, 0, code, shape.len() as u8];
        bytes.extend(shape.iter().flat_map(|length| length.to_be_bytes()));
        bytes.extend(values);
        bytes
    };
    vec![of(8, &[2, 3], &[1, 2, 3, 4, 5, 6]), of(0x0D, &[1], &[0x3F, 0x80, 0, 0])]
}

pub(super) fn cifar(bytes: &[u8]) {
    for labels in [CifarLabels::Ten, CifarLabels::Fine, CifarLabels::Coarse] {
        let mut records = CifarRecords::default();
        if records.extend(bytes, labels).is_ok() {
            assert_eq!(records.pixels.len(), 3072 * records.labels.len());
        }
    }
}

pub(super) fn cifar_seeds() -> Vec<Vec<u8>> {
    vec![[&[3][..], &[7; 3072]].concat(), [&[3, 4][..], &[7; 3072]].concat()]
}

/// The archive that CIFAR comes in, gzipped or not.
pub(super) fn cifar_archive(bytes: &[u8]) {
    let Ok(files) = CifarFiles::open(scratch::file(bytes), &mut |_| {}) else { return };
    for labels in [CifarLabels::Ten, CifarLabels::Fine, CifarLabels::Coarse] {
        for part in [CifarPart::Train, CifarPart::Test] {
            if let Ok(images) = files.images(labels, part) {
                assert_eq!(images.classes().len(), labels.classes());
            }
        }
    }
}

pub(super) fn cifar_archive_seeds() -> Vec<Vec<u8>> {
    let record = [&[3][..], &[7; 3072]].concat();
    let names = b"airplane\nbird\n".to_vec();
    let entries = [
        ("cifar-10-batches-bin/batches.meta.txt", names),
        ("cifar-10-batches-bin/data_batch_1.bin", record.clone()),
        ("cifar-10-batches-bin/test_batch.bin", record),
    ];
    let archive = tar(&entries);
    vec![gzip(&archive), archive]
}

pub(super) fn tar_index(bytes: &[u8]) {
    if let Ok(images) = TarImages::open_within(scratch::file(bytes), 1 << 24, &mut |_| {}) {
        for index in 0..images.len().min(4) {
            let _ = images.read(index);
        }
    }
}

pub(super) fn tar_index_seeds() -> Vec<Vec<u8>> {
    let archive =
        tar(&[("cat/a.png", png(4, 4)), ("._dog/b.png", png(4, 4)), ("dog/b.png", png(2, 2))]);
    vec![gzip(&archive), archive]
}

/// A tar archive in the format of POSIX.
fn tar(entries: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let mut archive = Vec::new();
    for (name, bytes) in entries {
        let mut header = [0; 512];
        header[..name.len()].copy_from_slice(name.as_bytes());
        header[100..107].copy_from_slice(b"0000644");
        header[108..115].copy_from_slice(b"0000000");
        header[116..123].copy_from_slice(b"0000000");
        header[124..135].copy_from_slice(format!("{:011o}", bytes.len()).as_bytes());
        header[136..147].copy_from_slice(b"00000000000");
        header[156] = b'0';
        header[257..265].copy_from_slice(b"ustar\x0000");
        header[148..156].fill(b' ');
        let sum: u32 = header.iter().map(|&byte| u32::from(byte)).sum();
        header[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
        archive.extend(header);
        archive.extend(bytes);
        archive.resize(archive.len().next_multiple_of(512), 0);
    }
    archive.resize(archive.len() + 1024, 0);
    archive
}

/// Bytes in gzip's format, stored without compression.
fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut file = vec![0x1F, 0x8B, 8, 0, 0, 0, 0, 0, 0, 255];
    let mut blocks = bytes.chunks(65_535).peekable();
    while let Some(block) = blocks.next() {
        let length = block.len() as u16;
        file.push(u8::from(blocks.peek().is_none()));
        file.extend(length.to_le_bytes());
        file.extend((!length).to_le_bytes());
        file.extend(block);
    }
    file.extend(crc32(bytes).to_le_bytes());
    file.extend((bytes.len() as u32).to_le_bytes());
    file
}

/// The checksum of gzip (RFC 1952).
fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |sum, &byte| {
        (0..8).fold(sum ^ u32::from(byte), |sum, _| {
            (sum >> 1) ^ (0xEDB8_8320 & 0_u32.wrapping_sub(sum & 1))
        })
    })
}
