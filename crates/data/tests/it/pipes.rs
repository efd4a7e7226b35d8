//! Pipes instead of files of data: they are refused and not waited for.

use std::path::Path;
use std::process::Command;
use std::sync::mpsc::channel;
use std::time::Duration;

use updraft_data::{CifarFiles, ImageFolder, ImageSource, Quarantined, TarImages};

use crate::files::{folder, two_classes};

const PATIENCE: Duration = Duration::from_secs(20);

fn pipe(path: &Path) {
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
}

/// The error of work that must not wait.
fn refused(what: &str, work: impl FnOnce() -> Result<(), String> + Send + 'static) -> String {
    let (sender, receiver) = channel();
    std::thread::spawn(move || sender.send(work()));
    let done = receiver.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("{what} is waited for"));
    done.expect_err(what)
}

#[test]
fn a_pipe_as_an_image_or_an_archive_is_refused() {
    let root = folder(&two_classes());
    pipe(&root.path().join("cat/0.png"));
    let images = ImageFolder::open(root.path()).unwrap();
    let at = (0..images.len()).find(|&at| images.name(at).ends_with("0.png")).unwrap();
    let said =
        refused("an image", move || images.read(at).map(drop).map_err(|error| error.to_string()));
    assert!(said.contains("0.png") && said.contains("it is not a regular file"), "{said}");

    let path = root.path().join("data.tar.gz");
    pipe(&path);
    let of = path.clone();
    let tar = refused("an archive", move || {
        TarImages::open(&of, &mut |_| {}).map(drop).map_err(|error| error.to_string())
    });
    let (of, cache) = (path.clone(), root.path().join("cache"));
    let cached = refused("a cached archive", move || {
        TarImages::open_cached(&of, cache, &mut |_| {}).map(drop).map_err(|error| error.to_string())
    });
    let of = path.clone();
    let cifar = refused("an archive of CIFAR", move || {
        CifarFiles::open(&of, &mut |_| {}).map(drop).map_err(|error| error.to_string())
    });
    let list = refused("a list of images to skip", move || {
        Quarantined::read(&path).map(drop).map_err(|error| error.to_string())
    });
    for said in [tar, cached, cifar, list] {
        assert!(
            said.contains("data.tar.gz` cannot be opened: it is not a regular file; put a regular"),
            "{said}"
        );
    }
}
