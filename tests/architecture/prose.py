#!/usr/bin/env python3
"""Counts turns of phrase in comments that readers stumble over, and fails when a room has more of one than on record.

Usage: prose.py ROOT [--update]. The record is prose_baseline.json beside this file. It only shrinks: --update writes
the counts of today where they are lower, and refuses where they are higher.

A comment states its subject first, in whole sentences and in the words of the field: "Returns …", "The scale of …",
"Visits the nodes in reverse order". What is counted, with what to write in its place:
"""
import collections
import json
import pathlib
import re
import sys

# name: (what it looks like at the begin of a sentence or anywhere, what to write)
TURNS = {
    "Of": (re.compile(r"(?:^|[.;:] )Of (?!course)"), "name the subject: 'The outputs of …', not 'Of the outputs …'"),
    "What": (re.compile(r"(?:^|\. )What(?! if)\b"),
             "name the thing: 'The epilogue of a row', not 'What becomes of a row'"),
    "The same": (re.compile(r"(?:^|\. )The same\b(?! \w+ (?:as|that))"),
                 "say what it does: 'Reads from memory', not 'The same from memory'"),
    "way back": (re.compile(r"\bway back\b"), "'backward pass'"),
    "one a": (re.compile(r"\b(?:one|a line|two|a word) an? [a-z]+(?=[,.;)]|$)"), "'one per output'"),
    "made up": (re.compile(r"\bmade[- ]up\b"), "'random'"),
    "Backwards": (re.compile(r"(?:^|\. )Backwards\b"), "'Visits … in reverse order'"),
}
BASELINE = pathlib.Path(__file__).with_name("prose_baseline.json")
TOPS = ("include", "src", "apps", "bindings")


def comments_of(lines):
    for number, line in enumerate(lines, 1):
        match = re.search(r"(?:^|\s)//+ ?(.*)$", line)
        if match and "://" not in match.group(1):
            yield number, match.group(1)


def count(root):
    """The number of each turn in each room, and where they are."""
    counts, places = collections.Counter(), collections.defaultdict(list)
    for top in TOPS:
        for file in sorted((root / top).rglob("*")) if (root / top).is_dir() else []:
            if file.suffix not in (".h", ".cpp", ".inc"):
                continue
            path = file.relative_to(root)
            room = "/".join(path.parts[:2])
            for number, comment in comments_of(file.read_text(encoding="utf-8", errors="replace").splitlines()):
                for name, (pattern, _) in TURNS.items():
                    found = len(pattern.findall(comment))
                    if found:
                        counts[f"{room}: {name}"] += found
                        places[f"{room}: {name}"].append(f"{path}:{number}")
    return counts, places


def main():
    if len(sys.argv) not in (2, 3) or sys.argv[2:] not in ([], ["--update"]):
        sys.exit(__doc__ + "\n".join(f"  {name}: {advice}" for name, (_, advice) in TURNS.items()))
    counts, places = count(pathlib.Path(sys.argv[1]))
    record = json.loads(BASELINE.read_text(encoding="utf-8")) if BASELINE.exists() else dict(counts)
    more = {key: number for key, number in counts.items() if number > record.get(key, 0)}
    for key, number in sorted(more.items()):
        room, name = key.split(": ")
        print(f"{room}: {number} comments with '{name}', {record.get(key, 0)} on record; write {TURNS[name][1]}")
        print("  among", ", ".join(places[key][-8:]))
    if more:
        sys.exit(1)
    if sys.argv[2:]:
        BASELINE.write_text(json.dumps(dict(sorted(counts.items())), indent=1) + "\n", encoding="utf-8")
    print(f"{sum(counts.values())} turns of phrase, {sum(record.values())} on record")


if __name__ == "__main__":
    main()
