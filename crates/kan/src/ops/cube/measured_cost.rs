//! What the passes of a layer ask a device for, launch by launch, against the model of their cost.
//!
//! An adapter of wgpu records the sizes of the buffers that each kernel reads and writes, which the
//! analysis of CubeCL's compiler finds, the cubes, their threads and their shared memory.
//! Buffers count once a launch, as in the model; caches and repeated loads do not appear.

use std::collections::BTreeMap;
use std::sync::Arc;

use burn::backend::DispatchDevice;
use burn::tensor::{DType, Shape};
use burn_cubecl::tensor::CubeTensor;
use burn_cubecl::{CubeBackend, CubeDevice};
use cubecl::prelude::Client;
use updraft_testing::{RecordedLaunch, gpus, recorded, recording_client};

use crate::grid::Grid;
use crate::kernels::cube::{CubeLayer, is_available};
use crate::kernels::{
    Activation, BaseBranch, ConvAxis, ConvGeometry, CubeForm, LayerGeometry, Weights,
};
use crate::ops::extension::{Forms, Geometry, KanBackend, KanGradients, Operand, Spec, Wanted};
use crate::roofline::{Cubes, KernelCost, LayerCost};

const BATCH: usize = 70;
const INPUTS: usize = 9;
/// A tile of tensor cores has 128, and all of its columns are read in chunks of 32.
const OUTPUTS: usize = 100;
const INTERVALS: usize = 5;

/// The bytes and cubes of a kernel in all of its launches.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Work {
    launches: u64,
    bytes_read: u64,
    bytes_written: u64,
    /// 0 for operations of burn, whose cubes the model does not have.
    cubes: u64,
}

/// A layer by its grid, and whether it has base weights, factors and a bias, or none of them.
#[derive(Debug, Clone, Copy)]
struct Kind {
    degree: usize,
    /// Whether each input has knots of its own.
    is_uneven: bool,
    is_full: bool,
}

impl Kind {
    fn weights(self) -> Weights<'static> {
        let none: &[f32] = &[];
        let parameter = self.is_full.then_some(none);
        Weights { spline: &[], base: parameter, scaler: parameter, bias: parameter }
    }

    fn grid(self) -> Grid {
        let Self { degree, is_uneven, .. } = self;
        if !is_uneven {
            return Grid::uniform(-1.0, 1.0, INTERVALS, degree).expect("a grid");
        }
        let knots = (0..=INTERVALS + 2 * degree).map(|knot| (knot * knot) as f32);
        let knots = std::iter::repeat_n(knots, INPUTS).flatten().collect();
        Grid::per_feature(INPUTS, knots, INTERVALS, degree).expect("ascending knots")
    }
}

/// A client that records, and the device that it belongs to.
struct Recorder<'a> {
    client: Client,
    device: &'a CubeDevice,
}

impl Recorder<'_> {
    fn zeros<const D: usize>(&self, shape: [usize; D]) -> CubeTensor {
        let bytes = vec![0; size_of::<f32>() * shape.iter().product::<usize>()];
        let handle = self.client.create_from_slice(&bytes);
        let (client, device) = (self.client.clone(), self.device.clone());
        CubeTensor::new_contiguous(client, device, Shape::new(shape), handle, DType::F32)
    }

    /// Whether the device computes a layer in a form, those of 16 bits on tensor cores.
    fn computes(&self, form: CubeForm, kind: Kind) -> bool {
        let activation = kind.is_full.then_some(Activation::Silu);
        let layer = CubeLayer::new(&kind.grid(), activation, kind.is_full, kind.is_full);
        let on_tensor_cores = match form {
            CubeForm::ExpandedBf16 => Some(CubeForm::Bf16),
            CubeForm::ExpandedF16 => Some(CubeForm::F16),
            _ => None,
        };
        [Some(form), on_tensor_cores]
            .into_iter()
            .flatten()
            .all(|form| is_available(&self.client, form, layer))
    }

    /// Compares both passes of a layer with the model.
    fn check(&self, form: CubeForm, kind: Kind) {
        let geometry = LayerGeometry::try_new(kind.grid(), INPUTS, OUTPUTS, Activation::Silu);
        let geometry = Arc::new(geometry.expect("a layer"));
        let cost = LayerCost::of(form, &geometry, &kind.weights(), BATCH);
        let cost = cost.expect("few rows an input");
        let [x, dy] = [INPUTS, OUTPUTS].map(|columns| self.zeros([BATCH, columns]));
        self.compare(form, kind, &Geometry::Linear(geometry), &cost, &[x, dy]);
    }

    /// The same for a convolution in so many groups, whose images are read and written without
    /// patches.
    fn check_images(&self, form: CubeForm, kind: Kind, groups: usize) {
        let (inputs, outputs) = (groups * INPUTS, groups * OUTPUTS);
        let axes = [ConvAxis { stride: 2, padding: 1, ..ConvAxis::new(3) }; 2];
        let (silu, branch) = (Activation::Silu, BaseBranch::ConvOfActivation);
        let geometry =
            ConvGeometry::try_new(kind.grid(), [inputs, outputs], groups, &axes, silu, branch);
        let geometry = Arc::new(geometry.expect("a convolution"));
        let cost = LayerCost::of_conv(form, &geometry, &kind.weights(), 3, &[7, 6]);
        let cost = cost.expect("few rows an input");
        let (x, dy) = (self.zeros([3, inputs, 7, 6]), self.zeros([3, outputs, 4, 3]));
        self.compare(form, kind, &Geometry::Conv(geometry), &cost, &[x, dy]);
    }

    /// Compares both passes for an input and the gradient of the outputs.
    fn compare(
        &self,
        form: CubeForm,
        kind: Kind,
        geometry: &Geometry,
        cost: &LayerCost,
        [x, dy]: &[CubeTensor; 2],
    ) {
        let (inputs, biases) = match geometry {
            Geometry::Linear(_) => (INPUTS, OUTPUTS),
            Geometry::Conv(conv) => (conv.in_channels() * conv.taps(), conv.out_channels()),
        };
        let spec = || Spec {
            geometry: geometry.clone(),
            isa: None,
            #[cfg(feature = "flex")]
            cache: None,
            forms: Forms { forced: Some(form), of_input: None },
        };
        let edges = || -> Operand<CubeBackend> {
            Operand::from(kind.is_full.then(|| self.zeros([inputs, OUTPUTS])))
        };
        let bias = || -> Operand<CubeBackend> {
            Operand::from(kind.is_full.then(|| self.zeros([biases])))
        };
        let spline = self.zeros([inputs, INTERVALS + kind.degree, OUTPUTS]);
        let forward = || {
            let (x, spline) = (x.clone(), spline.clone());
            CubeBackend::kan_layer(x, spline, edges(), edges(), bias(), spec())
        };
        let backward = || {
            let (x, spline, dy) = (x.clone(), spline.clone(), dy.clone());
            let (has_bias, wanted) = (kind.is_full, Wanted { x: true, parameters: true });
            CubeBackend::kan_layer_gradients(
                x,
                spline,
                edges(),
                edges(),
                has_bias,
                dy,
                spec(),
                wanted,
            )
        };
        if cfg!(feature = "autotune") {
            // burn's products are chosen in the first run.
            forward();
            backward();
        }
        let case = format!("{form}, {kind:?}, {:?}", x.meta.shape());
        let (_, launches) = recorded(&self.client, forward);
        assert_modelled(&launches, &cost.forward, kind, &format!("{case}, forward"));
        let (_, launches) = recorded(&self.client, backward);
        assert_modelled(&launches, &cost.backward, kind, &format!("{case}, backward"));
    }
}

fn assert_modelled(launches: &[RecordedLaunch], modelled: &[KernelCost], kind: Kind, case: &str) {
    let mut expected = BTreeMap::<&str, (Work, Option<Cubes>)>::new();
    // burn converts in a way of its own.
    for kernel in modelled.iter().filter(|kernel| kernel.name != "cast") {
        let (work, cubes) = expected.entry(kernel.name).or_default();
        work.launches += kernel.launches;
        work.bytes_read += kernel.bytes_read;
        work.bytes_written += kernel.bytes_written;
        work.cubes += kernel.cubes.map_or(0, |cubes| cubes.count);
        *cubes = kernel.cubes;
    }
    let mut measured = BTreeMap::<&str, Work>::new();
    for launch in launches {
        let found = expected.iter().find(|(name, _)| is_of(launch, name));
        let Some((&name, (_, cubes))) = found else {
            assert!(!launch.kernel.contains("updraft_kan::"), "not modelled, {case}: {launch:?}");
            continue;
        };
        let work = measured.entry(name).or_default();
        work.launches += 1;
        work.bytes_read += launch.bytes_read;
        work.bytes_written += launch.bytes_written;
        let Some(cubes) = cubes else { continue };
        work.cubes += launch.cubes;
        assert_eq!(launch.threads_per_cube, cubes.threads_per_cube, "{name}, {case}");
        if let Some(shared_bytes) = launch.shared_bytes {
            // Compilers remove what no kernel of a layer without parameters uses.
            let is_as_modelled = if kind.is_full {
                shared_bytes == cubes.shared_bytes
            } else {
                shared_bytes <= cubes.shared_bytes
            };
            assert!(is_as_modelled, "{name}, {case}: {shared_bytes} bytes, {cubes:?}");
        }
    }
    let expected: BTreeMap<_, _> =
        expected.into_iter().map(|(name, (work, _))| (name, work)).collect();
    assert_eq!(measured, expected, "{case}");
}

/// Whether a launch is of a kernel of the model.
fn is_of(launch: &RecordedLaunch, name: &str) -> bool {
    match name {
        "matmul" => launch.kernel.contains(name),
        // The type of a kernel is in a module with the name of its function.
        _ => launch.kernel.contains(&format!("::{name}::")),
    }
}

#[test]
fn every_launch_asks_for_the_bytes_and_the_cubes_of_the_model() {
    let cubic = Kind { degree: 3, is_uneven: false, is_full: true };
    for device in gpus() {
        let DispatchDevice::Cube(device) = device.as_dispatch() else { panic!("a GPU") };
        let Some(client) = recording_client(device) else {
            println!("launches are recorded on adapters of wgpu alone, not on {device:?}");
            continue;
        };
        let recorder = Recorder { client, device };
        for form in [
            CubeForm::Sparse,
            CubeForm::Dense,
            CubeForm::Expanded,
            CubeForm::Bf16,
            CubeForm::F16,
            CubeForm::ExpandedBf16,
            CubeForm::ExpandedF16,
        ] {
            if recorder.computes(form, cubic) {
                recorder.check(form, cubic);
            } else {
                println!("{form} is not computed on {device:?}");
            }
        }
        for kind in [
            Kind { is_full: false, ..cubic },
            Kind { degree: 4, ..cubic },
            Kind { is_uneven: true, ..cubic },
        ] {
            recorder.check(CubeForm::Sparse, kind);
        }
        for form in [CubeForm::Sparse, CubeForm::Dense] {
            if recorder.computes(form, cubic) {
                for groups in [1, 2] {
                    recorder.check_images(form, cubic, groups);
                }
            }
        }
    }
}
