"""A worker of the benchmark runner: answers the requests of benches/src/protocol.rs."""

import functools
import json
import multiprocessing
import os
import resource
import sys
import time

import numpy as np


def on_gpu():
    """Whether the runner asks for PyTorch's GPU, and PyTorch has one; without one a run on an
    emulated device compares with the processor."""
    return device() != "cpu"


@functools.cache
def device():
    """PyTorch's name of the device that peers compute on."""
    if not os.environ.get("UPDRAFT_BENCH_GPU"):
        return "cpu"
    import torch

    if torch.cuda.is_available():
        return "cuda"
    return "mps" if torch.backends.mps.is_available() else "cpu"


def place(threads):
    """The device that peers compute on, for people."""
    if not on_gpu():
        return f"{threads} threads"
    import torch

    if device() == "mps":
        return "Metal"
    platform = f"ROCm {torch.version.hip}" if torch.version.hip else f"CUDA {torch.version.cuda}"
    return f"{platform}, {torch.cuda.get_device_name()}"


def set_tf32(is_on):
    """Products and convolutions in TF32, or in f32 as they are written; PyTorch's own default is
    TF32 for convolutions alone."""
    import torch

    if is_on and (device() != "cuda" or torch.version.hip):
        raise ValueError("TF32 is of NVIDIA's cards, and PyTorch computes on none here")
    torch.set_float32_matmul_precision("high" if is_on else "highest")
    torch.backends.cudnn.allow_tf32 = is_on


def serve(prepare):
    """Answers until the runner closes the pipe.

    `prepare(problem, strategy, folder, threads)` returns what computes, as (once, outputs, about):
    a function that computes once to the last byte, a function that returns the results by name,
    and a text that names the program.
    """
    # Libraries print; only answers may reach the runner.
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    running = folder = base = None
    for line in sys.stdin:
        request = json.loads(line)
        try:
            if request["ask"] == "prepare":
                folder = request["folder"]
                base = held_bytes()
                once, outputs, about = prepare(
                    request["problem"], request["strategy"], folder, request["threads"]
                )
                running = (finished(once), outputs)
                answer = {"answer": "prepared", "about": about}
            elif request["ask"] == "prove":
                results = running[1]()
                for name, values in results.items():
                    np.asarray(values, dtype="<f8").tofile(os.path.join(folder, name + ".f64"))
                answer = {"answer": "proved", "outputs": sorted(results)}
            else:
                answer = repeat(running[0], request["times"]) | {"base_bytes": base}
        except Exception as error:  # any failure of a peer is an answer
            answer = {"answer": "failed", "reason": f"{type(error).__name__}: {error}"}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


def processor_ns():
    """Processor time of this process and of the processes that work for it, gone or alive."""
    gone = os.times()
    total = time.process_time_ns() + int((gone.children_user + gone.children_system) * 1e9)
    for child in multiprocessing.active_children():
        try:
            with open(f"/proc/{child.pid}/stat") as stat:
                # User and system time are the 14th and 15th field; the 2nd is a name in brackets.
                ticks = stat.read().rpartition(")")[2].split()[11:13]
        except OSError:
            continue
        total += sum(map(int, ticks)) * 1_000_000_000 // os.sysconf("SC_CLK_TCK")
    return total


def resident_bytes():
    """What this process holds now; `None` on systems that do not tell."""
    try:
        with open("/proc/self/statm") as statm:
            return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return None


def held_bytes():
    """What this process holds now, of the GPU's memory where that computes."""
    if not on_gpu():
        return resident_bytes()
    import torch

    if device() == "mps":
        return torch.mps.driver_allocated_memory()
    return torch.cuda.memory_reserved()


def finished(once):
    """`once`, which on a GPU returns before its work is done, with a wait for it."""
    if not on_gpu():
        return once
    import torch

    synchronize = torch.mps.synchronize if device() == "mps" else torch.cuda.synchronize

    def waited():
        once()
        synchronize()

    return waited


def repeat(once, times):
    wall, cpu = time.monotonic_ns(), processor_ns()
    for _ in range(times):
        once()
    wall, cpu = time.monotonic_ns() - wall, processor_ns() - cpu
    if device() == "cuda":
        import torch

        # Other libraries than PyTorch reserve memory of their own.
        peak = torch.cuda.max_memory_reserved() or None
    elif device() == "mps":
        # PyTorch has no peak there.
        peak = held_bytes()
    else:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return {"answer": "repeated", "wall_ns": wall, "cpu_ns": cpu, "peak_bytes": peak}
