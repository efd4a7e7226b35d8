//! Full or read-only storage for one process: mounts in a separate namespace, or a limit on the
//! size of files if the system does not allow such mounts.

use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, Stdio};

/// The way in which this system can restrict the storage of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Storage {
    /// Mounts that are visible only to the process.
    Mounts,
    /// A limit on the size of each file; read-only storage is not possible.
    FileSizes,
    /// Neither.
    None,
}

/// Copies a run to a file system of `$2` bytes, resumes it there, and copies it back.
const FULL: &str = r#"
run=$1; bytes=$2; place=$3; shift 3
mount -t tmpfs -o "size=$bytes" tmpfs "$place" || exit 97
cp -a "$run/." "$place" || exit 97
"$@" --resume "$place"
code=$?
find "$run" -mindepth 1 -delete && cp -a "$place/." "$run" || exit 97
exit $code
"#;

/// Makes a run's checkpoints read-only after `$2` seconds of training.
const READ_ONLY: &str = r#"
run=$1; wait=$2; shift 3
"$@" --resume "$run" & child=$!
fail() { kill -9 $child; exit 97; }
sleep "$wait"
mount --bind "$run/checkpoints" "$run/checkpoints" || fail
# A file that is being written keeps the mount busy.
tries=0
until mount -o remount,bind,ro "$run/checkpoints" 2>/dev/null; do
    tries=$((tries + 1)); [ $tries -lt 500 ] || fail
done
wait $child
"#;

/// Resumes a run with a limit of `$2` blocks of 512 bytes for each file.
const LIMITED: &str = r#"
run=$1; blocks=$2; shift 3
trap '' XFSZ; ulimit -f "$blocks" || exit 97
exec "$@" --resume "$run"
"#;

/// The exit code of a script that could not restrict the storage.
pub(super) const NOT_DONE: i32 = 97;

impl Storage {
    /// Tries which way works; `dir` is the folder of the runs.
    pub(crate) fn find(dir: &Path) -> Self {
        let works = |program: &str, arguments: &[&str]| {
            let mut command = Command::new(program);
            command.args(arguments).arg(dir).stdout(Stdio::null()).stderr(Stdio::null());
            command.status().is_ok_and(|status| status.success())
        };
        let mounts = "mount -t tmpfs -o size=64k tmpfs \"$1\" && umount \"$1\" \
                      && mount --bind \"$1\" \"$1\" && mount -o remount,bind,ro \"$1\"";
        if works("unshare", &["-rm", "sh", "-c", mounts, "sh"]) {
            Self::Mounts
        } else if works("sh", &["-c", "trap '' XFSZ; ulimit -f 1000", "sh"]) {
            Self::FileSizes
        } else {
            Self::None
        }
    }

    /// A sentence that names the disturbances this system does not allow.
    pub(crate) const fn missing(self) -> Option<&'static str> {
        match self {
            Self::Mounts => None,
            Self::FileSizes => Some(
                "SKIPPED: read-only storage; a full disk is simulated by a limit on the size of \
                 files: this system does not allow mounts in a namespace (`unshare -rm`)",
            ),
            Self::None => Some(
                "SKIPPED: a full disk and read-only storage: this system has neither `unshare` nor \
                 `ulimit -f`",
            ),
        }
    }

    /// The program and arguments that resume a run on a full disk: with `room` bytes in addition to
    /// the `used` ones, or with files of at most `room` bytes.
    pub(super) fn full(
        self,
        run: &Path,
        used: u64,
        room: u64,
        place: &Path,
    ) -> Option<Vec<OsString>> {
        match self {
            Self::Mounts => Some(in_namespace(FULL, run, &(used + room).to_string(), place)),
            Self::FileSizes => {
                Some(script("sh", &["-c"], LIMITED, run, &(room / 512).to_string(), place))
            }
            Self::None => None,
        }
    }

    /// The program and arguments that resume a run and make its checkpoints read-only.
    pub(super) fn read_only(self, run: &Path, after_s: f64) -> Option<Vec<OsString>> {
        let is_there = self == Self::Mounts;
        is_there.then(|| in_namespace(READ_ONLY, run, &format!("{after_s:.3}"), run))
    }
}

fn in_namespace(text: &str, run: &Path, value: &str, place: &Path) -> Vec<OsString> {
    script("unshare", &["-rm", "sh", "-c"], text, run, value, place)
}

fn script(
    program: &str,
    before: &[&str],
    text: &str,
    run: &Path,
    value: &str,
    place: &Path,
) -> Vec<OsString> {
    let mut words: Vec<OsString> = vec![program.into()];
    words.extend(before.iter().map(Into::into));
    words.extend([text.into(), "sh".into(), run.into(), value.into(), place.into()]);
    words
}
