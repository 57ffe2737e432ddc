#!/usr/bin/env python3
"""Counts the instructions of representative kernels with Callgrind and compares them with the record, counts.json.

Usage: check_counts.py KERNEL_RUNS [--update]

Prints every count. Exits 1 when a kernel takes over 3% more instructions than on record, when another kernel runs a
case, or when cases and record differ. --update writes what was counted as the new record: do so when a count fell, so
that what was won stays won, or when growth is wanted because the kernel became faster all the same (say so in the
commit).

Kernels run with one thread and with AVX2, the best set that Valgrind knows (apt install valgrind). Counts are the same
in each run, whatever the machine does, but belong to the compiler that the record names, which is Debian 12's.
"""
import argparse
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

RECORD = pathlib.Path(__file__).with_name("counts.json")
MOST_GROWTH = 0.03


def read_counts(folder):
    """The counts in Callgrind's files, in the order in which they were written; those outside run_counted() are 0."""
    counts = []
    for path in sorted(folder.glob("counts.*"), key=lambda path: int(path.suffix[1:])):
        counts.append(int(re.search(r"^(?:totals|summary): (\d+)", path.read_text(), re.MULTILINE).group(1)))
    return [count for count in counts if count > 0]


def count(program):
    """What runs now, in the form of the record."""
    if shutil.which("valgrind") is None:
        sys.exit("check_counts: there is no valgrind; scripts/setup.sh --tests installs it")
    with tempfile.TemporaryDirectory() as folder:
        command = [
            "valgrind", "--tool=callgrind", "--quiet", f"--callgrind-out-file={folder}/counts",
            "--toggle-collect=run_counted", "--dump-after=run_counted",
            str(program)
        ]
        done = subprocess.run(command, env={**os.environ, "TESSERA_ISA": "avx2"}, capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(
                f"check_counts: {program} failed under valgrind with status "
                f"{done.returncode}:\n{done.stdout}{done.stderr}"
            )
        counts = read_counts(pathlib.Path(folder))
    compiler, instruction_set, *cases = done.stdout.splitlines()
    if len(counts) != len(cases):
        sys.exit(
            f"check_counts: {len(cases)} cases ran, but Callgrind counted {len(counts)}:\n{done.stdout}{done.stderr}")
    kernels = {
        name: {"kernel": kernel, "instructions": counts[i]}
        for i, (name, kernel) in enumerate(case.split() for case in cases)
    }
    return {"compiler": compiler, "instruction_set": instruction_set, "cases": kernels}


def compare(record, now):
    """A line a case, and a list of what is wrong."""
    lines, faults = [], []
    for what in ("compiler", "instruction_set"):
        if record[what] != now[what]:
            faults.append(f"the record holds for {record[what]}, this is {now[what]}")
    for name in sorted(record["cases"].keys() - now["cases"].keys()):
        faults.append(f"{name} is on record but did not run")
    for name, case in now["cases"].items():
        known = record["cases"].get(name)
        growth = None if known is None else case["instructions"] / known["instructions"] - 1
        lines.append(f"{name:24} {case['kernel']:28} {case['instructions']:12,} instructions" +
                     ("" if growth is None else f" {growth:+8.2%}"))
        if known is None:
            faults.append(f"{name} is not on record")
        elif case["kernel"] != known["kernel"]:
            faults.append(f"{name} is run by {case['kernel']}, on record is {known['kernel']}")
        elif growth > MOST_GROWTH:
            faults.append(
                f"{name} takes {growth:.1%} more instructions than on record; at most {MOST_GROWTH:.0%} more may be")
        elif growth < -MOST_GROWTH:
            lines[-1] += "  (fewer than on record: --update keeps it so)"
    return lines, faults


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", type=pathlib.Path, metavar="KERNEL_RUNS",
                        help="the program that CMake makes of kernel_runs.cpp in a release build")
    parser.add_argument("--update", action="store_true", help="write what was counted to counts.json")
    arguments = parser.parse_args()
    now = count(arguments.program)
    record = json.loads(RECORD.read_text()) if RECORD.exists() else {**now, "cases": {}}
    lines, faults = compare(record, now)
    print("\n".join(lines))
    if arguments.update:
        RECORD.write_text(json.dumps(now, indent=2) + "\n")
        return
    for fault in faults:
        print(f"check_counts: {fault}", file=sys.stderr)
    if faults:
        sys.exit("check_counts: see --help for how to change the record")


if __name__ == "__main__":
    main()
