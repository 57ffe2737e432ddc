#!/usr/bin/env bash
# Checks the CUDA backend on this machine's GPU: scripts/gpu_check.sh [--again] [FOLDER]
# Builds for the GPU, then runs every launch against the reference, ONNX's test cases, and small nets against the CPU,
# and times the nets. FOLDER (build/gpu_check) keeps a log and a result of each step, and report.json; steps that passed
# are not run again, except with --again. Needs a driver, nvcc (scripts/setup.sh --cuda) and the tests' .venv.
# GPU_CHECK_BUILD=FOLDER uses a build that is there. Exit code 1 when a step fails, 2 when there is no GPU.
set -uo pipefail
cd "$(dirname "$0")/.."

again=
while [ $# -gt 0 ]; do
  case $1 in
    --again) again=1 ;;
    -h | --help) sed -n '2,7s/^# //p' "$0"; exit 0 ;;
    -*) echo "gpu_check: unknown option '$1' (see --help)" >&2; exit 2 ;;
    *) break ;;
  esac
  shift
done
folder=${1:-build/gpu_check}
build=${GPU_CHECK_BUILD:-build/release}
mkdir -p "$folder/nets"
[ -z "$again" ] || rm -f "$folder"/*.passed
tessera=$build/apps/tessera/tessera
failures=0

# step NAME COMMAND…: runs the command unless it has passed, with its output in FOLDER/NAME.log.
step() {
  local name=$1 begin=$SECONDS
  shift
  if [ -e "$folder/$name.passed" ]; then
    echo "passed before  $name"
  elif "$@" >"$folder/$name.log" 2>&1; then
    echo $((SECONDS - begin)) >"$folder/$name.passed"
    echo "passed         $name ($((SECONDS - begin)) s)"
  else
    echo "FAILED         $name: see $folder/$name.log"
    tail -n 3 "$folder/$name.log" | sed 's/^/    /'
    failures=$((failures + 1))
    return 1
  fi
}

build_for_gpu() {
  local capability
  capability=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | head -n 1 | tr -d '. ')
  [ "$capability" = 90 ] && capability="90a;80"
  cmake --preset release ${capability:+-DTESSERA_CUDA_ARCHITECTURES=$capability} &&
    cmake --build "$build" --target tessera test_cuda_silicon
}

conformance() {
  local data
  data=$(.venv/bin/python -c 'import onnx, os; print(os.path.dirname(onnx.__file__) + "/backend/test/data")') &&
    .venv/bin/python tests/conformance/run_conformance.py --tessera "$tessera" --data "$data" --device cuda \
      --suites node simple pytorch-converted pytorch-operator
}

# net NAME: writes the net, and compares the outputs of GPU and CPU on the same random inputs.
net() {
  local device
  rm -f "$folder/nets/$1.onnx"
  "$tessera" new "$1" -o "$folder/nets/$1.onnx" || return 1
  for device in cpu cuda; do
    "$tessera" run "$folder/nets/$1.onnx" --device $device --seed 1 --outputs "$folder/nets/$1.$device.npz" || return 1
  done
  .venv/bin/python - "$folder/nets/$1" <<'PYTHON'
import sys

import numpy

cpu, cuda = (numpy.load(f"{sys.argv[1]}.{device}.npz") for device in ("cpu", "cuda"))
if set(cpu.files) != set(cuda.files):
    sys.exit(f"outputs differ: {cpu.files} and {cuda.files}")
for name in cpu.files:
    largest = float(numpy.abs(cpu[name]).max(initial=0))
    error = float(numpy.abs(cpu[name] - cuda[name]).max(initial=0))
    print(f"{name}: largest {largest:g}, largest difference {error:g}")
    if not error <= 1e-3 * max(largest, 1e-6):
        sys.exit(f"output {name} of the GPU differs from the CPU's by {error:g}")
PYTHON
}
time_net() {
  "$tessera" bench "$folder/nets/$1.onnx" --device cuda --json >"$folder/nets/$1.json"
}

[ -n "${GPU_CHECK_BUILD:-}" ] || step build build_for_gpu || exit 1
if ! "$tessera" info --devices --device cuda >"$folder/device.log" 2>&1; then
  tail -n 1 "$folder/device.log" >&2
  exit 2
fi
step launches "$build/tests/cuda/test_cuda_silicon" --gtest_output="json:$folder/launches.json"
step conformance conformance
nets=(mlp lenet5 cnn_digits conv1d resnet8 unet_small lstm_classifier gru_classifier transformer_small bert_mini)
for name in "${nets[@]}"; do
  step "net_$name" net "$name" && step "time_$name" time_net "$name"
done

python3 - "$folder" "$failures" <<'PYTHON'
import json
import pathlib
import sys

folder = pathlib.Path(sys.argv[1])
report = {"device": (folder / "device.log").read_text().strip(), "failures": int(sys.argv[2]),
          "seconds": {path.stem: int(path.read_text()) for path in sorted(folder.glob("*.passed"))},
          "nets": {path.stem: json.loads(path.read_text()) for path in sorted((folder / "nets").glob("*.json"))
                   if path.stat().st_size > 0}}
(folder / "report.json").write_text(json.dumps(report, indent=2) + "\n")
print(f"report: {folder / 'report.json'}; {report['failures']} of the steps failed")
PYTHON
[ "$failures" -eq 0 ]
