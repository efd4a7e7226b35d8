"""Compiles kernels in CUDA C++ to machine code, without a card: python compile.py FOLDER

FOLDER/kernels.json lists the kernels and their files. NVRTC makes PTX of each, with the options of
CubeCL's runtime, and ptxas makes machine code of it, with what it uses: registers, stack, and bytes
that were spilled to memory because registers ran out. Both are of NVIDIA's packages of PyPI, for
CUDA 12 or 13. The results are in FOLDER/results.json; the exit status is 1 if a kernel does not
compile or spills.
"""

import concurrent.futures
import ctypes
import json
import os
import pathlib
import re
import subprocess
import sys


class Toolkit:
    """The compilers and headers in the packages of this Python."""

    def __init__(self):
        folders = [pathlib.Path(folder) / "nvidia" for folder in sys.path if folder]
        found = [path for folder in folders if folder.is_dir() for path in folder.rglob("*")]
        libraries = [path for path in found if re.fullmatch(r"libnvrtc\.so\.\d+", path.name)]
        assemblers = [path for path in found if path.name == "ptxas" and path.is_file()]
        headers = {path.parent for path in found if path.name == "cuda_fp16.h"}
        # The header of tensor cores includes one of the compiler's package, and that one others.
        headers |= {path.parent.parent for path in found if path.parts[-2:] == ("crt", "mma.h")}
        headers |= {path.parent.parent.parent for path in found if path.parts[-3:] == ("cuda", "std", "array")}
        if not libraries or not assemblers or not headers:
            sys.exit(
                "error: this Python has no compiler of CUDA; install the packages of "
                "xtask/cuda/requirements.txt, or leave out --python"
            )
        self.library = ctypes.CDLL(str(max(libraries)))
        self.includes = [f"--include-path={folder}" for folder in sorted(headers)]
        self.ptxas = str(max(assemblers))
        # Installers may drop the permission.
        os.chmod(self.ptxas, os.stat(self.ptxas).st_mode | 0o111)

    def version(self):
        major, minor = ctypes.c_int(), ctypes.c_int()
        self.library.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor))
        return f"{major.value}.{minor.value}"

    def ptx(self, source, arch):
        """PTX, or None and what the compiler says."""
        library, program = self.library, ctypes.c_void_p()
        status = library.nvrtcCreateProgram(ctypes.byref(program), source, None, 0, None, None)
        if status:
            return None, f"NVRTC creates no program: error {status}"
        options = [f"--gpu-architecture={arch}", "-lineinfo", *self.includes]
        array = (ctypes.c_char_p * len(options))(*[option.encode() for option in options])
        status = library.nvrtcCompileProgram(program, len(options), array)
        read = (library.nvrtcGetPTXSize, library.nvrtcGetPTX)
        if status:
            read = (library.nvrtcGetProgramLogSize, library.nvrtcGetProgramLog)
        size = ctypes.c_size_t()
        read[0](program, ctypes.byref(size))
        text = ctypes.create_string_buffer(size.value)
        read[1](program, text)
        library.nvrtcDestroyProgram(ctypes.byref(program))
        if status:
            return None, text.value.decode(errors="replace")
        return text.value, ""

    def assembled(self, ptx_file, arch):
        """What the machine code uses, or a message."""
        command = [self.ptxas, "-v", f"-arch={arch}", "-o", os.devnull, str(ptx_file)]
        run = subprocess.run(command, capture_output=True, text=True)
        said = run.stdout + run.stderr
        if run.returncode:
            return {"error": said.strip()}
        return usage(said)


def usage(said):
    """The numbers that `ptxas -v` prints of one kernel."""

    def number(pattern):
        found = re.search(pattern, said)
        return int(found.group(1)) if found else None

    registers = number(r"Used (\d+) registers")
    stores, loads = number(r"(\d+) bytes spill stores"), number(r"(\d+) bytes spill loads")
    if registers is None or stores is None or loads is None:
        return {"error": f"ptxas prints other numbers than expected: {said.strip()}"}
    return {
        "registers": registers,
        "stack_bytes": number(r"(\d+) bytes stack frame") or 0,
        "spill_store_bytes": stores,
        "spill_load_bytes": loads,
        "static_shared_bytes": number(r"(\d+) bytes smem") or 0,
    }


def compiled(toolkit, folder, kernel):
    if "error" in kernel:
        return kernel
    file = folder / kernel["file"]
    ptx, message = toolkit.ptx(file.read_bytes(), kernel["arch"])
    if ptx is None:
        return kernel | {"error": message}
    ptx_file = file.with_suffix(".ptx")
    ptx_file.write_bytes(ptx)
    instructions = {
        "mma_instructions": len(re.findall(rb"wmma\.mma|mma\.sync|wgmma", ptx)),
        # Four products of signed bytes and their sum.
        "dp4a_instructions": len(re.findall(rb"\bdp4a\.", ptx)),
    }
    return kernel | instructions | toolkit.assembled(ptx_file, kernel["arch"])


def is_spilled(result):
    return bool(result.get("spill_store_bytes") or result.get("spill_load_bytes"))


def table(results):
    header = ("kernel", "arch", "units", "registers", "shared B", "stack B", "spilled B", "mma", "dp4a")
    rows = [header]
    for result in results:
        name = f"{result['crate']} {result['entry']}"
        if "error" in result:
            rows.append((name, result["arch"], *["-"] * 6, "ERROR"))
            continue
        shared = result["shared_bytes"] + result["static_shared_bytes"]
        spilled = result["spill_store_bytes"] + result["spill_load_bytes"]
        numbers = (result["units"], result["registers"], shared, result["stack_bytes"], spilled)
        numbers += (result["mma_instructions"], result["dp4a_instructions"])
        rows.append((name, result["arch"], *map(str, numbers)))
    widths = [max(len(row[at]) for row in rows) for at in range(len(header))]
    for row in rows:
        first = [row[0].ljust(widths[0]), row[1].ljust(widths[1])]
        rest = [cell.rjust(width) for cell, width in zip(row[2:], widths[2:])]
        print("  ".join(first + rest))


def main():
    folder = pathlib.Path(sys.argv[1])
    kernels = json.loads((folder / "kernels.json").read_text())
    toolkit = Toolkit()
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        results = list(pool.map(lambda kernel: compiled(toolkit, folder, kernel), kernels))
    (folder / "results.json").write_text(json.dumps(results, indent=1) + "\n")
    table(results)
    for result in results:
        if "error" in result:
            print(f"\n{result['crate']} {result['entry']} for {result['arch']}:\n{result['error']}")
    failed = sum("error" in result for result in results)
    spilled = sum(is_spilled(result) for result in results)
    print(
        f"\nCUDA {toolkit.version()}: {len(results)} compilations, {failed} with errors, "
        f"{spilled} with spilled registers; {folder / 'results.json'}"
    )
    if not results:
        sys.exit("error: there is no kernel to compile")
    sys.exit(1 if failed or spilled else 0)


if __name__ == "__main__":
    main()
