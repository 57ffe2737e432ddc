#!/usr/bin/env bash
# Configures and builds a preset: scripts/build.sh PRESET [TARGET …]. Its output is shown on a terminal, else only on
# failure. What TESSERA_CMAKE_OPTIONS holds is given to cmake when it configures.
set -euo pipefail
cd "$(dirname "$0")/.."
preset=${1:?usage: scripts/build.sh PRESET [TARGET …]}
shift
targets=()
[ $# = 0 ] || targets=(--target "$@")

build() {
  # Word splitting is meant: one argument an option.
  # shellcheck disable=SC2086
  cmake --preset "$preset" ${TESSERA_CMAKE_OPTIONS:-} &&
    cmake --build --preset "$preset" --parallel "$(nproc)" "${targets[@]}"
}

echo "build: preset $preset (a first build takes some minutes)"
if [ -t 1 ]; then
  build
else
  mkdir -p build
  log=build/$preset.log
  build >"$log" 2>&1 || { tail -n 80 "$log" >&2; echo "build: failed; all of its output is in $log" >&2; exit 1; }
fi
