//! Volumes that a CSV file lists, with the files of each channel, targets and splits.

use std::collections::{BTreeMap, HashMap};
use std::io::Read;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::{DataError, VolumeError};
use crate::file_identity::FileIdentity;
use crate::link_loop::is_link_loop;
use crate::random::{Purpose, Random};
use crate::split::Split;
use crate::table::{Delimiter, Records};
use crate::volume::{
    JoinedChannels, OpenConfig, VolumePair, VolumePart, VolumeSource, VolumeTarget, open_volume,
};

/// Volumes in the files that a CSV or TSV file lists, one volume per record.
///
/// | Column | Content |
/// |---|---|
/// | `input`, or `input.NAME` once for each channel | a file; the channels follow each other in the order of the columns |
/// | `target`, or `target.NAME` | a file to predict, in the same way |
/// | `labels` | a mask |
/// | `split` | the name of a part, such as `train` |
/// | `position` | the position or specimen; the first input if the column is missing |
/// | `t`, `z`, `y`, `x` | a range such as `0:160`; nothing for all of the axis |
///
/// Relative paths start at the folder of the manifest. A position, or a file under any path,
/// links included, is never in two splits, except in blocks that do not overlap along `z`,
/// `y` or `x`; frames of one position count as the same.
#[derive(Debug, Clone, PartialEq)]
pub struct VolumeManifest {
    path: PathBuf,
    rows: Vec<VolumeRow>,
    /// The files of each row.
    files: Vec<Vec<FileIdentity>>,
}

/// One record of a [`VolumeManifest`].
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct VolumeRow {
    /// The line, counted from 1.
    pub line: u64,
    /// What was looked at.
    pub position: String,
    /// The part it belongs to.
    pub split: Option<String>,
    /// The files of the input.
    pub inputs: Vec<PathBuf>,
    /// The files of the target image.
    pub targets: Vec<PathBuf>,
    /// The file of the mask.
    pub labels: Option<PathBuf>,
    /// Frames, slices, rows and columns; `None` for all.
    pub ranges: [Option<Range<usize>>; 4],
}

const AXES: [&str; 4] = ["t", "z", "y", "x"];

impl VolumeManifest {
    /// Reads a manifest; every file must exist.
    ///
    /// # Errors
    /// [`DataError::Table`] for a file that cannot be read; [`VolumeError::Field`] for one without
    /// records, for an unknown column, a missing file, an invalid range, a record without input or
    /// with both target and labels, a position in two splits, and a record that repeats another.
    pub fn open(path: impl AsRef<Path>, delimiter: Delimiter) -> Result<Self, DataError> {
        let path = path.as_ref();
        let mut records = Records::open(path, delimiter)?;
        check_header(path, records.header())?;
        let mut rows = Vec::new();
        while records.advance()? {
            rows.push(read_row(&records)?);
        }
        if rows.is_empty() {
            let expected = "at least one line of files after the header";
            return Err(field(path, "the list of volumes", "empty".to_owned(), expected).into());
        }
        let identities = |row: &VolumeRow| row.files().map(FileIdentity::of).collect();
        let files: Vec<Vec<FileIdentity>> = rows.iter().map(identities).collect();
        check_splits(path, &rows, &files)?;
        check_repeats(path, &rows, &files)?;
        Ok(Self { path: path.to_owned(), rows, files })
    }

    /// The records, in their order.
    #[must_use]
    pub fn rows(&self) -> &[VolumeRow] {
        &self.rows
    }

    /// Opens the volumes of a split, or all of them.
    ///
    /// # Errors
    /// [`VolumeError::Field`] for a split that no record has; as [`open_volume`],
    /// [`JoinedChannels::try_new`] and [`VolumePart::try_new`].
    pub fn pairs(
        &self,
        split: Option<&str>,
        config: &OpenConfig,
    ) -> Result<Vec<VolumePair>, DataError> {
        let rows = self.rows.iter().filter(|row| split.is_none() || row.split.as_deref() == split);
        let pairs = rows.map(|row| row.open(config)).collect::<Result<Vec<_>, _>>()?;
        if pairs.is_empty() {
            let mut known: Vec<&str> =
                self.rows.iter().filter_map(|row| row.split.as_deref()).collect();
            known.sort_unstable();
            known.dedup();
            let (got, expected) = (format!("no `{}`", split.unwrap_or_default()), known.join(", "));
            return Err(field(&self.path, "the column `split`", got, expected).into());
        }
        Ok(pairs)
    }

    /// Holds out whole positions, about this fraction of them and at least one on each side: the
    /// indices of [`rows`](Self::rows) on each side, a function of the seed.
    ///
    /// # Errors
    /// [`DataError::Setting`] for a fraction that is not above 0 and below 1, or a manifest with
    /// fewer than two [`positions`](Self::positions).
    pub fn hold_out_positions(&self, fraction: f64, seed: u64) -> Result<Split, DataError> {
        let mut groups = self.groups();
        if !(fraction > 0.0 && fraction < 1.0) || groups.len() < 2 {
            let value = format!("{fraction} of {} positions", groups.len());
            let expected = "above 0 and below 1, of at least 2 positions".to_owned();
            return Err(DataError::Setting { name: "fraction", value, expected });
        }
        Random::new(Purpose::Split, seed, 0, 0).shuffle(&mut groups);
        let count = (groups.len() as f64 * fraction).round() as usize;
        let mut held_out: Vec<usize> =
            groups.drain(..count.clamp(1, groups.len() - 1)).flatten().collect();
        let mut kept: Vec<usize> = groups.into_iter().flatten().collect();
        held_out.sort_unstable();
        kept.sort_unstable();
        Ok(Split { kept, held_out })
    }

    /// The number of positions, of which those that share voxels of a file count as one.
    #[must_use]
    pub fn positions(&self) -> usize {
        self.groups().len()
    }

    /// The rows of each position; positions that share voxels of a file are one.
    fn groups(&self) -> Vec<Vec<usize>> {
        let mut groups: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for (at, row) in self.rows.iter().enumerate() {
            groups.entry(&row.position).or_default().push(at);
        }
        let mut groups: Vec<Vec<usize>> = groups.into_values().collect();
        let mut group_of = vec![0; self.rows.len()];
        for (group, rows) in groups.iter().enumerate() {
            rows.iter().for_each(|&row| group_of[row] = group);
        }
        // One row stands for all with its file and its block.
        let mut of_file: BTreeMap<&FileIdentity, Vec<usize>> = BTreeMap::new();
        for (at, (row, files)) in self.rows.iter().zip(&self.files).enumerate() {
            for file in files {
                let others = of_file.entry(file).or_default();
                for &other in others.iter().filter(|&&other| self.rows[other].meets(row)) {
                    let [small, large] = match (group_of[at], group_of[other]) {
                        (own, others) if own == others => continue,
                        (own, others) if groups[own].len() < groups[others].len() => [own, others],
                        (own, others) => [others, own],
                    };
                    let moved = std::mem::take(&mut groups[small]);
                    moved.iter().for_each(|&row| group_of[row] = large);
                    groups[large].extend(moved);
                }
                if others.iter().all(|&other| self.rows[other].ranges[1..] != row.ranges[1..]) {
                    others.push(at);
                }
            }
        }
        groups.retain(|rows| !rows.is_empty());
        groups
    }
}

impl VolumeRow {
    fn open(&self, config: &OpenConfig) -> Result<VolumePair, DataError> {
        let open = |files: &[PathBuf]| -> Result<Arc<dyn VolumeSource>, DataError> {
            let volumes = files.iter().map(|file| open_volume(file, config));
            let joined = JoinedChannels::try_new(volumes.collect::<Result<_, _>>()?)?;
            Ok(Arc::new(VolumePart::try_new(Arc::new(joined), self.ranges.clone())?))
        };
        let target = match (&self.targets[..], &self.labels) {
            ([], None) => VolumeTarget::None,
            ([], Some(labels)) => VolumeTarget::Labels(open(std::slice::from_ref(labels))?),
            (targets, _) => VolumeTarget::Image(open(targets)?),
        };
        Ok(VolumePair { input: open(&self.inputs)?, target })
    }

    fn files(&self) -> impl Iterator<Item = &PathBuf> {
        self.inputs.iter().chain(&self.targets).chain(&self.labels)
    }

    /// Whether two rows of one position or one file can overlap.
    fn meets(&self, other: &Self) -> bool {
        let apart = |own: &Option<Range<usize>>, others: &Option<Range<usize>>| match (own, others)
        {
            (Some(own), Some(others)) => own.end <= others.start || others.end <= own.start,
            _ => false,
        };
        // Frames of one position look alike, so ranges of time are not separate.
        !self.ranges[1..].iter().zip(&other.ranges[1..]).any(|(own, others)| apart(own, others))
    }
}

fn field(path: &Path, field: &str, got: String, expected: impl Into<String>) -> VolumeError {
    let (path, field) = (path.to_owned(), field.to_owned());
    VolumeError::Field { path, field, got, expected: expected.into() }
}

fn is_part(column: &str, part: &str) -> bool {
    column.strip_prefix(part).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

fn check_header(path: &Path, header: &[String]) -> Result<(), VolumeError> {
    let known = "input, input.NAME, target, target.NAME, labels, split, position, t, z, y or x";
    let plain = ["labels", "split", "position", "t", "z", "y", "x"];
    for column in header {
        let is_known = plain.contains(&column.as_str())
            || is_part(column, "input")
            || is_part(column, "target");
        if !is_known {
            return Err(field(path, "a column", format!("`{column}`"), known));
        }
    }
    if header.iter().any(|column| is_part(column, "input")) {
        return Ok(());
    }
    Err(field(path, "the header", format!("`{}`", header.join("`, `")), "a column `input`"))
}

fn read_row<R: Read>(records: &Records<R>) -> Result<VolumeRow, DataError> {
    let folder = records.path().parent().unwrap_or(Path::new(""));
    let line = records.line();
    let message = |column: &str, got: String, expected: &str| {
        let name = format!("line {line}, column `{column}`");
        DataError::from(field(records.path(), &name, got, expected))
    };
    let mut row = VolumeRow {
        line,
        position: String::new(),
        split: None,
        inputs: Vec::new(),
        targets: Vec::new(),
        labels: None,
        ranges: [const { None }; 4],
    };
    for (at, column) in records.header().iter().enumerate() {
        let text = records.field(at)?.trim();
        if text.is_empty() {
            continue;
        }
        let file = || {
            let path = folder.join(text);
            if path.is_file() {
                return Ok(path);
            }
            let why = match is_link_loop(&path) {
                true => "whose symbolic links form a loop",
                false => "which is not there",
            };
            let expected = "a file, counted from the folder of the manifest";
            Err(message(column, format!("`{text}`, {why}"), expected))
        };
        match column.as_str() {
            "split" => row.split = Some(text.to_owned()),
            "position" => row.position = text.to_owned(),
            "labels" => row.labels = Some(file()?),
            column if is_part(column, "input") => row.inputs.push(file()?),
            column if is_part(column, "target") => row.targets.push(file()?),
            column => {
                let range = text.split_once(':').and_then(|(first, end)| {
                    Some(first.trim().parse().ok()?..end.trim().parse().ok()?)
                });
                let Some(range) = range.filter(|range: &Range<usize>| !range.is_empty()) else {
                    return Err(message(column, format!("`{text}`"), "a range such as 0:160"));
                };
                let axis = AXES.iter().position(|axis| *axis == column);
                row.ranges[axis.expect("the header was checked")] = Some(range);
            }
        }
    }
    if row.inputs.is_empty() {
        return Err(message("input", "empty".to_owned(), "a file"));
    }
    if row.labels.is_some() && !row.targets.is_empty() {
        return Err(message("labels", "given beside `target`".to_owned(), "one of the two"));
    }
    if row.position.is_empty() {
        row.position = row.inputs[0].display().to_string();
    }
    Ok(row)
}

/// A volume that is listed twice would count double.
fn check_repeats(
    path: &Path,
    rows: &[VolumeRow],
    files: &[Vec<FileIdentity>],
) -> Result<(), VolumeError> {
    let mut seen = HashMap::new();
    for (row, files) in rows.iter().zip(files) {
        if let Some(first) = seen.insert((&row.split, files, &row.ranges), row.line) {
            let got = format!("the volume of line {first}, with the same files and ranges");
            return Err(field(path, &format!("line {}", row.line), got, "each volume once"));
        }
    }
    Ok(())
}

/// What must not be in two splits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Shared<'a> {
    File(&'a FileIdentity),
    Position(&'a str),
}

/// A position, or one of its files, must not be in two splits.
fn check_splits(
    path: &Path,
    rows: &[VolumeRow],
    files: &[Vec<FileIdentity>],
) -> Result<(), VolumeError> {
    let mut seen: BTreeMap<Shared<'_>, Vec<&VolumeRow>> = BTreeMap::new();
    for (row, files) in rows.iter().zip(files) {
        let files = files.iter().zip(row.files());
        let files = files
            .map(|(identity, file)| ("file", Shared::File(identity), file.display().to_string()));
        let position = ("position", Shared::Position(&row.position), row.position.clone());
        for (kind, key, text) in files.chain([position]) {
            let others = seen.entry(key).or_default();
            if let Some(other) =
                others.iter().find(|other| other.split != row.split && other.meets(row))
            {
                let name = |row: &VolumeRow| row.split.clone().unwrap_or_else(|| "none".to_owned());
                return Err(field(
                    path,
                    &format!("{kind} `{text}`"),
                    format!(
                        "in split `{}` on line {} and `{}` on line {}",
                        name(other),
                        other.line,
                        name(row),
                        row.line
                    ),
                    "one split, or blocks that do not meet along z, y or x",
                ));
            }
            let is_same = |other: &&VolumeRow| {
                other.split == row.split && other.ranges[1..] == row.ranges[1..]
            };
            if !others.iter().any(is_same) {
                others.push(row);
            }
        }
    }
    Ok(())
}
