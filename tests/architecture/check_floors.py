#!/usr/bin/env python3
"""Checks the house rules that a compiler does not: who may include whom, how long lines, functions and files may be.

Usage: check_floors.py ROOT. Prints one line a violation ("path:line: what") and exits 1 when there is one.
The floors are those of docs/architecture.md; a new folder of src/ needs a line here.
"""
import pathlib
import re
import sys

from cpu_rooms import check_cpu_rooms
from function_lengths import function_faults

# Bottom to top. A folder uses itself and what stands below it; folders that share a line do not use each other, except
# for what SIDEWAYS allows.
FLOORS = [
    ["base"],
    ["ir"],
    ["ops"],
    ["io"],
    ["text"],
    ["cost"],
    ["lease"],
    ["passes"],
    ["backends"],
    ["plan"],
    ["runtime"],
    ["models"],
    ["report", "conformance", "capi", "dist", "protect", "share", "compress", "train"],
    ["generate"],
    ["serve"],
    ["bindings", "apps"],
]
SIDEWAYS = {("compress", "train"), ("compress", "report")}
FLOOR_OF = {folder: number for number, floor in enumerate(FLOORS) for folder in floor}

# Headers directly in src/backends are the device contract, which any device uses, but for the list of devices, which
# uses all of them. HOST_UTILITIES computes on host tensors for any device. Of another device, a device may include one
# header only: that which declares the reference's table, or another one's where COMPUTES_BY says so.
DEVICE_TABLE = "backend_table"
HOST_UTILITIES = "host"
DEVICE_OF_ALL = "reference"
COMPUTES_BY = {("simulated", "cpu")}

# The floor of each public header: that of the folder which implements it, so that no arrow hides behind include/.
PUBLIC_HEADERS = {
    "base": "clock dtype error export gate half log tensor version view",
    "ir": "named_values value_description",
    "io": "images model_key model_limits tessera_images",
    "text": "tokenizer",
    "passes": "pass_change",
    "runtime": "device model optimise session variable_store",
    "models": "graph",
    "capi": "tessera",
    "protect": "protect obfuscate obfuscation_measure operator_library secret_shared watermark",
    "share": "resident_models share",
    "train": "train",
    "generate": "generate",
    "compress": "compression_costs deep_compression dictionary prune quantise",
}
PUBLIC_FLOOR = {f"tessera/{header}.h": folder for folder, headers in PUBLIC_HEADERS.items()
                for header in headers.split()}

CUDA_HEADER = re.compile(
    r"^(cuda|cublas|cudnn|cufft|curand|cusparse|cusolver|cutlass|nvrtc|nvml|nvToolsExt|thrust/|cub/)")
STANDARD_HEADER = re.compile(r"^([a-z_0-9]+|std[a-z]+\.h)$")  # those of C for tessera.h
INCLUDE = re.compile(r"^\s*#\s*include\s*([\"<])([^\">]+)[\">]")

SOURCE_SUFFIXES = {".h", ".hpp", ".cpp", ".cc", ".cu", ".cuh", ".inl"}
TEXT_SUFFIXES = {".c", ".py", ".sh", ".cmake"}
LONGEST_FILE, LONGEST_FILE_ELSEWHERE = 400, 600  # in src, and anywhere else
LENGTH_REASON = re.compile(r"^\s*(//|#) Length: \S")
WIDEST_LINE = 120


def floor_folder(path):
    """The folder that gives a file (relative to the root) its floor, or None for files outside the house."""
    parts = path.parts
    if parts[0] == "src":
        return parts[1] if len(parts) > 2 else None
    return parts[0] if parts[0] in ("apps", "bindings") else None


def device_fault(path, target):
    """Why the backend file `path` (below src/backends) may not include "backends/…" `target`, or None."""
    source = path.parts[2:]
    wanted = pathlib.PurePosixPath(target).parts[1:]
    wanted_device = wanted[0] if len(wanted) > 1 else None
    if len(source) == 1:
        is_table = pathlib.PurePosixPath(source[0]).stem == DEVICE_TABLE
        return None if wanted_device is None or is_table else "only backend_table.cpp may name a device"
    device = source[0]
    if wanted_device is None:
        is_table = pathlib.PurePosixPath(wanted[0]).stem == DEVICE_TABLE
        return "a device may not use the list of devices" if is_table else None
    if wanted_device in (device, HOST_UTILITIES):
        return None
    header = f"{wanted_device}_device.h"
    allowed = wanted_device == DEVICE_OF_ALL or (device, wanted_device) in COMPUTES_BY
    if device == HOST_UTILITIES or not allowed:
        return f"device '{device}' may not use device '{wanted_device}'"
    return None if wanted[1:] == (header,) else f"device '{device}' may use of '{wanted_device}' only its {header}"


def reference_fault(target):
    """Why a floor above the devices may not include `target` of the reference, or None."""
    parts = pathlib.PurePosixPath(target).parts
    if parts[:2] != ("backends", DEVICE_OF_ALL) or parts[2:] == (f"{DEVICE_OF_ALL}_device.h",):
        return None
    return f"the inside of device '{DEVICE_OF_ALL}' is its own; what others need belongs in backends/{HOST_UTILITIES}"


def include_fault(path, folder, quote, target):
    """Why the file may not include `target`, or None."""
    if CUDA_HEADER.match(target) and path.parts[:3] != ("src", "backends", "cuda"):
        return f"CUDA header <{target}> outside src/backends/cuda"
    if path.parts[0] == "include":
        if target.startswith("tessera/") or (quote == "<" and STANDARD_HEADER.match(target)):
            return None
        return f"public headers use public headers and the standard library only, not {target}"
    if target.startswith("tessera/") and target not in PUBLIC_FLOOR:
        return f"{target} has no floor; add it to PUBLIC_HEADERS in {pathlib.Path(__file__).name}"
    wanted = PUBLIC_FLOOR.get(target, target.split("/")[0])
    if quote != '"' or "/" not in target or wanted not in FLOOR_OF or folder not in FLOOR_OF:
        return None
    if wanted == folder:
        return device_fault(path, target) if folder == "backends" else None
    if target in PUBLIC_FLOOR and FLOOR_OF[wanted] == FLOOR_OF[folder]:
        return None  # what stands beside it declares to users, too
    if FLOOR_OF[wanted] < FLOOR_OF[folder] or (folder, wanted) in SIDEWAYS:
        return reference_fault(target)
    relation = "beside it" if FLOOR_OF[wanted] == FLOOR_OF[folder] else "above it"
    return f"'{folder}' may not use '{wanted}', which stands {relation}"


def check_file(root, path):
    lines = (root / path).read_text(encoding="utf-8", errors="replace").splitlines()
    longest = LONGEST_FILE if path.parts[0] == "src" else LONGEST_FILE_ELSEWHERE
    if len(lines) > longest and not any(LENGTH_REASON.match(line) for line in lines):
        yield f"{path}:1: {len(lines)} lines, over {longest}; split it, or give the reason in a line '// Length: …'"
    for number, line in enumerate(lines, 1):
        if len(line) > WIDEST_LINE:
            yield f"{path}:{number}: {len(line)} columns, over {WIDEST_LINE}"
    if path.suffix not in SOURCE_SUFFIXES or path.parts[0] in ("tests", "bench"):
        return
    for number, fault in function_faults(path, lines):
        yield f"{path}:{number}: {fault}"
    folder = floor_folder(path)
    for number, line in enumerate(lines, 1):
        match = INCLUDE.match(line)
        fault = include_fault(path, folder, match.group(1), match.group(2)) if match else None
        if fault:
            yield f"{path}:{number}: {fault}"


def checked_files(root):
    """What has to keep to the rules: the house's sources, and the scripts and build files around them."""
    for top in ("include", "src", "apps", "bindings", "tests", "bench", "scripts", "cmake"):
        for file in sorted((root / top).rglob("*")) if (root / top).is_dir() else []:
            is_text = file.suffix in SOURCE_SUFFIXES | TEXT_SUFFIXES or file.name == "CMakeLists.txt"
            if file.is_file() and is_text and "seeds" not in file.parts:
                yield file.relative_to(root)
    for name in ("CMakeLists.txt", ".ci/run"):
        if (root / name).is_file():
            yield pathlib.Path(name)


def check_tree(root):
    """All violations in the tree, as lines of text."""
    root = pathlib.Path(root)
    violations = []
    for folder in sorted(p.name for p in (root / "src").iterdir() if p.is_dir()):
        if folder not in FLOOR_OF:
            violations.append(f"src/{folder}: has no floor; add it to FLOORS in {pathlib.Path(__file__).name}")
    for path in checked_files(root):
        violations.extend(check_file(root, path))
    return violations + check_cpu_rooms(root)


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    violations = check_tree(sys.argv[1])
    print("\n".join(violations) if violations else "every file keeps to its floor")
    sys.exit(1 if violations else 0)


if __name__ == "__main__":
    main()
