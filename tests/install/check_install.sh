#!/usr/bin/env bash
# Installs a finished build into a temporary folder and uses it as a stranger would: headers, pkg-config file, command.
# usage: tests/install/check_install.sh BUILD_FOLDER
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/../.."
build=${1:?usage: tests/install/check_install.sh BUILD_FOLDER}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
compiler=${CXX:-c++}

DESTDIR=$scratch/root meson install -C "$build" --no-rebuild --quiet
pkgconfig_file=$(find "$scratch/root" -name lorica.pc)
[[ -n "$pkgconfig_file" ]] || {
  echo "check_install: no lorica.pc was installed" >&2
  exit 1
}
export PKG_CONFIG_PATH=${pkgconfig_file%/*}
# The prefix is where the files lie now, not where they would lie without DESTDIR.
prefix=$scratch/root$(pkg-config --variable=prefix lorica)
describe() {
  pkg-config --define-variable=prefix="$prefix" "$@" lorica
}
read -ra compile_flags < <(describe --cflags)
read -ra link_flags < <(describe --libs)

# Each installed header compiles alone, with nothing of this checkout in reach.
include=$(describe --variable=includedir)
check_header() {
  echo "#include \"$1\"" | $compiler -std=c++20 -Wall -Wextra -fsyntax-only "${@:2}" -x c++ - || {
    echo "check_install: $1 doesn't compile by itself" >&2
    return 1
  }
}
export -f check_header
export compiler
find "$include/lorica" -name '*.h' ! -name '*-inl.h' -printf 'lorica/%P\n' | sort |
  xargs -P "$(nproc)" -I '{}' bash -c 'check_header "$@"' check_header '{}' "${compile_flags[@]}"

cp examples/minimal_sft.cc "$scratch/minimal_sft.cc"
$compiler -std=c++20 "${compile_flags[@]}" "$scratch/minimal_sft.cc" -o "$scratch/minimal_sft" "${link_flags[@]}"
# Without arguments it explains itself; what counts is that it starts, so only a crash or a missing library is wrong.
code=0
"$scratch/minimal_sft" >/dev/null 2>&1 || code=$?
[[ "$code" -lt 126 ]] || {
  echo "check_install: minimal_sft ended with status $code" >&2
  exit 1
}

command=$(find "$scratch/root" -path '*/bin/lorica')
[[ -x "$command" ]] || {
  echo "check_install: no command was installed" >&2
  exit 1
}
"$command" --version >/dev/null
echo "check_install: headers, pkg-config and command work"
