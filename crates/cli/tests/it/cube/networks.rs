//! Networks with operations that burn computes otherwise on a GPU, or not at all, beside the CPU.

use std::fs;

use super::device::{CLOSE, assert_losses, gpu, is_emulated, losses};
use crate::command::succeed;

/// Volumes whose blocks have shortcuts of single voxels with a stride, and interpolate.
const VOLUMES: &str = "\
task = \"image-to-image\"
name = \"volumes\"
[data]
target = \"labels\"
classes = 3
patch = [8, 16, 16]
patches = 8
sides = [8, 32, 32]
train_fields = 3
test_fields = 1
[model]
filters = [2, 4, 4]
upsampling = \"linear\"
deep_supervision = 1
[train]
epochs = 1
batch = 4
";

/// Images that are interpolated, with norms of groups.
const IMAGES: &str = "\
task = \"image-to-image\"
name = \"images\"
[data]
target = \"labels\"
classes = 3
patch = [16, 16]
patches = 8
sides = [32, 32]
train_fields = 3
test_fields = 1
[model]
filters = [4, 8]
normalization = \"group\"
groups = 2
downsampling = \"max-pool\"
upsampling = \"linear\"
[train]
epochs = 1
batch = 4
";

#[test]
fn networks_that_interpolate_and_shrink_volumes_have_the_losses_of_the_cpu() {
    let Some(gpu) = gpu() else { return };
    let dir = tempfile::tempdir().expect("temporary folder");
    for (name, text) in [("volumes.toml", VOLUMES), ("images.toml", IMAGES)] {
        fs::write(dir.path().join(name), text).expect("written");
        let [expected, found] = ["flex", &gpu].map(|device| {
            let said = succeed(dir.path(), &["train", name, "--device", device]);
            losses(&dir.path().join(said.run_folder()))
        });
        // One gradient of zeros changes these losses by 10⁻⁴.
        let close = if is_emulated() { CLOSE / 100.0 } else { CLOSE };
        assert_losses(&found, &expected, close, name);
    }
}
