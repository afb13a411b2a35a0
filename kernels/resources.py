#!/usr/bin/env python3
"""Compiles every kernel for every architecture and holds what the compiler says against our limits.

    kernels/resources.py           writes kernels/RESOURCES.md
    kernels/resources.py --check   fails where the file differs from what would be written by its release of CUDA

Fails on a compiler warning, a register spill, a stack frame (but for the f64 cosine's), a block that needs more shared memory than
the card gives, an attention kernel of 16-bit elements without tensor-core instructions, and a kernel without 16-byte loads.
Needs nvcc and cuobjdump (CUDA_HOME, else PATH) and g++.
"""

import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
# Architecture, and the most dynamic shared memory (bytes) that one of its blocks may ask for.
SHARED_LIMITS = {"80": 163 << 10, "86": 99 << 10, "89": 99 << 10, "90": 227 << 10, "120": 99 << 10}
# Its rare arguments above 10^5 periods need a table on the stack; it runs once a step.
MAY_USE_STACK = {"rope_angles_f32"}
# Reads single numbers only.
MAY_LACK_WIDE_LOADS = {"rope_angles_f32", "merge_attention_f32", "merge_attention_bf16", "merge_attention_f16"}


def tool(name):
    home = os.environ.get("CUDA_HOME")
    return str(pathlib.Path(home) / "bin" / name) if home else name


def run(command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
    return done.stdout, done.stderr


def kernels_of(source, architecture, folder):
    """What ptxas and the disassembler say of each kernel in `source`."""
    cubin = folder / f"{source.stem}.{architecture}.cubin"
    code = f"-gencode=arch=compute_{architecture},code=sm_{architecture}"
    flags = ["-std=c++17", "-cubin", "-fmad=false", "-Xptxas", "-v,-warn-spills", code]
    _, said = run([tool("nvcc"), *flags, "-o", cubin, source])
    warnings = [line for line in said.splitlines() if "warning" in line.lower()]
    kernels = {}
    pattern = (
        r"Function properties for (\w+)\n\s*(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads"
        r"(?:\nptxas info\s*: Used (\d+) registers)?"
    )
    for name, stack, stores, loads, registers in re.findall(pattern, said):
        if registers:
            spills = int(stores) + int(loads)
            kernels[name] = {"registers": int(registers), "stack": int(stack), "spills": spills}
    disassembly, _ = run([tool("cuobjdump"), "-sass", cubin])
    for part in disassembly.split("Function : ")[1:]:
        kernel = kernels.get(part.split()[0])
        if kernel is not None:
            kernel["tensor"] = len(re.findall(r"\bHMMA\.", part))
            kernel["wide"] = len(re.findall(r"\b(?:LDG|LDGSTS)\.\S*\b128\b", part))
    return kernels, warnings


def dynamic_shared(folder):
    """Bytes of dynamic shared memory of each attention kernel, as its launcher has them."""
    program = folder / "resources"
    sources = [HERE / "resources.cpp", *sorted((HERE / "csrc").glob("paged_attention_*.cu"))]
    run(["g++", "-std=c++17", "-x", "c++", *sources, "-o", program])
    lines = run([program])[0].split("\n")
    return {name: int(shared) for name, _, shared in (line.split() for line in lines if line)}


def faults(name, architecture, kernel, shared):
    if kernel["spills"]:
        yield f"{kernel['spills']} bytes spilled"
    if kernel["stack"] and name not in MAY_USE_STACK:
        yield f"a stack frame of {kernel['stack']} bytes"
    if shared > SHARED_LIMITS[architecture]:
        yield f"{shared} bytes of shared memory, {SHARED_LIMITS[architecture]} allowed"
    if re.match(r"paged_\w+_attention_(bf16|f16)_", name) and kernel["tensor"] == 0:
        yield "no tensor-core instruction"
    if kernel["wide"] == 0 and name not in MAY_LACK_WIDE_LOADS:
        yield "no 16-byte load"


def table(kernels, shared):
    """One line a kernel; numbers that differ between architectures are listed in their order."""

    def cell(name, key):
        numbers = [kernels[architecture][name][key] for architecture in SHARED_LIMITS]
        return str(numbers[0]) if len(set(numbers)) == 1 else " / ".join(map(str, numbers))

    yield "| kernel | registers | stack | spills | dynamic shared memory | tensor-core instructions | 16-byte loads |"
    yield "|---|---|---|---|---|---|---|"
    for name in sorted(kernels["80"], key=lambda name: [int(x) if x.isdigit() else x for x in re.split(r"(\d+)", name)]):
        cells = [cell(name, key) for key in ("registers", "stack", "spills")]
        cells += [str(shared.get(name, "-")), cell(name, "tensor"), cell(name, "wide")]
        yield f"| {name} | {' | '.join(cells)} |"


def main():
    # No kernel lies in the struct sizes.
    sources = [source for source in sorted((HERE / "csrc").glob("*.cu")) if source.stem != "layout"]
    kernels = {architecture: {} for architecture in SHARED_LIMITS}
    refused = []
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        shared = dynamic_shared(folder)
        pairs = [(source, architecture) for source in sources for architecture in SHARED_LIMITS]
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            results = pool.map(lambda pair: kernels_of(*pair, folder), pairs)
            for (_, architecture), (found, warnings) in zip(pairs, results):
                kernels[architecture].update(found)
                refused += [f"sm_{architecture}: {warning}" for warning in warnings]
    for architecture, found in kernels.items():
        for name, kernel in found.items():
            refused += [f"sm_{architecture} {name}: {fault}" for fault in faults(name, architecture, kernel, shared.get(name, 0))]
    release = re.search(r"release (\S+),", run([tool("nvcc"), "--version"])[0]).group(1)
    text = "\n".join(
        [
            "# Resources of the kernels",
            "",
            f"Written by `kernels/resources.py` from ptxas and cuobjdump of CUDA {release}; not to be edited. Where architectures differ,",
            f"the numbers are those of sm_{', '.join(SHARED_LIMITS)}, in this order. Instructions are counted in the code, not as they run.",
            "",
            *table(kernels, shared),
            "",
        ]
    )
    path = HERE / "RESOURCES.md"
    if "--check" in sys.argv[1:]:
        written = path.read_text()
        if f"CUDA {release};" not in written:
            print(f"{path} is of another release than CUDA {release}, which counts otherwise: not compared")
        elif written != text:
            refused.append(f"{path} is out of date: run kernels/resources.py")
    else:
        path.write_text(text)
    if refused:
        sys.exit("\n".join(refused))
    print(f"{len(kernels['80'])} kernels, {len(SHARED_LIMITS)} architectures: within the limits")


main()
