//! The table of components: size, bounding box and center.

use std::io::Write;
use std::path::Path;

use crate::cache::AtomicFile;
use crate::components::Components;
use crate::error::DataError;

/// One component of a mask.
#[derive(Debug, Clone, PartialEq)]
pub struct Component {
    /// Its label in the result, from 1 in each frame.
    pub label: u16,
    /// The frame it is in.
    pub frame: usize,
    /// The label that its voxels have in the mask.
    pub class: u16,
    /// How many voxels it has.
    pub voxels: u64,
    /// Its area or volume in µm² or µm³, if the size of a voxel is known.
    pub size_um: Option<f64>,
    /// The mean slice, row and column of its voxels.
    pub center: [f64; 3],
    /// The first slice, row and column.
    pub first: [usize; 3],
    /// The last slice, row and column.
    pub last: [usize; 3],
}

impl Components {
    /// Writes the table of components as CSV, with a header.
    ///
    /// # Errors
    /// [`DataError::Write`]; an existing file is then unchanged.
    pub fn write_csv(&self, path: impl AsRef<Path>) -> Result<(), DataError> {
        let mut text = Vec::new();
        let header = "frame,label,class,voxels,size_um,center_z,center_y,center_x,\
                      first_z,first_y,first_x,last_z,last_y,last_x";
        // Writing to memory cannot fail.
        let _ = writeln!(text, "{header}");
        for component in self.table() {
            let Component { frame, label, class, voxels, size_um, center, first, last } = component;
            let size = size_um.map_or_else(String::new, |size| size.to_string());
            let _ = write!(text, "{frame},{label},{class},{voxels},{size}");
            center.iter().for_each(|at| drop(write!(text, ",{at}")));
            first.iter().chain(last).for_each(|at| drop(write!(text, ",{at}")));
            let _ = writeln!(text);
        }
        let mut file = AtomicFile::create(path.as_ref())?;
        file.write(&text)?;
        file.finish()
    }
}
