#!/usr/bin/env python3
"""Checks that the shared libraries export the public API and nothing else.

Usage: exported_symbols_test.py INCLUDE_FOLDER LIBTESSERA LIBTESSERA_IMAGES. Whatever the headers declare must be there,
or programs do not link; whatever else is there would become something that programs rely on.
"""
import pathlib
import re
import subprocess
import sys

IMAGES = {"tessera_register_image_codecs", "tessera::register_image_codecs"}
CLASSES = {"Clock", "Error", "Tensor", "Value", "Model", "ModelKey", "Session", "StepGate", "VariableSnapshot",
           "VariableStore"}


def exported(library):
    """(symbol as linked, as C++ writes it) of what the library defines for others."""
    def names(*options):
        command = ["nm", "-D", "--defined-only", "--format=posix", *options, library]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    linked = [line.split(" ")[0] for line in names()]
    # Demangled names hold spaces; the three fields behind them (type, value, size) do not.
    plain = [re.sub(r"( \S)( [0-9a-f]+)*\s*$", "", line) for line in names("-C")]
    return list(zip(linked, plain))


def qualified(name):
    """tessera::Tensor::from of "tessera::Tensor tessera::Tensor::from<float>(…)"."""
    name = name.split("@")[0] if name.startswith("tessera_") else name
    name = re.sub(r"\[abi:cxx11\]", "", name)
    name = re.sub(r"^(typeinfo name for|typeinfo for|vtable for) ", "", name)
    name = re.split(r"[(<]", name)[0]
    return name.split(" ")[-1].split("@")[0]


# Headers of parts that there is no shared library of.
ONLY_STATIC = {"deep_compression.h", "dictionary.h", "generate.h", "graph.h", "prune.h", "quantise.h",
               "resident_models.h", "share.h", "tokenizer.h", "train.h"}


def declared(folder):
    """Names that the headers declare: C functions, and C++ functions outside classes."""
    text = {path.name: path.read_text() for path in pathlib.Path(folder).glob("*.h")}
    for name in ONLY_STATIC:
        text.pop(name, None)
    c_text = text.pop("tessera.h") + text.pop("tessera_images.h")
    c_functions = set(re.findall(r"TESSERA_API [^;]*?\b(tessera_\w+)\(", c_text))
    functions = set()
    for content in text.values():
        for line in re.sub(r",\n\s+", ", ", content).splitlines():
            match = re.match(r"(?:TESSERA_API )?(?!using|class|struct|template|inline|return|#|//| )"
                             r"[\w:<>&, ]+? (\w+)\(.*;", line)
            if match:
                functions.add("tessera::" + match.group(1))
    return c_functions, functions


def main():
    folder, library, images = sys.argv[1:]
    c_functions, functions = declared(folder)
    assert len(c_functions) > 50 and len(functions) > 15, (c_functions, functions)
    faults = []
    for path, wanted in ((library, (c_functions | functions) - IMAGES), (images, IMAGES)):
        symbols = exported(path)
        found = {qualified(plain) for _, plain in symbols}
        for linked, plain in symbols:
            name = qualified(plain)
            parts = name.split("::")
            is_member = path == library and parts[0] == "tessera" and len(parts) > 1 and parts[1] in CLASSES
            if name not in wanted and not is_member and not linked.startswith("TESSERA_"):
                where = pathlib.Path(path).name
                faults.append(f"{where} exports {plain} ({linked}), which is not in the public headers")
        faults += [f"{pathlib.Path(path).name} does not export {name}" for name in sorted(wanted - found)]
        if path == library:
            for name in sorted(CLASSES - {"StepGate"}):  # of which everything is inline
                if not any(symbol.startswith(f"tessera::{name}::") for symbol in found):
                    faults.append(f"{pathlib.Path(path).name} exports nothing of class {name}")
    print("\n".join(faults) or "the public API and nothing else")
    sys.exit(1 if faults else 0)


main()
