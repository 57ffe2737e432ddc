#!/usr/bin/env bash
# Runs tools that work through onnxruntime (optimum, MLflow's ONNX flavour, onnxruntime.quantization), as they are, on
# it and on Tessera, and compares their results:
#   scripts/ort_tools.sh [--package FOLDER] [--setup] [PROGRAM ...]
# FOLDER holds the built package (build/release/python). Makes .venv-ort-tools from pinned packages (6 GB, mostly
# PyTorch); --setup only makes it. Takes a minute; not part of CI. Exit code 1 when results differ.
set -euo pipefail
cd "$(dirname "$0")/.."

package=$PWD/build/release/python programs=() setup_only=false
while [ $# -gt 0 ]; do
  case $1 in
    --package) package=${2:?--package needs a folder}; shift 2 ;;
    --setup) setup_only=true; shift ;;
    -h | --help) sed -n '2,7s/^# //p' "$0"; exit 0 ;;
    *) programs+=("$1"); shift ;;
  esac
done
requirements=scripts/requirements-ort-tools.txt
wanted="$(sha256sum <"$requirements") $PWD"
if [ "$(cat .venv-ort-tools/.complete 2>/dev/null)" != "$wanted" ]; then
  echo "ort_tools: making .venv-ort-tools (6 GB)"
  rm -rf .venv-ort-tools
  python3 -m venv .venv-ort-tools
  .venv-ort-tools/bin/pip --disable-pip-version-check --quiet install --require-hashes --no-deps -r "$requirements"
  printf '%s' "$wanted" >.venv-ort-tools/.complete
fi
if $setup_only; then exit 0; fi
if [ ${#programs[@]} = 0 ]; then programs=(quantization mlflow optimum); fi
export PYTHONPATH=$package
exec .venv-ort-tools/bin/python -B tests/python/programs/compare_programs.py "${programs[@]}"
