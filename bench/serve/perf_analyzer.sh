#!/usr/bin/env bash
# Makes a Debian trixie root with Triton's perf_analyzer in it: bench/serve/perf_analyzer.sh ROOT
# Its wheel wants a newer glibc than Debian 12 has. Run it by `chroot ROOT /pa/perf_analyzer/bin/perf_analyzer`, over
# gRPC with `-u 127.0.0.1:8001`: a name is looked up as IPv6 first. A model with states: `--sequence-length 20
# --sequence-id-range 1:1000`, and for many sequences over one connection `-i grpc --streaming --async`. Needs root and
# debootstrap.
set -euo pipefail
cd "$(dirname "$0")/../.."
root=${1:?say where the root is to be made}
. scripts/debian_mirror.sh
if [ ! -e "$root/bin/sh" ]; then
  debootstrap --variant=minbase --include=libssl3t64,libcurl4t64 trixie "$root" "$(debian_mirror)"
fi
wheels=$(mktemp -d)
trap 'rm -rf "$wheels"' EXIT
python3 -m pip download -q --no-deps --only-binary :all: --platform manylinux_2_38_x86_64 -d "$wheels" \
  perf-analyzer==2.60.0
mkdir -p "$root/pa"
python3 -m zipfile -e "$wheels"/*.whl "$root/pa"
chmod +x "$root/pa/perf_analyzer/bin/perf_analyzer"
chroot "$root" /pa/perf_analyzer/bin/perf_analyzer --version
