#!/usr/bin/env python3
"""`tessera protect --obfuscate`: obfuscated models run, and an attacker with the file and the program learns little.

    obfuscate_test.py TESSERA [HEADERS]   # HEADERS: where tessera/operator_library.h is
"""
import json
import math
import os
import pathlib
import random
import re
import shutil
import stat
import struct
import subprocess
import sys
import unittest
import zipfile

import program
from program import INVALID, NOT_FOUND, WRONG_CALL, run

WITHOUT = {name: value for name, value in os.environ.items() if not name.startswith("TESSERA_")}
MOST_ULPS = 64  # docs/protect.md states it
headers = ""  # set by the second argument


# --- what the attacker knows: the formats, which are public ---


def sections_of(path):
    """The contents of a package's sections by name (docs/package.md)."""
    data = path.read_bytes()
    count, = struct.unpack_from("<I", data, 12)
    sections = {}
    for entry in range(64, 64 + 96 * count, 96):
        name = data[entry:entry + 32].rstrip(b"\0").decode()
        offset, stored = struct.unpack_from("<QQ", data, entry + 40)
        sections[name] = data[offset:offset + stored]
    return sections


def fields_of(data):
    """The fields of a protobuf message: a list of (number, value), where strings and messages are bytes."""
    at, fields = 0, []

    def number():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(data):
        tag = number()
        if tag & 7 == 0:
            value = number()
        else:
            size = {1: 8, 5: 4}.get(tag & 7) or (number() if tag & 7 == 2 else None)
            value, at = data[at:at + size], at + size
        fields.append((tag >> 3, value))
    return fields


def all_of(message, field):
    return [value for number, value in fields_of(message) if number == field]


class Graph:
    """Of an ONNX model: nodes as (operator, inputs, outputs, attributes), and initializers."""
    def __init__(self, model):
        graph, = all_of(model, 7)
        text = lambda values: [value.decode() for value in values]
        self.nodes = [(text(all_of(node, 4))[0], text(all_of(node, 1)), text(all_of(node, 2)), all_of(node, 5))
                      for node in all_of(graph, 1)]
        self.initializers = {text(all_of(tensor, 8))[0]: tensor for tensor in all_of(graph, 5)}

    def floats(self, name):
        raw, = all_of(self.initializers[name], 9)
        return struct.unpack(f"<{len(raw) // 4}f", raw)

    def surroundings(self):
        """What a node and its neighbours look like without names: numbers of operands, constants and readers."""
        producer = {output: i for i, node in enumerate(self.nodes) for output in node[2]}
        operands = [[producer[name] for name in node[1] if name in producer] for node in self.nodes]
        readers = [[] for _ in self.nodes]
        for i, each in enumerate(operands):
            for operand in each:
                readers[operand].append(i)
        constants = [sum(name in self.initializers for name in node[1]) for node in self.nodes]
        labels = [(len(operands[i]), constants[i], len(readers[i])) for i in range(len(self.nodes))]
        for _ in range(2):
            labels = [(labels[i], tuple(sorted(map(repr, (labels[j] for j in operands[i])))),
                       tuple(sorted(map(repr, (labels[j] for j in readers[i]))))) for i in range(len(labels))]
        return list(map(repr, labels))


def shared(ours, theirs):
    """The share of our surroundings that have a partner of their own among theirs."""
    left, found = list(theirs), 0
    for each in ours:
        if each in left:
            left.remove(each)
            found += 1
    return found / len(ours)


def best_correlations(filters, data):
    """The greatest absolute correlation of each filter with a window of the data's float32 numbers."""
    numbers = [x if math.isfinite(x) and abs(x) < 1e6 else 0.0
               for x in struct.unpack(f"<{len(data) // 4}f", data[:len(data) // 4 * 4])]

    def normalised(values):
        mean = sum(values) / len(values)
        centred = [value - mean for value in values]
        length = math.sqrt(sum(value * value for value in centred))
        return [value / length for value in centred] if length > 1e-9 else None

    directions, best = [normalised(weights) for weights in filters], [0.0] * len(filters)
    for at in range(len(numbers) - len(filters[0]) + 1):
        window = normalised(numbers[at:at + len(filters[0])])
        if window is not None:
            found = (abs(sum(a * b for a, b in zip(direction, window))) for direction in directions)
            best = list(map(max, best, found))
    return best


def arrays_of(path):
    """The float32 arrays of an .npz."""
    arrays = {}
    with zipfile.ZipFile(path) as archive:
        for name in archive.namelist():
            data = archive.read(name)
            begin = 10 + struct.unpack_from("<H", data, 8)[0]
            arrays[name] = struct.unpack(f"<{(len(data) - begin) // 4}f", data[begin:])
    return arrays


def difference(expected, values):
    """The greatest difference of two runs' outputs, in units of the last place of each output's greatest element."""
    most = 0.0
    for name, ours in expected.items():
        unit = max(map(abs, ours), default=0) * 2**-23
        apart = max((abs(a - b) for a, b in zip(ours, values[name])), default=0)
        most = max(most, apart / unit if unit > 0 else apart)
    return most


class Obfuscate(program.WithModel):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.plain, cls.hidden, cls.symbols = cls.folder / "plain.tsr", cls.folder / "hidden.tsr", cls.folder / "s"
        for call in (["optimize", cls.model, "-o", cls.plain, "--dim", "batch=1"],
                     ["protect", cls.model, "-o", cls.hidden, "--dim", "batch=1", "--obfuscate", "2", "--seed", "3",
                      "--symbols", cls.symbols]):
            done = run(*call)
            assert done.returncode == 0, done.stderr

    def succeeds(self, *arguments, **options):
        done = run(*arguments, **options)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def gives_the_outputs_of_the_plain_model(self, *arguments, **options):
        first, second = self.folder / "first.npz", self.folder / "second.npz"
        self.succeeds("run", self.plain, "--outputs", first)
        self.succeeds("run", self.hidden, "--outputs", second, *arguments, **options)
        self.assertLessEqual(difference(arrays_of(first), arrays_of(second)), MOST_ULPS)

    def test_runs_with_its_symbols(self):
        for device in ("cpu", "reference"):
            self.gives_the_outputs_of_the_plain_model("--symbols", self.symbols, "--device", device)
        self.gives_the_outputs_of_the_plain_model(env={**WITHOUT, "TESSERA_SYMBOLS": str(self.symbols)})
        for call in (["info", self.hidden], ["check", self.hidden], ["explain", self.hidden],
                     ["bench", self.hidden, "--seconds", "0.05", "--warmup", "0"],
                     ["optimize", self.hidden, "-o", self.folder / "again.tsr"]):
            self.succeeds(*call, "--symbols", self.symbols)
        self.fails(WRONG_CALL, "the model is obfuscated", "run", self.folder / "again.tsr")
        self.assertEqual(stat.S_IMODE(self.symbols.stat().st_mode), 0o600)

    def test_says_what_is_missing(self):
        self.fails(WRONG_CALL, "the model is obfuscated, and its symbols", "run", self.hidden)
        self.fails(WRONG_CALL, "--library or TESSERA_LIBRARY", "info", self.hidden)
        other, wrong = self.folder / "other.tsr", self.folder / "wrong"
        self.succeeds("protect", self.model, "-o", other, "--obfuscate", "1")
        ids = [re.search('"id" = "([0-9a-f]{32})"', path.read_text("utf-8"))[1]
               for path in (self.symbols, self.folder / "other.symbols")]
        self.fails(WRONG_CALL, f"obfuscated with the symbols {ids[0]}, but those that were given belong to other "
                   f"models ({ids[1]})", "run", self.hidden, "--symbols", self.folder / "other.symbols")
        self.succeeds("run", self.hidden, "--symbols", self.folder / "other.symbols", "--symbols", self.symbols)
        self.fails(NOT_FOUND, "does not exist", "run", self.hidden, "--symbols", self.folder / "nothing")
        wrong.write_text("graph \"tessera symbols 1\" {", encoding="ascii")
        self.fails(INVALID, "", "run", self.hidden, "--symbols", wrong)
        self.fails(NOT_FOUND, "no such operator library", "run", self.hidden, "--library", self.folder / "nothing.so")
        self.fails(INVALID, "not an operator library", "run", self.hidden, "--library", self.model)

    def test_hides_watermarks(self):
        """A mark is found where weights stay as they are; elsewhere no verdict is given."""
        keys, marked = self.folder / "marks", self.folder / "marked.onnx"
        if "without libsodium" in run("protect", "--new-key", keys).stderr:
            self.skipTest("this program cannot mark models")
        secret = ["--watermark-key", keys / "model.key"]
        self.fails(WRONG_CALL, "a watermark is not found in scrambled weights", "protect", self.model, "-o",
                   self.folder / "x.tsr", "--obfuscate", "2", "--watermark", "me", *secret)
        self.succeeds("protect", self.model, "-o", marked, "--watermark", "me", *secret)
        for degree in ("1", "2", "3"):
            self.succeeds("protect", marked, "-o", self.folder / f"{degree}.tsr", "--obfuscate", degree)
        find = lambda degree: ("protect", self.folder / f"{degree}.tsr", "--find-watermark", "me", *secret,
                               "--symbols", self.folder / f"{degree}.symbols")
        self.assertIn("'me': found", self.succeeds(*find(1)))
        self.fails(WRONG_CALL, "MODEL is obfuscated, which hides watermarks", *find(2))
        self.fails(WRONG_CALL, "no matrices or filters", *find(3))

    def test_is_done_once(self):
        """Without symbols, with them and with the ones of another file: the answer is the same."""
        again = ["protect", self.hidden, "-o", self.folder / "twice.tsr", "--obfuscate", "2"]
        for more in ([], ["--symbols", self.folder / "twice.symbols"]):
            self.fails(WRONG_CALL, "obfuscation begins with the .onnx model, and is done once", *again, *more)
        known = run(*again, env={**WITHOUT, "TESSERA_SYMBOLS": str(self.symbols)})
        self.assertEqual((known.returncode, "is done once" in known.stderr), (WRONG_CALL, True), known.stderr)
        self.fails(WRONG_CALL, "is done once", "protect", self.hidden, "--measure")
        self.assertFalse((self.folder / "twice.tsr").exists() or (self.folder / "twice.symbols").exists())

    def test_runs_with_a_licence(self):
        """A licence takes the place of the symbols on its machine, and opens on no other one."""
        if not pathlib.Path("/etc/machine-id").exists() or "without libsodium" in run("protect", "--machine-id").stderr:
            self.skipTest("there is no machine id, or this program cannot encrypt")
        machine = self.succeeds("protect", "--machine-id").strip()
        self.assertRegex(machine, "^[0-9a-f]{32}$")
        self.assertNotEqual(machine, pathlib.Path("/etc/machine-id").read_text("ascii").strip())
        ours, same, others = (self.folder / name for name in ("licence", "same_licence", "others_licence"))
        other = ("0" if machine[0] != "0" else "1") + machine[1:]
        for path, whose in ((ours, "this"), (same, machine), (others, other)):
            self.assertIn("alone", self.succeeds("protect", "--symbols", self.symbols, "--licence", path, "--machine",
                                                 whose))
        for path in (ours, same):
            self.gives_the_outputs_of_the_plain_model("--symbols", path)
        self.gives_the_outputs_of_the_plain_model(env={**WITHOUT, "TESSERA_SYMBOLS": str(ours)})
        self.fails(WRONG_CALL, f"the licence is for another machine; this one is {machine}", "run", self.hidden,
                   "--symbols", others)
        self.assertEqual(run("run", self.hidden, "--symbols", others).stderr.strip().count("\n"), 0)
        new = self.folder / "licensed.tsr"
        self.succeeds("protect", self.model, "-o", new, "--obfuscate", "1", "--licence", self.folder / "l", "--machine",
                      "this")
        self.succeeds("run", new, "--symbols", self.folder / "l")
        self.fails(WRONG_CALL, "is a licence for one machine", "protect", "--emit-library", self.folder / "none",
                   "--symbols", ours)
        self.fails(WRONG_CALL, "--licence requires --machine", "protect", "--symbols", self.symbols, "--licence", new)
        self.fails(WRONG_CALL, "--licence needs the symbols", "protect", "--licence", ours, "--machine", "this")
        self.fails(WRONG_CALL, "is no identifier of a machine", "protect", "--symbols", self.symbols, "--licence", ours,
                   "--machine", "that")
        self.fails(WRONG_CALL, "obfuscate MODEL by --obfuscate", "protect", self.model, "-o", new, "--licence", ours,
                   "--machine", "this")

    def test_tells_wrong_calls(self):
        out = self.folder / "x.tsr"
        self.fails(WRONG_CALL, "--symbols", "protect", "--emit-library", self.folder / "none")
        self.fails(WRONG_CALL, "no pass of obfuscation 'hide'", "protect", self.model, "-o", out,
                   "--obfuscate-passes", "hide")
        self.fails(WRONG_CALL, "obfuscation begins with the .onnx model", "protect", self.plain, "-o", out,
                   "--obfuscate", "2")
        self.fails(WRONG_CALL, "a model may need", "protect", self.model, "-o", out, "--obfuscate", "2", "--symbols",
                   self.symbols)
        self.assertFalse(out.exists())

    def test_is_encrypted_too(self):
        keys, both = self.folder / "keys", self.folder / "both.tsr"
        if "without libsodium" in run("protect", "--new-key", keys).stderr:
            self.skipTest("this program cannot encrypt")
        self.succeeds("protect", self.model, "-o", both, "--obfuscate", "2", "--key-file", keys / "model.key")
        symbols = self.folder / "both.symbols"
        self.succeeds("run", both, "--key-file", keys / "model.key", "--symbols", symbols)
        self.fails(WRONG_CALL, "no key is given", "run", both, "--symbols", symbols)
        self.fails(WRONG_CALL, "the model is obfuscated", "run", both, "--key-file", keys / "model.key")

    def test_measures(self):
        degrees = json.loads(self.succeeds("protect", self.model, "--dim", "batch=1", "--measure", "--json"))["degrees"]
        self.assertEqual([each["degree"] for each in degrees], [0, 1, 2, 3])
        self.assertEqual(degrees[2]["similar_operators"], 0)
        self.assertIn("subgraphs", self.succeeds("protect", self.model, "--dim", "batch=1", "--measure"))

    @unittest.skipUnless(shutil.which("cmake") and shutil.which("cc"), "needs CMake and a C compiler")
    def test_runs_with_its_library(self):
        sources, build = self.folder / "operators", self.folder / "operators/build"
        self.succeeds("protect", "--emit-library", sources, "--symbols", self.symbols, "--seed", "1")
        text = (sources / "operators.c").read_text(encoding="ascii")
        for word in re.findall(r"= (\S+) \"", self.symbols.read_text(encoding="utf-8")) + ["tessera::", "strides"]:
            self.assertNotIn(word.strip('"'), text.replace("tessera_operator_library", ""))
        include = f"-DCMAKE_INCLUDE_PATH={pathlib.Path(headers).resolve()}"
        for call in (["cmake", "-S", sources, "-B", build, include], ["cmake", "--build", build]):
            done = subprocess.run(list(map(str, call)), capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        library = build / "tessera_operators.so"
        for device in ("cpu", "reference"):
            self.gives_the_outputs_of_the_plain_model("--library", library, "--device", device)
        self.gives_the_outputs_of_the_plain_model(env={**WITHOUT, "TESSERA_LIBRARY": str(library)})
        binary = library.read_bytes()
        for word in (b"Conv", b"tessera::", b"strides"):
            self.assertNotIn(word, binary)


class Attacker(program.WithModel):
    """Someone with the file, the formats, the program and the original's weights, but without symbols."""
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.original, cls.plain, cls.hidden = cls.folder / "m.onnx", cls.folder / "plain.tsr", cls.folder / "hidden.tsr"
        for call in (["new", "resnet8", "-o", cls.original, "--dim", "batch=1"],
                     ["optimize", cls.original, "-o", cls.plain],
                     ["protect", cls.original, "-o", cls.hidden, "--obfuscate", "2", "--seed", "9"]):
            done = run(*call)
            assert done.returncode == 0, done.stderr
        cls.sections, cls.open_sections = sections_of(cls.hidden), sections_of(cls.plain)
        cls.graph, cls.open_graph = Graph(cls.sections["graph"]), Graph(cls.open_sections["graph"])

    def test_cannot_list_operators(self):
        """No name, attribute, kernel or count of an operator stands in the file."""
        words = {node[0] for node in self.open_graph.nodes} | {"Conv", "MaxPool", "kernel_shape", "strides", "pads"}
        words |= set(re.findall(r"[a-z0-9_]{6,}(?=:)", self.open_sections["packings"].decode("ascii", "ignore")))
        words = {word for word in words if not word.startswith("avx")}  # the machine is no secret
        content = b"".join(self.sections[name] for name in ("graph", "packings", "info", "metadata", "pieces"))
        shown = b"".join(self.open_sections[name] for name in ("graph", "packings"))
        for word in words:
            self.assertFalse(word.encode() in content, word)  # without the content in the message
        self.assertGreater(sum(word.encode() in shown for word in words), len(words) - 2)  # the plain file shows them
        self.assertFalse(any(node[3] for node in self.graph.nodes), "a node states attributes")
        counts = {}
        for node in self.graph.nodes:
            counts[node[0]] = counts.get(node[0], 0) + 1
        self.assertLessEqual(max(counts.values()), 3)
        self.assertTrue(all(re.fullmatch("_[0-9a-f]{16}", name) for name in counts))

    def test_cannot_find_the_first_convolution(self):
        """Its filters look like the contents no more than random numbers of their distribution do."""
        original = Graph(self.original.read_bytes())
        first = next(node for node in original.nodes if node[0] == "Conv")
        weights = original.floats(first[1][1])
        size = 27  # 3 channels of 3 x 3
        filters = [weights[at:at + size] for at in range(0, len(weights), size)][:3]
        noise = random.Random(4)
        spread = math.sqrt(sum(w * w for w in weights) / len(weights))
        chance = [[noise.gauss(0, spread) for _ in range(size)] for _ in range(3)]
        part = lambda sections: sections["graph"][:len(sections["graph"]) // 4 * 4] + sections["constants"][:100_000]
        best = best_correlations(filters + chance, part(self.sections))
        self.assertLess(max(best[:3]), max(best[3:]) + 0.05)
        # The attack is sound: it finds them in the original. The plain package has them scaled by the normalisation.
        self.assertGreater(min(best_correlations(filters, part(self.open_sections))), 0.999)

    def test_cannot_match_subgraphs(self):
        """The surroundings of nodes match those of the plain graph no better than those of another net do."""
        other, package = self.folder / "other.onnx", self.folder / "other.tsr"
        self.assertEqual(run("new", "unet_small", "-o", other, "--dim", "batch=1").returncode, 0)
        self.assertEqual(run("optimize", other, "-o", package).returncode, 0)
        ours, chance = self.open_graph.surroundings(), Graph(sections_of(package)["graph"]).surroundings()
        self.assertEqual(shared(ours, ours), 1)
        self.assertLessEqual(shared(ours, self.graph.surroundings()), max(shared(ours, chance), 0.1) + 0.1)


if __name__ == "__main__":
    if len(sys.argv) > 2 and pathlib.Path(sys.argv[2]).is_dir():
        headers = sys.argv.pop(2)
    program.main()
