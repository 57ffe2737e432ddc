#!/usr/bin/env python3
"""Checks how the house is divided: no folder of src/ is flat and large, tests mirror the folders, and no two headers
give one name to two types.

Usage: families.py ROOT. Prints one line a fault ("path: what") and exits 1 when there is one.
"""
import collections
import pathlib
import re
import sys

MOST_FILES = 45  # in one folder of src/, without those below it
# A type at the outermost level of a header.
TYPE = re.compile(r"(?:template <.*> ?)?(?:struct|class|enum class|enum)\s+(?:\[\[\w+\]\]\s+)?(?:alignas\(\S+\)\s+)?"
                  r"(\w+)(?:\s+final)?\s*(?::[^:].*)?\{")
# Folders of tests/ that belong to no folder of src/: what tests share, and tests of the whole.
OF_THE_WHOLE = {"apps", "architecture", "capi", "cuda", "fuzz", "install", "instruction_counts", "limits", "peers",
                "python", "scripts", "support", "tries"}


def flat_faults(root):
    for folder in sorted(path for path in (root / "src").rglob("*") if path.is_dir()):
        count = sum(path.is_file() for path in folder.iterdir())
        if count > MOST_FILES:
            yield f"{folder.relative_to(root)}: {count} files, over {MOST_FILES}; divide it into families"


def mirror_faults(root):
    for folder in sorted(path for path in (root / "tests").rglob("*") if path.is_dir()):
        path = folder.relative_to(root / "tests")
        has_tests = any(file.name.endswith("_test.cpp") for file in folder.iterdir())
        # The reference device's kernels are tested by the operators' tests.
        if has_tests and path.parts[0] not in OF_THE_WHOLE and not (root / "src" / path).is_dir():
            yield f"tests/{path}: there is no src/{path}"


def name_faults(root):
    places = collections.defaultdict(list)
    for top in ("include", "src", "apps", "bindings"):
        for header in sorted((root / top).rglob("*.h")) if (root / top).is_dir() else []:
            for number, line in enumerate(header.read_text(encoding="utf-8").splitlines(), 1):
                if (match := TYPE.match(line)) is not None:
                    places[match.group(1)].append(f"{header.relative_to(root)}:{number}")
    for name, where in sorted(places.items()):
        if len(where) > 1:
            yield f"{where[0]}: '{name}' is a type in {', '.join(where[1:])} as well; give one another name"


def check(root):
    root = pathlib.Path(root)
    return [*flat_faults(root), *mirror_faults(root), *name_faults(root)]


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    faults = check(sys.argv[1])
    print("\n".join(faults) if faults else "families, tests and names are in order")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
