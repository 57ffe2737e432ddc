#!/usr/bin/env python3
"""Checks that the files which docs and comments name exist.

Usage: pointers.py ROOT. Prints one line a fault ("path:line: what") and exits 1 when there is one. A name with a folder
is looked up from the root, from src/ and its larger rooms, and from the file that names it; a bare one anywhere in the
tree. Decisions (docs/adr) keep the names of their day.
"""
import os
import pathlib
import re
import subprocess
import sys

ENDINGS = "h|cpp|cu|inc|py|sh|toml|md|proto|cmake"
NAME = re.compile(rf"(?<![\w/.~<*-])((?:[\w.+-]+/)*[\w+-]+\.(?:{ENDINGS}))(?![\w/*(-])")
LOOKED_UP_FROM = ("", "src/", "include/", "tests/", "docs/", "src/backends/", "src/backends/cpu/", "src/serve/",
                  "src/io/", "src/train/")
# What docs/add-*.md add as examples, what users' machines and other projects hold, and what tests make up.
NOT_OURS = re.compile(r"cube\.|cube_test\.|unroll_loops|^hwy/|^numpy/|^asm/|^sys/|XDG_CACHE_HOME|ContribOperators|"
                      r"^onnx\.pb\.h$|^\w+\.toml$|^version\.h$|^mnist1d/|^highway\.h$|^example\.cpp$|^pyconfig\.h$|"
                      r"tesseraConfig")
CODE = (".h", ".cpp", ".inc")
SCRIPTS = (".py", ".sh", ".cmake", ".txt")


def texts_of(path, line):
    """The parts of a line that speak of files."""
    if path.endswith(".md"):
        return [a or b for a, b in re.findall(r"`([^`]+)`|\]\(([^)#]+)[^)]*\)", line)]
    comment = re.search(r"//(.*)$" if path.endswith(CODE) else r"(?:^|\s)#\s(.*)$", line)
    return [comment.group(1)] if comment else []


def tracked_files(root):
    listing = subprocess.run(["git", "ls-files"], cwd=root, capture_output=True, text=True, check=True)
    return listing.stdout.splitlines()


def faults(root, files, read):
    """`files`: the tree; `read(path)`: the lines of one."""
    known = set(files)
    bare = {os.path.basename(path) for path in files}
    for path in files:
        checked = path.endswith((".md", *CODE, *SCRIPTS)) and not path.startswith(("docs/adr/", "CHANGELOG"))
        if not checked or "/seeds/" in path or path.startswith("tests/architecture/"):
            continue
        folder_of_row = None
        for number, line in enumerate(read(path), 1):
            row = re.match(r"\| `([\w/]+)` \|", line) if path == "docs/architecture.md" else None
            folder_of_row = f"src/{row.group(1)}/" if row else None
            for text in texts_of(path, line):
                if "://" in text:
                    continue
                for name in NAME.findall(text):
                    here = os.path.normpath(os.path.join(os.path.dirname(path), name))
                    places = {prefix + name for prefix in LOOKED_UP_FROM} | {here, f"{folder_of_row}{name}"}
                    if NOT_OURS.search(name) or places & known or ("/" not in name and name in bare):
                        continue
                    yield f"{path}:{number}: names '{name}', which does not exist"


def folder_faults(root, lines):
    """Every folder of src/ has a row in docs/architecture.md, and every row a folder."""
    rows = [row.group(1) for row in (re.match(r"\| `([\w/]+)` \|", line) for line in lines) if row]
    folders = {path.name for path in (root / "src").iterdir() if path.is_dir()}
    yield from (f"docs/architecture.md: no row for src/{name}" for name in sorted(folders - set(rows)))
    yield from (f"docs/architecture.md: '{name}' is no folder" for name in rows
                if name not in folders and not (root / name).is_dir())


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    root = pathlib.Path(sys.argv[1])
    files = tracked_files(root)
    def lines_of(path):
        return (root / path).read_text(encoding="utf-8", errors="replace").split("\n")

    found = list(faults(root, files, lines_of))
    found += folder_faults(root, lines_of("docs/architecture.md"))
    print("\n".join(found) if found else "every file that is named exists")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
