//! Sliding windows whose batches several ranks divide.

use std::ops::ControlFlow;
use std::path::Path;

use updraft_data::{
    ModelError, PredictConfig, Predicted, PredictionStart, SlidingWindow, VolumeSource,
    WindowBatch, WindowModel, WindowProgress,
};
use updraft_distributed::{Collective, CollectiveError, agree, gather};
use updraft_trainer::TrainError;

use crate::error::RunError;

/// Predicts an image into a file, which rank 0 writes; `None` on the other ranks.
///
/// Batches are those of one rank, and each is computed on one rank, so that the file has the same
/// bits for any number of ranks.
///
/// # Errors
/// As [`SlidingWindow::predict_to_tiff`]; [`RunError::Train`] if a rank is lost, or reads another
/// image or model than rank 0.
pub(in crate::task) fn predict_to_tiff(
    sliding: SlidingWindow,
    (input, output): (&dyn VolumeSource, &Path),
    config: &PredictConfig,
    ranks: &mut dyn Collective,
    model: &mut WindowModel<'_>,
    progress: &mut dyn FnMut(WindowProgress) -> ControlFlow<()>,
) -> Result<Option<Predicted>, RunError> {
    if ranks.size() == 1 {
        return Ok(Some(sliding.predict_to_tiff(input, output, config, model, progress)?));
    }
    let start = start(&sliding, (input, output), config, ranks)?;
    let is_first = ranks.rank() == 0;
    let batch = sliding.batch;
    let sliding = sliding.with_batches(ranks.size());
    let mut model = |windows: WindowBatch| divided(windows, batch, ranks, model);
    if is_first {
        Ok(Some(sliding.predict_to_tiff(input, output, config, &mut model, progress)?))
    } else {
        sliding.follow(input, &start, &mut model, progress)?;
        Ok(None)
    }
}

/// Where rank 0 starts, on every rank.
fn start(
    sliding: &SlidingWindow,
    (input, output): (&dyn VolumeSource, &Path),
    config: &PredictConfig,
    ranks: &mut dyn Collective,
) -> Result<PredictionStart, RunError> {
    let failed = |cause: CollectiveError| RunError::from(TrainError::from(cause));
    let own = sliding.start(input, output, config);
    agree(ranks, "the digest of the image, the model and the options", &own.settings)
        .map_err(failed)?;
    // Other ranks may read the file of an earlier run while rank 0 changes it.
    let mut planes = (own.resumed_planes as u64).to_le_bytes();
    ranks.broadcast(0, &mut planes).map_err(failed)?;
    let resumed_planes = usize::try_from(u64::from_le_bytes(planes)).unwrap_or(usize::MAX);
    Ok(PredictionStart { resumed_planes, ..own })
}

/// The results of some batches, of which each rank computes one.
fn divided(
    windows: WindowBatch,
    batch: usize,
    ranks: &mut dyn Collective,
    model: &mut WindowModel<'_>,
) -> Result<Vec<f32>, ModelError> {
    let each = windows.values.len() / windows.windows;
    let own = match windows.values.chunks(batch * each).nth(ranks.rank()) {
        None => Vec::new(),
        Some(values) => {
            model(WindowBatch { windows: values.len() / each, values: values.to_vec(), ..windows })?
        }
    };
    let bytes: Vec<u8> = own.iter().flat_map(|value| value.to_le_bytes()).collect();
    let all = gather(ranks, &bytes)?.concat();
    Ok(all.as_chunks().0.iter().map(|value| f32::from_le_bytes(*value)).collect())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::time::Duration;

    use updraft_data::{Raster, Reduction, TiffWriteConfig, Volume};
    use updraft_distributed::{Alone, Threads};

    use super::*;

    /// The bytes of the file that so many ranks write, and the windows that each computed.
    fn predicted(ranks: usize, planes: usize) -> (Vec<u8>, Vec<usize>) {
        let folder = tempfile::tempdir().expect("a folder");
        let output = folder.path().join("out.tif");
        let config = PredictConfig {
            reduction: Reduction::Keep,
            tiff: TiffWriteConfig::default(),
            model: "a model".to_owned(),
        };
        let numbers: Vec<f32> = (0..planes * 20 * 30).map(|at| (at * 7919 % 1000) as f32).collect();
        let raster = Raster::try_new(1, &[planes, 20, 30], numbers).expect("a raster");
        let volume = Volume::try_new("volume", vec![raster], [None; 3]).expect("a volume");
        let predict = |collective: &mut dyn Collective| {
            let mut computed = 0;
            // The batch decides the result, as it can in a kernel.
            let mut model = |windows: WindowBatch| {
                computed += windows.windows;
                let factor = windows.windows as f32;
                Ok(windows.values.iter().map(|value| value * factor).collect())
            };
            let sliding = SlidingWindow::new(&[4, 8, 8]).with_batch(3);
            let files: (&dyn VolumeSource, &Path) = (&volume, &output);
            let progress = &mut |_| ControlFlow::Continue(());
            let written =
                predict_to_tiff(sliding, files, &config, collective, &mut model, progress);
            assert_eq!(written.expect("predicted").is_some(), collective.rank() == 0);
            computed
        };
        let computed = match ranks {
            1 => vec![predict(&mut Alone)],
            _ => std::thread::scope(|scope| {
                let engines = Threads::group(ranks, Duration::from_secs(60));
                let predict = &predict;
                let of_rank = |mut engine| scope.spawn(move || predict(&mut engine));
                let threads: Vec<_> = engines.into_iter().map(of_rank).collect();
                threads.into_iter().map(|thread| thread.join().expect("a rank")).collect()
            }),
        };
        (fs::read(output).expect("a file"), computed)
    }

    #[test]
    fn several_ranks_write_the_file_of_one_and_divide_the_windows() {
        let (expected, alone) = predicted(1, 7);
        for ranks in [2, 3] {
            let (file, computed) = predicted(ranks, 7);
            assert!(file == expected, "{ranks} ranks");
            assert_eq!(computed.iter().sum::<usize>(), alone[0]);
            assert!(computed.iter().all(|own| *own > 0), "{computed:?}");
        }
    }
}
