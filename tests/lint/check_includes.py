#!/usr/bin/env python3
"""Includes between the folders of src go strictly down, are spelled one way, and keep heavy headers out of ours."""

import os
import re

import source_tree

FLOORS = {'tensor': 1, 'io': 1, 'cuda': 2, 'autograd': 3, 'nn': 4, 'dist': 4, 'optim': 5, 'text': 5, 'peft': 6,
          'train': 7, 'cli': 8}
# Arrows between folders of one floor.
SAME_FLOOR = {('io', 'tensor')}
# What an including program must be able to compile: everything else of these libraries stays in sources.
ABSEIL_IN_HEADERS = {'absl/status/status.h', 'absl/status/statusor.h', 'absl/strings/string_view.h',
                     'absl/types/span.h'}
JSON_IN_HEADERS = {'nlohmann/json_fwd.hpp'}

INCLUDE = re.compile(r'^\s*#\s*(?:include|define\s+HWY_TARGET_INCLUDE)\s*([<"])([^>"]+)[>"]')


def arrow_problem(source, target):
    """Why `source` (a path in src) may not include `target` (a path below lorica/), or None."""
    if not os.path.isfile(os.path.join(source_tree.ROOT, 'src', target)):
        return 'names no file of src'
    if source is None:
        return None
    below = source.split('/')[1]
    if '/' not in target:
        return None if below in ('cli', target) else 'pulls in every floor'
    if below == 'lorica.h':
        return 'lets the command into the library' if target.startswith('cli/') else None
    if below not in FLOORS:
        return f'comes from src/{below}, which is on no floor'
    above = target.split('/')[0]
    if above == below or FLOORS.get(above, 99) < FLOORS[below] or (below, above) in SAME_FLOOR:
        return None
    return f'does not point down: {below} is floor {FLOORS[below]}, {above} is floor {FLOORS.get(above, "none")}'


def spelling_problem(path, bracket, target):
    """Why an include that doesn't start with lorica/ may not stand there, or None."""
    if bracket == '<':
        return None
    local = os.path.normpath(os.path.join(os.path.dirname(path), target))
    for candidate in (local, os.path.join('src', target)):
        if candidate.startswith('src/') and os.path.isfile(os.path.join(source_tree.ROOT, candidate)):
            return f'is spelled "lorica/{candidate[len("src/"):]}" here'
    return None


def weight_problem(path, target):
    """Why a header of the library may not include `target` of another library, or None."""
    if not is_installed(path):
        return None
    if target.startswith('absl/') and target not in ABSEIL_IN_HEADERS:
        return 'is not among the Abseil headers that ours may include'
    if target.startswith('nlohmann/') and target not in JSON_IN_HEADERS:
        return 'belongs into a source file: headers take nlohmann/json_fwd.hpp'
    return None


def is_installed(path):
    """Whether `path` is a header that its floor's meson.build installs."""
    parts = path.split('/')
    if len(parts) < 3 or parts[0] != 'src' or not path.endswith('.h'):
        return False
    build = '/'.join(parts[:2] + ['meson.build'])
    if not os.path.isfile(os.path.join(source_tree.ROOT, build)):
        return False
    installed = re.search(r'_headers\s*=\s*files\(([^)]*)\)', source_tree.read(build))
    return installed is not None and "'%s'" % '/'.join(parts[2:]) in installed.group(1)


def main():
    problems = []
    for path in source_tree.files(*source_tree.CPP):
        in_src = path.startswith('src/')
        for number, line in enumerate(source_tree.read(path).splitlines(), 1):
            match = INCLUDE.match(line)
            if not match:
                continue
            bracket, target = match.groups()
            if target.startswith('lorica/'):
                why = arrow_problem(path if in_src else None, target[len('lorica/'):])
                if bracket == '<':
                    why = 'takes quotes'
            else:
                why = spelling_problem(path, bracket, target)
                if in_src and why is None:
                    why = weight_problem(path, target)
            if why:
                problems.append(f'{path}:{number}: include of {target} {why}')
    source_tree.finish(problems)


if __name__ == '__main__':
    main()
