#!/usr/bin/env bash
# Runs clang-tidy with the checks of .clang-tidy: scripts/tidy.sh [FILE …]
# On the files named, or on those that differ from main; CI names the files of a room. Exits with an error when there is
# a finding. Takes clang-tidy from .venv (scripts/setup.sh --tests), or the program that CLANG_TIDY names. Needs the
# generated headers of the preset release (scripts/build.sh release); a file takes some seconds.
set -euo pipefail
cd "$(dirname "$0")/.."

case ${1:-} in
  -h | --help) sed -n '2,5s/^# //p' "$0"; exit 0 ;;
  -*) echo "tidy: unknown option '$1' (see --help)" >&2; exit 2 ;;
esac
files=("$@")
if [ $# = 0 ]; then
  mapfile -t files < <(git diff --name-only --diff-filter=d "$(git merge-base HEAD main)" -- 'src/*.cpp' 'apps/*.cpp')
fi
[ ${#files[@]} -gt 0 ] || { echo "tidy: no file differs from main"; exit 0; }

tidy=${CLANG_TIDY:-.venv/bin/clang-tidy}
command -v "$tidy" >/dev/null || { echo "tidy: there is no $tidy; run scripts/setup.sh --tests" >&2; exit 2; }
[ -d build/release/generated ] || { echo "tidy: no generated headers; run scripts/build.sh release" >&2; exit 2; }

# Not the compiler's own command lines: they name precompiled headers that only GCC reads.
flags=(-std=c++20 -Isrc -Iinclude -Ibuild/release/generated -isystem build/release/src/io/generated -DFMT_SHARED
       -Wno-deprecated-declarations)
printf '%s\0' "${files[@]}" |
  xargs -0 -P "$(nproc)" -I '{}' "$tidy" --quiet --warnings-as-errors='*' '{}' -- "${flags[@]}" 2>/dev/null
