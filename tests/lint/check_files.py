#!/usr/bin/env python3
"""File lengths, include guards, and words that have no place in the project."""

import re

import source_tree

HARD_STOP = 800
READABLE = 400
# Nine files in ten are readable at one sitting.
READABLE_SHARE = 0.9

# The words are put together here so that this file doesn't hold them.
WORDS = [
    (re.compile(r'\b(?:TO' r'DO|FIX' r'ME|XX' r'X)\b'), 'an open end: do it, or say what is missing in plain words'),
    (re.compile(r'(?<![\w.$}/-])/(?:wo' r'rk|ro' r'ot|ho' r'me)/'), 'a path of one machine'),
    (re.compile(r'deb\.deb' r'ian\.org|py' r'pi\.org|pythonhos' r'ted\.org'), 'the host of a package registry'),
]
VAGUE_NAMES = re.compile(r'(?:^|[_/])(?:utils?|helpers?|common|managers?)(?:[_./]|$)')


def guard_of(path):
    """src/tensor/dtype.h is LORICA_TENSOR_DTYPE_H_; outside src the first folder belongs to the name."""
    inside = path[len('src/'):] if path.startswith('src/') else path
    return 'LORICA_' + re.sub(r'[^A-Za-z0-9]', '_', inside).upper() + '_'


def guard_problem(path, text):
    guard = guard_of(path)
    if path.endswith('-inl.h'):
        # Such a file is included once for each instruction set and toggles its guard in its own way.
        return None if guard in text else f'expected {guard} somewhere'
    opening = re.search(r'^#ifndef (\w+)\n#define (\w+)$', text, re.MULTILINE)
    if not opening or set(opening.groups()) != {guard}:
        return f'expected the include guard {guard}, found {opening.group(1) if opening else "none"}'
    return None if text.rstrip().endswith(f'#endif  // {guard}') else f'expected to end with "#endif  // {guard}"'


def main():
    problems = []
    long_files = []
    sources = source_tree.files(*source_tree.CPP)
    for path in source_tree.files():
        if path == 'LICENSE':
            continue
        if VAGUE_NAMES.search(path):
            problems.append(f'{path}: the name says nothing; name the idea')
        text = source_tree.read(path)
        if text is None:
            continue
        for number, line in enumerate(text.splitlines(), 1):
            for pattern, why in WORDS:
                match = pattern.search(line)
                if match:
                    problems.append(f'{path}:{number}: "{match.group(0)}" is {why}')
        is_source = path in sources
        if is_source or path.endswith(('.py', 'meson.build')):
            lines = text.count('\n')
            if lines > HARD_STOP:
                problems.append(f'{path}: {lines} lines, at most {HARD_STOP} are allowed')
            if is_source and lines > READABLE:
                long_files.append(f'{path} ({lines})')
        if path.endswith(('.h', '.cuh')):
            why = guard_problem(path, text)
            if why:
                problems.append(f'{path}: {why}')
    if len(long_files) > (1 - READABLE_SHARE) * len(sources):
        problems.append(f'{len(long_files)} of {len(sources)} source files have more than {READABLE} lines, '
                        f'at most one in ten may: {", ".join(long_files)}')
    source_tree.finish(problems)


if __name__ == '__main__':
    main()
