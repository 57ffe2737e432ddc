#!/usr/bin/env python3
"""Finds logic that depends on the name of a device: it should ask for the device's properties instead.

Usage: device_names.py ROOT. Prints one line a violation ("path:line: what") and exits 1 when there is one. The names
are those of the kinds in src/backends/backend_table.cpp, and those that are to come.
"""
import pathlib
import re
import sys

TABLE = "src/backends/backend_table.cpp"
OTHER_NAMES = ["simulated", "cuda"]
# A device may know its own name, and the table knows all of them.
ALLOWED = re.compile(r"^src/backends/(backend_table\.cpp|[a-z]+/.*)$")
# Texts that mean something else, by file.
NO_DEVICES = {"src/cost/profile_toml.cpp": "the kind of a profile, cpu or gpu",
              "src/io/safetensors/json_cursor.cpp": "the null of JSON"}


def device_names(table_text):
    return re.findall(r'\.name = "([a-z]+)"', table_text) + OTHER_NAMES


def comparison(names):
    name = '"(?:' + "|".join(names) + ')[":]'
    return re.compile(rf'[!=]=\s*(?:std::string(?:_view)?[({{]\s*)?{name}|{name}\)?\s*[!=]=|'
                      rf"(?:starts_with|compare|equal)\({name}")


def faults_in(text, names):
    """The numbers of the lines that compare something with a device's name."""
    pattern = comparison(names)
    return [number for number, line in enumerate(text.splitlines(), 1)
            if pattern.search(line) and not line.lstrip().startswith("//")]


def main(root):
    names = device_names((root / TABLE).read_text(encoding="utf-8"))
    faults = []
    for folder in ("src", "apps", "bindings", "include"):
        for path in sorted((root / folder).rglob("*")):
            relative = path.relative_to(root).as_posix()
            if path.suffix not in (".h", ".cpp") or ALLOWED.match(relative) or relative in NO_DEVICES:
                continue
            for number in faults_in(path.read_text(encoding="utf-8"), names):
                faults.append(f"{relative}:{number}: compares with the name of a device; ask for its properties "
                              "(backends/device_properties.h)")
    print("\n".join(faults) if faults else "no logic depends on the name of a device")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1])))
