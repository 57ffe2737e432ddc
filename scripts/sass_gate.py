#!/usr/bin/env python3
"""Compiles the CUDA kernels and checks their device code: see sass_gate.sh, which runs this.

A kernel's budget is a line of its file: "// Gate: NAME registers N shared BYTES instruction PREFIX".
"""
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
KERNELS = ROOT / "src/backends/cuda/kernels"
TOOLS = ROOT / ".cache/cuda/nvidia/cu13/bin"
GATE = re.compile(r"^// Gate: (\w+) registers (\d+) shared (\d+) instruction (\w+)$", re.MULTILINE)
ARCHITECTURES = re.compile(r"^// Architectures: (.*)$", re.MULTILINE)
ENTRY = re.compile(r"Compiling entry function '(\w+)'(.*?)(?=Compiling entry function|\Z)", re.DOTALL)


def tool(name):
    found = TOOLS / name if (TOOLS / name).exists() else shutil.which(name)
    if not found:
        sys.exit(f"sass_gate: there is no {name}; scripts/setup.sh --cuda installs it")
    return str(found)


def number(pattern, text):
    match = re.search(pattern, text)
    return int(match.group(1)) if match else 0


def resources(log):
    """By kernel: registers, bytes of static shared memory, bytes of spills, as ptxas -v prints them."""
    return {name: (number(r"Used (\d+) registers", text), number(r"(\d+) bytes smem", text),
                   number(r"(\d+) bytes spill stores", text) + number(r"(\d+) bytes spill loads", text))
            for name, text in ENTRY.findall(log)}


def instructions(sass):
    """By kernel: the names of its instructions, as nvdisasm prints them."""
    found = {}
    for section in re.split(r"^\s*\.section\s+\.text\.", sass, flags=re.MULTILINE)[1:]:
        name = re.match(r"\w+", section).group(0)
        found[name] = set(re.findall(r"^\s+/\*[0-9a-f]+\*/\s+(?:@!?U?P\w+\s+)?([A-Z][A-Z0-9]*)", section, re.MULTILINE))
    return found


def faults_of(gate, used, has):
    """Why a kernel does not keep its budget: `used` as resources() gives it, `has` its instructions."""
    name, registers, shared, instruction = gate[0], int(gate[1]), int(gate[2]), gate[3]
    if used is None:
        yield f"{name}: not among the kernels that were compiled"
        return
    if used[0] > registers:
        yield f"{name}: {used[0]} registers, over {registers}"
    if used[1] > shared:
        yield f"{name}: {used[1]} bytes of shared memory, over {shared}"
    if used[2] > 0:
        yield f"{name}: {used[2]} bytes of spills"
    if not any(found.startswith(instruction) for found in has):
        yield f"{name}: no instruction {instruction}"


def check(file, architecture):
    """Compiles one file for one architecture; returns (kernels, faults)."""
    gates = GATE.findall(file.read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory() as folder:
        cubin = f"{folder}/kernels.cubin"
        command = [tool("nvcc"), "-std=c++20", "-O3", "-cubin", f"-arch=sm_{architecture}", "-Xptxas", "-v",
                   "-I", str(ROOT / "src"), "-o", cubin, str(file)]
        compiled = subprocess.run(command, capture_output=True, text=True, check=False)
        if compiled.returncode != 0:
            return len(gates), [f"does not compile: {compiled.stderr.strip()[:2000]}"]
        sass = subprocess.run([tool("nvdisasm"), "-c", cubin], capture_output=True, text=True, check=True).stdout
    used, has = resources(compiled.stderr + compiled.stdout), instructions(sass)
    faults = [fault for gate in gates for fault in faults_of(gate, used.get(gate[0]), has.get(gate[0], set()))]
    faults += [f"{name}: no line '// Gate:'" for name in used if name not in {gate[0] for gate in gates}]
    if re.search(r"C7510|wgmma.*serializ", compiled.stderr):
        faults.append("ptxas serialises wgmma")
    return len(gates), faults


def main():
    wanted = sys.argv[1:]
    kernels, failed = 0, 0
    for file in sorted(KERNELS.rglob("*.cu")):
        named = ARCHITECTURES.search(file.read_text(encoding="utf-8")).group(1).split()
        for architecture in named:
            if wanted and architecture not in wanted:
                continue
            count, faults = check(file, architecture)
            kernels += count
            failed += len(faults)
            for fault in faults:
                print(f"{file.relative_to(ROOT)} for sm_{architecture}: {fault}")
    print(f"sass_gate: {kernels} kernels checked, {failed} faults")
    sys.exit(1 if failed or not kernels else 0)


if __name__ == "__main__":
    main()
