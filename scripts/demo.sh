#!/usr/bin/env bash
# The main job from nothing: sets up, builds, fetches real models, runs them on real inputs and checks the answers.
# Exits non-zero when an answer is wrong.
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/setup.sh
scripts/build.sh release tessera
python3 scripts/fetch_models.py magika rapidocr

tessera=build/release/apps/tessera/tessera
status=0

echo
echo "What is written in these pictures? (PP-OCRv6 recognition, run by $tessera)"
python3 scripts/demo/read_line.py "$tessera" .models build/demo || status=1

echo
echo "What type are this repository's own files? (Magika's model, run by $tessera)"
python3 scripts/demo/file_types.py "$tessera" .models build/demo || status=1

echo
if [ $status = 0 ]; then echo "demo: all answers are right"; else echo "demo: there are WRONG answers" >&2; fi
exit $status
