//! Caches of images at the size of the plan, as `data.cache` chooses.

use std::sync::Arc;

use updraft_data::{
    CacheUse, CachedImages, FileImages, ImageSource, InMemoryImages, Progress, Resized,
};

use super::cache_plan::CachePlan;
use super::data::Report;
use super::data_plan::{DataPlan, DataSource};
use crate::error::RunError;

/// Creates the caches of a plan's images.
pub(super) struct CacheBuilder<'a> {
    pub(super) data: &'a DataPlan,
    /// The images of all sets, which share a budget.
    pub(super) images: usize,
    /// Messages about cache files.
    pub(super) notes: &'a mut Vec<String>,
}

/// A data set at the plan's size.
pub(super) struct SizedSet {
    pub(super) images: Arc<dyn ImageSource>,
    /// The whole pictures, in the same order, if random parts of them are trained on.
    pub(super) pictures: Option<Arc<dyn ImageSource>>,
}

impl CacheBuilder<'_> {
    /// A data set that is trained on, as [`build`](Self::build), or with the whole pictures.
    pub(super) fn build_training(
        &mut self,
        source: Arc<dyn ImageSource>,
        report: Report<'_>,
    ) -> Result<SizedSet, RunError> {
        if !self.data.crops_pictures {
            return Ok(SizedSet {
                images: self.build(source, "training", report)?,
                pictures: None,
            });
        }
        let pictures: Arc<dyn ImageSource> = match self.data.cache {
            CachePlan::Memory { budget_mib } => {
                let bytes = self.share(budget_mib, &*source);
                Arc::new(CachedImages::try_new(source, None, bytes)?)
            }
            // The plan refuses caches of all images.
            CachePlan::None {} | CachePlan::Whole {} | CachePlan::File { .. } => source,
        };
        let (height, width) = self.data.size();
        let images = self.data.resize.cut(pictures.clone(), (height, width))?;
        // Its fingerprint is that of the caches, so that a run may continue with any of them.
        let images = Arc::new(Resized::try_new(images, height, width)?);
        Ok(SizedSet { images, pictures: Some(pictures) })
    }

    /// A data set as used for batches: `name` is `training` or `test`.
    pub(super) fn build(
        &mut self,
        source: Arc<dyn ImageSource>,
        name: &str,
        report: Report<'_>,
    ) -> Result<Arc<dyn ImageSource>, RunError> {
        let (height, width) = self.data.size();
        let source = self.data.resize.cut(source, (height, width))?;
        let is_drawn = matches!(self.data.source, DataSource::Generated { .. });
        let step = format!("{} {name} images", if is_drawn { "drawing" } else { "decoding" });
        let progress = &mut |progress: Progress| report(&step, progress);
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let size = Some((height, width));
        Ok(match &self.data.cache {
            CachePlan::Whole {} => {
                Arc::new(InMemoryImages::decode(source.as_ref(), size, threads, progress)?)
            }
            CachePlan::Memory { budget_mib } => {
                let bytes = self.share(*budget_mib, &*source);
                Arc::new(CachedImages::try_new(source, size, bytes)?)
            }
            CachePlan::File { folder } => {
                let path = folder.join(format!("{name}-{width}x{height}.images"));
                let (images, used) =
                    FileImages::open(source.as_ref(), size, path, threads, progress)?;
                self.notes.extend(note(&format!("{name} images"), &used));
                Arc::new(images)
            }
            CachePlan::None {} => Arc::new(Resized::try_new(source, height, width)?),
        })
    }

    /// The bytes of a budget that are for one of the sets.
    fn share(&self, budget_mib: u64, source: &dyn ImageSource) -> usize {
        let share = u128::from(budget_mib << 20) * source.len() as u128;
        usize::try_from(share / self.images.max(1) as u128).unwrap_or(usize::MAX)
    }
}

/// The message about a cache; `None` if it was used unchanged.
pub(super) fn note(name: &str, used: &CacheUse) -> Option<String> {
    match used {
        CacheUse::Rebuilt { reason } => Some(format!("{name} rebuilt: {reason}")),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use updraft_data::{Cue, DataError, GeneratedConfig, GeneratedImages, Image};

    use super::*;

    /// Generated images that count how often they are drawn.
    struct Counted {
        images: GeneratedImages,
        reads: AtomicUsize,
    }

    impl ImageSource for Counted {
        fn len(&self) -> usize {
            self.images.len()
        }

        fn classes(&self) -> &[String] {
            self.images.classes()
        }

        fn label(&self, index: usize) -> usize {
            self.images.label(index)
        }

        fn name(&self, index: usize) -> String {
            self.images.name(index)
        }

        fn read(&self, index: usize) -> Result<Image<'_>, DataError> {
            self.reads.fetch_add(1, Ordering::SeqCst);
            self.images.read(index)
        }

        fn fingerprint(&self) -> String {
            self.images.fingerprint()
        }
    }

    #[test]
    fn each_kind_of_cache_reads_the_images_as_often_as_it_says_and_changes_none() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let file = format!("{{kind='file',folder={:?}}}", folder.path());
        // An image takes 192 KiB: a MiB holds five of sixteen.
        let cases = [
            ("{kind='whole'}", [16, 0, 0]),
            ("{kind='memory',budget_mib=3}", [0, 16, 0]),
            ("{kind='memory',budget_mib=1}", [0, 16, 11]),
            (file.as_str(), [16, 0, 0]),
            ("{kind='none'}", [0, 16, 16]),
        ];
        let mut first: Option<Vec<Vec<u8>>> = None;
        for (cache, expected) in cases {
            let cache: CachePlan = toml::from_str::<toml::Table>(&format!("c = {cache}"))
                .expect("TOML")["c"]
                .clone()
                .try_into()
                .expect("a cache");
            let plan = DataPlan { cache: cache.clone(), ..DataPlan::of_size(256, 256) };
            let config = GeneratedConfig::new(Cue::Both, 16).with_size(16, 16);
            let images = GeneratedImages::try_new(config).expect("generated");
            let source = Arc::new(Counted { images, reads: AtomicUsize::new(0) });
            let mut notes = Vec::new();
            let mut caches = CacheBuilder { data: &plan, images: 16, notes: &mut notes };
            let kept = caches.build(source.clone(), "training", &mut |_, _| {}).expect("kept");
            let reads = || source.reads.swap(0, Ordering::SeqCst);
            let all = || -> Vec<Vec<u8>> {
                (0..16).map(|index| kept.read(index).expect("read").into_pixels()).collect()
            };
            let at_first = reads();
            let pixels = all();
            let then = reads();
            assert_eq!(all(), pixels);
            assert_eq!([at_first, then, reads()], expected, "{cache:?}");
            assert_eq!(&pixels, first.get_or_insert(pixels.clone()), "{cache:?}");
        }
        assert!(folder.path().join("training-256x256.images").is_file());
    }
}
