#!/usr/bin/env bash
# All tests from nothing: sets up, builds (a warning of the compiler is an error), runs ctest and ends with its summary.
# Arguments go to ctest.
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/setup.sh --tests --mpi
python3 scripts/fetch_models.py
TESSERA_CMAKE_OPTIONS='-DTESSERA_WERROR=ON -DTESSERA_PYTHON=ON' scripts/build.sh release
exec ctest --preset release --parallel "$(nproc)" "$@"
