#!/usr/bin/env python3
"""Files of language models that are made to hurt, given to tessera info, generate and bench: each call ends with an
exit code of its kind and one clear line, within a second and 256 MiB. Standard library only.

    hostile_language_files_test.py TESSERA [--every N]

Of the model that scripts/fetch_models.py smollm2 fetches, where it is there, files are made that end at multiples of
4 KiB: all of them within its header, and every Nth (4,001st) beyond.
"""
import os
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile
import time
import unittest

import language_files as files
import program
from program import INVALID, OVER_BUDGET, UNSUPPORTED, WRONG_CALL

SECONDS, MEBIBYTES = 1, 256
MODEL = pathlib.Path(__file__).resolve().parents[2] / ".models" / "smollm2" / "SmolLM2-135M-Instruct.Q4_1.gguf"
every = 4001  # of the ends within a model's data

EXTREMES = [0, 1, 2, 0x7FFFFFFF, 0xFFFFFFFF, 1 << 32, (1 << 62) // 32, 1 << 62, (1 << 63) - 1, 1 << 63, (1 << 64) - 32,
            (1 << 64) - 1]
FAILED = 9  # a run that failed: weights may be such that no token is probable
REFUSALS = (WRONG_CALL, INVALID, UNSUPPORTED, OVER_BUDGET)


def verbs(path):
    return (("info", path), ("generate", path, "-p", "hello", "-n", 2),
            ("bench", path, "--prompt-tokens", 2, "--answer-tokens", 1, "--repetitions", 1))


class HostileLanguageFiles(unittest.TestCase):
    def setUp(self):
        self.holder = tempfile.TemporaryDirectory()
        self.folder = pathlib.Path(self.holder.name)
        self.addCleanup(self.holder.cleanup)

    def call(self, *arguments, stdin=b""):
        """Exit status and standard error of a call that stays within the limits."""
        start = time.monotonic()
        with tempfile.TemporaryFile() as err, tempfile.TemporaryFile() as given:
            given.write(stdin)
            given.seek(0)
            child = subprocess.Popen([program.path, *map(str, arguments)], stdin=given, stdout=subprocess.DEVNULL,
                                     stderr=err)
            _, status, usage = os.wait4(child.pid, 0)
            child.returncode = os.waitstatus_to_exitcode(status)
            seconds = time.monotonic() - start
            err.seek(0)
            errors = err.read().decode()
        # What the process computed, since other programs may keep it from its core.
        self.assertLess(min(seconds, usage.ru_utime + usage.ru_stime), SECONDS * program.PATIENCE, arguments)
        self.assertLess(usage.ru_maxrss / 1024, MEBIBYTES * program.PATIENCE, arguments)
        self.assertNotIn("bug in", errors, arguments)
        return child.returncode, errors

    def refused(self, text, *arguments, codes=(INVALID,)):
        status, errors = self.call(*arguments)
        self.assertIn(status, codes, (arguments, errors))
        self.assertIn(text, errors)
        self.assertEqual(len(errors.strip().splitlines()), 1, errors)
        self.assertTrue(all(character.isprintable() or character == "\n" for character in errors), repr(errors))

    def accepted(self, *arguments):
        status, errors = self.call(*arguments)
        self.assertEqual(status, 0, (arguments, errors))

    def survived(self, *arguments, codes=REFUSALS):
        """The call succeeds or refuses, whichever is right."""
        status, errors = self.call(*arguments)
        self.assertIn(status, (0, *codes), (arguments, errors))
        if status != 0:
            self.assertEqual(len(errors.strip().splitlines()), 1, (arguments, errors))

    def write(self, data, name="m.gguf"):
        path = self.folder / name
        path.write_bytes(data)
        return path

    # --- packages

    def package(self):
        path = self.folder / "m.tsr"
        self.accepted("optimize", self.write(files.gguf()), "-o", path)
        return path

    def test_packages_that_end_early(self):
        whole = self.package().read_bytes()
        self.accepted(*verbs(self.write(whole, "m.tsr"))[1])
        for end in (*range(0, 700, 41), *range(700, len(whole), 4096), len(whole) - 1):
            path = self.write(whole[:end], "m.tsr")
            for verb in verbs(path)[:2]:
                self.refused("", *verb, codes=(INVALID, WRONG_CALL))

    def test_packages_with_damaged_bytes(self):
        whole = self.package().read_bytes()
        for at in (*range(8, 700, 29), *range(700, len(whole), 6007)):
            path = self.write(whole[:at] + bytes([whole[at] ^ 0x10]) + whole[at + 1:], "m.tsr")
            self.survived("generate", path, "-p", "hello", "-n", 2)
            if at > 64:  # in the header there may be zeros that nobody reads
                self.survived("info", path)

    # --- GGUF

    def test_the_files_without_harm_are_accepted(self):
        for path in (self.write(files.gguf()), files.write_folder(self.folder / "folder")):
            for verb in verbs(path):
                self.accepted(*verb)

    def test_counts_near_the_ends_of_numbers(self):
        for count in EXTREMES:
            for counts in ((count, len(files.metadata())), (len(files.weights()), count)):
                path = self.write(files.gguf(counts=counts))
                if counts[0] > 2:
                    self.refused("", "info", path, codes=(INVALID, UNSUPPORTED, OVER_BUDGET))
                else:
                    self.accepted("info", path)  # fewer tensors than the file has bytes for
                for verb in verbs(path)[1:]:
                    self.refused("", *verb, codes=(INVALID, UNSUPPORTED, OVER_BUDGET))

    def test_lengths_of_texts_and_lists(self):
        for count in EXTREMES[3:]:
            long_text = files.metadata() | {"general.name": (files.STRING, struct.pack("<Q", count))}
            long_list = files.metadata() | {
                "general.tags": (files.ARRAY, struct.pack("<IQ", files.U64, count) + bytes(16))}
            nested = files.metadata() | {
                "general.tags": (files.ARRAY, struct.pack("<IQ", files.ARRAY, count) + bytes(16))}
            for values in (long_text, long_list, nested):
                path = self.write(files.gguf(values))
                for verb in verbs(path):
                    self.refused("", *verb, codes=(INVALID, UNSUPPORTED, OVER_BUDGET))

    def test_dimensions_and_places_of_tensors(self):
        name, (shape, data) = next(iter(files.weights().items()))
        right = (shape[::-1], files.F32, 0)
        wrong = []
        for size in EXTREMES:
            wrong += [([size, shape[0]], files.F32, 0), ([shape[1], size], files.F32, 0), ([size] * 4, files.F32, 0),
                      (shape[::-1], files.F32, size)]
        for place in wrong:
            if place == right:
                continue
            path = self.write(files.gguf(places={name: place}))
            for verb in verbs(path):
                self.refused("", *verb, codes=(INVALID, UNSUPPORTED, OVER_BUDGET))
        for kind in (31, 0x7FFFFFFF, 0xFFFFFFFF):
            path = self.write(files.gguf(places={name: (shape[::-1], kind, 0)}))
            for verb in verbs(path):
                self.refused("", *verb, codes=(INVALID, UNSUPPORTED))

    def test_tensors_that_overlap(self):
        names = list(files.weights())
        offsets, position = {}, 0
        for name, (_, data) in files.weights().items():
            offsets[name] = position
            position += len(data)
        for i, name in enumerate(names[1:], 1):
            shape = files.weights()[name][0][::-1]
            for other in (0, offsets[names[i - 1]], offsets[name] - 32):
                path = self.write(files.gguf(places={name: (shape, files.F32, other)}))
                for verb in verbs(path)[:2]:
                    self.refused("overlaps the one before it", *verb)

    def test_every_number_of_the_configuration(self):
        for key, (kind, _) in files.metadata().items():
            if kind not in (files.U32, files.F32_VALUE):
                continue
            for number in EXTREMES:
                path = self.write(files.gguf(files.metadata() | {key: (files.U64, number)}))
                # With another alignment, the weights are other bytes of the file.
                codes = (*REFUSALS, FAILED) if key == "general.alignment" else REFUSALS
                for verb in verbs(path):
                    self.survived(*verb, codes=codes)
            for number in (float("nan"), float("inf"), -float("inf"), -1.0, 1e308):
                path = self.write(files.gguf(files.metadata() | {key: (files.F64_VALUE, number)}))
                self.survived(*verbs(path)[1])

    def test_numbers_of_other_architectures(self):
        for architecture, keys in (("gemma2", ("attention.sliding_window", "attn_logit_softcapping")),
                                   ("gemma3", ("attention.sliding_window_pattern", "attention.query_pre_attn_scalar")),
                                   ("phi3", ("rope.scaling.original_context_length", "attention.sliding_window"))):
            values = {key.replace("llama.", architecture + "."): value for key, value in files.metadata().items()}
            values["general.architecture"] = (files.STRING, architecture)
            for key in keys:
                for kind, number in [*((files.U64, extreme) for extreme in EXTREMES), (files.I64, -1)]:
                    path = self.write(files.gguf(values | {f"{architecture}.{key}": (kind, number)}))
                    self.survived(*verbs(path)[1])

    def test_every_value_of_another_type_and_every_value_missing(self):
        for key in files.metadata():
            values = files.metadata()
            del values[key]
            others = [values]
            for kind, content in ((files.STRING, "\x1b[2J" + "x" * 100_000), (files.BOOL, True),
                                  (files.I64, -(1 << 63)),
                                  (files.ARRAY, (files.U64, [(1 << 64) - 1] * 3)), (files.ARRAY, (files.STRING, [])),
                                  (files.ARRAY, (files.STRING, ["h e"] * 300)),
                                  (files.ARRAY, (files.I32, [-(1 << 31)] * 258))):
                others.append(files.metadata() | {key: (kind, content)})
            for values in others:
                path = self.write(files.gguf(values))
                for verb in verbs(path)[:2]:
                    self.survived(*verb)

    def test_files_that_end_early(self):
        whole = files.gguf()
        header = len(whole) - sum(len(data) for _, data in files.weights().values())
        for end in (*range(4, header, 61), *range(header, len(whole), 4096), len(whole) - 1):
            path = self.write(whole[:end])
            for verb in verbs(path)[:2]:
                self.refused("", *verb)

    @unittest.skipUnless(MODEL.exists(), "scripts/fetch_models.py fetches smollm2")
    def test_a_real_file_that_ends_early(self):
        path = self.folder / MODEL.name
        shutil.copyfile(MODEL, path)
        with open(MODEL, "rb") as model:
            header = model.read(8 << 20).rindex(b"blk.29.") + 256
        pieces = path.stat().st_size // 4096
        ends = [piece * 4096 for piece in range(1, pieces) if piece * 4096 < header or piece % every == 0]
        for end in reversed(ends):
            os.truncate(path, end)
            # The header ends early in all verbs alike; the first of them stands for the others most of the time.
            for verb in verbs(path) if end > header or end // 4096 % 16 == 1 else verbs(path)[:1]:
                self.refused("header" if end < header else "is the file whole?", *verb)

    # --- chat templates

    def test_templates_that_would_never_end(self):
        loop = "{% for i in range(100000) %}{% for j in range(100000) %}BODY{% endfor %}{% endfor %}"
        space = "{% set ns = namespace(x=START) %}{% for i in range(64) %}{% set ns.x = NEXT %}{% endfor %}"
        for source in (loop.replace("BODY", ""), loop.replace("BODY", "{{ 'x' * 100000 }}"),
                       "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", "{% if true %}" * 10_000,
                       "{{ " + "(" * 100_000, "{{ 'a' * 10000000000 }}", "{{ range(10000000) }}",
                       space.replace("START", "'a'").replace("NEXT", "ns.x ~ ns.x"),
                       space.replace("START", "[1]").replace("NEXT", "[ns.x, ns.x]") + "{{ ns.x == ns.x }}",
                       "{{ ('a\\n' * 1000000) | indent(1000) }}", "{{ '%9999999d' % 1 }}"):
            path = self.write(files.gguf(files.metadata() | {"tokenizer.chat_template": (files.STRING, source)}))
            for verb in verbs(path):
                self.accepted(*verb)  # which render no template
            status, errors = self.call("chat", path, stdin=b"hello\n")
            self.assertNotIn(status, (0, 1), (source[:80], errors))
            self.assertGreater(status, 0, (source[:80], errors))

    # --- safetensors

    def refused_folder(self, text, codes=(INVALID,), **parts):
        path = files.write_folder(self.folder / "folder", **parts)
        for verb in verbs(path):
            self.refused(text, *verb, codes=codes)

    def test_lengths_of_headers(self):
        entries, data = files.header()
        for length in EXTREMES:
            self.refused_folder("", (INVALID, OVER_BUDGET, UNSUPPORTED), file=files.safetensors(entries, data, length))

    def test_shapes_and_offsets_of_safetensors(self):
        name = next(iter(files.header()[0]))
        for number in [*EXTREMES, -1, 1 << 64, 1e300]:
            for key, wrong in (("shape", [number, 32]), ("shape", [number] * 4), ("shape", [number] * 100_000),
                               ("data_offsets", [number, number]), ("data_offsets", [0, number])):
                entries, data = files.header()
                entries[name][key] = wrong
                self.refused_folder("", (INVALID, OVER_BUDGET), file=files.safetensors(entries, data))

    def test_safetensors_that_overlap(self):
        entries, data = files.header()
        first, second = list(entries)[2:4]
        size = entries[second]["data_offsets"][1] - entries[second]["data_offsets"][0]
        begin = entries[first]["data_offsets"][0]
        entries[second]["data_offsets"] = [begin + 4, begin + 4 + size]
        self.refused_folder("overlaps the one before it", file=files.safetensors(entries, data))

    def test_headers_that_are_no_json(self):
        _, data = files.header()
        for text in (b"[" * 500_000, b'{"a":' * 200_000, b'{"\\u0000', b"{}" + bytes(100), b'{"a":{"a":1e999999}}'):
            self.refused_folder("", (INVALID, OVER_BUDGET), file=files.safetensors(text, data))

    def test_safetensors_that_end_early(self):
        whole = files.safetensors(*files.header())
        for end in (*range(0, 1200, 97), *range(1200, len(whole), 4096), len(whole) - 1):
            path = files.write_folder(self.folder / "folder", file=whole[:end])
            for verb in verbs(path)[:2]:
                self.refused("", *verb)

    def test_every_number_of_config_json(self):
        for key, right in files.config().items():
            if isinstance(right, bool) or not isinstance(right, (int, float)):
                continue
            for number in [*EXTREMES, -1, 0.5, 1e300, None, "x", [], {}]:
                settings = files.config() | {key: number}
                self.survived(*verbs(files.write_folder(self.folder / "folder", settings=settings))[1])

    def test_keys_that_are_missing_are_named_as_config_json_names_them(self):
        for key in ("num_hidden_layers", "max_position_embeddings", "hidden_size", "intermediate_size",
                    "num_attention_heads"):
            settings = {name: value for name, value in files.config().items() if name != key}
            path = files.write_folder(self.folder / "folder", settings=settings)
            self.refused(f"lacks '{key}'", *verbs(path)[1])

    def test_a_vocabulary_of_another_size(self):
        path = files.write_folder(self.folder / "folder", settings=files.config() | {"vocab_size": 200})
        self.refused("states 200 tokens", *verbs(path)[1])

    def test_sizes_that_lists_are_made_of(self):
        llama3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                  "original_max_position_embeddings": 32}
        for number in [*EXTREMES, 1e300, -1e300]:
            for change in ({"num_hidden_layers": number, "sliding_window": 8, "use_sliding_window": True},
                           {"sliding_window": number, "use_sliding_window": True},
                           {"head_dim": number, "rope_scaling": llama3},
                           {"num_attention_heads": number, "head_dim": None, "rope_scaling": llama3},
                           {"rope_scaling": llama3 | {"factor": number}},
                           {"rope_scaling": {"type": "longrope", "long_factor": [number] * 8,
                                             "short_factor": [number] * 8}}):
                path = files.write_folder(self.folder / "folder", settings=files.config() | change)
                self.survived(*verbs(path)[1])

    def test_many_tokens_that_end_an_answer(self):
        path = files.write_folder(self.folder / "folder", settings=files.config() | {"eos_token_id": [0] * 100_000})
        self.accepted(*verbs(path)[1])

    def test_lists_in_lists(self):
        deep = "[" * 500_000 + "]" * 500_000
        self.survived("info", self.write(files.gguf(files.metadata() | {"llama.x": (files.STRING, deep)})), "--json")
        for name in ("config.json", "tokenizer.json", "tokenizer_config.json", "generation_config.json"):
            for verb in verbs(self.folder / "folder"):
                path = files.write_folder(self.folder / "folder")
                right = (path / name).read_text() if (path / name).exists() else "{}"
                comma = "" if right == "{}" else ","
                (path / name).write_text('{"text_config": ' + deep + ', "hidden_size": ' + deep + comma + right[1:])
                self.survived(*verb)
                self.survived("info", path, "--json")
            (path / name).unlink()

    def test_tokenizers(self):
        for change in ({"model": {"type": "BPE", "vocab": {"a": (1 << 63) - 1}, "merges": []}},
                       {"model": {"type": "BPE", "vocab": {"a": 1 << 31}, "merges": []}},
                       {"model": {"type": "BPE", "vocab": {"a": -1}, "merges": []}},
                       {"model": []}, {"added_tokens": [{"id": 1 << 62, "content": "x"}]}):
            path = files.write_folder(self.folder / "folder", tokens=files.tokenizer() | change)
            self.survived(*verbs(path)[1])


if __name__ == "__main__":
    if "--every" in sys.argv:
        at = sys.argv.index("--every")
        every = int(sys.argv[at + 1])
        del sys.argv[at:at + 2]
    program.main()
