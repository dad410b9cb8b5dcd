"""Size, start and dependencies of the command.

    python3 benchmarks/footprint.py [--build build/release]

Prints the stripped size in bytes, the median time of `lorica --help` over 20 runs, and what the command links.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import tempfile
import time


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", default="build/release", type=pathlib.Path)
    args = parser.parse_args()
    command = args.build / "src/cli/lorica"
    with tempfile.TemporaryDirectory() as folder:
        stripped = pathlib.Path(folder) / "lorica"
        subprocess.run(["strip", "-o", stripped, command], check=True)
        size = stripped.stat().st_size
    seconds = []
    for _ in range(20):
        start = time.perf_counter()
        subprocess.run([command, "--help"], check=True, capture_output=True)
        seconds.append(time.perf_counter() - start)
    ldd = subprocess.run(["ldd", command], check=True, capture_output=True, text=True).stdout
    libraries = sorted({line.split()[0].split(".so")[0] for line in ldd.splitlines()})
    print(json.dumps({"stripped_bytes": size, "help_milliseconds": round(1e3 * statistics.median(seconds), 1),
                      "links": libraries}))


if __name__ == "__main__":
    main()
