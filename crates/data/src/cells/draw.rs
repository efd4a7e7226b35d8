//! Generated images of cells.

use crate::cells::blur::blur;
use crate::cells::scene::{Part, VOXEL_UM, cells};
use crate::error::DataError;
use crate::random::{Purpose, Random};
use crate::raster::Raster;
use crate::volume::Volume;

/// Which cells are drawn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CellsConfig {
    /// Rows and columns of a picture, or slices, rows and columns of a volume; voxels are 0.3 µm
    /// deep and 0.1 µm wide.
    pub sides: Vec<usize>,
    /// A different seed gives a different set.
    pub seed: u64,
}

/// One generated field of cells: images and masks.
#[derive(Debug, Clone, PartialEq)]
pub struct CellImages {
    /// Transmitted light, one channel of u16: refracting objects are bright with a dark halo, as in
    /// phase contrast, with little sectioning.
    pub transmitted: Volume,
    /// Fluorescence, two channels of u16: bodies and nuclei.
    pub fluorescence: Volume,
    /// The class of every voxel, u8: 0 for background, 1 for a body, 2 for a nucleus.
    pub classes: Volume,
    /// The cell of every voxel, u16, counted from 1; 0 for background.
    pub instances: Volume,
}

/// The value of a dark pixel.
const OFFSET: f32 = 100.0;

/// Photons per voxel in a body or nucleus of brightness 1, and of the lamp.
const PHOTONS: f32 = 400.0;
const LAMP_PHOTONS: f32 = 4000.0;

/// The standard deviation of the read noise.
const READ_NOISE: f32 = 4.0;

/// Draws one field of cells: bodies with nuclei, blurred by a point-spread function, with photon
/// noise and read noise.
///
/// Field `index` is a function of (seed, index) alone. The fluorescence is the mask of bodies and
/// nuclei, blurred by a Gaussian of 0.12 µm in the plane and 0.35 µm along the depth. The
/// transmitted light is the difference of the optical path blurred by 0.1 µm and by 0.5 µm (0.6 µm
/// and 0.9 µm along the depth), where a nucleus adds 60 % to its body.
///
/// # Errors
/// [`DataError::Setting`] for sides that are not two or three, each from 8 (slices from 1) to 4096.
///
/// # Example
/// ```
/// use updraft_data::{CellsConfig, VolumeSource, draw_cells};
///
/// let images = draw_cells(&CellsConfig { sides: vec![8, 64, 64], seed: 7 }, 0)?;
/// assert_eq!(images.fluorescence.spec().raster.channels, 2);
/// assert_eq!(images.classes.spec().sides(), [8, 64, 64]);
/// # Ok::<(), updraft_data::DataError>(())
/// ```
pub fn draw_cells(config: &CellsConfig, index: usize) -> Result<CellImages, DataError> {
    let plane_fits = config.sides.iter().rev().take(2).all(|side| (8..=4096).contains(side));
    let is_volume = config.sides.len() == 3;
    if !plane_fits || !matches!(config.sides.len(), 2 | 3) || !(1..=4096).contains(&config.sides[0])
    {
        let expected = "2 or 3 sides: up to 4096 slices, 8 to 4096 rows and columns".to_owned();
        let value = format!("{:?}", config.sides);
        return Err(DataError::Setting { name: "sides", value, expected });
    }
    let sides = match config.sides[..] {
        [height, width] => [1, height, width],
        _ => [config.sides[0], config.sides[1], config.sides[2]],
    };
    let mut random = Random::new(Purpose::Cells, config.seed, 0, index as u64);
    let count: usize = sides.iter().product();
    let (mut body, mut nucleus) = (vec![0.0_f32; count], vec![0.0_f32; count]);
    let (mut classes, mut instances) = (vec![0_u8; count], vec![0_u16; count]);
    for (number, cell) in (1_u16..).zip(cells(sides, is_volume, &mut random)) {
        let [slices, rows, columns] = cell.reach(sides);
        for slice in slices {
            for row in rows.clone() {
                for column in columns.clone() {
                    let at = [slice, row, column];
                    let place = [0, 1, 2].map(|axis| (at[axis] as f32 + 0.5) * VOXEL_UM[axis]);
                    let Some(part) = cell.part(place) else { continue };
                    let at = (slice * sides[1] + row) * sides[2] + column;
                    instances[at] = number;
                    body[at] = cell.brightness[0];
                    classes[at] = 1;
                    if part == Part::Nucleus {
                        nucleus[at] = cell.brightness[1];
                        classes[at] = 2;
                    }
                }
            }
        }
    }
    let sigma = |depth_um: f64, plane_um: f64| {
        let [depth, height, width] = VOXEL_UM.map(f64::from);
        [depth_um / depth, plane_um / height, plane_um / width]
    };
    let path: Vec<f32> =
        body.iter().zip(&nucleus).map(|(body, nucleus)| 0.5 * body + 0.3 * nucleus).collect();
    let sharp = blur(&path, sides, sigma(0.6, 0.1));
    let soft = blur(&path, sides, sigma(0.9, 0.5));
    // The lamp is slightly off center.
    let slope = [random.between(-0.1, 0.1), random.between(-0.1, 0.1)];
    let lamp = |at: usize| {
        let row = (at / sides[2] % sides[1]) as f32 / sides[1] as f32 - 0.5;
        let column = (at % sides[2]) as f32 / sides[2] as f32 - 0.5;
        LAMP_PHOTONS * (1.0 + slope[0] * row + slope[1] * column)
    };
    let light = sharp.iter().zip(&soft).enumerate();
    let light: Vec<f32> =
        light.map(|(at, (sharp, soft))| lamp(at) * (1.0 + 0.8 * (sharp - soft))).collect();
    let transmitted = counted(&light, &mut random);
    let [body, nucleus] = [body, nucleus].map(|part| {
        let blurred = blur(&part, sides, sigma(0.35, 0.12));
        let photons: Vec<f32> = blurred.iter().map(|value| PHOTONS * value + 10.0).collect();
        counted(&photons, &mut random)
    });
    let voxel_um = VOXEL_UM.map(|size| Some(f64::from(size * 1000.0).round() / 1000.0));
    let voxel_um = [voxel_um[0].filter(|_| is_volume), voxel_um[1], voxel_um[2]];
    let volume = |what: &str, raster: Raster<'static>| {
        let name = format!("{what} of drawn cells {index}, seed {}", config.seed);
        Volume::try_new(name, vec![raster], voxel_um)
    };
    let own = &config.sides;
    Ok(CellImages {
        transmitted: volume("transmitted light", Raster::try_new(1, own, transmitted)?)?,
        fluorescence: volume(
            "fluorescence",
            Raster::from_planes(2, own, [body, nucleus].concat())?,
        )?,
        classes: volume("classes", Raster::try_new(1, own, classes)?)?,
        instances: volume("instances", Raster::try_new(1, own, instances)?)?,
    })
}

/// The camera's value: photon noise has the square root of their number as standard deviation, and
/// read noise is added.
fn counted(photons: &[f32], random: &mut Random) -> Vec<u16> {
    let count = |&photons: &f32| {
        let photons = photons.max(0.0);
        let noise = photons.sqrt() * random.bell() + READ_NOISE * random.bell();
        (OFFSET + photons + noise).round().clamp(0.0, 65_535.0) as u16
    };
    photons.iter().map(count).collect()
}
