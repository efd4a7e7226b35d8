//! A device of CubeCL that writes what it is asked to launch as CUDA C++, and runs nothing.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

use cubecl_common::bytes::Bytes;
use cubecl_common::device::{DeviceId, DeviceService, ServerUtilitiesHandle, ServiceId};
use cubecl_common::profile::ProfileDuration;
use cubecl_core::ir::TargetProperties;
use cubecl_cpp::shared::CppCompiler;
use cubecl_cpp::target::Cuda;
use cubecl_environment::backtrace::BackTrace;
use cubecl_environment::future::DynFut;
use cubecl_environment::stream::StreamId;
use cubecl_server::allocator::ContiguousMemoryLayoutPolicy;
use cubecl_server::compiler::{CompilationError, Compiler};
use cubecl_server::dry_run::LaunchMode;
use cubecl_server::id::KernelId;
use cubecl_server::kernel::{CubeKernel, define_kernel};
use cubecl_server::logging::ServerLogger;
use cubecl_server::memory_management::{
    ManagedMemoryHandle, MemoryAllocationMode, StreamMemoryReport,
};
use cubecl_server::server::{
    BufferBinding, CopyDescriptor, CubeCount, KernelArguments, ProfileError, ProfilingToken,
    Server, ServerCommunication, ServerError, ServerStorage, ServerUtilities,
};
use cubecl_server::storage::{BytesResource, BytesStorage, ManagedResource};

use crate::card;

/// Bytes at whose multiples buffers begin, as on CUDA.
const ALIGNMENT: usize = 512;

/// What was asked for since [`take`] was called.
static RECORDED: Mutex<Vec<Recorded>> = Mutex::new(Vec::new());

/// A kernel that was to be launched, for the first time with its arguments.
pub struct Recorded {
    /// The path of its type: the module of its function, which has the function's name.
    pub kernel: &'static str,
    /// What it was compiled for, as CubeCL prints it, the type of its indices first.
    pub id: String,
    /// The kernel, or why there is none.
    pub text: Result<Text, String>,
}

/// A kernel in CUDA C++.
pub struct Text {
    /// The name of its function, the same for the same arguments.
    pub entry: String,
    /// Units of a cube.
    pub units: u32,
    /// Shared memory that a launch asks for.
    pub shared_bytes: usize,
    pub source: String,
}

/// The kernels that were asked for since this was called last, on any device.
pub fn take() -> Vec<Recorded> {
    std::mem::take(&mut *RECORDED.lock().unwrap_or_else(PoisonError::into_inner))
}

/// The index of a device is the compute capability of its card.
#[derive(Debug)]
pub struct Recorder {
    utilities: Arc<ServerUtilities>,
    capability: u32,
    recorded: HashSet<KernelId>,
}

impl Recorder {
    fn text(&self, kernel: &(dyn CubeKernel + 'static)) -> Result<Text, CompilationError> {
        let definition = define_kernel(kernel)?;
        let entry = definition.settings.kernel_name.clone();
        let units = definition.settings.cube_dim.num_elems();
        let options = card::options(self.capability);
        let compiled = CppCompiler::<Cuda>::default().compile(definition, &options)?;
        let shared_bytes = compiled.shared_memory_size;
        Ok(Text { entry, units, shared_bytes, source: compiled.source })
    }
}

impl DeviceService for Recorder {
    fn init(device: DeviceId) -> Self {
        let capability = u32::from(device.index_id);
        // Nothing is captured here.
        let (utilities, _captures) = ServerUtilities::init(
            ServiceId::of::<Self>(device),
            "cuda",
            card::properties(capability),
            TargetProperties::default(),
            Arc::new(ServerLogger::default()),
            ContiguousMemoryLayoutPolicy::new(ALIGNMENT),
        );
        Self { utilities: Arc::new(utilities), capability, recorded: HashSet::new() }
    }

    fn utilities(&self) -> ServerUtilitiesHandle {
        self.utilities.clone()
    }
}

impl ServerCommunication for Recorder {}

impl Server for Recorder {
    fn initialize_memory(
        &mut self,
        _: ManagedMemoryHandle,
        _: u64,
        _: StreamId,
    ) -> Result<(), ServerError> {
        Ok(())
    }

    fn logger(&self) -> Arc<ServerLogger> {
        self.utilities.logger.clone()
    }

    fn utilities(&self) -> Arc<ServerUtilities> {
        self.utilities.clone()
    }

    fn read(
        &mut self,
        _: Vec<CopyDescriptor>,
        _: StreamId,
    ) -> DynFut<Result<Vec<Bytes>, ServerError>> {
        Box::pin(async { Err(nothing_runs()) })
    }

    fn write(&mut self, _: Vec<(CopyDescriptor, Bytes)>, _: StreamId) {}

    fn sync(&mut self, _: Vec<BufferBinding>, _: StreamId) -> DynFut<Result<(), ServerError>> {
        Box::pin(async { Ok(()) })
    }

    fn check(&mut self, _: Vec<BufferBinding>, _: StreamId) -> Result<(), ServerError> {
        Ok(())
    }

    unsafe fn launch(
        &mut self,
        kernel: Box<dyn CubeKernel>,
        _: CubeCount,
        _: KernelArguments,
        _: StreamId,
        _: LaunchMode,
    ) {
        let id = kernel.id();
        if !self.recorded.insert(id.clone()) {
            return;
        }
        let text = self.text(&*kernel).map_err(|error| {
            // What follows is where the error was made.
            error.to_string().split("Backtrace").next().unwrap_or_default().trim().to_owned()
        });
        let id = format!("{} {id}", id.address_type);
        let recorded = Recorded { kernel: kernel.name(), id, text };
        RECORDED.lock().unwrap_or_else(PoisonError::into_inner).push(recorded);
    }

    fn flush(&mut self, _: StreamId) -> Result<(), ServerError> {
        Ok(())
    }

    fn memory_report(&mut self, _: StreamId) -> Option<StreamMemoryReport> {
        None
    }

    fn memory_cleanup(&mut self, _: StreamId) -> Result<(), ServerError> {
        Ok(())
    }

    fn start_profile(&mut self, _: StreamId) -> Result<ProfilingToken, ServerError> {
        Err(nothing_runs())
    }

    fn end_profile(
        &mut self,
        _: StreamId,
        _: ProfilingToken,
    ) -> Result<ProfileDuration, ProfileError> {
        Err(ProfileError::NotRegistered { backtrace: BackTrace::capture() })
    }

    fn allocation_mode(&mut self, _: MemoryAllocationMode, _: StreamId) {}
}

impl ServerStorage for Recorder {
    type Storage = BytesStorage;

    fn get_resource(
        &mut self,
        _: BufferBinding,
        _: StreamId,
    ) -> Result<ManagedResource<BytesResource>, ServerError> {
        Err(nothing_runs())
    }
}

fn nothing_runs() -> ServerError {
    ServerError::Generic {
        reason: "kernels are only compiled here: there is no memory to read".to_owned(),
        backtrace: BackTrace::capture(),
    }
}
