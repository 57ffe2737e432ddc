#!/usr/bin/env python3
"""Runs the ONNX backend test data through `tessera check` and holds the outcome against exceptions.json.

    run_conformance.py --tessera build/release/apps/tessera/tessera --data FOLDER --device cpu [--round-trip]

exceptions.json lists every case that does not pass, by exact name, with its reason ("on DEVICE only: …" for one
device). Anything else that does not pass is an error, and so is a listed case that passes: the list never hides more
than it says. Exit status 0 when the outcome is as listed.
"""
import argparse
import json
import pathlib
import subprocess
import sys

SUITES = ["node", "simple", "pytorch-converted", "pytorch-operator", "light"]


def kernels_of(device):
    """The device whose kernels give the results."""
    if not device.startswith("simulated:"):
        return device
    return "cpu" if "compute=cpu" in device.split(",") else "reference"


def check(arguments, suites):
    command = [
        arguments.tessera, "check", "--json", "--device", arguments.device,
        *(str(arguments.data / suite) for suite in suites)
    ]
    if arguments.round_trip:
        command.append("--round-trip")
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode not in (0, 1):
        sys.exit(f"tessera check ended with status {done.returncode}: {done.stderr.strip()[-500:]}")
    return json.loads(done.stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tessera", required=True)
    parser.add_argument("--data", type=pathlib.Path, required=True, help="onnx/backend/test/data of the onnx wheel")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--round-trip", action="store_true")
    parser.add_argument("--suites", nargs="+", default=SUITES, choices=SUITES)
    arguments = parser.parse_args()

    listed = json.loads((pathlib.Path(__file__).parent / "exceptions.json").read_text())
    kernels = kernels_of(arguments.device)
    exceptions = {
        name for name, reason in listed.items()
        if not reason.startswith("on ") or reason.startswith(f"on {kernels} only: ")
    }
    result = check(arguments, arguments.suites)
    present = {path.name for suite in arguments.suites for path in (arguments.data / suite).iterdir()}
    seen = {entry["name"]: entry["reason"] for entry in result["failures"] + result["refusals"]}
    unexpected = sorted(set(seen) - exceptions)
    stale = sorted(name for name in exceptions if name in present and name not in seen)
    for name in unexpected:
        print(f"UNEXPECTED {name}: {seen[name]}")
    for name in stale:
        print(f"STALE {name}: is listed as an exception, but passes")
    print(
        f"{result['passed']} passed ({result['random_values']} of them by form: random numbers), {len(seen)} "
        f"exceptions, on {arguments.device}"
    )
    return 1 if unexpected or stale else 0


if __name__ == "__main__":
    sys.exit(main())
