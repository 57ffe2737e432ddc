#!/usr/bin/env python3
"""Draws docs/images/house.svg: the folders of src/, what each is built on, and their families.

Usage: house.py [--check]. The arrows are the DEPENDS of the folders' CMakeLists.txt, without those that follow from
others. --check writes nothing and exits with 1 when the drawing is not what it would write.
"""
import html
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
DRAWING = ROOT / "docs/images/house.svg"
ROOM = re.compile(r"^\s*tessera(?:_cpu)?_room\(([^)]*)\)", re.MULTILINE)
WIDTH, MARGIN, BOX_HEIGHT, ROW_GAP, BOX_GAP = 1040, 12, 58, 28, 14
STYLE = """
  svg { font: 13px/1.4 system-ui, sans-serif; --ink: #1b1f24; --soft: #57606a; --box: #f6f8fa; --line: #8c959f; }
  @media (prefers-color-scheme: dark) { svg { --ink: #e6edf3; --soft: #9aa4af; --box: #1c2128; --line: #6e7681; } }
  rect { fill: var(--box); stroke: var(--line); } path { fill: none; stroke: var(--line); }
  marker path { fill: var(--line); } text { fill: var(--ink); } .name { font-weight: 600; font-size: 15px; }
  .soft { fill: var(--soft); font-size: 11px; }
"""


def rooms():
    """The folders of src/ by the targets that they make, and the targets that each folder depends on."""
    folder_of, needs = {}, {}
    for file in sorted((ROOT / "src").rglob("CMakeLists.txt")):
        folder = file.relative_to(ROOT / "src").parts[0]
        for room in ROOM.findall(file.read_text(encoding="utf-8")):
            words = room.split()
            folder_of[f"tessera_{words[0]}"] = folder
            depends = words[words.index("DEPENDS") + 1:] if "DEPENDS" in words else []
            needs.setdefault(folder, set()).update(depends)
    return folder_of, needs


def edges():
    """The folders that each folder is built on, without those that another of them is built on."""
    folder_of, needs = rooms()
    direct = {folder: {folder_of[target] for target in targets if target in folder_of} - {folder}
              for folder, targets in needs.items()}

    def reaches(folder, seen=None):
        seen = set() if seen is None else seen
        for below in direct[folder] - seen:
            seen.add(below)
            reaches(below, seen)
        return seen

    return {folder: {below for below in under if not any(below in reaches(other) for other in under - {below})}
            for folder, under in direct.items()}


def levels(graph):
    """Each folder's row, from the ground up: one above the highest that it is built on."""
    result = {}

    def level(folder):
        if folder not in result:
            result[folder] = max((level(below) + 1 for below in graph[folder]), default=0)
        return result[folder]

    for folder in graph:
        level(folder)
    return result


def rows_in_order(graph):
    """The folders row by row from the ground up, those of a row near what they are built on."""
    height = levels(graph)
    rows = [[folder for folder in sorted(graph) if height[folder] == row] for row in range(max(height.values()) + 1)]
    place = {}

    def mean_place(folder):
        return sum(place.get(below, 0.5) for below in sorted(graph[folder])) / max(len(graph[folder]), 1)

    for row in rows:
        row.sort(key=lambda folder: (mean_place(folder), folder))
        place.update({folder: (index + 0.5) / len(row) for index, folder in enumerate(row)})
    return rows


def families(folder):
    return sorted(path.name for path in (ROOT / "src" / folder).iterdir()
                  if path.is_dir() and any(path.rglob("*.cpp")))


def purposes():
    """What each folder holds, from the table of docs/architecture.md."""
    table = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
    return dict(re.findall(r"^\| `(\w+)` \| ([^|]+?) \|", table, re.MULTILINE))


def box(folder, x, y, width):
    names = families(folder) or purposes().get(folder, "").split()
    lines, most = [""], int(width / 6.7)
    for name in names:
        if len(lines[-1]) + len(name) > most:
            lines.append("")
        lines[-1] += f"{name}  " if families(folder) else f"{name} "
    if len(lines) > 2:
        lines[1] = lines[1].rstrip() + " …"
    text = [f'<rect x="{x:.0f}" y="{y:.0f}" width="{width:.0f}" height="{BOX_HEIGHT}" rx="6"/>',
            f'<text class="name" x="{x + 10:.0f}" y="{y + 19:.0f}">{html.escape(folder)}</text>']
    text += [f'<text class="soft" x="{x + 10:.0f}" y="{y + 34 + 14 * number:.0f}">{html.escape(line.strip())}</text>'
             for number, line in enumerate(lines[:2])]
    return text


def drawing():
    graph = edges()
    rows = rows_in_order(graph)
    height = 2 * MARGIN + len(rows) * (BOX_HEIGHT + ROW_GAP) - ROW_GAP
    boxes, arrows, places = [], [], {}
    for number, row in enumerate(rows):
        y = height - MARGIN - BOX_HEIGHT - number * (BOX_HEIGHT + ROW_GAP)
        width = min(230, (WIDTH - 2 * MARGIN - (len(row) - 1) * BOX_GAP) / len(row))
        begin = (WIDTH - len(row) * width - (len(row) - 1) * BOX_GAP) / 2
        for index, folder in enumerate(row):
            x = begin + index * (width + BOX_GAP)
            places[folder] = (x, y, width)
            boxes += box(folder, x, y, width)
    for folder, under in sorted(graph.items()):
        for index, below in enumerate(sorted(under, key=lambda name: (places[name][0], name))):
            x, y, width = places[folder]
            to_x, to_y, to_width = places[below]
            x += width * (index + 1) / (len(under) + 1)
            end, y = to_x + to_width / 2, y + BOX_HEIGHT
            bend = min(24, (to_y - y) / 2)
            arrows.append(f'<path d="M{x:.0f},{y:.0f} C{x:.0f},{y + bend:.0f} {end:.0f},{to_y - bend:.0f} '
                          f'{end:.0f},{to_y - 2:.0f}" marker-end="url(#arrow)"/>')
    return "\n".join([f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" '
                      'aria-label="The folders of src and what each is built on">', f"<style>{STYLE}</style>",
                      '<defs><marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
                      'orient="auto"><path d="M0,0 L8,4 L0,8 z"/></marker></defs>', *arrows, *boxes, "</svg>", ""])


def main():
    if sys.argv[1:] not in ([], ["--check"]):
        sys.exit(__doc__)
    text = drawing()
    if sys.argv[1:] == ["--check"]:
        if not DRAWING.exists() or DRAWING.read_text(encoding="utf-8") != text:
            sys.exit(f"{DRAWING.relative_to(ROOT)} is not what the house is: run scripts/house.py")
    else:
        DRAWING.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
