"""The project's own files, without build folders and other people's projects."""

import os
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
CPP = ('.h', '.cc', '.cu', '.cuh')
HIDDEN_BUT_OURS = ('.ci', '.clang-format', '.clang-tidy', '.gitignore')


def files(*suffixes):
    """Paths relative to the root, sorted; with suffixes only those that end in one. Symlinks are left out."""
    found = []
    for folder, names, entries in os.walk(ROOT):
        here = os.path.relpath(folder, ROOT)
        names[:] = [n for n in names
                    if (not n.startswith('.') or n in HIDDEN_BUT_OURS) and n not in ('subprojects', '__pycache__')
                    and not (here == '.' and n.startswith('build'))]
        for entry in entries:
            path = os.path.normpath(os.path.join(here, entry))
            hidden = entry.startswith('.') and entry not in HIDDEN_BUT_OURS
            if not hidden and path.endswith(suffixes or ('',)) and not os.path.islink(os.path.join(ROOT, path)):
                found.append(path)
    return sorted(found)


def read(path):
    """The text of a file, or None where it is no text."""
    with open(os.path.join(ROOT, path), 'rb') as file:
        data = file.read()
    if b'\0' in data[:8192]:
        return None
    return data.decode('utf-8', errors='replace')


def finish(problems):
    """Prints the problems and ends the program: status 1 if there are any."""
    for problem in problems:
        print(problem)
    sys.exit(1 if problems else 0)
