//! Connected components, plane by plane: two passes over a mask, with two planes in memory.

use std::path::Path;

use crate::components::table::Component;
use crate::components::union_find::UnionFind;
use crate::error::{DataError, VolumeError};
use crate::pixels::{PixelType, Pixels};
use crate::raster::{Raster, RasterSpec};
use crate::volume::{
    Region, TiffWriteConfig, Volume, VolumeSource, VolumeSpec, VolumeWriter, are_labels,
};

/// Which voxels touch each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Connectivity {
    /// Those that share a face (a side, in pictures): 6 neighbors, or 4.
    #[default]
    Faces,
    /// Those that share a face, an edge or a corner: 26 neighbors, or 8.
    Corners,
}

/// How components are labelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ComponentConfig {
    /// Which voxels touch each other.
    pub connectivity: Connectivity,
    /// Components of fewer voxels become background.
    pub least_voxels: u64,
}

/// The components of a mask: connected voxels with the same label other than 0.
///
/// They are numbered from 1 in each frame, in the order in which their first voxels lie in the
/// volume.
#[derive(Debug)]
pub struct Components {
    table: Vec<Component>,
    spec: VolumeSpec,
    config: ComponentConfig,
    /// The final label of each provisional label, per frame; 0 for removed ones.
    labels: Vec<Vec<u16>>,
}

/// Finds the components of a mask.
///
/// The mask is read slice by slice once here and once more by [`Components::read`] or
/// [`Components::write`]; two slices of labels are in memory, and 4 bytes for each provisional
/// label.
///
/// # Panics
/// If a frame has 2³² pieces or more.
///
/// # Errors
/// [`VolumeError::Field`] for a mask of several channels or of f32, and for more than 65,535
/// components in a frame; as [`VolumeSource::read`].
///
/// # Example
/// ```
/// use updraft_data::{ComponentConfig, Raster, Volume, label_components};
///
/// let mask = Raster::try_new(1, &[2, 4], vec![1_u8, 0, 0, 1, 1, 0, 0, 1])?;
/// let mask = Volume::try_new("mask", vec![mask], [None, Some(0.5), Some(0.5)])?;
/// let components = label_components(&mask, ComponentConfig::default())?;
/// assert_eq!(components.table().len(), 2);
/// assert_eq!((components.table()[1].voxels, components.table()[1].size_um), (2, Some(0.5)));
/// # Ok::<(), updraft_data::DataError>(())
/// ```
pub fn label_components(
    mask: &dyn VolumeSource,
    config: ComponentConfig,
) -> Result<Components, DataError> {
    let spec = *mask.spec();
    let fault = |field: &str, got: String, expected: &str| VolumeError::Field {
        path: mask.name().into(),
        field: field.to_owned(),
        got,
        expected: expected.to_owned(),
    };
    if !are_labels(&spec) {
        let got = spec.raster.to_string();
        return Err(fault("the mask", got, "1 channel of u8 or u16").into());
    }
    let voxel = voxel_size(&spec);
    let (mut table, mut labels) = (Vec::new(), Vec::new());
    for frame in 0..spec.frames {
        let mut scan = Scan::new(&spec, config.connectivity);
        let mut pieces: Vec<Piece> = Vec::new();
        for slice in 0..spec.raster.slices() {
            let raster = read_slice(mask, frame, slice)?;
            scan.slice(&raster);
            pieces.resize_with(scan.forest.len(), Piece::default);
            scan.measure(slice, &mut pieces);
        }
        // Pieces are found in the order of their first voxels, and a root is the first of its
        // component.
        for label in (0..pieces.len()).rev() {
            let root = scan.forest.root(label as u32) as usize;
            if root != label {
                let piece = std::mem::take(&mut pieces[label]);
                pieces[root].add(&piece);
            }
        }
        let mut own = vec![0_u16; pieces.len()];
        let mut count = 0_u16;
        for (label, piece) in pieces.iter().enumerate() {
            if piece.voxels == 0 || piece.voxels < config.least_voxels {
                continue;
            }
            let Some(next) = count.checked_add(1) else {
                let expected = "at most 65535 in a frame; leave out those of few voxels";
                return Err(fault("the number of components", "more".to_owned(), expected).into());
            };
            count = next;
            own[label] = count;
            table.push(piece.component(count, frame, voxel));
        }
        for label in 0..own.len() {
            own[label] = own[scan.forest.root(label as u32) as usize];
        }
        labels.push(own);
    }
    Ok(Components { table, spec, config, labels })
}

impl Components {
    /// All components, frame by frame, in the order of their labels.
    #[must_use]
    pub fn table(&self) -> &[Component] {
        &self.table
    }

    /// The label of every voxel, as u16 in memory, for the mask that was labelled.
    ///
    /// # Errors
    /// As [`VolumeSource::read`].
    ///
    /// # Panics
    /// If `mask` is not the mask that was labeled.
    pub fn read(&self, mask: &dyn VolumeSource) -> Result<Volume, DataError> {
        let mut frames = vec![Vec::new(); self.spec.frames];
        self.each_slice(mask, |frame, labels| {
            frames[frame].extend_from_slice(labels);
            Ok(())
        })?;
        let sides = self.spec.raster.sides();
        let frames = frames.into_iter().map(|labels| Raster::try_new(1, &sides, labels));
        let name = format!("components of {}", mask.name());
        Volume::try_new(name, frames.collect::<Result<_, _>>()?, self.spec.voxel_um)
    }

    /// Writes the label of every voxel as OME-TIFF of u16, slice by slice.
    ///
    /// # Errors
    /// As [`VolumeSource::read`]; [`DataError::Write`].
    ///
    /// # Panics
    /// If `mask` is not the mask that was labeled.
    pub fn write(
        &self,
        mask: &dyn VolumeSource,
        path: impl AsRef<Path>,
        config: &TiffWriteConfig,
    ) -> Result<(), DataError> {
        let raster = RasterSpec { pixel_type: PixelType::U16, ..self.spec.raster };
        let spec = VolumeSpec { raster, ..self.spec };
        let mut writer = VolumeWriter::create(path, &spec, config)?;
        self.each_slice(mask, |_, labels| writer.write(&Pixels::from(labels)))?;
        writer.finish()
    }

    fn each_slice(
        &self,
        mask: &dyn VolumeSource,
        mut take: impl FnMut(usize, &[u16]) -> Result<(), DataError>,
    ) -> Result<(), DataError> {
        assert_eq!(*mask.spec(), self.spec, "another mask than the one that was labelled");
        let mut slice_labels = Vec::new();
        for (frame, labels) in self.labels.iter().enumerate() {
            let mut scan = Scan::new(&self.spec, self.config.connectivity);
            for slice in 0..self.spec.raster.slices() {
                scan.slice(&read_slice(mask, frame, slice)?);
                slice_labels.clear();
                let found = scan.current.iter();
                slice_labels.extend(
                    found.map(|&label| if label == NONE { 0 } else { labels[label as usize] }),
                );
                take(frame, &slice_labels)?;
            }
        }
        Ok(())
    }
}

/// The provisional label of the background.
const NONE: u32 = u32::MAX;

/// Provisional labels of the current and of the previous slice.
struct Scan {
    sides: [usize; 2],
    connectivity: Connectivity,
    forest: UnionFind,
    /// Values and labels of the previous slice; no values before the first one.
    before: (Vec<u16>, Vec<u32>),
    values: Vec<u16>,
    current: Vec<u32>,
}

impl Scan {
    fn new(spec: &VolumeSpec, connectivity: Connectivity) -> Self {
        let sides = [spec.raster.height, spec.raster.width];
        let count = sides[0] * sides[1];
        let before = (vec![0; count], vec![NONE; count]);
        let (values, current) = (vec![0; count], vec![NONE; count]);
        Self { sides, connectivity, forest: UnionFind::default(), before, values, current }
    }

    /// Labels the next slice.
    fn slice(&mut self, raster: &Raster<'_>) {
        std::mem::swap(&mut self.before.0, &mut self.values);
        std::mem::swap(&mut self.before.1, &mut self.current);
        match raster.pixels() {
            Pixels::U8(values) => copy(values, &mut self.values),
            Pixels::U16(values) => copy(values, &mut self.values),
            Pixels::F32(_) => unreachable!("refused before the first slice"),
        }
        let [rows, columns] = self.sides;
        for row in 0..rows {
            for column in 0..columns {
                let at = row * columns + column;
                let value = self.values[at];
                self.current[at] = NONE;
                if value == 0 {
                    continue;
                }
                let mut label = NONE;
                for (down, right, is_before) in self.neighbors() {
                    let (row, column) = (row as i64 + down, column as i64 + right);
                    if row < 0 || column < 0 || row >= rows as i64 || column >= columns as i64 {
                        continue;
                    }
                    let other = row as usize * columns + column as usize;
                    let (values, labels) = if is_before {
                        (&self.before.0, &self.before.1)
                    } else {
                        (&self.values, &self.current)
                    };
                    if values[other] == value {
                        let found = labels[other];
                        let is_new = label != NONE && label != found;
                        label = if is_new { self.forest.join(label, found) } else { found };
                    }
                }
                self.current[at] = if label == NONE { self.forest.add() } else { label };
            }
        }
    }

    /// The neighbors that are labelled before a voxel: rows down, columns right, and whether they
    /// are in the previous slice.
    fn neighbors(&self) -> impl Iterator<Item = (i64, i64, bool)> + use<> {
        let all = self.connectivity == Connectivity::Corners;
        let before =
            (-1..=1).flat_map(|down: i64| (-1..=1).map(move |right: i64| (down, right, true)));
        let same = [(-1, -1, false), (-1, 0, false), (-1, 1, false), (0, -1, false)];
        let is_face = |(down, right, is_before): &(i64, i64, bool)| {
            down.abs() + right.abs() + i64::from(*is_before) == 1
        };
        before.chain(same).filter(move |neighbor| all || is_face(neighbor))
    }

    /// Adds the voxels of the current slice to their pieces.
    fn measure(&self, slice: usize, pieces: &mut [Piece]) {
        for (at, &label) in self.current.iter().enumerate() {
            if label != NONE {
                let place = [slice, at / self.sides[1], at % self.sides[1]];
                pieces[label as usize].voxel(place, self.values[at]);
            }
        }
    }
}

/// The measurements of a provisional label.
#[derive(Debug, Default)]
struct Piece {
    class: u16,
    voxels: u64,
    sums: [u64; 3],
    first: [usize; 3],
    last: [usize; 3],
}

impl Piece {
    fn voxel(&mut self, place: [usize; 3], class: u16) {
        self.add(&Self {
            class,
            voxels: 1,
            sums: place.map(|at| at as u64),
            first: place,
            last: place,
        });
    }

    fn add(&mut self, other: &Self) {
        if self.voxels == 0 {
            (self.class, self.first, self.last) = (other.class, other.first, other.last);
        }
        self.voxels += other.voxels;
        for axis in 0..3 {
            self.sums[axis] += other.sums[axis];
            self.first[axis] = self.first[axis].min(other.first[axis]);
            self.last[axis] = self.last[axis].max(other.last[axis]);
        }
    }

    fn component(&self, label: u16, frame: usize, voxel: Option<f64>) -> Component {
        let &Self { class, voxels, sums, first, last } = self;
        let size_um = voxel.map(|voxel| voxel * voxels as f64);
        let center = sums.map(|sum| sum as f64 / voxels as f64);
        Component { label, frame, class, voxels, size_um, center, first, last }
    }
}

fn copy<T: Copy + Into<u16>>(values: &[T], to: &mut [u16]) {
    to.iter_mut().zip(values).for_each(|(to, &value)| *to = value.into());
}

fn read_slice(
    mask: &dyn VolumeSource,
    frame: usize,
    slice: usize,
) -> Result<Raster<'static>, DataError> {
    let [_, rows, columns] = mask.spec().sides();
    mask.read(&Region { frame, origin: [slice, 0, 0], sides: [1, rows, columns] })
}

/// The area of a pixel or the volume of a voxel.
fn voxel_size(spec: &VolumeSpec) -> Option<f64> {
    let [depth, height, width] = spec.voxel_um;
    let area = height? * width?;
    if spec.raster.depth.is_some() { Some(depth? * area) } else { Some(area) }
}
