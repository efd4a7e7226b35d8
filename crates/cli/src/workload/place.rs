//! Where data lies, and what a person is told where it does not.

use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow, bail};

/// The data folder, and what a person is told where something is not in it.
pub(super) struct Place<'a> {
    pub(super) dir: Option<&'a Path>,
    pub(super) how_to_get: Option<&'a str>,
}

impl Place<'_> {
    /// Joins each file to the data folder, or says where it looked and how to get it.
    pub(super) fn find(&self, files: &[&PathBuf]) -> Result<Vec<PathBuf>> {
        let hint = self.how_to_get.map(|text| format!("; {text}")).unwrap_or_default();
        let Some(dir) = self.dir else {
            bail!(
                "this config needs data: name its folder with --data DIR or the key \
                 `data.dir`{hint}"
            );
        };
        let mut paths = Vec::new();
        for file in files {
            let path = dir.join(file);
            if !path.exists() {
                return Err(anyhow!("looked for `{}`, which is not there{hint}", path.display()));
            }
            paths.push(path);
        }
        Ok(paths)
    }
}
