#!/usr/bin/env bash
# Builds a Meson project that takes this checkout as its subproject.
# usage: tests/install/check_subproject.sh [BUILD_FOLDER]   (kept where given, so that a second run is quick)
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
cd "$root"
if [[ $# -gt 0 ]]; then
  scratch=$1
  mkdir -p "$scratch"
else
  scratch=$(mktemp -d)
  trap 'rm -rf "$scratch"' EXIT
fi

mkdir -p "$scratch/project/subprojects"
cp tests/install/subproject/meson.build examples/minimal_sft.cc "$scratch/project/"
ln -sfn "$root" "$scratch/project/subprojects/lorica"
# Neither optimised nor with debug information: what is checked is that it builds and links.
[[ -f "$scratch/build/build.ninja" ]] || meson setup --buildtype=plain "$scratch/build" "$scratch/project"
meson compile -C "$scratch/build" minimal_sft
code=0
"$scratch/build/minimal_sft" >/dev/null 2>&1 || code=$?
[[ "$code" -lt 126 ]] || {
  echo "check_subproject: minimal_sft ended with status $code" >&2
  exit 1
}
echo "check_subproject: builds and starts"
