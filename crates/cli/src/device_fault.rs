//! What the message of a backend reports about a device.

use crate::child::says_out_of_memory;

/// Why a device does not compute.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DeviceFault {
    /// Its memory is exhausted.
    Memory,
    /// Nothing can be computed on it anymore in this process: a kernel failed, its driver was reset,
    /// or the card is gone.
    Lost,
    /// Its driver is missing a function, is older than the program needs, or does not open the device.
    Driver,
    /// It refused a kernel: the shared memory, the features or the driver that it needs are missing.
    Kernel,
}

/// CubeCL's and burn's own words, those of wgpu and Vulkan, and the errors after which CUDA's driver
/// computes nothing more in a process.
const LOST: &[&str] = &[
    "device is poisoned",
    "device was poisoned",
    "device is lost",
    "device was lost",
    "device has been lost",
    "device_lost",
    "device_removed",
    "cuda_error_ecc_uncorrectable",
    "cuda_error_nvlink_uncorrectable",
    "cuda_error_illegal_address",
    "cuda_error_launch_timeout",
    "cuda_error_context_is_destroyed",
    "cuda_error_assert",
    "cuda_error_hardware_stack_error",
    "cuda_error_illegal_instruction",
    "cuda_error_misaligned_address",
    "cuda_error_invalid_address_space",
    "cuda_error_invalid_pc",
    "cuda_error_launch_failed",
];

/// CUDA's driver, the loader of its library, its compiler NVRTC, and wgpu's request of a device.
const DRIVER: &[&str] = &[
    "cuda_error_unsupported_ptx_version",
    "cuda_error_insufficient_driver",
    "cudaerrorinsufficientdriver",
    "cuda_error_no_binary_for_gpu",
    "cuda_error_system_driver_mismatch",
    "cuda_error_compat_not_supported_on_device",
    "cuda_error_jit_compiler_not_found",
    "cuda_error_system_not_ready",
    "cuda_error_stub_library",
    "missing symbol cu",
    "unable to dynamically load",
    "invalid value for --gpu-architecture",
    "error_incompatible_driver",
    "no adapter available for",
    "unable to request a wgpu device",
    "unable to acquire wgpu device",
    "unable to initialize wgpu runtime",
];

/// CubeCL's errors of a launch that the device, its driver or its compiler refuses.
const KERNEL: &[&str] = &[
    "too much shared memory requested",
    "total unit count exceeds maximum",
    "cube dim exceeds maximum bounds",
    "too many resources were requested during launch",
    "an unsupported instruction caused the compilation to fail",
    "a validation error caused the compilation to fail",
    "wgsl compilation failed for kernel",
    "the device refused the",
    "unable to load the ptx",
    "cuda_error_launch_out_of_resources",
    "plane-wide operations like plane_sum are not available",
    "shared memory budget exceeded",
    "a compilation error happened during launch",
];

/// Lines of a message that a fault has at most.
const LINES: usize = 3;

impl DeviceFault {
    /// The fault that a message reports, whatever is around it.
    pub(crate) fn of(said: &str) -> Option<Self> {
        let said = lines(said).join("\n");
        // What a lost device could not do any more follows from its loss, and wgpu gives a device up
        // that is out of memory.
        if says_out_of_memory(&said) {
            return Some(Self::Memory);
        }
        let lower = said.to_lowercase();
        let has = |words: &[&str]| words.iter().any(|words| lower.contains(words));
        if has(LOST) {
            return Some(Self::Lost);
        }
        if has(DRIVER) {
            return Some(Self::Driver);
        }
        let by_number = statuses(&lower).find_map(of_status);
        by_number.or_else(|| has(KERNEL).then_some(Self::Kernel))
    }

    /// The part of its message that names the cause, on one line.
    pub(crate) fn cause(self, said: &str) -> String {
        let lines = lines(said);
        let is_of_it = |line: &&&str| Self::of(line) == Some(self);
        let joined = |lines: &[&str]| {
            let lines = lines.iter().filter(|line| **line != CAUSED_BY).take(LINES);
            lines.copied().collect::<Vec<_>>().join(" ")
        };
        match self {
            Self::Memory => lines.iter().find(is_of_it).copied().unwrap_or(said.trim()).to_owned(),
            // The last cause is the driver's own error.
            Self::Lost | Self::Driver => {
                let after_last = lines.iter().rposition(|line| *line == CAUSED_BY);
                let last = after_last.and_then(|at| lines.get(at + 1)).copied();
                last.or_else(|| lines.iter().find(is_of_it).copied())
                    .unwrap_or(said.trim())
                    .to_owned()
            }
            // The numbers are on the line after the last of these words.
            Self::Kernel => match lines.iter().rposition(|line| is_of_it(&line)) {
                Some(at) => joined(&lines[at..]),
                None => joined(&lines),
            },
        }
    }

    /// What happened.
    pub(crate) const fn what(self) -> &'static str {
        match self {
            Self::Memory => "the device is out of memory",
            Self::Lost => "the device was lost",
            Self::Driver => "the driver of the device does not run this program",
            Self::Kernel => "the device refused a kernel",
        }
    }

    /// What to do; `None` if memory is exhausted, for which each command has advice of its own.
    pub(crate) const fn remedy(self) -> Option<&'static str> {
        Some(match self {
            Self::Memory => return None,
            Self::Lost => {
                "a kernel failed, the driver was reset, or the card is gone, and this process cannot \
                 use it again; if this happens again, look for the card in the system's log (`dmesg`; \
                 lines with `Xid` are of NVIDIA's driver), update the driver, or choose another \
                 `device`"
            }
            Self::Driver => {
                "update the driver, or choose another `device` or backend: `probe` lists them"
            }
            Self::Kernel => {
                "the kernel needs more than the device or its driver has, such as shared memory, \
                 subgroups or instructions; update the driver, or choose another `device` or \
                 backend: `probe` lists them"
            }
        })
    }
}

/// The lines of a message without those of a backtrace, which CubeCL adds to each error: names of
/// functions are not what happened.
fn lines(said: &str) -> Vec<&str> {
    let is_frame = |line: &str| {
        let after = line.trim_start_matches(|c: char| c.is_ascii_digit());
        line.starts_with("at ") || (after.len() < line.len() && after.starts_with(':'))
    };
    let is_head = |line: &str| {
        ["Backtrace", "No backtrace", "Asked at"].iter().any(|head| line.starts_with(head))
    };
    let lines = said.lines().map(str::trim);
    lines.filter(|line| !line.is_empty() && !is_frame(line) && !is_head(line)).collect()
}

/// The line before a cause in CubeCL's, burn's and wgpu's errors.
const CAUSED_BY: &str = "Caused by:";

/// The numbers of errors of CUDA's and HIP's drivers, which number these alike, as CubeCL writes them.
fn statuses(lower: &str) -> impl Iterator<Item = u32> {
    lower.split(" failed with status ").skip(1).filter_map(|rest| {
        let digits = rest.split(|c: char| !c.is_ascii_digit()).next().unwrap_or_default();
        digits.parse().ok()
    })
}

/// # Source
/// `CUresult` of the CUDA driver API, 13.0.
fn of_status(status: u32) -> Option<DeviceFault> {
    match status {
        // Out of memory.
        2 => Some(DeviceFault::Memory),
        // An old driver, no code for the GPU, PTX of a newer version, other versions of driver parts.
        35 | 209 | 221 | 222 | 803 | 804 => Some(DeviceFault::Driver),
        // Uncorrectable errors of memory or links; illegal addresses, timeouts and other faults of a
        // kernel; an unknown error, which a card that is gone has.
        214 | 220 | 700 | 702 | 709 | 710 | 714..=719 | 999 => Some(DeviceFault::Lost),
        // PTX that is invalid for it; too many registers or too much shared memory.
        218 | 701 => Some(DeviceFault::Kernel),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As CubeCL 0.11, burn 0.22, wgpu 30 and cudarc 0.19 write them; each with its fault and with the
    /// cause that an error has.
    const SAID: [(&str, DeviceFault, &str); 17] = [
        (
            "Error while reading data: use `try_into_data` instead to catch the error at runtime: \
             The device is poisoned\nCaused by:\n  The bytes were never written (failure #1, still \
             claiming 3 buffer(s))\nCaused by:\n  The device is poisoned\nCaused by:\n  \
             cuEventSynchronize failed with status 700\nBacktrace:\n  0: out_of_memory::handler\n   \
             at src/main.rs:3\nAsked at:\n  1: read",
            DeviceFault::Lost,
            "cuEventSynchronize failed with status 700",
        ),
        (
            "An error happened during execution\nCaused by:\n  cuStreamSynchronize failed with \
             status 999\nBacktrace:\nNo backtrace available",
            DeviceFault::Lost,
            "cuStreamSynchronize failed with status 999",
        ),
        (
            "The device is poisoned\nCaused by:\n  hipEventSynchronize failed with status 719\n\
             Backtrace:\nNo backtrace available",
            DeviceFault::Lost,
            "hipEventSynchronize failed with status 719",
        ),
        (
            "Error in Device::poll: Validation Error\n\nCaused by:\n  Parent device is lost\n",
            DeviceFault::Lost,
            "Parent device is lost",
        ),
        (
            "The device is poisoned\nCaused by:\n  Unknown: Device is lost\nBacktrace:\n",
            DeviceFault::Lost,
            "Unknown: Device is lost",
        ),
        (
            "CUDA memcpy_dtoh_async failed: DriverError(CUDA_ERROR_ECC_UNCORRECTABLE, \
             \"uncorrectable ECC error encountered\"); shape [1], strides [1], elem_size 4",
            DeviceFault::Lost,
            "CUDA memcpy_dtoh_async failed: DriverError(CUDA_ERROR_ECC_UNCORRECTABLE, \
             \"uncorrectable ECC error encountered\"); shape [1], strides [1], elem_size 4",
        ),
        (
            "A compilation error happened during launch\nCaused by:\n  An error caused the \
             compilation to fail\nCaused by:\n  Unable to load the PTX: \
             DriverError(CUDA_ERROR_UNSUPPORTED_PTX_VERSION, \"the provided PTX was compiled with \
             an unsupported toolchain.\")\nBacktrace:\n",
            DeviceFault::Driver,
            "Unable to load the PTX: DriverError(CUDA_ERROR_UNSUPPORTED_PTX_VERSION, \"the provided \
             PTX was compiled with an unsupported toolchain.\")",
        ),
        (
            "[Compilation Error] \n    nvrtc: error: invalid value for --gpu-architecture (-arch)\n",
            DeviceFault::Driver,
            "nvrtc: error: invalid value for --gpu-architecture (-arch)",
        ),
        (
            "Missing symbol cuLaunchKernelEx: libcuda.so.1: undefined symbol: cuLaunchKernelEx",
            DeviceFault::Driver,
            "Missing symbol cuLaunchKernelEx: libcuda.so.1: undefined symbol: cuLaunchKernelEx",
        ),
        (
            "Unable to acquire wgpu device: RequestDevice { message: \"Unsupported features were \
             requested: Features(SUBGROUP)\" }",
            DeviceFault::Driver,
            "Unable to acquire wgpu device: RequestDevice { message: \"Unsupported features were \
             requested: Features(SUBGROUP)\" }",
        ),
        (
            "Too many resources were requested during launch\nToo much shared memory requested.\n\
             Requested 49152 bytes, maximum 16384 bytes available.\nBacktrace\nNo backtrace available",
            DeviceFault::Kernel,
            "Too much shared memory requested. Requested 49152 bytes, maximum 16384 bytes \
             available.",
        ),
        (
            "Too many resources were requested during launch\nTotal unit count exceeds maximum.\n\
             Requested 256 units, max units is 128.\nBacktrace\n",
            DeviceFault::Kernel,
            "Total unit count exceeds maximum. Requested 256 units, max units is 128.",
        ),
        (
            "A compilation error happened during launch\nCaused by:\n  An error caused the \
             compilation to fail\nCaused by:\n  WGSL compilation failed for kernel `reduce`: \
             Validation Error\n\nCaused by:\n  In Device::create_shader_module, label = 'reduce'\n\
             Capability Capabilities(SUBGROUP) is required\nBacktrace:\n",
            DeviceFault::Kernel,
            "WGSL compilation failed for kernel `reduce`: Validation Error In \
             Device::create_shader_module, label = 'reduce' Capability Capabilities(SUBGROUP) is \
             required",
        ),
        (
            "An unknown error happened during launch\nCaused by:\n  cuLaunchKernel failed with \
             status 701\nBacktrace\n",
            DeviceFault::Kernel,
            "cuLaunchKernel failed with status 701",
        ),
        (
            "Error in Device::poll: Validation Error\n\nCaused by:\n  Not enough memory left.\n",
            DeviceFault::Memory,
            "Not enough memory left.",
        ),
        (
            "The device is poisoned\nCaused by:\n  Unknown: Out of memory\nBacktrace:\n",
            DeviceFault::Memory,
            "Unknown: Out of memory",
        ),
        (
            "can't read the tensor:\nout of device memory allocating 4096 bytes",
            DeviceFault::Memory,
            "out of device memory allocating 4096 bytes",
        ),
    ];

    #[test]
    fn messages_of_backends_are_known_with_their_cause() {
        for (said, fault, cause) in SAID {
            assert_eq!(DeviceFault::of(said), Some(fault), "{said}");
            assert_eq!(fault.cause(said), cause, "{said}");
        }
    }

    #[test]
    fn other_panics_are_no_fault_of_a_device() {
        for said in [
            "index out of bounds: the len is 3 but the index is 3",
            "cuEventElapsedTime failed with status 600",
            "a label was lost in the file",
            "expected 2 axes, got 3",
        ] {
            assert_eq!(DeviceFault::of(said), None, "{said}");
        }
    }
}
