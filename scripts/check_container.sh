#!/usr/bin/env bash
# Tries deploy/Containerfile where no container engine is: scripts/check_container.sh [--whole] ROOT
# Makes a bare Debian 12 in the folder ROOT with no more than the packages that the second stage names, copies the
# programs of build/release there, and starts the file's entry point with its arguments, as its user, in a network of
# its own. A request for a model must be answered. Needs root and debootstrap.
# --whole: buildah builds both stages as they are, in chroots, from a bare Debian in the place of the image that the
# file names, and what it has built is started. Compiles everything and takes long; ROOT keeps what was built.
set -euo pipefail
cd "$(dirname "$0")/.."
whole=false
if [ "${1:-}" = --whole ]; then whole=true; shift; fi
case ${1:-} in
  -h | --help) sed -n '2,8s/^# //p' "$0"; exit 0 ;;
  '') echo "check_container: say where the root is to be made (see --help)" >&2; exit 2 ;;
esac
root=$(realpath -m "$1")
for program in debootstrap $($whole && echo buildah); do
  command -v "$program" >/dev/null ||
    { echo "check_container: $program is missing (apt-get install $program)" >&2; exit 2; }
done
. scripts/debian_mirror.sh

# Said of the second stage: a line that ends in a backslash goes on.
stage=$(sed -e ':a' -e '/\\$/N; s/\\\n//; ta' deploy/Containerfile | awk '/^FROM/ { n++ } n == 2')
packages=$(sed -nE 's/^RUN apt-get update && apt-get install -y --no-install-recommends (.*) && +rm .*/\1/p' \
  <<<"$stage")
user=$(sed -nE 's/^USER (.*)/\1/p' <<<"$stage")
mapfile -t command < <(python3 -c '
import json, re, sys
text = sys.stdin.read()
for word in ("ENTRYPOINT", "CMD"):
    print(*json.loads(re.search(rf"^{word} (\[.*\])", text, re.M)[1]), sep="\n")' <<<"$stage")
[ -n "$packages" ] && [ -n "$user" ] && [ ${#command[@]} -gt 2 ] ||
  { echo "check_container: deploy/Containerfile is not of the form that is expected here" >&2; exit 1; }

# bare FOLDER: a bare Debian, unless it is there.
bare() {
  [ ! -e "$1/bin/sh" ] || return 0
  debootstrap --variant=minbase bookworm "$1" "$(debian_mirror)" >"$1.log" 2>&1 ||
    { tail -n 20 "$1.log" >&2; exit 1; }
}

images() { buildah --root "$folder/images" --runroot "$folder/run" --storage-driver vfs "$@"; }

# Sets root to the file system of the image that deploy/Containerfile builds.
build_whole() {
  local folder=$root base container
  base=$(awk '/^FROM/ { image = $2 } END { print image }' deploy/Containerfile)
  mkdir -p "$folder"
  bare "$folder/debian"
  if ! images inspect --type image "$base" >/dev/null 2>&1; then
    container=$(images from scratch)
    images add --quiet "$container" "$folder/debian" / >/dev/null
    images commit --quiet --rm "$container" "$base" >/dev/null
  fi
  images build --isolation chroot --pull-never --layers --network host --format docker -f deploy/Containerfile \
    -t tessera-serve . >"$folder/build.log" 2>&1 || { tail -n 20 "$folder/build.log" >&2; exit 1; }
  images rm --all >/dev/null
  root=$(images mount "$(images from --pull-never tessera-serve)")
}

copy_programs() {
  bare "$root"
  # Word splitting is meant: one argument a package.
  # shellcheck disable=SC2086
  chroot "$root" apt-get install -qq -y --no-install-recommends $packages >"$root.log" 2>&1 ||
    { tail -n 20 "$root.log" >&2; exit 1; }
  for program in tessera tessera-serve; do
    strip -o "$root/usr/local/bin/$program" "build/release/apps/tessera/$program"
  done
}

if $whole; then build_whole; else copy_programs; fi
rm -rf "$root/models"
mkdir -p "$root/models/lenet/1"
chroot "$root" /usr/local/bin/tessera new lenet5 -o /models/lenet/1/model.onnx >/dev/null

export root user
# shellcheck disable=SC2016
unshare --net --mount bash -euc '
  ip link set lo up
  mount -t proc proc "$root/proc"
  chroot --userspec="$user:$user" "$root" "$@" &
  trap "kill $!; wait $!" EXIT
  python3 - <<END
import json, time, urllib.request
body = {"inputs": [{"name": "input", "datatype": "FP32", "shape": [1, 1, 28, 28], "data": [0.5] * 784}]}
for _ in range(200):
    try:
        urllib.request.urlopen("http://127.0.0.1:8000/v2/health/ready").read()
        break
    except OSError:
        time.sleep(0.05)
answer = urllib.request.urlopen("http://127.0.0.1:8000/v2/models/lenet/infer", json.dumps(body).encode()).read()
assert json.loads(answer)["outputs"][0]["shape"] == [1, 10], answer
assert b"nv_inference_request_success" in urllib.request.urlopen("http://127.0.0.1:8002/metrics").read()
END
' check_container "${command[@]}"
echo "check_container: ${command[*]} answers as user $user with $(wc -w <<<"$packages") packages named"
