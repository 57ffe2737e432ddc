#!/usr/bin/env bash
# Checks the device code of the CUDA kernels: scripts/sass_gate.sh [ARCHITECTURE …]
# Compiles every file of src/backends/cuda/kernels for each architecture that it names (or for those given, such as 80
# or 90a) and fails unless each kernel has the instruction, no spills, and registers and shared memory within the budget
# of its line "// Gate:". Needs no GPU; nvcc and nvdisasm come from .cache/cuda (scripts/setup.sh --cuda), else PATH.
set -euo pipefail
cd "$(dirname "$0")/.."
case ${1:-} in -h | --help) sed -n '2,5s/^# //p' "$0"; exit 0 ;; esac
exec python3 -B scripts/sass_gate.py "$@"
