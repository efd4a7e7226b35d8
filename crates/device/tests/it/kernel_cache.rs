//! Caches of kernels on files, without a device.

use std::fs::{self, File};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use cubecl_environment::environment;
use cubecl_environment::persistence::{Access, Database, Insertion, Origin};
use updraft_device::{DeviceError, KernelOrigin, OwnKernelCache, StoredChoices, probe};

/// The cache of a process is one for all its threads.
static ALONE: Mutex<()> = Mutex::new(());

/// As CubeCL names what it keeps.
const TUNED: &str = "autotune/0.11.3/a-device/burn-matmul";
const COMPILED: &str = "cuda/0.11.3/ptx_sm90";
const RECORDS: &str = "records/v1/tune";

fn alone() -> MutexGuard<'static, ()> {
    let held = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    // CubeCL's configuration, which a device reads, chooses a cache once.
    let _ = probe();
    held
}

fn origin(driver: &str) -> KernelOrigin {
    let text = format!(
        r#"{{"backend":"cuda","device":"a device","target":"ptx_sm90","driver":"{driver}",
            "cubecl":"0.11.3","system":"linux-x86_64"}}"#
    );
    serde_json::from_str(&text).expect("an origin")
}

/// The cache that this process uses.
fn active() -> Database {
    Database::open_active().expect("a cache")
}

fn write(cache: &Database, namespace: &str, key: &str, value: &str) {
    let written = cache.insert(namespace, key.as_bytes(), value.as_bytes(), Origin::Local);
    assert_eq!(written, Insertion::Stored, "{namespace} {key}");
}

fn read(cache: &Database, namespace: &str, key: &str) -> Option<String> {
    let value = cache.get(namespace, key.as_bytes())?;
    Some(String::from_utf8(value.to_vec()).expect("text"))
}

/// Makes a machine's cache in `root` with these choices, and uses it.
fn machine(root: &Path, choices: &[(&str, &str)]) {
    environment::set_root(root);
    for (key, value) in choices {
        write(&active(), TUNED, key, value);
    }
}

#[test]
fn choices_of_a_run_are_kept_and_taken_again_before_those_of_the_machine() {
    let _alone = alone();
    let (first, second) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let run = tempfile::tempdir().unwrap();
    let stored = run.path().join("kernel-choices.db");
    machine(first.path(), &[("a", "of the machine")]);
    write(&active(), COMPILED, "kernel", "code");
    write(&active(), RECORDS, "session", "a record");
    let shared = environment::path();

    let (mut own, found) = OwnKernelCache::begin(&origin("570"), Some(&stored)).unwrap();
    assert_eq!(found, StoredChoices::Missing);
    assert_eq!(environment::path(), own.file());
    assert!(own.file().starts_with(first.path()));
    assert_eq!(read(&active(), TUNED, "a").as_deref(), Some("of the machine"));
    assert_eq!(read(&active(), COMPILED, "kernel").as_deref(), Some("code"));
    assert_eq!(read(&active(), RECORDS, "session"), None);
    write(&active(), TUNED, "b", "of the run");
    write(&active(), TUNED, "c", "of the run");
    write(&active(), COMPILED, "other kernel", "code of the run");
    // Another process measures at the same time and chooses another kernel.
    let others = Database::open_at(&shared, Access::ReadWrite).unwrap();
    write(&others, TUNED, "b", "of another process");
    drop(others);
    assert_eq!(own.store(&stored).unwrap(), 3);
    let bytes = fs::read(&stored).unwrap();
    assert_eq!(own.store(&stored).unwrap(), 3);
    assert_eq!(fs::read(&stored).unwrap(), bytes, "nothing was new");
    write(&active(), TUNED, "d", "of the run");
    assert_eq!(own.store(&stored).unwrap(), 4);

    let own_file = own.file().to_owned();
    assert!(own.finish().unwrap() >= 3);
    assert_eq!(environment::path(), shared);
    assert!(!own_file.exists());
    assert_eq!(read(&active(), TUNED, "b").as_deref(), Some("of another process"));
    assert_eq!(read(&active(), TUNED, "c").as_deref(), Some("of the run"));
    assert_eq!(read(&active(), COMPILED, "other kernel").as_deref(), Some("code of the run"));

    // Resumed on a machine that has measured again, with other results.
    let later = [("a", "measured later"), ("b", "measured later"), ("e", "measured later")];
    machine(second.path(), &later);
    let (own, found) = OwnKernelCache::begin(&origin("570"), Some(&stored)).unwrap();
    assert_eq!(found, StoredChoices::Used { choices: 4 });
    assert_eq!(read(&active(), TUNED, "a").as_deref(), Some("of the machine"));
    assert_eq!(read(&active(), TUNED, "b").as_deref(), Some("of the run"));
    assert_eq!(read(&active(), TUNED, "e").as_deref(), Some("measured later"));
    // Compiled kernels are not stored with a run.
    assert_eq!(read(&active(), COMPILED, "other kernel"), None);
    drop(own);
    assert_eq!(read(&active(), TUNED, "a").as_deref(), Some("measured later"));
}

#[test]
fn choices_of_another_driver_and_damaged_ones_are_not_used() {
    let _alone = alone();
    let (root, run) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let stored = run.path().join("kernel-choices.db");
    machine(root.path(), &[]);
    let (mut own, _) = OwnKernelCache::begin(&origin("570"), None).unwrap();
    write(&active(), TUNED, "a", "of the run");
    assert_eq!(own.store(&stored).unwrap(), 1);
    drop(own);

    let (own, found) = OwnKernelCache::begin(&origin("580"), Some(&stored)).unwrap();
    let StoredChoices::Other(difference) = found else { panic!("{found:?}") };
    assert_eq!(difference.to_string(), "driver: expected 580, got 570");
    assert_eq!(read(&active(), TUNED, "a"), None);
    drop(own);

    fs::write(&stored, "this is no database").unwrap();
    let (own, found) = OwnKernelCache::begin(&origin("570"), Some(&stored)).unwrap();
    assert!(matches!(found, StoredChoices::Unreadable { .. }), "{found:?}");
    assert_eq!(read(&active(), TUNED, "a"), None);
    drop(own);
    assert_eq!(fs::read(&stored).unwrap(), b"this is no database", "the user's file stays");
}

#[test]
fn a_process_has_one_cache_of_its_own_and_removes_those_of_killed_ones() {
    let _alone = alone();
    let root = tempfile::tempdir().unwrap();
    machine(root.path(), &[("a", "of the machine")]);
    let folder = root.path().join("updraft-own");
    fs::create_dir_all(folder.join("1-0")).unwrap();
    fs::write(folder.join("1-0/kernels.db"), "left").unwrap();
    fs::write(folder.join("1-0.lock"), "").unwrap();
    fs::create_dir_all(folder.join("2-0")).unwrap();
    let of_a_live_process = File::create(folder.join("2-0.lock")).unwrap();
    of_a_live_process.lock().unwrap();

    let (own, _) = OwnKernelCache::begin(&origin("570"), None).unwrap();
    assert!(!folder.join("1-0").exists());
    assert!(folder.join("2-0").is_dir());
    let refused = OwnKernelCache::begin(&origin("570"), None).unwrap_err();
    assert_eq!(refused, DeviceError::KernelCacheInUse);
    // Nothing new was measured: the machine's cache is as it was.
    assert_eq!(own.finish().unwrap(), 0);
    drop(OwnKernelCache::begin(&origin("570"), None).unwrap());
    assert_eq!(read(&active(), TUNED, "a").as_deref(), Some("of the machine"));
}

#[test]
fn another_cache_that_the_program_chooses_meanwhile_is_left_in_use() {
    let _alone = alone();
    let (root, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    machine(root.path(), &[]);
    let (mut own, _) = OwnKernelCache::begin(&origin("570"), None).unwrap();
    environment::set_root(other.path());
    let chosen = environment::path();
    let refused = own.store(&root.path().join("choices.db")).unwrap_err().to_string();
    assert!(refused.contains("meanwhile"), "{refused}");
    assert!(own.finish().is_err());
    assert_eq!(environment::path(), chosen);
}
