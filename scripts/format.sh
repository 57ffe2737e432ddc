#!/usr/bin/env bash
# Formats the C and C++ files by .clang-format: scripts/format.sh [--check] [FILE …]
# All tracked files, or those named. --check changes nothing, prints what is not formatted and exits with an error when
# there is any. Takes clang-format from .venv (scripts/setup.sh --tests), or the program that CLANG_FORMAT names; its
# version is pinned, because another one formats otherwise.
set -euo pipefail
cd "$(dirname "$0")/.."

mode=(-i)
while [ $# -gt 0 ]; do
  case $1 in
    --check) mode=(--dry-run -Werror); shift ;;
    -h | --help) sed -n '2,5s/^# //p' "$0"; exit 0 ;;
    -*) echo "format: unknown option '$1' (see --help)" >&2; exit 2 ;;
    *) break ;;
  esac
done

format=${CLANG_FORMAT:-.venv/bin/clang-format}
command -v "$format" >/dev/null || { echo "format: there is no $format; run scripts/setup.sh --tests" >&2; exit 2; }
wanted=$(sed -n 's/^clang-format==\([0-9.]*\).*/\1/p' scripts/requirements-test.txt)
found=$("$format" --version)
[[ $found == *"version $wanted"* ]] || { echo "format: expected clang-format $wanted, found $found" >&2; exit 2; }

if [ $# -gt 0 ]; then
  printf '%s\0' "$@"
else
  git ls-files -z '*.cpp' '*.cu' '*.h' '*.inc' '*.c'
fi | xargs -0 -P "$(nproc)" -n 64 "$format" "${mode[@]}"
