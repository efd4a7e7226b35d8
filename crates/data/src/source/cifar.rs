//! Records of CIFAR-10 and CIFAR-100 in their binary form.

use crate::error::FormatError;

/// The variant of CIFAR and its labels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CifarLabels {
    /// The ten classes of CIFAR-10.
    Ten,
    /// The hundred classes of CIFAR-100.
    Fine,
    /// The twenty groups of classes of CIFAR-100.
    Coarse,
}

/// Which images of a set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CifarPart {
    /// The 50,000 training images.
    Train,
    /// The 10,000 to score on.
    Test,
}

/// Rows, and pixels in a row.
pub(super) const SIDE: usize = 32;

/// The bytes of an image: a red, a green and a blue plane.
const PIXELS: usize = 3 * SIDE * SIDE;

impl CifarLabels {
    /// How many classes there are.
    #[must_use]
    pub const fn classes(self) -> usize {
        match self {
            Self::Ten => 10,
            Self::Fine => 100,
            Self::Coarse => 20,
        }
    }

    /// The number of label bytes before each image, and which of them is used.
    const fn label_bytes(self) -> (usize, usize) {
        match self {
            Self::Ten => (1, 0),
            Self::Coarse => (2, 0),
            Self::Fine => (2, 1),
        }
    }

    pub(super) const fn names_file(self) -> &'static str {
        match self {
            Self::Ten => "batches.meta.txt",
            Self::Fine => "fine_label_names.txt",
            Self::Coarse => "coarse_label_names.txt",
        }
    }

    pub(super) const fn files(self, part: CifarPart) -> &'static [&'static str] {
        match (self, part) {
            (Self::Ten, CifarPart::Train) => &[
                "data_batch_1.bin",
                "data_batch_2.bin",
                "data_batch_3.bin",
                "data_batch_4.bin",
                "data_batch_5.bin",
            ],
            (Self::Ten, CifarPart::Test) => &["test_batch.bin"],
            (_, CifarPart::Train) => &["train.bin"],
            (_, CifarPart::Test) => &["test.bin"],
        }
    }
}

/// Images and labels of CIFAR files.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CifarRecords {
    /// `[images, 32, 32, 3]`.
    pub pixels: Vec<u8>,
    /// The class of each image.
    pub labels: Vec<usize>,
}

impl CifarRecords {
    /// Appends the records of one file; it grows by at most the length of `bytes`.
    ///
    /// # Errors
    /// [`FormatError::Records`] or [`FormatError::Label`]; nothing is appended then.
    pub fn extend(&mut self, bytes: &[u8], labels: CifarLabels) -> Result<(), FormatError> {
        let (label_bytes, which) = labels.label_bytes();
        let record = label_bytes + PIXELS;
        if bytes.is_empty() || !bytes.len().is_multiple_of(record) {
            return Err(FormatError::Records { record, got: bytes.len() as u64 });
        }
        let classes = labels.classes();
        for (at, record) in bytes.chunks_exact(record).enumerate() {
            let label = usize::from(record[which]);
            if label >= classes {
                return Err(FormatError::Label { record: at, label, classes });
            }
        }
        self.pixels.reserve(bytes.len() / record * PIXELS);
        for record in bytes.chunks_exact(record) {
            self.labels.push(usize::from(record[which]));
            let (red, rest) = record[label_bytes..].split_at(SIDE * SIDE);
            let (green, blue) = rest.split_at(SIDE * SIDE);
            for ((&red, &green), &blue) in red.iter().zip(green).zip(blue) {
                self.pixels.extend([red, green, blue]);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Records whose pixels say record, plane and place.
    fn file(label_bytes: usize, labels: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (record, &label) in labels.iter().enumerate() {
            // The label that is not meant names no class.
            bytes.extend(if label_bytes == 2 { vec![label, 19 - label] } else { vec![label] });
            for plane in 0..3 {
                bytes.extend((0..1024).map(|at| (record * 100 + plane * 30 + at % 30) as u8));
            }
        }
        bytes
    }

    #[test]
    fn planes_become_pixels_and_the_meant_label_counts() {
        let cases = [
            (CifarLabels::Ten, 1, [3, 9]),
            (CifarLabels::Coarse, 2, [3, 9]),
            (CifarLabels::Fine, 2, [16, 10]),
        ];
        for (labels, label_bytes, expected) in cases {
            let mut records = CifarRecords::default();
            records.extend(&file(label_bytes, &[3, 9]), labels).unwrap();
            assert_eq!(records.labels, expected);
            assert_eq!(records.pixels.len(), 2 * PIXELS);
            assert_eq!(records.pixels[3072..3078], [100, 130, 160, 101, 131, 161]);
        }
    }

    #[test]
    fn a_wrong_length_or_label_appends_nothing() {
        let mut records = CifarRecords::default();
        let whole = file(1, &[3, 9]);
        for length in [0, 1, 3072, 3074, whole.len() - 1] {
            let error = records.extend(&whole[..length], CifarLabels::Ten).unwrap_err();
            assert!(matches!(error, FormatError::Records { record: 3073, .. }), "{error}");
        }
        let error = records.extend(&file(1, &[3, 10]), CifarLabels::Ten).unwrap_err();
        assert_eq!(error.to_string(), "record 1 has label 10; there are 10 classes");
        assert_eq!(records, CifarRecords::default());
    }
}
