//! Drawn volumes of bright blobs, with what is to be found in them.

use crate::error::DataError;
use crate::patch::PatchPair;
use crate::random::{Purpose, Random};

/// Draws volumes of soft blobs as a microscope might show them, and the blobs alone as targets:
/// something to learn segmentation or label-free prediction from, without a download.
///
/// A target is `max_b exp(−|x − c_b|² / 2σ_b²)` over 3 to 8 blobs with centers anywhere and σ
/// from 0.06 to 0.12 of the shortest side.
/// Its input is `0.6 · target² + 0.2 · slope + noise`: the blobs sharper, on a ground that slopes
/// from 0 to 1 along a random axis, under noise of standard deviation 0.05.
///
/// Volume `i` is a function of (seed, i) alone.
///
/// # Shapes
/// `shape` is depth, height and width; each pair has one channel of input and one of target.
///
/// # Errors
/// [`DataError::Setting`] for no volumes, or a side that is not 4 to 512.
pub fn blob_volumes(
    volumes: usize,
    shape: [usize; 3],
    seed: u64,
) -> Result<Vec<PatchPair>, DataError> {
    let fault = |name, value: String, expected: &str| {
        Err(DataError::Setting { name, value, expected: expected.to_owned() })
    };
    if volumes == 0 || volumes > 1 << 20 {
        return fault("volumes", volumes.to_string(), "1 to 1048576");
    }
    if shape.iter().any(|side| !(4..=512).contains(side)) {
        return fault("shape", format!("{shape:?}"), "sides from 4 to 512");
    }
    Ok((0..volumes).map(|index| draw(index, shape, seed)).collect())
}

struct Blob {
    center: [f32; 3],
    /// `1 / 2σ²`.
    sharpness: f32,
}

fn draw(index: usize, shape: [usize; 3], seed: u64) -> PatchPair {
    let mut random = Random::new(Purpose::Blobs, seed, 0, index as u64);
    let sides = shape.map(|side| side as f32);
    let shortest = sides.into_iter().fold(f32::INFINITY, f32::min);
    let blobs: Vec<Blob> = (0..3 + random.below(6))
        .map(|_| {
            let center = sides.map(|side| random.between(0.0, side));
            let sigma = shortest * random.between(0.06, 0.12);
            Blob { center, sharpness: 0.5 / (sigma * sigma) }
        })
        .collect();
    let axis = random.below(3) as usize;
    let count = shape.iter().product();
    let (mut input, mut target) = (Vec::with_capacity(count), Vec::with_capacity(count));
    for depth in 0..shape[0] {
        for row in 0..shape[1] {
            for column in 0..shape[2] {
                let place = [depth, row, column].map(|at| at as f32 + 0.5);
                // The nearest blob by its own measure: one exponential a voxel.
                let exponent = blobs
                    .iter()
                    .map(|blob| {
                        let gap = [0, 1, 2].map(|at| place[at] - blob.center[at]);
                        blob.sharpness * gap.iter().map(|gap| gap * gap).sum::<f32>()
                    })
                    .fold(f32::INFINITY, f32::min);
                let blob = (-exponent).exp();
                let slope = place[axis] / sides[axis];
                target.push(blob);
                input.push(0.6 * blob * blob + 0.2 * slope + 0.05 * random.bell());
            }
        }
    }
    PatchPair {
        name: format!("blob volume {index} of seed {seed}"),
        shape: shape.to_vec(),
        channels: 1,
        input,
        target_channels: 1,
        target,
    }
}
