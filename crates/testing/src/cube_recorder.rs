//! A device of CubeCL that runs kernels on an adapter of wgpu, and records what each launch asks for.
#![expect(unsafe_code, reason = "the trait of CubeCL's devices has an unsafe method")]

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cubecl::Compiler as _;
use cubecl::prelude::Client;
use cubecl::wgpu::wgpu::Backend;
use cubecl::wgpu::{AutoCompiler, AutoRepresentation, WgpuCompiler as _, WgpuServer};
use cubecl_common::bytes::Bytes;
use cubecl_common::device::{Device as _, DeviceId, DeviceService, ServerUtilitiesHandle};
use cubecl_common::profile::ProfileDuration;
use cubecl_environment::future::DynFut;
use cubecl_environment::stream::StreamId;
use cubecl_server::compiler::CompilationError;
use cubecl_server::dry_run::LaunchMode;
use cubecl_server::kernel::{CubeKernel, define_kernel};
use cubecl_server::logging::ServerLogger;
use cubecl_server::memory_management::{
    ManagedMemoryHandle, MemoryAllocationMode, StreamMemoryReport,
};
use cubecl_server::server::{
    BufferBinding, CopyDescriptor, CubeCount, KernelArguments, KernelResource, ProfileError,
    ProfilingToken, Server, ServerCommunication, ServerError, ServerStorage, ServerUtilities,
};
use cubecl_server::storage::{ComputeStorage, ManagedResource};

/// What a launch asked its device for, apart from the numbers.
///
/// Bytes are the sizes of the buffers that the kernel accesses, each once for all of its reads and
/// once for all of its writes, also where it accesses a part of a buffer: no traffic of caches, and no
/// number that several cubes load is counted twice.
/// Which buffers it reads and writes is what CubeCL's compiler finds in the compiled kernel; a buffer
/// that is bound and not accessed does not count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordedLaunch {
    /// The type of the kernel, with its path.
    pub kernel: &'static str,
    /// Bytes of the distinct buffers that it reads.
    pub bytes_read: u64,
    /// Bytes of the distinct buffers that it writes.
    pub bytes_written: u64,
    /// Cubes that were launched.
    pub cubes: u64,
    /// Threads of a cube.
    pub threads_per_cube: u32,
    /// Bytes of shared memory of a cube after compilation; `None` for compilers other than that of
    /// WGSL.
    pub shared_bytes: Option<u64>,
}

/// A client whose launches are recorded by [`recorded`]; `None` for devices that are not of wgpu.
///
/// It has an adapter's memory of its own: buffers of other clients do not exist on it.
pub fn recording_client(device: &cubecl::Device) -> Option<Client> {
    let cubecl::Device::Wgpu(device) = device else { return None };
    Some(Client::load::<Recorder>(device.to_id()))
}

/// The result of some work, and what it launched on a [`recording_client`], in order: of the work
/// alone, if the caller has its devices from [`gpus`](crate::gpus), which holds off all other tests on
/// GPUs.
///
/// # Panics
/// If the device does not work, or a kernel cannot be analyzed.
pub fn recorded<T>(client: &Client, work: impl FnOnce() -> T) -> (T, Vec<RecordedLaunch>) {
    // The device works in a thread of its own.
    client.flush().expect("the device works");
    launches().clear();
    let result = work();
    client.flush().expect("the device works");
    let recorded = std::mem::take(&mut *launches()).into_iter();
    (result, recorded.map(|launch| launch.unwrap_or_else(|error| panic!("{error}"))).collect())
}

/// What was launched on any recorder.
static LAUNCHES: Mutex<Vec<Result<RecordedLaunch, String>>> = Mutex::new(Vec::new());

fn launches() -> MutexGuard<'static, Vec<Result<RecordedLaunch, String>>> {
    LAUNCHES.lock().unwrap_or_else(PoisonError::into_inner)
}

type Adapter = WgpuServer<AutoCompiler>;

/// An adapter whose launches are recorded.
#[derive(Debug)]
struct Recorder(Adapter);

impl Recorder {
    fn describe(
        &self,
        kernel: &(dyn CubeKernel + 'static),
        count: &CubeCount,
        arguments: &KernelArguments,
    ) -> Result<RecordedLaunch, String> {
        let name = kernel.name();
        let CubeCount::Static(x, y, z) = count else {
            return Err(format!("`{name}` takes the number of its cubes from a buffer"));
        };
        let failed = |error: CompilationError| format!("`{name}`: {error}");
        let definition = define_kernel(kernel).map_err(failed)?;
        let threads_per_cube = definition.settings.cube_dim.num_elems();
        let options = &self.0.compilation_options;
        // That of SPIR-V if the adapter has it, and else that of WGSL, as the adapter chooses.
        let mut compiler = AutoCompiler::init(Backend::Vulkan, options);
        let compiled = compiler.compile(definition, options).map_err(failed)?;
        let accesses = AutoCompiler::buffer_io(&compiled)
            .ok_or_else(|| format!("the accesses of `{name}` are not known"))?;

        let mut bytes = [0; 2];
        let mut counted = HashSet::new();
        for (place, resource) in arguments.resources.iter().enumerate() {
            let KernelResource::Buffer(buffer) = resource else {
                return Err(format!("`{name}` takes a map of a tensor"));
            };
            let Some(access) = accesses.get(place) else {
                return Err(format!("`{name}` has {} buffers, not {place}", accesses.len()));
            };
            let ways = [access.is_readable(), access.is_writable()];
            for (way, is_accessed) in ways.into_iter().enumerate() {
                let distinct = (way, buffer.memory.id(), buffer.range());
                if is_accessed && counted.insert(distinct) {
                    bytes[way] += buffer.size_in_used();
                }
            }
        }
        let shared_bytes = match &compiled {
            AutoRepresentation::Wgsl(shader) => Some(shader.shared_memory_size as u64),
            #[allow(unreachable_patterns, reason = "builds for Vulkan and Metal have others")]
            _ => None,
        };
        Ok(RecordedLaunch {
            kernel: name,
            bytes_read: bytes[0],
            bytes_written: bytes[1],
            cubes: [*x, *y, *z].map(u64::from).into_iter().product(),
            threads_per_cube,
            shared_bytes,
        })
    }
}

impl DeviceService for Recorder {
    fn init(device: DeviceId) -> Self {
        Self(Adapter::init(device))
    }

    fn utilities(&self) -> ServerUtilitiesHandle {
        DeviceService::utilities(&self.0)
    }
}

impl ServerCommunication for Recorder {}

impl Server for Recorder {
    fn initialize_memory(
        &mut self,
        memory: ManagedMemoryHandle,
        bytes: u64,
        stream: StreamId,
    ) -> Result<(), ServerError> {
        self.0.initialize_memory(memory, bytes, stream)
    }

    fn logger(&self) -> Arc<ServerLogger> {
        self.0.logger()
    }

    fn utilities(&self) -> Arc<ServerUtilities> {
        Server::utilities(&self.0)
    }

    fn read(
        &mut self,
        from: Vec<CopyDescriptor>,
        stream: StreamId,
    ) -> DynFut<Result<Vec<Bytes>, ServerError>> {
        self.0.read(from, stream)
    }

    fn write(&mut self, to: Vec<(CopyDescriptor, Bytes)>, stream: StreamId) {
        self.0.write(to, stream);
    }

    fn sync(
        &mut self,
        buffers: Vec<BufferBinding>,
        stream: StreamId,
    ) -> DynFut<Result<(), ServerError>> {
        self.0.sync(buffers, stream)
    }

    fn check(&mut self, buffers: Vec<BufferBinding>, stream: StreamId) -> Result<(), ServerError> {
        self.0.check(buffers, stream)
    }

    unsafe fn launch(
        &mut self,
        kernel: Box<dyn CubeKernel>,
        count: CubeCount,
        arguments: KernelArguments,
        stream: StreamId,
        mode: LaunchMode,
    ) {
        let launch = self.describe(&*kernel, &count, &arguments);
        launches().push(launch);
        // SAFETY: the caller's promise about the same arguments.
        unsafe { self.0.launch(kernel, count, arguments, stream, mode) };
    }

    fn flush(&mut self, stream: StreamId) -> Result<(), ServerError> {
        self.0.flush(stream)
    }

    fn memory_report(&mut self, stream: StreamId) -> Option<StreamMemoryReport> {
        self.0.memory_report(stream)
    }

    fn stream_ids(&self) -> Vec<StreamId> {
        self.0.stream_ids()
    }

    fn memory_cleanup(&mut self, stream: StreamId) -> Result<(), ServerError> {
        self.0.memory_cleanup(stream)
    }

    fn start_profile(&mut self, stream: StreamId) -> Result<ProfilingToken, ServerError> {
        self.0.start_profile(stream)
    }

    fn end_profile(
        &mut self,
        stream: StreamId,
        token: ProfilingToken,
    ) -> Result<ProfileDuration, ProfileError> {
        self.0.end_profile(stream, token)
    }

    fn abandon_profile(&mut self, stream: StreamId, token: ProfilingToken) {
        self.0.abandon_profile(stream, token);
    }

    fn allocation_mode(&mut self, mode: MemoryAllocationMode, stream: StreamId) {
        self.0.allocation_mode(mode, stream);
    }
}

impl ServerStorage for Recorder {
    type Storage = <Adapter as ServerStorage>::Storage;

    fn get_resource(
        &mut self,
        buffer: BufferBinding,
        stream: StreamId,
    ) -> Result<ManagedResource<<Self::Storage as ComputeStorage>::Resource>, ServerError> {
        self.0.get_resource(buffer, stream)
    }
}
