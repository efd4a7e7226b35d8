//! Metrics as a `TensorBoard` event file.
//!
//! The file is a sequence of records: the length of the data (u64, little endian), the masked
//! CRC-32C of those eight bytes, the data, the masked CRC-32C of the data. The data is a protocol
//! buffer, an [`Event`].
//!
//! Source: `tensorflow/core/lib/io/record_writer.cc`, `event.proto` and `summary.proto`.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use prost::Message;
use serde_json::Value;

use super::schema::RunSchema;
use crate::bounded;
use crate::error::RunError;

/// Where `TensorBoard` looks: `tensorboard --logdir RUN`.
const FOLDER: &str = "tensorboard";

/// `TensorBoard` recognizes event files by this part of their name.
const NAME: &str = "events.out.tfevents.updraft";

/// The numbers of an update in addition to its metrics, as tag and JSON pointer.
const STEP: [(&str, &str); 4] = [
    ("step/loss", "/loss"),
    ("step/learning_rate", "/learning_rate"),
    ("step/gradient_norm", "/gradient_norm"),
    ("step/step_us", "/step_us"),
];

/// The numbers of an epoch in addition to its metrics.
const EPOCH: [(&str, &str); 5] = [
    ("epoch/samples_per_s", "/samples_per_s"),
    ("epoch/resident_bytes", "/resident_bytes"),
    ("epoch/gpu_busy_share", "/gpu/busy_share"),
    ("epoch/gpu_peak_temperature_c", "/gpu/peak_temperature_c"),
    ("epoch/gpu_mean_power_w", "/gpu/mean_power_w"),
];

#[derive(Clone, PartialEq, Message)]
struct Event {
    #[prost(double, tag = "1")]
    wall_time: f64,
    #[prost(int64, optional, tag = "2")]
    step: Option<i64>,
    #[prost(string, optional, tag = "3")]
    file_version: Option<String>,
    #[prost(message, optional, tag = "5")]
    summary: Option<Summary>,
}

#[derive(Clone, PartialEq, Message)]
struct Summary {
    #[prost(message, repeated, tag = "1")]
    value: Vec<Scalar>,
}

#[derive(Clone, PartialEq, Message)]
struct Scalar {
    #[prost(string, tag = "1")]
    tag: String,
    #[prost(float, optional, tag = "2")]
    simple_value: Option<f32>,
}

/// Tags with the JSON pointers of their numbers.
type Scalars = Vec<(String, String)>;

/// An event file with a scalar for each number of the metrics.
pub(super) struct EventFile {
    file: BufWriter<File>,
    path: PathBuf,
    of_steps: Scalars,
    of_epochs: Scalars,
}

impl EventFile {
    /// Truncates the file.
    pub(super) fn create(run: &Path, schema: &RunSchema) -> Result<Self, RunError> {
        let path = run.join(FOLDER).join(NAME);
        let created = fs::create_dir_all(run.join(FOLDER));
        created.map_err(|cause| RunError::io("write", &path, cause))?;
        let file = BufWriter::new(bounded::create(&path)?);
        let owned = |(tag, pointer): &(&str, &str)| ((*tag).to_owned(), (*pointer).to_owned());
        let mut of_steps: Scalars = STEP.iter().map(owned).collect();
        let mut of_epochs: Scalars = EPOCH.iter().map(owned).collect();
        for metric in &schema.metrics {
            let name = &metric.name;
            if name != "loss" {
                of_steps.push((format!("step/{name}"), format!("/metrics/{name}")));
            }
            for split in ["train", "test"] {
                of_epochs.push((format!("epoch/{split}_{name}"), format!("/{split}/{name}")));
            }
        }
        for (plot, curves) in &schema.curves {
            let scalars = curves.iter().map(|(name, pointer)| {
                (format!("{}/{}", plot.replace(' ', "_"), name.replace(' ', "_")), pointer.clone())
            });
            of_epochs.extend(scalars);
        }
        let mut file = Self { file, path, of_steps, of_epochs };
        file.record(&Event {
            wall_time: now(),
            file_version: Some("brain.Event:2".to_owned()),
            ..Event::default()
        })?;
        Ok(file)
    }

    /// Appends an event's numbers.
    pub(super) fn add(&mut self, value: &Value) -> Result<(), RunError> {
        let (scalars, step) = match value["event"].as_str() {
            Some("step") => (&self.of_steps, value["step"].as_u64()),
            Some("epoch") => (&self.of_epochs, value["step"].as_u64()),
            _ => return Ok(()),
        };
        let scalar = |(tag, pointer): &(String, String)| {
            let number = value.pointer(pointer).and_then(Value::as_f64)?;
            Some(Scalar { tag: tag.clone(), simple_value: Some(number as f32) })
        };
        let summary = Summary { value: scalars.iter().filter_map(scalar).collect() };
        self.record(&Event {
            wall_time: now(),
            step: Some(step.unwrap_or_default() as i64),
            summary: Some(summary),
            ..Event::default()
        })
    }

    pub(super) fn flush(&mut self) -> Result<(), RunError> {
        self.file.flush().map_err(|cause| RunError::io("write", &self.path, cause))
    }

    fn record(&mut self, event: &Event) -> Result<(), RunError> {
        let data = &event.encode_to_vec()[..];
        let length = (data.len() as u64).to_le_bytes();
        let parts = [&length[..], &masked_crc(&length), data, &masked_crc(data)];
        parts
            .iter()
            .try_for_each(|part| self.file.write_all(part))
            .map_err(|cause| RunError::io("write", &self.path, cause))
    }
}

fn now() -> f64 {
    SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .map_or(0.0, |since| since.as_secs_f64())
}

/// The checksum as the format stores it: rotated by 15 bits, plus a constant.
fn masked_crc(data: &[u8]) -> [u8; 4] {
    crc32c::crc32c(data).rotate_right(15).wrapping_add(0xa282_ead8).to_le_bytes()
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use updraft_trainer::{Criterion, Direction, MetricSpec, Unit};

    use super::*;

    #[test]
    fn the_checksum_is_the_one_of_the_format() {
        // CRC-32C of "123456789" is 0xe3069283 (the catalogue's check value).
        let expected = 0xe306_9283_u32.rotate_right(15).wrapping_add(0xa282_ead8);
        assert_eq!(masked_crc(b"123456789"), expected.to_le_bytes());
    }

    #[test]
    fn a_file_is_a_sequence_of_records_with_tags_and_values() {
        let dir = tempfile::tempdir().expect("temporary folder");
        let metrics = vec![MetricSpec::new("loss", Unit::None, Direction::LowerIsBetter)];
        let schema = RunSchema::new("a task", "rows", metrics, Criterion::default(), Vec::new());
        let mut file = EventFile::create(dir.path(), &schema).expect("created");
        file.add(&json!({ "event": "step", "step": 300, "loss": 0.5 })).expect("written");
        file.flush().expect("flushed");
        let data = fs::read(dir.path().join(FOLDER).join(NAME)).expect("read");
        let mut rest = &data[..];
        let mut records = Vec::new();
        while let Some((length, after)) = rest.split_first_chunk::<8>() {
            let size = u64::from_le_bytes(*length) as usize;
            assert_eq!(after[..4], masked_crc(length));
            let record = &after[4..4 + size];
            assert_eq!(after[4 + size..8 + size], masked_crc(record));
            records.push(record.to_vec());
            rest = &after[8 + size..];
        }
        assert_eq!(records.len(), 2);
        assert!(records[0].ends_with(b"brain.Event:2"));
        // step 300; summary with one value: its tag and 0.5 as a float.
        let mut expected = vec![2 << 3, 0xac, 0x02, 5 << 3 | 2, 18, 1 << 3 | 2, 16, 1 << 3 | 2, 9];
        expected.extend(b"step/loss");
        expected.push(2 << 3 | 5);
        expected.extend(0.5_f32.to_le_bytes());
        assert_eq!(records[1][9..], expected);
    }
}
