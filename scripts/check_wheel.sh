#!/usr/bin/env bash
# Installs a wheel of dist/ in bare Debian roots (debootstrap, minbase with python3), classifies with it and serves:
#   sudo scripts/check_wheel.sh [--keep FOLDER] [bookworm] [trixie]
# Bookworm has Python 3.11, trixie 3.13. --keep leaves the bare roots in FOLDER for the next call. Needs the network for
# Debian and for numpy, and .models/magika (scripts/fetch_models.py).
set -euo pipefail
cd "$(dirname "$0")/.."

. scripts/debian_mirror.sh

keep='' suites=()
while [ $# -gt 0 ]; do
  case $1 in
    --keep) keep=${2:?--keep needs a folder}; shift 2 ;;
    -h | --help) sed -n '2,5s/^# //p' "$0"; exit 0 ;;
    bookworm | trixie) suites+=("$1"); shift ;;
    *) echo "check_wheel: unknown argument '$1' (see --help)" >&2; exit 2 ;;
  esac
done
[ ${#suites[@]} -gt 0 ] || suites=(bookworm trixie)
[ "$(id -u)" = 0 ] || { echo "check_wheel: needs root (chroot)" >&2; exit 2; }
[ -f .models/magika/model.onnx ] || { echo "check_wheel: run scripts/fetch_models.py first" >&2; exit 2; }
mirror=$(debian_mirror)
[ -n "$mirror" ] || { echo "check_wheel: apt on this machine has no source for Debian" >&2; exit 2; }
work=${keep:-$(mktemp -d)}
trap '[ -n "$keep" ] || rm -rf "$work"' EXIT

check() {
  local suite=$1 root=$work/$1 version wheel
  [ -e "$root/usr/bin/python3" ] ||
    debootstrap --variant=minbase --include=python3,python3-venv "$suite" "$root" "$mirror" >/dev/null
  version=$(chroot "$root" python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])')
  wheel=abi3
  [ "$version" != 3.11 ] || wheel=cp311
  rm -rf "$root/try" && mkdir -p "$root/try"
  cp dist/tessera-*-"$wheel"-*.whl .models/magika/model.onnx .models/magika/config.min.json "$root/try"
  cp tests/python/{classify,serve_model}.py "$root/try"
  python3 -m pip --disable-pip-version-check download --quiet --no-deps --only-binary :all: \
    --python-version "$version" --dest "$root/try" 'numpy==2.3.4'
  # A wheel's programs find their libraries through /proc/self/exe.
  unshare --mount bash -c "mount --rbind /proc '$root/proc' && chroot '$root' /bin/bash -euc '
    ! command -v gcc
    python3 -m venv /try/venv
    /try/venv/bin/pip install --quiet --no-index --find-links /try tessera
    cd /try && venv/bin/python classify.py model.onnx config.min.json classify.py
    venv/bin/tessera completion bash | cmp - venv/share/bash-completion/completions/tessera
    test -s venv/share/zsh/site-functions/_tessera && test -s venv/share/man/man1/tessera.1
    venv/bin/tessera --version && venv/bin/python -m tessera info model.onnx | head -n 3
    venv/bin/python serve_model.py model.onnx'"
  echo "check_wheel: $suite with Python $version: passed"
}

for suite in "${suites[@]}"; do check "$suite"; done
