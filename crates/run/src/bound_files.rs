//! Files of a run that belong to its trained model: each is read only with the content that the run
//! wrote.

use std::collections::BTreeMap;
use std::io::ErrorKind;

use serde::Serialize;
use serde::de::DeserializeOwned;
use updraft_data::Digest;

use crate::error::RunError;
use crate::folder::RunFolder;

/// The digests of the files by their names.
const DIGESTS: &str = "digests.json";

/// Those of each file: several only while a new content replaces another.
type Digests = BTreeMap<String, Vec<String>>;

impl RunFolder {
    /// Writes a file that belongs to the trained model, such as the names of its classes:
    /// [`read_bound_json`](Self::read_bound_json) reads it, and refuses another content.
    ///
    /// # Errors
    /// [`RunError::Io`], [`RunError::Json`] for damaged digests.
    pub fn write_bound(&self, name: &str, bytes: &[u8]) -> Result<(), RunError> {
        let mut digests = self.digests()?;
        let new = digest(name, bytes);
        let of_file = digests.entry(name.to_owned()).or_default();
        if !of_file.contains(&new) {
            of_file.push(new.clone());
        }
        self.write_json(DIGESTS, &digests)?;
        self.write(name, bytes)?;
        digests.insert(name.to_owned(), vec![new]);
        self.write_json(DIGESTS, &digests)
    }

    /// As [`write_bound`](Self::write_bound), of a value as indented JSON.
    ///
    /// # Errors
    /// As [`write_bound`](Self::write_bound), and [`RunError::Json`] for a value that JSON cannot
    /// represent.
    pub fn write_bound_json<T: Serialize + ?Sized>(
        &self,
        name: &str,
        value: &T,
    ) -> Result<(), RunError> {
        let path = || self.path().join(name);
        let text = serde_json::to_vec_pretty(value);
        let mut text = text.map_err(|cause| RunError::Json { path: path(), cause })?;
        text.push(b'\n');
        self.write_bound(name, &text)
    }

    /// Reads a value that [`write_bound_json`](Self::write_bound_json) wrote.
    ///
    /// # Errors
    /// [`RunError::ChangedFile`] for another content than was written, [`RunError::LostFile`] for a
    /// file that is gone, [`RunError::NoDigests`] for a run of an earlier version, [`RunError::Io`],
    /// [`RunError::TooLarge`], [`RunError::Json`].
    pub fn read_bound_json<T: DeserializeOwned>(&self, name: &str) -> Result<T, RunError> {
        let path = || self.path().join(name);
        let bytes = self.read(name).map_err(|error| match error {
            RunError::Io { cause, .. } if cause.kind() == ErrorKind::NotFound => {
                RunError::LostFile { path: path(), run: self.path().to_owned() }
            }
            other => other,
        })?;
        let value = serde_json::from_slice(&bytes)
            .map_err(|cause| RunError::Json { path: path(), cause })?;
        if !self.has(DIGESTS) {
            return Err(RunError::NoDigests { run: self.path().to_owned() });
        }
        let digests = self.digests()?;
        if digests.get(name).is_some_and(|known| known.contains(&digest(name, &bytes))) {
            return Ok(value);
        }
        Err(RunError::ChangedFile { path: path(), run: self.path().to_owned() })
    }

    fn digests(&self) -> Result<Digests, RunError> {
        if self.has(DIGESTS) { self.read_json(DIGESTS) } else { Ok(Digests::new()) }
    }
}

fn digest(name: &str, bytes: &[u8]) -> String {
    Digest::new("updraft file of a run").text(name).bytes(bytes).hex()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;
    use crate::config::Plan;
    use crate::task::TASKS;

    #[test]
    fn only_the_content_that_was_written_is_read() {
        let dir = tempfile::tempdir().expect("temporary folder");
        let plan = {
            let _alone = updraft_testing::alone();
            Plan::read(TASKS, "", Path::new("c.toml"), &[]).expect("valid").plan
        };
        let folder = RunFolder::create(dir.path(), &plan).expect("made");
        let read = |name: &str| folder.read_bound_json::<Vec<u32>>(name);
        folder.write_bound_json("a.json", &[1, 2]).expect("written");
        folder.write_bound_json("b.json", &[3]).expect("written");
        assert_eq!(read("a.json").expect("as written"), [1, 2]);
        let path = folder.path().join("a.json");
        for other in ["[2, 1]", "[1, 2]"] {
            fs::write(&path, other).expect("written");
            let error = read("a.json").expect_err("changed");
            assert!(error.is_input(), "{error}");
            let error = error.to_string();
            assert!(error.contains("a.json` was changed"), "{error}");
        }
        // A path that ends with a slash.
        let slash = folder.path().join("");
        let error = RunFolder::open(&slash).expect("a run").read_bound_json::<Vec<u32>>("a.json");
        let error = error.expect_err("changed").to_string();
        assert!(!error.contains("//") && error.contains("digests.json` was"), "{error}");
        // The file of another name.
        fs::copy(folder.path().join("b.json"), &path).expect("copied");
        assert!(matches!(read("a.json"), Err(RunError::ChangedFile { .. })));
        fs::write(&path, "{").expect("written");
        assert!(matches!(read("a.json"), Err(RunError::Json { .. })));

        // Replaced, and with either content if the process ended in between.
        folder.write_bound_json("a.json", &[4]).expect("written");
        let (new, digests) = (fs::read(&path), fs::read(folder.path().join(DIGESTS)));
        let (new, digests) = (new.expect("read"), digests.expect("read"));
        let between: Digests = serde_json::from_slice(&digests).expect("digests");
        assert_eq!(between["a.json"].len(), 1);
        let old = digest("a.json", b"[1]");
        let both = BTreeMap::from([("a.json", vec![old, digest("a.json", &new)])]);
        folder.write_json(DIGESTS, &both).expect("written");
        assert_eq!(read("a.json").expect("the new one"), [4]);
        fs::write(&path, "[1]").expect("written");
        assert_eq!(read("a.json").expect("the old one"), [1]);

        folder.remove("b.json").expect("removed");
        let error = folder.read_bound_json::<Vec<u32>>("b.json").expect_err("gone");
        assert!(error.is_input(), "{error}");
        let expected = format!(
            "b.json` is not there, and the model belongs to it; restore it from a copy, or begin a \
             new run with `train {}`",
            folder.path().join("plan.toml").display()
        );
        assert!(error.to_string().ends_with(&expected), "{error}");
        fs::write(folder.path().join(DIGESTS), "{").expect("written");
        let error = read("a.json").expect_err("damaged digests").to_string();
        let remedy = "; restore it from a copy, or train the run again";
        assert!(error.contains("digests.json` is not what") && error.ends_with(remedy), "{error}");

        folder.remove(DIGESTS).expect("removed");
        let error = read("a.json").expect_err("no digests");
        assert!(error.is_input(), "{error}");
        let expected = format!(
            "`{}` was written by an earlier version, without `digests.json`; train it again",
            folder.path().display()
        );
        assert_eq!(error.to_string(), expected);
    }
}
