"""Every C++ block of README and docs stands, line for line, in a source that is compiled."""

import os
import re
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import source_tree


def stripped(text):
    return [line.strip() for line in text.strip().splitlines()]


def contains(lines, block):
    return any(lines[i:i + len(block)] == block for i in range(len(lines) - len(block) + 1))


def main():
    sources = [stripped(source_tree.read(path)) for path in source_tree.files(*source_tree.CPP)]
    problems = []
    for path in source_tree.files('.md'):
        for block in re.findall(r'```cpp\n(.*?)```', source_tree.read(path), re.S):
            lines = stripped(block)
            if not any(contains(source, lines) for source in sources):
                problems.append(f'{path}: this block stands in no source: {lines[0]} ...')
    print('\n'.join(problems) if problems else 'every C++ block of the docs is compiled')
    return 1 if problems else 0


if __name__ == '__main__':
    sys.exit(main())
