//! Files that list volumes.

use std::fs;
use std::path::Path;

use updraft_data::{
    Delimiter, OpenConfig, TiffWriteConfig, VolumeManifest, VolumeTarget, write_volume,
};

use super::files::message;
use super::patches::places;

fn manifest(folder: &Path, text: &str) -> Result<VolumeManifest, String> {
    let path = folder.join("manifest.csv");
    fs::write(&path, text).unwrap();
    let message = |error| message(&error).replace(&path.display().to_string(), "manifest.csv");
    VolumeManifest::open(&path, Delimiter::Comma).map_err(message)
}

#[test]
fn a_manifest_lists_channels_targets_splits_and_blocks() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["a", "b", "c"] {
        let volume = places(name, 1, &[4, 6, 8], 1.0);
        let path = folder.path().join(format!("{name}.tif"));
        write_volume(path, &volume, &TiffWriteConfig::default()).unwrap();
    }
    let text = "split,input.one,input.two,target,position,x\n\
                train,a.tif,b.tif,c.tif,p,0:3\ntest,a.tif,b.tif,c.tif,p,4:8\n";
    let listed = manifest(folder.path(), text).unwrap();
    let pairs = listed.pairs(Some("test"), &OpenConfig::default()).unwrap();
    assert_eq!(pairs.len(), 1);
    assert_eq!(
        (pairs[0].input.spec().raster.channels, pairs[0].input.spec().sides()),
        (2, [4, 6, 4])
    );
    assert!(matches!(pairs[0].target, VolumeTarget::Image(_)));
    assert_eq!(listed.pairs(None, &OpenConfig::default()).unwrap().len(), 2);
    let refused = |text: &str| manifest(folder.path(), text).unwrap_err();
    let meets = refused("split,input,position,x,t\ntrain,a.tif,p,0:4,0:1\ntest,b.tif,p,3:8,1:2\n");
    assert_eq!(
        meets,
        "`manifest.csv`: position `p` is in split `train` on line 2 and `test` on line 3; expected \
         one split, or blocks that do not meet along z, y or x"
    );
    let file_twice = refused("split,input\ntrain,a.tif\ntest,a.tif\n");
    assert!(
        file_twice.contains("a.tif` is in split `train` on line 2 and `test` on line 3"),
        "{file_twice}"
    );
    let other_path = refused("split,input\ntrain,a.tif\ntest,./b.tif\ntest,./a.tif\n");
    assert!(other_path.contains("in split `train` on line 2 and `test` on line 4"), "{other_path}");
    assert!(refused("split,input\ntrain,gone.tif\n").starts_with(
        "`manifest.csv`: line 2, column `input` is `gone.tif`, which is not there; expected a file"
    ));
    assert!(
        refused("input,x\na.tif,5:2\n").contains("column `x` is `5:2`; expected a range such as")
    );
    assert!(refused("input,splti\na.tif,x\n").contains("a column is `splti`; expected input, "));
    assert!(refused("split\ntrain\n").contains("expected a column `input`"));
    assert!(
        refused("input,target,labels\na.tif,a.tif,a.tif\n").contains("expected one of the two")
    );
    let none = listed.pairs(Some("val"), &OpenConfig::default()).err().unwrap();
    assert!(
        message(&none).ends_with("the column `split` is no `val`; expected test, train"),
        "{none}"
    );
    let beyond = manifest(folder.path(), "input,x\na.tif,0:9\n").unwrap();
    let error = beyond.pairs(None, &OpenConfig::default()).err().unwrap();
    assert!(
        message(&error)
            .contains("the range of x is 0..9; expected a range of at least 1 within 0..8")
    );
}

#[test]
fn a_volume_that_is_listed_twice_in_a_split_is_refused_with_both_lines() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["a", "b"] {
        fs::write(folder.path().join(format!("{name}.tif")), "").unwrap();
    }
    for (rows, lines) in [
        ("train,a.tif,b.tif,,\ntrain,a.tif,b.tif,,", (3, 2)),
        ("train,a.tif,b.tif,,\ntrain,b.tif,,,\ntrain,./a.tif,b.tif,,", (4, 2)),
        (",a.tif,b.tif,0:1,p\n,b.tif,a.tif,,p\n,b.tif,a.tif,,q", (4, 3)),
    ] {
        let refused = manifest(folder.path(), &format!("split,input,labels,t,position\n{rows}\n"));
        let expected = format!(
            "`manifest.csv`: line {} is the volume of line {}, with the same files and ranges; \
             expected each volume once",
            lines.0, lines.1
        );
        assert_eq!(refused.unwrap_err(), expected, "{rows}");
    }
    // Other frames, and another target.
    let rows = "train,a.tif,b.tif,0:1,\ntrain,a.tif,b.tif,1:2,\ntrain,a.tif,a.tif,0:1,";
    manifest(folder.path(), &format!("split,input,labels,t,position\n{rows}\n")).unwrap();
}

#[test]
fn positions_that_share_a_file_are_held_out_together() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["a", "b", "c"] {
        let path = folder.path().join(format!("{name}.tif"));
        let volume = places(name, 3, &[6, 8], 1.0);
        write_volume(path, &volume, &TiffWriteConfig::default()).unwrap();
    }
    for (rows, positions) in [
        ("p,a.tif,b.tif,,\nq,a.tif,c.tif,,", 1),
        ("p,a.tif,c.tif,,\nq,b.tif,./c.tif,,", 1),
        ("p,a.tif,a.tif,0:1,\nq,a.tif,a.tif,1:3,", 1),
        ("p,a.tif,a.tif,,0:5\nq,a.tif,a.tif,,4:8", 1),
        ("p,a.tif,a.tif,,0:4\nq,a.tif,a.tif,,4:8", 2),
        ("p,a.tif,a.tif,,\nq,b.tif,b.tif,,\nr,c.tif,b.tif,,\ns,a.tif,c.tif,,", 1),
        ("p,a.tif,a.tif,,\nq,b.tif,b.tif,,\np,c.tif,c.tif,,", 2),
    ] {
        let listed = manifest(folder.path(), &format!("position,input,target,t,x\n{rows}\n"));
        let listed = listed.unwrap();
        assert_eq!(listed.positions(), positions, "{rows}");
        assert_eq!(listed.hold_out_positions(0.5, 1).is_ok(), positions > 1, "{rows}");
    }
}
