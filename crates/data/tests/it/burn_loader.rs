//! The stream behind burn's `DataLoader` trait.

use burn::data::dataloader::DataLoader;
use burn::tensor::Device;
use updraft_data::{
    BurnLoader, Collate, DataError, Draw, InMemoryTensors, Loader, Order, StreamConfig, Targets,
    TensorBatch, Workers,
};
use updraft_testing::devices;

fn set() -> InMemoryTensors {
    InMemoryTensors::from_bytes(10, &[2], (0..20).collect(), Targets::None).unwrap()
}

fn config(workers: usize) -> StreamConfig {
    let config = StreamConfig::new(4).with_order(Order::Shuffled).with_seed(3);
    config.with_workers(Workers::Count(workers))
}

fn device() -> Device {
    devices().into_iter().next().unwrap()
}

fn indices(batch: TensorBatch, _: &Device) -> Vec<usize> {
    batch.indices().to_vec()
}

type Convert = fn(TensorBatch, &Device) -> Vec<usize>;

fn adapted(workers: usize) -> BurnLoader<InMemoryTensors, Convert> {
    BurnLoader::try_new(set(), config(workers), device(), indices as Convert).unwrap()
}

fn epoch(loader: &dyn DataLoader<Vec<usize>>) -> Vec<Vec<usize>> {
    loader.iter().map(Result::unwrap).collect()
}

#[test]
fn each_iterator_is_the_next_epoch_of_the_loader() {
    let plain = Loader::collating(set(), config(0)).unwrap();
    let expected = |number| -> Vec<Vec<usize>> {
        plain.epoch(number).map(|batch| batch.unwrap().indices().to_vec()).collect()
    };
    for workers in [0, 2] {
        let loader = adapted(workers);
        assert_eq!(loader.num_items(), 10);
        assert_eq!(epoch(&loader), expected(0));
        assert_eq!(epoch(&loader), expected(1));
        assert_eq!(epoch(&*loader.to_device(&device())), expected(2), "moved on the way");
        assert_eq!(epoch(&adapted(workers).with_epoch(7)), expected(7));
    }
}

#[test]
fn progress_counts_the_samples_that_were_taken() {
    let loader = adapted(0);
    let mut batches = loader.iter();
    for taken in [4, 8, 10] {
        batches.next().unwrap().unwrap();
        let progress = batches.progress();
        assert_eq!((progress.items_processed, progress.items_total), (taken, 10));
    }
    assert!(batches.next().is_none() && batches.progress().is_completed());
}

#[test]
fn slices_share_the_samples_out_and_may_be_sliced_and_empty() {
    let loader = adapted(0);
    let mut seen = [loader.slice(0, 5), loader.slice(5, 99)]
        .iter()
        .flat_map(|part| epoch(&**part).concat())
        .collect::<Vec<_>>();
    seen.sort_unstable();
    assert_eq!(seen, (0..10).collect::<Vec<_>>());
    let inner = loader.slice(2, 9).slice(1, 3);
    let mut seen = epoch(&*inner).concat();
    seen.sort_unstable();
    assert_eq!((seen, inner.num_items()), (vec![3, 4], 2));
    let nothing = loader.slice(7, 3);
    assert_eq!((epoch(&*nothing).len(), nothing.num_items()), (0, 0));
    assert!(nothing.iter().progress().is_completed());
}

/// Samples of which one is bad.
struct Bad;

impl Collate for Bad {
    type Batch = ();
    type Scratch = ();

    fn len(&self) -> usize {
        9
    }

    fn name(&self, index: usize) -> String {
        format!("sample {index}")
    }

    fn fingerprint(&self) -> String {
        "bad".to_owned()
    }

    fn sample_bytes(&self) -> usize {
        1
    }

    fn begin(&self, _: usize) {}

    fn add(&self, draw: Draw, (): &mut (), (): &mut ()) -> Result<(), DataError> {
        assert!(draw.index != 3, "not this one");
        Ok(())
    }

    fn truncate(&self, (): &mut (), _: usize) {}
}

#[test]
fn a_fault_reaches_burn_as_an_error_that_names_the_sample() {
    let loader =
        BurnLoader::try_new(Bad, StreamConfig::new(2), device(), |(), _: &Device| ()).unwrap();
    let results: Vec<_> = DataLoader::<()>::iter(&loader).collect();
    assert_eq!(results.len(), 2);
    let message = results[1].as_ref().unwrap_err().to_string();
    assert!(message.contains("sample 3") && message.contains("not this one"), "{message}");
}
