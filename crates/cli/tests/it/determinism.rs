//! Same seed, same binary, same CPU: the same bits, with one thread or two.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use crate::command::{metrics, said, tiny, updraft};

/// The tensors of a record by path: ids and order in the file are random.
pub(crate) fn tensors(path: &Path) -> Vec<(String, Vec<u8>)> {
    let bytes = fs::read(path).expect("a record");
    let bytes = burn::tensor::Bytes::from_bytes_vec(bytes);
    let reader = burn_pack::Reader::from_bytes(bytes).expect("a burnpack");
    let sorted: BTreeMap<_, _> = reader
        .into_tensors()
        .expect("tensors")
        .into_iter()
        .map(|tensor| {
            let (name, _, _, _, bytes) = tensor.into_parts().expect("a tensor");
            (name, bytes.to_vec())
        })
        .collect();
    sorted.into_iter().collect()
}

#[test]
fn one_thread_or_two_train_the_same_weights_with_the_same_metrics() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let train = |threads: &str, workers: &str| {
        let workers = format!("train.workers={workers}");
        let more = [
            "--set",
            "augment.flip=true",
            "--set",
            "augment.translate=2",
            "--set",
            "augment.mix_up={alpha=0.3}",
            "--set",
            "model.dropout=0.2",
            "--set",
            "model.channels=8",
            "--set",
            workers.as_str(),
        ];
        let output = updraft(dir.path(), &tiny(&more))
            .env("RAYON_NUM_THREADS", threads)
            .output()
            .expect("the binary starts");
        let said = said(output);
        assert_eq!(said.code, 0, "{}", said.stderr);
        let run = dir.path().join(said.run_folder());
        (metrics(&run), tensors(&run.join("checkpoints/step-00000012/model.bpk")))
    };
    let one = train("1", "0");
    for (threads, workers) in [("1", "0"), ("2", "2"), ("2", "auto")] {
        let other = train(threads, workers);
        assert_eq!(one.0, other.0, "metrics, {threads} threads, {workers} workers");
        assert!(one.1 == other.1, "weights, {threads} threads, {workers} workers");
    }
}
