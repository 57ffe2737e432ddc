#!/usr/bin/env python3
"""Compares tokenizers made from the parts of GGUF files with the expected tokens that llama.cpp ships, and on random
Unicode texts with Hugging Face's tokenizers.

Usage: vocabularies.py --probe PROGRAM [--texts N]. Needs the files of scripts/fetch_language_cases.py (else it exits
with 77); the texts need the package tokenizers (0.22.2 was used), which the tests do without.
"""
import argparse
import importlib.util
import json
import pathlib
import random
import struct
import subprocess
import sys
import tempfile
import unicodedata

ROOT = pathlib.Path(__file__).resolve().parents[2]
CASES = ROOT / ".models" / "language_cases"
SEPARATOR = "\n__ggml_vocab_test__\n"
# These split texts by rules that are not known, which the error names.
REFUSED = {"deepseek-llm": "deepseek-llm"}
SAME_AS_LIBRARY = ["llama-bpe", "qwen2", "llama-spm"]
KEYS = {"model": "model", "pre": "pre", "tokens": "tokens", "scores": "scores", "token_type": "types",
        "merges": "merges", "bos_token_id": "bos", "eos_token_id": "eos", "eot_token_id": "eot", "eom_token_id": "eom",
        "unknown_token_id": "unknown", "seperator_token_id": "separator", "padding_token_id": "padding",
        "cls_token_id": "cls", "add_bos_token": "add_bos", "add_eos_token": "add_eos",
        "add_space_prefix": "add_space_prefix", "remove_extra_whitespaces": "remove_extra_whitespaces",
        "precompiled_charsmap": "precompiled_charsmap"}


# Of GGUF's types of values, by their number: what struct unpacks them as.
NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
STRING, ARRAY = 8, 9


def metadata_of(path):
    """The keys and values of a GGUF file (version 2 or 3). The package gguf takes two minutes for what is read here in
    seconds, since it makes an array of every string."""
    data, at = path.read_bytes(), 0

    def take(form):
        nonlocal at
        value = struct.unpack_from("<" + form, data, at)
        at += struct.calcsize("<" + form)
        return value

    def text():
        nonlocal at
        size, = take("Q")
        at += size
        return data[at - size:at].decode("utf-8")

    def value(kind):
        if kind == STRING:
            return text()
        if kind != ARRAY:
            return take(NUMBERS[kind])[0]
        inner, count = take("IQ")
        if inner in (STRING, ARRAY):
            return [value(inner) for _ in range(count)]
        return list(take(f"{count}{NUMBERS[inner]}"))

    magic, version, _, keys = take("4sIQQ")
    if magic != b"GGUF" or version not in (2, 3):
        raise ValueError(f"{path} is not a GGUF file of version 2 or 3")
    found = {}
    for _ in range(keys):
        key = text()
        found[key] = value(take("I")[0])
    return found


def parts_of(path):
    fields = metadata_of(path)
    parts = {ours: fields[f"tokenizer.ggml.{key}"] for key, ours in KEYS.items() if f"tokenizer.ggml.{key}" in fields}
    parts["name"] = fields["general.name"]
    return parts


class Probe:
    """A tokenizer behind the program: one request a line, one answer a line."""

    def __init__(self, program, given):
        self.file = tempfile.NamedTemporaryFile("w", suffix=".json")
        json.dump(given, self.file)
        self.file.flush()
        self.process = subprocess.Popen([program, self.file.name], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True, encoding="utf-8")
        self.head = json.loads(self.process.stdout.readline())

    def ask(self, **request):
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def close(self):
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()
        self.file.close()


def expected_cases(path):
    texts = (path.parent / f"{path.name}.inp").read_bytes().decode("utf-8").split(SEPARATOR)
    rows = (path.parent / f"{path.name}.out").read_text().splitlines()
    if len(texts) == len(rows) + 1 and not texts[-1]:  # most files end with a separator
        texts.pop()
    if len(texts) != len(rows):
        raise ValueError(f"{path.name} has {len(texts)} texts and {len(rows)} rows of tokens")
    return list(zip(texts, ([int(number) for number in row.split()] for row in rows)))


def vocabulary_faults(program, path):
    name = path.name.removeprefix("ggml-vocab-").removesuffix(".gguf")
    probe = Probe(program, parts_of(path))
    cases = expected_cases(path)
    if name in REFUSED:
        error = probe.head.get("error", "")
        probe.close()
        print(f"{name}: refused: {error}")
        return [] if f"'{REFUSED[name]}'" in error else [f"{name}: expected to be refused, got {probe.head}"]
    if "error" in probe.head:
        probe.close()
        return [f"{name}: {probe.head['error']}"]
    faults = []
    for text, expected in cases:
        got = probe.ask(encode=text)
        if got != expected:
            faults.append(f"{name}: {text!r}: expected {expected}, got {got}")
        if "bert" in name:  # whose tokens depend on each other
            continue
        back = probe.ask(decode=got)
        if back["text"] != back["streamed"] or not back["whole_characters"]:
            faults.append(f"{name}: {text!r}: streamed {back}")
    probe.close()
    print(f"{name}: {len(cases)} texts, {len(faults)} faults, end of generation {probe.head['end_of_generation']}")
    return faults


def library_file(parts):
    """The tokenizer.json that Hugging Face's library has for the vocabulary."""
    kinds = parts["types"]
    model = {"type": "BPE", "vocab": {token: i for i, token in enumerate(parts["tokens"])}, "fuse_unk": False,
             "byte_fallback": False, "ignore_merges": False}
    added = [{"id": i, "content": token, "special": kinds[i] == 3, "normalized": False, "single_word": False,
              "lstrip": False, "rstrip": False} for i, token in enumerate(parts["tokens"]) if kinds[i] in (3, 4)]
    if parts["model"] == "llama":
        # As transformers converts them: every way to divide a token is a merge, by the joint token's score.
        vocabulary, scores, merges = model["vocab"], parts["scores"], []
        for token, i in vocabulary.items():
            pairs = [(token[:cut], token[cut:]) for cut in range(1, len(token))]
            pairs = [pair for pair in pairs if pair[0] in vocabulary and pair[1] in vocabulary]
            pairs.sort(key=lambda pair: (vocabulary[pair[0]], vocabulary[pair[1]]))
            merges += [(scores[i], *pair) for pair in pairs]
        merges.sort(key=lambda merge: -merge[0])
        model |= {"merges": [list(merge[1:]) for merge in merges], "byte_fallback": True, "fuse_unk": True,
                  "unk_token": "<unk>"}
        return {"version": "1.0", "added_tokens": added, "post_processor": None, "model": model, "pre_tokenizer": None,
                "normalizer": {"type": "Sequence", "normalizers": [
                    {"type": "Prepend", "prepend": "\u2581"},
                    {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}]},
                "decoder": {"type": "Sequence", "decoders": [
                    {"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "}, {"type": "ByteFallback"},
                    {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}]}}
    digits = "{1,3}" if parts["pre"] == "llama-bpe" else ""
    words = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}" + digits +
             r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
    model |= {"merges": [merge.split(" ", 1) for merge in parts["merges"]],
              "ignore_merges": parts["pre"] == "llama-bpe"}
    bytes_alone = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False}
    return {"version": "1.0", "added_tokens": added, "post_processor": None, "normalizer": None, "model": model,
            "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
                {"type": "Split", "pattern": {"Regex": words}, "behavior": "Isolated", "invert": False}, bytes_alone]},
            "decoder": bytes_alone}


def random_texts(count, tokens):
    """Texts of characters that Unicode 14 assigns (what later versions assigned, libraries classify as they were made),
    of pieces of writing, and of pieces of tokens."""
    pick = random.Random(20261128)
    assigned = [chr(code) for code in range(1, 0x110000)
                if unicodedata.category(chr(code)) not in ("Cs", "Cn", "Co")]
    common = list("  \n\n\t\r'sStTdDlLmMvVrReEkK0123456789.,!?-_()[]{}<>|/\\\"#$%&*+=~^`@;:\u00a0\u017f\u212a"
                  "\u180e\u0085\u2028\u3000\u200b\u0130éüñßøÅжяשلाी가漢字かカ😀👍🏽\u200d\ufe0f")
    words = ["Hello", " world", "I'm", "you'LL", "we've", "it'S", "x = 1234567;", "\r\n\r\n", "    ", " \n ", "<s>",
             "</s>", "<|im_end|>", "<0x0A>", "\u2581", "don\u2019t", "3.14", "http://", "東京", "नमस्ते", "สวัสดี", "Ⅷ½²"]
    for _ in range(count):
        kinds = pick.choice(("assigned", "common", "words", "mixed"))
        parts = []
        for _ in range(pick.randint(1, 24)):
            kind = pick.choice(("assigned", "common", "words")) if kinds == "mixed" else kinds
            parts.append(pick.choice({"assigned": assigned, "common": common, "words": words}[kind]))
        yield "".join(parts)


def library_faults(program, name, count):
    import tokenizers
    parts = parts_of(CASES / f"ggml-vocab-{name}.gguf")
    given = library_file(parts)
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(given, file)
        file.flush()
        library = tokenizers.Tokenizer.from_file(file.name)
    ours = {"GGUF": Probe(program, parts), "tokenizer.json": Probe(program, given)}
    faults = []
    pick = random.Random(7)
    for text in random_texts(count, parts["tokens"]):
        expected = library.encode(text, add_special_tokens=False).ids
        # Any tokens, which need not be UTF-8 together.
        ids = [pick.randrange(len(parts["tokens"])) for _ in range(8)]
        for source, probe in ours.items():
            got = probe.ask(encode=text, recognize_special=True)
            if got != expected:
                faults.append(f"{name} from {source}: {text!r}: expected {expected}, got {got}")
            for some in (expected, ids):
                back = probe.ask(decode=some)
                # A GGUF file's byte tokens become characters one by one, a tokenizer.json's in runs.
                if back["text"] != library.decode(some) and (source != "GGUF" or parts["model"] != "llama"):
                    faults.append(f"{name} from {source}: {some}: expected {library.decode(some)!r}, got {back}")
                if back["text"] != back["streamed"] or not back["whole_characters"]:
                    faults.append(f"{name} from {source}: {some}: streamed {back}")
    for probe in ours.values():
        probe.close()
    print(f"{name}: {count} random texts beside tokenizers {tokenizers.__version__}, {len(faults)} faults")
    return faults


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--probe", required=True)
    parser.add_argument("--texts", type=int, default=10000)
    options = parser.parse_args()
    if not CASES.is_dir():
        print("there are no vocabularies: run scripts/fetch_language_cases.py")
        return 77
    paths = [path for path in sorted(CASES.glob("*.gguf")) if pathlib.Path(f"{path}.inp").exists()]
    faults = [] if len(paths) == 15 else [f"{len(paths)} vocabularies, expected 15"]
    for path in paths:
        faults += vocabulary_faults(options.probe, path)
    if importlib.util.find_spec("tokenizers") is None:
        print("the package tokenizers is missing: random texts are not compared")
        SAME_AS_LIBRARY.clear()
    for name in SAME_AS_LIBRARY:
        faults += library_faults(options.probe, name, options.texts)
    print("\n".join(faults[:40]))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
