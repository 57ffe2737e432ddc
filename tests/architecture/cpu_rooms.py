"""Holds the rooms of src/backends/cpu to the rooms that its CMakeLists.txt says they use.

And the names of their files to the order <what>_<type>_<instruction set>.
"""
import pathlib
import re

FOLDER = pathlib.PurePosixPath("src/backends/cpu")
ALWAYS = "machine"  # any room may use it
ROOM = re.compile(r"^\s*tessera_cpu_room\((\w+)(?:\s+USES\s+([\w\s]+?))?\s*\)", re.MULTILINE)
INCLUDE = re.compile(r'^\s*#\s*include\s*"backends/cpu/([^"]+)"')
SUFFIXES = {".h", ".cpp"}

# <what>_<type>_<instruction set>, of which a name may lack the last or both.
TYPES = {"f32", "bf16", "s8", "u8"}
ISAS = {"isa", "portable", "emulated", "avx2", "avx512", "avx512bf16", "avx512vbmi", "avx512vnni", "amx"}


def declared_rooms(text):
    """The rooms in their order, each with the set of those that it uses."""
    return {name: set((uses or "").split()) for name, uses in ROOM.findall(text)}


def order_faults(rooms):
    """Rooms may use those declared before them, so that no two use each other."""
    seen = set()
    for room, uses in rooms.items():
        for used in sorted(uses - seen):
            yield f"{FOLDER}/CMakeLists.txt: '{room}' uses '{used}', which is not declared before it"
        seen.add(room)


def name_fault(stem):
    """Why a file may not have that name, or None."""
    words = stem.split("_")
    end = len(words) - (1 if words[-1] in ISAS else 0)
    if any(word in ISAS for word in words[:end]):
        return "the instruction set comes last in a name"
    if any(word in TYPES for word in words[:end - 1]) and words[end - 1] not in TYPES:
        return "the type comes last in a name, but for the instruction set"
    return None


def check_cpu_rooms(root):
    """All violations in the tree, as lines of text."""
    folder = pathlib.Path(root) / FOLDER
    if not (folder / "CMakeLists.txt").exists():
        return []
    rooms = declared_rooms((folder / "CMakeLists.txt").read_text(encoding="utf-8"))
    violations = list(order_faults(rooms))
    folders = {path.name for path in folder.iterdir() if path.is_dir()}
    violations += [f"{FOLDER}/{name}: is no room; declare it in {FOLDER}/CMakeLists.txt"
                   for name in sorted(folders - set(rooms))]
    violations += [f"{FOLDER}/CMakeLists.txt: room '{name}' has no folder" for name in sorted(set(rooms) - folders)]
    for room in sorted(folders & set(rooms)):
        used = set()
        for file in sorted(path for path in (folder / room).rglob("*") if path.suffix in SUFFIXES):
            path = file.relative_to(root)
            if (fault := name_fault(file.stem)) is not None:
                violations.append(f"{path}:1: {fault}")
            for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
                if (match := INCLUDE.match(line)) is None:
                    continue
                target = match.group(1).split("/")[0] if "/" in match.group(1) else None
                if target is None:
                    violations.append(f"{path}:{number}: a room may not use the table and the device above it")
                elif target not in rooms[room] | {room, ALWAYS}:
                    violations.append(f"{path}:{number}: room '{room}' does not name '{target}' among the rooms that "
                                      "it uses")
                used.add(target)
        violations += [f"{FOLDER}/CMakeLists.txt: room '{room}' names '{name}', which it does not use"
                       for name in sorted(rooms[room] - used)]
    return violations
