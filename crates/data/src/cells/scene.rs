//! The positions of generated cells, and the share of each voxel that they cover.

use std::f32::consts::TAU;

use crate::random::Random;

/// A rotated ellipsoid, in µm.
#[derive(Debug, Clone)]
struct Ellipsoid {
    center: [f32; 3],
    /// Cosine and sine of the angle in the plane.
    turn: [f32; 2],
    radii: [f32; 3],
}

/// A body and its nucleus.
#[derive(Debug, Clone)]
pub(super) struct Cell {
    body: Ellipsoid,
    nucleus: Ellipsoid,
    /// The brightness of the body and the nucleus, about 1.
    pub(super) brightness: [f32; 2],
}

/// What covers a voxel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    Body,
    Nucleus,
}

/// The size of a voxel in µm.
pub(super) const VOXEL_UM: [f32; 3] = [0.3, 0.1, 0.1];

/// The radius of a cell in the plane, in µm.
const RADIUS_UM: [f32; 2] = [0.8, 1.3];

impl Ellipsoid {
    /// The squared distance from the center, 1 at the surface.
    fn distance(&self, place: [f32; 3]) -> f32 {
        let [z, y, x] = [0, 1, 2].map(|axis| place[axis] - self.center[axis]);
        let [cos, sin] = self.turn;
        let turned = [z, cos * y - sin * x, sin * y + cos * x];
        (0..3).map(|axis| (turned[axis] / self.radii[axis]).powi(2)).sum()
    }
}

impl Cell {
    fn draw(sides_um: [f32; 3], is_volume: bool, random: &mut Random) -> Self {
        let radius = random.between(RADIUS_UM[0], RADIUS_UM[1]);
        let stretch = random.between(0.8, 1.25);
        let angle = f64::from(random.between(0.0, TAU));
        let turn = [angle.cos() as f32, angle.sin() as f32];
        // A picture is a section through the middle of its cells.
        let mut center = sides_um.map(|side| random.between(0.0, side));
        if !is_volume {
            center[0] = 0.5 * VOXEL_UM[0];
        }
        let radii = [0.7 * radius, radius * stretch, radius / stretch];
        let share = random.between(0.45, 0.6);
        let mut nucleus = center;
        for (at, radius) in nucleus.iter_mut().zip(radii).skip(usize::from(!is_volume)) {
            *at += radius * random.between(-0.2, 0.2);
        }
        Self {
            body: Ellipsoid { center, turn, radii },
            nucleus: Ellipsoid { center: nucleus, turn, radii: radii.map(|radius| share * radius) },
            brightness: [random.between(0.7, 1.3), random.between(0.7, 1.3)],
        }
    }

    /// Whether two cells may touch.
    fn is_near(&self, other: &Self) -> bool {
        // In units of the radii: a cell is flatter than it is wide.
        let gap = [0, 1, 2].map(|axis| {
            let reach = |cell: &Self| {
                let [depth, height, width] = cell.body.radii;
                if axis == 0 { depth } else { height.max(width) }
            };
            (self.body.center[axis] - other.body.center[axis]) / (reach(self) + reach(other))
        });
        gap.iter().map(|gap| gap * gap).sum::<f32>() < 1.0
    }

    /// Which part of the cell covers a position.
    pub(super) fn part(&self, place: [f32; 3]) -> Option<Part> {
        if self.body.distance(place) > 1.0 {
            return None;
        }
        Some(if self.nucleus.distance(place) > 1.0 { Part::Body } else { Part::Nucleus })
    }

    /// The voxels that the cell can cover: the first one and the one after the last, by axis.
    pub(super) fn reach(&self, sides: [usize; 3]) -> [std::ops::Range<usize>; 3] {
        let [depth, height, width] = self.body.radii;
        [0, 1, 2].map(|axis| {
            let radius = if axis == 0 { depth } else { height.max(width) };
            let place = |um: f32| (um / VOXEL_UM[axis]).clamp(0.0, sides[axis] as f32);
            let center = self.body.center[axis];
            place(center - radius).floor() as usize..place(center + radius).ceil() as usize
        })
    }
}

/// Cells that do not touch and cover about a third of the area.
pub(super) fn cells(sides: [usize; 3], is_volume: bool, random: &mut Random) -> Vec<Cell> {
    let sides_um = [0, 1, 2].map(|axis| sides[axis] as f32 * VOXEL_UM[axis]);
    let area = sides_um[1] * sides_um[2];
    let layers = if is_volume { (sides_um[0] / 2.0).max(1.0) } else { 1.0 };
    let wanted = ((area * layers / 10.0).round() as usize).max(1);
    let mut cells: Vec<Cell> = Vec::new();
    for _ in 0..20 * wanted {
        if cells.len() == wanted {
            break;
        }
        let cell = Cell::draw(sides_um, is_volume, random);
        if !cells.iter().any(|other| other.is_near(&cell)) {
            cells.push(cell);
        }
    }
    cells
}
