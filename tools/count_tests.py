#!/usr/bin/env python3
"""Adds up test cases over the executables of one `meson test` run.

Reads meson-logs/testlog.json. A GoogleTest executable counts by its cases, any other test as one. An executable that
dies, or fails without naming a failed case (a leak found at exit, a time limit), counts as one failure more. Each
failure is named, with the end of what it printed. The last line is "N passed, N failed, N skipped"; the status is 1
when something failed or nothing ran.
"""

import json
import re
import sys

BANNER = re.compile(r'^\[==========\] Running \d+ test', re.MULTILINE)
CASE = re.compile(r'^\[ +(OK|FAILED|SKIPPED) +\] (\S+?)(?:, where .*)? \(\d+ ms', re.MULTILINE)
GOOD_RESULTS = ('OK', 'EXPECTEDFAIL')
SHOWN_LINES = 40


def count(record):
    """Returns (passed, failed, skipped, names of what failed) of one line of the log."""
    result, name, text = record['result'], record['name'], record.get('stdout') or ''
    if not BANNER.search(text):
        if result == 'SKIP':
            return 0, 0, 1, []
        return (1, 0, 0, []) if result in GOOD_RESULTS else (0, 1, 0, [f'{name} ({result.lower()})'])
    cases = CASE.findall(text)
    kinds = [kind for kind, _ in cases]
    failures = [f'{name}: {case}' for kind, case in cases if kind == 'FAILED']
    if result not in GOOD_RESULTS + ('SKIP',) and not failures:
        failures.append(f'{name} ({result.lower()}, status {record.get("returncode")})')
    return kinds.count('OK'), len(failures), kinds.count('SKIPPED'), failures


def printed(record, name):
    """Returns the last lines that a failure named by count() printed: those of its case, or of the whole program."""
    text = record.get('stdout') or ''
    case = re.escape(name.rpartition(': ')[2])
    found = re.search(rf'^\[ RUN +\] {case}\n(.*?)^\[ +FAILED +\] {case}\b', text, re.MULTILINE | re.DOTALL)
    lines = found[1].splitlines() if found else text.splitlines() + (record.get('stderr') or '').splitlines()
    return lines[-SHOWN_LINES:]


def main():
    passed = failed = skipped = 0
    with open(sys.argv[1], encoding='utf-8') as log:
        for line in log:
            record = json.loads(line)
            one = count(record)
            passed, failed, skipped = passed + one[0], failed + one[1], skipped + one[2]
            for name in one[3]:
                print('failed:', name)
                for shown in printed(record, name):
                    print('  |', shown)
    print(f'{passed} passed, {failed} failed, {skipped} skipped')
    return 1 if failed or passed + failed + skipped == 0 else 0


if __name__ == '__main__':
    sys.exit(main())
