#!/usr/bin/env bash
# Runs programs of PyPI that use onnxruntime, as they are, on it and on Tessera, compares what they find, and tries
# torch.compile:
#   scripts/ort_programs.sh [--package FOLDER] [--setup] [--examples] [PROGRAM …]
# --examples runs those of examples/python instead (transformers and scikit-learn, about a minute). FOLDER holds the
# built package (build/release/python). Makes .venv-programs from pinned packages (6 GB, mostly PyTorch, which
# silero-vad needs); --setup only makes it. Takes some minutes; not part of CI. Exit code 1 when a program finds
# something else.
set -euo pipefail
cd "$(dirname "$0")/.."

package=$PWD/build/release/python programs=() setup_only=false examples=false
while [ $# -gt 0 ]; do
  case $1 in
    --package) package=${2:?--package needs a folder}; shift 2 ;;
    --setup) setup_only=true; shift ;;
    --examples) examples=true; shift ;;
    -h | --help) sed -n '2,8s/^# //p' "$0"; exit 0 ;;
    *) programs+=("$1"); shift ;;
  esac
done
requirements=(scripts/requirements-{train-peers,ort-programs,torch-compile,python-examples}.txt)
wanted="$(cat "${requirements[@]}" | sha256sum) $PWD"
if [ "$(cat .venv-programs/.complete 2>/dev/null)" != "$wanted" ]; then
  echo "ort_programs: making .venv-programs (6 GB)"
  rm -rf .venv-programs
  python3 -m venv .venv-programs
  for each in "${requirements[@]}"; do
    .venv-programs/bin/pip --disable-pip-version-check --quiet install --require-hashes --no-deps -r "$each"
  done
  printf '%s' "$wanted" >.venv-programs/.complete
fi
if $setup_only; then exit 0; fi
export PYTHONPATH=$package
if $examples; then
  for example in examples/python/*.py; do
    echo "$example"
    .venv-programs/bin/python -B "$example"
  done
  exit 0
fi
if [ ${#programs[@]} = 0 ]; then .venv-programs/bin/python -B tests/python/programs/torch_compile.py; fi
exec .venv-programs/bin/python -B tests/python/programs/compare_programs.py "${programs[@]}"
