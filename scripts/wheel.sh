#!/usr/bin/env bash
# Makes a wheel that needs nothing from the system: scripts/wheel.sh [--python PYTHON] [--build-dir FOLDER] [--jobs N]
# Into dist/: for CPython 3.11, or, with a PYTHON of 3.12 or newer, one for all versions from 3.12 on. Libraries that it
# links are packed into it (auditwheel). --build-dir takes the objects of a build that is there (build/release), and
# makes the extension anew for PYTHON. Without it everything is compiled, in some minutes. The same sources in the same
# folder give the same bytes.
set -euo pipefail
cd "$(dirname "$0")/.."

python=python3 build_dir='' jobs=$(nproc)
while [ $# -gt 0 ]; do
  case $1 in
    --python) python=${2:?--python needs a program}; shift 2 ;;
    --build-dir) build_dir=${2:?--build-dir needs a folder}; shift 2 ;;
    --jobs) jobs=${2:?--jobs needs a number}; shift 2 ;;
    -h | --help) sed -n '2,6s/^# //p' "$0"; exit 0 ;;
    *) echo "wheel: unknown argument '$1' (see --help)" >&2; exit 2 ;;
  esac
done
tag=$("$python" -c 'import sys; print("cp%d%d" % sys.version_info[:2])')
requirements=scripts/requirements-wheel.txt venv=.venv-wheel-$tag
wanted="$(sha256sum <$requirements) $PWD"
if [ "$(cat "$venv/.complete" 2>/dev/null)" != "$wanted" ]; then
  rm -rf "$venv"
  "$python" -m venv "$venv"
  "$venv/bin/pip" --disable-pip-version-check --quiet install --require-hashes --no-deps -r $requirements
  printf '%s' "$wanted" >"$venv/.complete"
fi

options=()
if [ -n "$build_dir" ]; then
  # What that build was configured with stays.
  for name in TESSERA_BUILD_TESTS TESSERA_SHARED TESSERA_UNITY; do
    value=$(sed -n "s/^$name:BOOL=//p" "$build_dir/CMakeCache.txt")
    options+=("-Ccmake.define.$name=$value")
  done
  options+=("-Cbuild-dir=$build_dir")
  # Another compiler than that of the build would make everything anew.
  CC=$(sed -n 's/^CMAKE_C_COMPILER:[A-Z]*=//p' "$build_dir/CMakeCache.txt")
  CXX=$(sed -n 's/^CMAKE_CXX_COMPILER:[A-Z]*=//p' "$build_dir/CMakeCache.txt")
  export CC CXX
  rm -f "$build_dir/.skbuild-info.json"  # of another Python: scikit-build-core would clear the build's cache
fi
if command -v ccache >/dev/null; then export CMAKE_CXX_COMPILER_LAUNCHER=ccache; fi
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH CMAKE_BUILD_PARALLEL_LEVEL=$jobs PATH="$PWD/$venv/bin:$PATH"
raw=$(mktemp -d)
trap 'rm -rf "$raw"' EXIT
"$venv/bin/pip" --disable-pip-version-check wheel . --no-deps --no-build-isolation --wheel-dir "$raw" "${options[@]}"
"$venv/bin/auditwheel" repair --wheel-dir dist "$raw"/tessera-*.whl
ls -l dist
