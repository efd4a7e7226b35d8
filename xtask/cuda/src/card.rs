//! NVIDIA's cards as CubeCL's CUDA runtime describes them, as far as our kernels ask.

use cubecl_core::ir::features::{Features, Plane};
use cubecl_core::ir::{
    DeviceIdentity, DeviceProperties, HardwareProperties, MemoryDeviceProperties, VectorSize,
};
use cubecl_core::profile::TimingMethod;
use cubecl_cpp::cuda::arch::CudaArchitecture;
use cubecl_cpp::cuda::mma::CudaCmmaCompiler;
use cubecl_cpp::cuda::supported_mma_combinations;
use cubecl_cpp::register_supported_types;
use cubecl_cpp::shared::{
    CompilationOptions, CppSupportedFeatures, register_mma_features, register_wmma_features,
};

/// Cards by their compute capability, and the architecture that CubeCL asks NVRTC for.
pub const CARDS: [(u16, &str); 2] = [(80, "sm_80"), (90, "sm_90a")];

/// Of both cards: an A100 and an H100 with the least memory.
const MEMORY_BYTES: u64 = 40 << 30;

/// What kernels ask of a card with a compute capability: sizes, types and matrix instructions.
pub fn properties(capability: u32) -> DeviceProperties {
    let hardware = HardwareProperties {
        load_width: 128,
        vector_register_count: None,
        plane_size_min: 32,
        plane_size_max: 32,
        max_bindings: 1024,
        max_shared_memory_size: if capability >= 90 { 227 << 10 } else { 163 << 10 },
        max_cube_count: (i32::MAX as u32, u32::from(u16::MAX), u32::from(u16::MAX)),
        max_units_per_cube: 1024,
        max_cube_dim: (1024, 1024, 64),
        num_streaming_multiprocessors: Some(if capability >= 90 { 132 } else { 108 }),
        num_tensor_cores: Some(4),
        min_tensor_cores_dim: Some(8),
        num_cpu_cores: None,
        last_level_cache_size: None,
        max_vector_size: VectorSize::MAX,
        cube_mma_reserved_shared_memory: 0,
    };
    let identity = DeviceIdentity {
        name: format!("a card of compute capability {capability}"),
        fingerprint: format!("ptx_sm{capability}"),
        physical: None,
    };
    let memory = MemoryDeviceProperties::new(MEMORY_BYTES / 4, 512).with_max_memory(MEMORY_BYTES);
    let timing = TimingMethod::Device;
    let mut properties =
        DeviceProperties::new(Features::default(), memory, hardware, timing, identity);
    register_supported_types(&mut properties);
    let features = &mut properties.features;
    features.plane.insert(Plane::Ops);
    features.plane.insert(Plane::Sync);
    features.plane.insert(Plane::NonUniformControlFlow);
    features.copy_async = true;
    features.memory_reinterpret = true;
    features.alignment = true;
    features.device_memory_scope = true;
    features.cube_cluster = capability >= 90;
    let card = CudaArchitecture { version: capability, tensor_cores: true };
    let fragments = CudaCmmaCompiler::Cpp.supported_cmma_combinations(&card);
    register_wmma_features(fragments, &mut properties);
    register_mma_features(supported_mma_combinations(&card), &mut properties);
    properties
}

/// How CubeCL writes C++ for such a card.
pub fn options(capability: u32) -> CompilationOptions {
    CompilationOptions {
        supports_features: CppSupportedFeatures {
            fast_math: true,
            fast_tanh: true,
            dp4a: true,
            grid_constants: true,
            clusters: capability >= 90,
            elect_sync: capability >= 90,
        },
        ..CompilationOptions::default()
    }
}
