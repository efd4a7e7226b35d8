//! A volume larger than the memory it is predicted in.

use std::fs;
use std::io::{Read, Write};
use std::ops::ControlFlow;

use burn::nn::conv::Conv3dConfig;
use burn::tensor::Tensor;
use updraft_data::{
    DataError, OpenConfig, PixelType, PredictConfig, Raster, RasterSpec, Region, SlidingWindow,
    VolumeSource, VolumeSpec, WindowBatch, WindowProgress, open_volume,
};
use updraft_testing::devices;

/// A volume whose values follow from their places, so that it is nowhere.
struct Nowhere(VolumeSpec);

impl VolumeSource for Nowhere {
    fn name(&self) -> String {
        "a volume of 2 GiB".to_owned()
    }

    fn spec(&self) -> &VolumeSpec {
        &self.0
    }

    fn read(&self, region: &Region) -> Result<Raster<'static>, DataError> {
        let mut values = Vec::with_capacity(region.sides.iter().product());
        let [z, y, x] = region.origin;
        for z in z..z + region.sides[0] {
            for y in y..y + region.sides[1] {
                let row =
                    (x..x + region.sides[2]).map(|x| ((z * 31 + y * 17 + x * 7) % 4096) as u16);
                values.extend(row);
            }
        }
        Raster::try_new(1, &region.sides, values)
    }

    fn fingerprint(&self) -> String {
        "nowhere".to_owned()
    }
}

/// The most memory that this process has had, in bytes.
fn peak_bytes() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok()? << 10)
}

#[test]
#[ignore = "takes minutes and 5 GiB of disk; run it alone, its memory is that of the process"]
fn a_volume_of_2_gib_is_predicted_through_1_gib_of_memory() {
    let raster = RasterSpec {
        pixel_type: PixelType::U16,
        channels: 1,
        depth: Some(1024),
        height: 1024,
        width: 1024,
    };
    let input = Nowhere(VolumeSpec { voxel_um: [Some(0.3); 3], ..VolumeSpec::new(raster) });
    assert_eq!(input.0.bytes(), Some(2 << 30));
    let folder = tempfile::tempdir().unwrap();
    let output = folder.path().join("prediction.ome.tif");
    let device = devices().into_iter().next().expect("flex");
    let network = Conv3dConfig::new([1, 1], [3, 3, 3])
        .with_padding(burn::nn::PaddingConfig3d::Explicit(1, 1, 1))
        .init(&device);
    let mut model = |windows: WindowBatch| {
        let windows: Tensor<5> = windows.to_tensor(&device)?;
        Ok(network.forward(windows).into_data().try_to_vec()?)
    };
    let mut reported = 0;
    let mut progress = |at: WindowProgress| {
        if at.done * 10 / at.total > reported {
            reported = at.done * 10 / at.total;
            let (elapsed, left) = (at.elapsed.as_secs(), at.left().unwrap_or_default().as_secs());
            let mut err = std::io::stderr().lock();
            let text = "windows, seconds so far, seconds left";
            let _ = writeln!(err, "{} of {} {text}: {elapsed} {left}", at.done, at.total);
        }
        ControlFlow::Continue(())
    };
    let sliding = SlidingWindow::new(&[32, 128, 128]).with_overlap(&[0.25, 0.0, 0.0]);
    let config = PredictConfig::default();
    sliding.predict_to_tiff(&input, &output, &config, &mut model, &mut progress).unwrap();
    let peak = peak_bytes();
    let mut err = std::io::stderr().lock();
    let _ = writeln!(err, "peak memory: {peak:?} bytes");
    assert!(peak.is_none_or(|bytes| bytes < 1 << 30), "{peak:?}");
    let mut start = [0; 4];
    fs::File::open(&output).unwrap().read_exact(&mut start).unwrap();
    assert_eq!(&start, b"II\x2b\0", "no BigTIFF");
    let written = open_volume(&output, &OpenConfig::default()).unwrap();
    assert_eq!((written.spec().sides(), written.spec().voxel_um), ([1024; 3], [Some(0.3); 3]));
    assert_eq!(written.spec().raster.pixel_type, PixelType::F32);
}
