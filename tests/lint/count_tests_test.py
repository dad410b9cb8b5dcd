#!/usr/bin/env python3
"""tools/count_tests.py: what one line of Meson's log adds to the closing line."""

import os
import sys
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, 'tools'))

import count_tests  # noqa: E402  (found through the path above)


def record(result, stdout='', gtest=True):
    banner = '[==========] Running 2 tests from 1 test suite.\n' if gtest else ''
    return {'name': 'unit / io', 'result': result, 'stdout': banner + stdout, 'returncode': 1}


class CountTest(unittest.TestCase):

    def test_cases_of_an_executable_are_counted_one_by_one(self):
        text = ('[       OK ] A.One (0 ms)\n[       OK ] A.Two/0 (12 ms)\n[  SKIPPED ] A.Three (0 ms)\n'
                '[  PASSED  ] 2 tests.\n[  SKIPPED ] 1 test, listed below:\n[  SKIPPED ] A.Three\n')
        self.assertEqual(count_tests.count(record('OK', text)), (2, 0, 1, []))

    def test_a_failed_case_is_named_once(self):
        text = ('[  FAILED  ] A.One/1, where GetParam() = 4 (3 ms)\n[----------] 1 test from A (3 ms total)\n'
                '[  FAILED  ] 1 test, listed below:\n[  FAILED  ] A.One/1, where GetParam() = 4\n')
        self.assertEqual(count_tests.count(record('FAIL', text)), (0, 1, 0, ['unit / io: A.One/1']))

    def test_a_crash_is_one_failure_beside_the_cases_before_it(self):
        text = '[       OK ] A.One (0 ms)\n[ RUN      ] A.Two\n'
        passed, failed, skipped, names = count_tests.count(record('FAIL', text))
        self.assertEqual((passed, failed, skipped), (1, 1, 0))
        self.assertIn('unit / io', names[0])

    def test_a_time_limit_after_good_cases_is_a_failure(self):
        self.assertEqual(count_tests.count(record('TIMEOUT', '[       OK ] A.One (0 ms)\n'))[:3], (1, 1, 0))

    def test_a_program_without_cases_counts_as_one(self):
        self.assertEqual(count_tests.count(record('OK', gtest=False))[:3], (1, 0, 0))
        self.assertEqual(count_tests.count(record('SKIP', gtest=False))[:3], (0, 0, 1))
        self.assertEqual(count_tests.count(record('ERROR', gtest=False))[:3], (0, 1, 0))

    def test_an_executable_that_never_starts_is_a_failure(self):
        self.assertEqual(count_tests.count(record('FAIL', gtest=False))[:3], (0, 1, 0))

    def test_a_failure_shows_what_its_case_printed(self):
        text = ('[ RUN      ] A.One\nexpected 1\n[  FAILED  ] A.One (3 ms)\n[ RUN      ] A.OneMore\nfine\n'
                '[       OK ] A.OneMore (0 ms)\n[  FAILED  ] A.One\n')
        self.assertEqual(count_tests.printed(record('FAIL', text), 'unit / io: A.One'), ['expected 1'])

    def test_a_crash_shows_the_end_of_what_the_program_printed(self):
        crash = record('FAIL', '[ RUN      ] A.Two\n') | {'stderr': 'line\n' * 100 + 'Segmentation fault\n'}
        shown = count_tests.printed(crash, count_tests.count(crash)[3][0])
        self.assertEqual((len(shown), shown[-1]), (count_tests.SHOWN_LINES, 'Segmentation fault'))


if __name__ == '__main__':
    unittest.main()
