#!/usr/bin/env bash
# Runs the README's two commands in a fresh Debian 12 that has nothing but git, bash, python3 and apt. Takes long; by
# hand.
#   sudo scripts/check_bare_root.sh [--keep] [--base FOLDER] [COMMAND …]
# --base keeps the bare system in FOLDER between calls (a copy of it is used each time); --keep leaves the used copy.
# The commit that is checked out is what is cloned. Default commands: scripts/demo.sh scripts/test.sh
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/debian_mirror.sh

keep=false base=
while [ $# -gt 0 ]; do
  case $1 in
    --keep) keep=true; shift ;;
    --base) base=${2:?--base needs a folder}; shift 2 ;;
    -h | --help) sed -n '2,5s/^# //p' "$0"; exit 0 ;;
    *) break ;;
  esac
done
[ $# -gt 0 ] || set -- scripts/demo.sh scripts/test.sh
[ "$(id -u)" = 0 ] || { echo "check_bare_root: needs root (chroot)" >&2; exit 2; }
command -v debootstrap >/dev/null ||
  { echo "check_bare_root: debootstrap is missing (apt-get install debootstrap)" >&2; exit 2; }

work=$(mktemp -d /tmp/bare-root-XXXXXX)
root=$work/root
mounted=()

clean_up() {
  local place
  for place in "${mounted[@]}"; do umount -R "$place" 2>/dev/null || umount -R -l "$place"; done
  # Never remove a tree that still has something mounted in it.
  if $keep || grep -q " $root/" /proc/mounts; then echo "check_bare_root: left $root"; else rm -rf "$work"; fi
}
trap clean_up EXIT

in_root() {
  chroot "$root" env -i HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 "$@"
}

make_base() {
  local mirror
  mirror=$(debian_mirror)
  [ -n "$mirror" ] ||
    { echo "check_bare_root: apt on this machine has no source for Debian" >&2; exit 2; }
  echo "check_bare_root: debootstrap bookworm from $mirror"
  debootstrap --variant=minbase --include=bash,git,python3,ca-certificates bookworm "$1" "$mirror" \
    >"$work/debootstrap.log" 2>&1 ||
    { tail -n 20 "$work/debootstrap.log" >&2; exit 1; }
  # Where this machine reaches the network through a gateway with a certificate of its own, the bare system must trust
  # it too.
  cp /etc/ssl/certs/ca-certificates.crt "$1/etc/ssl/certs/ca-certificates.crt"
}

if [ -n "$base" ]; then
  [ -e "$base/usr/bin/git" ] || make_base "$base"
  cp -a "$base" "$root"
else
  make_base "$root"
fi
cp /etc/resolv.conf "$root/etc/resolv.conf"
mount -t proc proc "$root/proc" && mounted=("$root/proc" "${mounted[@]}")
mount --rbind /dev "$root/dev" && mount --make-rslave "$root/dev" && mounted=("$root/dev" "${mounted[@]}")

git clone --quiet --no-hardlinks . "$root/root/tessera"
echo "check_bare_root: $(git -C "$root/root/tessera" log -1 --format='%h %s')"
for command in "$@"; do
  echo "check_bare_root: running $command"
  begin=$SECONDS
  in_root bash -c "cd /root/tessera && $command" ||
    { echo "check_bare_root: FAILED: $command ($((SECONDS - begin)) s)" >&2; exit 1; }
  echo "check_bare_root: passed: $command ($((SECONDS - begin)) s)"
done
