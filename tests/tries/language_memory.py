#!/usr/bin/env python3
"""Whether the memory of a language model stays flat: short answers to prompts of many lengths, one after the other in
one process.

    cmake --build --preset release --target bench_language_memory
    tests/tries/language_memory.py MODEL.gguf [--prompts 2000] [--program build/release/bench/bench_language_memory]

Prints resident memory on the way. Exit status 1 when it ends above the file, the cache of keys and values and 64 MiB,
or grows by more than 1% after the first tenth. Standard library only.
"""
import argparse
import pathlib
import subprocess
import sys

MEBIBYTE = 1 << 20
MOST_BESIDES, MOST_GROWTH = 64 * MEBIBYTE, 0.01


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("--prompts", type=int, default=2000)
    parser.add_argument("--program", default="build/release/bench/bench_language_memory")
    options = parser.parse_args()
    resident = []
    with subprocess.Popen([options.program, str(options.model), str(options.prompts)], stdout=subprocess.PIPE,
                          text=True) as child:
        for line in child.stdout:
            words = line.split()
            if words[0] == "cache":
                cache = int(words[1])
                continue
            resident.append(int(words[1]))
            print(f"after {words[0]:>6} prompts: resident {resident[-1] / MEBIBYTE:8.1f} MiB", flush=True)
    if child.returncode != 0:
        sys.exit(child.returncode)
    file = options.model.stat().st_size
    most = file + cache + MOST_BESIDES
    growth = resident[-1] / resident[0] - 1
    print(f"file {file / MEBIBYTE:.1f} MiB, cache {cache / MEBIBYTE:.1f} MiB: at most {most / MEBIBYTE:.1f} MiB; "
          f"growth after the first tenth {growth:+.2%}")
    failures = [what for what, failed in (("too much memory", resident[-1] > most),
                                          ("memory grows", growth > MOST_GROWTH)) if failed]
    print("; ".join(failures) or "flat")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
