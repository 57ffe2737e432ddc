#!/usr/bin/env bash
# Makes a wheel that needs nothing from the system:
#   scripts/wheel.sh [--python PYTHON] [--stable-abi] [--build-dir FOLDER] [--jobs N]
# Into dist/: for CPython 3.11, or, with --stable-abi or a PYTHON of 3.12 or newer, one for all versions from 3.12 on.
# For --stable-abi under Python 3.11, the headers of Python 3.13 come from Debian 13 (apt, into build/python-headers).
# Libraries that it links are packed into it (auditwheel). --build-dir takes the objects of a build that is there
# (build/release), and makes the extension anew for PYTHON. Without it everything is compiled, in some minutes. The same
# sources in the same folder give the same bytes.
set -euo pipefail
cd "$(dirname "$0")/.."

python=python3 build_dir='' stable_abi='' jobs=$(nproc)
while [ $# -gt 0 ]; do
  case $1 in
    --python) python=${2:?--python needs a program}; shift 2 ;;
    --stable-abi) stable_abi=yes; shift ;;
    --build-dir) build_dir=${2:?--build-dir needs a folder}; shift 2 ;;
    --jobs) jobs=${2:?--jobs needs a number}; shift 2 ;;
    -h | --help) sed -n '2,9s/^# //p' "$0"; exit 0 ;;
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

# Puts the headers of Debian 13's Python into the folder $1. Apt keeps all it knows of Debian 13 below that folder, and
# checks signatures as always.
fetch_headers() {
  local folder=$PWD/$1 mirror apt
  . scripts/debian_mirror.sh
  mirror=$(debian_mirror)
  [ -n "$mirror" ] || { echo "wheel: apt on this machine has no source for Debian" >&2; return 1; }
  rm -rf "$folder"
  mkdir -p "$folder"/apt/{state/lists/partial,cache/archives/partial}
  echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror trixie main" >"$folder/apt/sources.list"
  apt=(apt-get -q -q -o Dir::State="$folder/apt/state" -o Dir::Cache="$folder/apt/cache"
       -o Dir::Etc::SourceList="$folder/apt/sources.list" -o Dir::Etc::SourceParts=/dev/null -o APT::Sandbox::User=)
  "${apt[@]}" update
  (cd "$folder" && "${apt[@]}" download libpython3.13-dev && dpkg-deb --extract libpython3.13-dev_*.deb .)
  rm -rf "$folder/apt" "$folder"/*.deb
}

options=() headers=''
if [ -n "$stable_abi" ] && [ "$tag" = cp311 ]; then
  headers=build/python-headers
  [ -f $headers/usr/include/python3.13/Python.h ] || fetch_headers $headers
  # Debian keeps pyconfig.h in a folder of the architecture.
  cp $headers/usr/include/x86_64-linux-gnu/python3.13/pyconfig.h $headers/usr/include/python3.13/pyconfig.h
fi
# Given in both cases, so that a build folder does not keep the one of an earlier wheel.
options+=("-Ccmake.define.TESSERA_PYTHON_HEADERS=${headers:+$PWD/$headers/usr/include/python3.13}")
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
if [ -n "$headers" ]; then
  # The build takes the running Python's version for the extension's.
  "$venv/bin/python" -m wheel tags --remove --python-tag cp312 --abi-tag abi3 "$raw"/tessera-*.whl
fi
"$venv/bin/auditwheel" repair --wheel-dir dist "$raw"/tessera-*.whl
ls -l dist
