#!/usr/bin/env bash
# Fuzzes the library: scripts/fuzz.sh [--seconds N] [--jobs N] [--seed N] [TARGET …]
# Sets up, builds, makes the starting inputs and runs every target (or those named) for N seconds (60), as many at a
# time as there are cores (or --jobs). With --seed every run tries the same inputs in the same order. Ends with a table;
# exits 1 when an input was found that crashes, hangs, takes too much memory or breaks a promise, and says where it is.
# See docs/fuzzing.md.
set -euo pipefail
cd "$(dirname "$0")/.."

all_targets=(onnx_reader text model_run npy image value_proto package protected tokenizer chat_template gguf
             safetensors serve_request serve_grpc serve_settings serve_picture serve_http)
seconds=60
seed=0  # another one each time
jobs=$(nproc)
targets=()
while [ $# -gt 0 ]; do
  case $1 in
    --seconds) seconds=${2:?--seconds needs a number}; shift 2 ;;
    --jobs) jobs=${2:?--jobs needs a number}; shift 2 ;;
    --seed) seed=${2:?--seed needs a number}; shift 2 ;;
    -h | --help) sed -n '2,6s/^# //p' "$0"; exit 0 ;;
    -*) echo "fuzz: unknown option '$1' (see --help)" >&2; exit 2 ;;
    *) [[ " ${all_targets[*]} " == *" $1 "* ]] ||
         { echo "fuzz: no target '$1'; there are ${all_targets[*]}" >&2; exit 2; }
       targets+=("$1"); shift ;;
  esac
done
[ ${#targets[@]} -gt 0 ] || targets=("${all_targets[@]}")

scripts/setup.sh --fuzz
scripts/build.sh fuzz

out=build/fuzz/run      # logs, findings, and inputs that reached new code, which the next run starts from
made=build/fuzz/seeds
mkdir -p "$out"
if [ -x .venv/bin/python ] && [ ! -e "$made/.complete" ]; then
  .venv/bin/python tests/fuzz/make_corpus.py "$made"
  touch "$made/.complete"
fi

# Inputs that a target starts from, beside those it found itself.
seeds_of() {
  local folder
  case $1 in onnx_reader | model_run) folder=models ;; *) folder=$1 ;; esac
  for folder in "tests/fuzz/seeds/$folder" "tests/fuzz/regressions/$1" "$made/$folder"; do
    [ ! -d "$folder" ] || printf '%s\n' "$folder"
  done
}

run_target() {
  local target=$1 seeds status=0 max_bytes=8192
  [[ "$target" != @(package|protected) ]] || max_bytes=32768  # sections begin at multiples of 4096
  mkdir -p "$out/$target/corpus" "$out/$target/findings"
  mapfile -t seeds < <(seeds_of "$target")
  local arguments=(--target="$target" -seed="$seed" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=1024
                   -malloc_limit_mb=512 -max_len="$max_bytes"
                   -print_final_stats=1 -artifact_prefix="$out/$target/findings/")
  [ ! -e "tests/fuzz/$target.dict" ] || arguments+=(-dict="tests/fuzz/$target.dict")
  build/fuzz/tests/fuzz/tessera_fuzz "${arguments[@]}" "$out/$target/corpus" "${seeds[@]}" \
    >"$out/$target/log" 2>&1 || status=$?
  echo $status >"$out/$target/status"
}

export ASAN_OPTIONS=quarantine_size_mb=32:allocator_may_return_null=1 UBSAN_OPTIONS=print_stacktrace=1
export ASAN_SYMBOLIZER_PATH=/usr/bin/llvm-symbolizer-19 UBSAN_SYMBOLIZER_PATH=/usr/bin/llvm-symbolizer-19
# A target that leaves no status did not run; one of an earlier run must not stand for it.
for target in "${targets[@]}"; do rm -f "$out/$target/status" "$out/$target/log"; done
echo "fuzz: ${#targets[@]} targets, $seconds s each, $jobs at a time"
for target in "${targets[@]}"; do
  while [ "$(jobs -rp | wc -l)" -ge "$jobs" ]; do sleep 0.5; done  # how it ended stands in its status
  run_target "$target" &
done
wait

# The n-th number after a word in the log of a target; the first line with INITED or DONE, or a line of the final
# statistics.
statistic() { sed -nE "s/^.*$2[^0-9]*([0-9]+).*\$/\\1/p" "$out/$1/log" | tail -n 1; }

failed=0
printf '\n%-12s %12s %10s %10s  %s\n' target executions edges "new edges" result
for target in "${targets[@]}"; do
  status=$(cat "$out/$target/status" 2>/dev/null || echo none)
  if [ "$status" = none ] || [ ! -s "$out/$target/log" ]; then
    failed=1
    printf '%-12s DID NOT RUN\n' "$target"
    continue
  fi
  first=$(statistic "$target" 'INITED cov: ') last=$(statistic "$target" ' cov: ')
  result=quiet
  if [ "$status" != 0 ]; then
    failed=1
    finding=$(sed -nE 's/^.*Test unit written to //p' "$out/$target/log" | tail -n 1)
    result="${finding:+FINDING: $finding, }status $status, see $out/$target/log"
  elif [ -z "$last" ]; then
    failed=1
    result="ran nothing, see $out/$target/log"
  fi
  printf '%-12s %12s %10s %10s  %s\n' "$target" \
    "$(statistic "$target" 'stat::number_of_executed_units: ')" "${last:-0}" "$((${last:-0} - ${first:-0}))" "$result"
done
exit $failed
