#!/usr/bin/env bash
# Builds the documentation site into build/docs/site, which loads nothing from elsewhere: scripts/docs.sh
# From README.md, docs/, the help of the built program, the docstrings of the built Python package (-DTESSERA_PYTHON=ON)
# and the public headers (by doxygen: apt-get install doxygen). Fails at a broken link. Makes .venv-docs from pinned
# packages.
set -euo pipefail
cd "$(dirname "$0")/.."

case ${1:-} in
  '') ;;
  -h | --help) sed -n '2,5s/^# //p' "$0"; exit 0 ;;
  *) echo "docs: unknown argument '$1' (see --help)" >&2; exit 2 ;;
esac
build=build/release program=build/release/apps/tessera/tessera
[ -x $program ] && [ -d $build/python/tessera ] ||
  { echo "docs: build the program and the Python package first (docs/python.md)" >&2; exit 2; }
command -v doxygen >/dev/null || { echo "docs: doxygen is missing (apt-get install doxygen)" >&2; exit 2; }
wanted="$(sha256sum <scripts/requirements-docs.txt) $PWD"
if [ "$(cat .venv-docs/.complete 2>/dev/null)" != "$wanted" ]; then
  rm -rf .venv-docs
  python3 -m venv .venv-docs
  .venv-docs/bin/pip --disable-pip-version-check --quiet install --require-hashes --no-deps \
    -r scripts/requirements-docs.txt
  printf '%s' "$wanted" >.venv-docs/.complete
fi
PYTHONPATH=$build/python .venv/bin/python -B docs/site/make_pages.py "$PWD" build/docs $program
mkdir -p build/docs/pages/cpp
version=$(sed -n 's/^project(tessera VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
{
  cat docs/site/Doxyfile
  printf 'INPUT = include/tessera docs/site/cpp_front.dox\nOUTPUT_DIRECTORY = build/docs/pages/cpp\n'
  printf 'FILTER_PATTERNS = *.h="python3 docs/site/doxygen_filter.py"\nPROJECT_NUMBER = %s\n' "$version"
} | doxygen -
NO_MKDOCS_2_WARNING=1 .venv-docs/bin/mkdocs build --strict --quiet --config-file build/docs/mkdocs.yml
python3 docs/site/check_links.py build/docs/site
echo "docs: python3 -m http.server --directory build/docs/site (its search needs a server, not a network)"
