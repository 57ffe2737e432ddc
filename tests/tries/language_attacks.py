#!/usr/bin/env python3
"""Attacks on the readers of language models beyond those of tests/apps/hostile_language_files_test.py: tokenizers and
chat templates that grow, recurse or backtrack, every place of every JSON file changed, bytes of GGUF headers changed.

    language_attacks.py TESSERA [--seed N] [--flips 300] [GROUP ...]

Groups: templates, tokenizers, prompts, json, gguf, safetensors. Each call must end within a second of processor time
and 256 MiB, by success or a refusal of one line, never by a signal. Exit status 1 when one does not that KNOWN does
not name. Standard library only; makes its own models.
"""
# Length: most of it is the list of attacks.
import argparse
import json
import os
import pathlib
import random
import resource
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "apps"))
import language_files as files

SECONDS, HANGS_AFTER_S, MEBIBYTES = 1.0, 60, 256
REFUSALS = (2, 3, 4, 5, 6, 7, 9)
HUGE = [0, -1, 1 << 31, (1 << 63) - 1, 1 << 63, (1 << 64) - 1, 1e308, None, True, "", "x" * 300_000, [], {}, [[]], "\0",
        "\ud83d\ude00\u0301", [0] * 100_000]

DEEP = "{% set ns = namespace(x=[]) %}{% for i in range(COUNT) %}{% set ns.x = VALUE %}{% endfor %}"
TEMPLATES = {
    "list in itself": "{% set l = [] %}{% set _ = l.append(l) %}{{ l }}",
    "list in itself as JSON": "{% set l = [] %}{% set _ = l.append(l) %}{{ l | tojson }}",
    "list in itself compared": "{% set l = [] %}{% set _ = l.append(l) %}{{ l == l }}{{ [l] == l }}",
    "dict in itself": "{% set d = {} %}{% set _ = d.update({'a': d}) %}{{ d }}{{ d | tojson }}",
    "namespace in itself": "{% set n = namespace(x=1) %}{% set n.x = n %}{{ n }}{{ n.x.x.x }}{{ n == n.x }}",
    "list of lists, deep": DEEP.replace("COUNT", "90000").replace("VALUE", "[ns.x]"),
    "list of lists, printed": DEEP.replace("COUNT", "90000").replace("VALUE", "[ns.x]") + "{{ ns.x }}",
    "list of lists, as JSON": DEEP.replace("COUNT", "90000").replace("VALUE", "[ns.x]") + "{{ ns.x | tojson }}",
    "list of lists, compared": DEEP.replace("COUNT", "90000").replace("VALUE", "[ns.x]") + "{{ ns.x == [ns.x] }}",
    "list of lists, as keys": DEEP.replace("COUNT", "90000").replace("VALUE", "[ns.x]") + "{{ {ns.x: 1} }}",
    "dicts of dicts": DEEP.replace("COUNT", "90000").replace("VALUE", "{'a': ns.x}") + "{{ ns.x | tojson(indent=4) }}",
    "sums without end": "{{ " + "1+" * 200_000 + "1 }}",
    "joins without end": "{{ " + "'a'~" * 200_000 + "'a' }}",
    "nots without end": "{{ " + "not " * 200_000 + "1 }}",
    "minuses without end": "{{ " + "-" * 200_000 + "1 }}",
    "filters without end": "{{ 'a'" + "|trim" * 200_000 + " }}",
    "members without end": "{{ messages" + ".a" * 200_000 + " }}",
    "subscripts without end": "{{ messages" + "[0]" * 200_000 + " }}",
    "calls without end": "{{ messages" + "()" * 200_000 + " }}",
    "conditions without end": "{{ " + "1 if 0 else " * 80_000 + "1 }}",
    "elifs without end": "{% if 0 %}" + "{% elif 0 %}" * 80_000 + "{% endif %}",
    "comparisons without end": "{{ " + "1 == " * 100_000 + "1 }}",
    "ands without end": "{{ " + "1 and " * 150_000 + "1 }}",
    "powers": "{{ 2 ** 2 ** 2 ** 2 ** 2 ** 2 }}{{ 10 ** 400 }}",
    "lists in lists": "{{ " + "[" * 50_000 + "]" * 50_000 + " }}",
    "dicts in dicts": "{{ " + "{'a':" * 50_000 + "1" + "}" * 50_000 + " }}",
    "macros in macros": "{% macro a() %}" * 20_000 + "{% endmacro %}" * 20_000,
    "fors in fors": "{% for a in [1] %}" * 20_000 + "{% endfor %}" * 20_000,
    "two macros": "{% macro a() %}{{ b() }}{% endmacro %}{% macro b() %}{{ a() }}{% endmacro %}{{ a() }}",
    "macro with caller": "{% macro a() %}{% call a() %}{{ caller() }}{% endcall %}{% endmacro %}{{ a() }}",
    "recursive loop": "{% for a in [1] recursive %}{{ loop([a]) }}{% endfor %}",
    "replace that grows": "{% set n = namespace(x='aa') %}{% for i in range(60) %}"
                          "{% set n.x = n.x.replace('a', 'aa') %}{% endfor %}{{ n.x | length }}",
    "replace of nothing": "{% set n = namespace(x='aa') %}{% for i in range(60) %}"
                          "{% set n.x = n.x.replace('', 'bb') %}{% endfor %}{{ n.x | length }}",
    "join that grows": "{% set n = namespace(x='aa') %}{% for i in range(60) %}"
                       "{% set n.x = [n.x, n.x, n.x] | join(n.x) %}{% endfor %}{{ n.x | length }}",
    "upper that grows": "{% set x = 'a' * 1000000 %}{% for i in range(99000) %}{% set y = x | upper %}{% endfor %}",
    "slices": "{% set x = 'a' * 1000000 %}{% for i in range(99000) %}{% set y = x[1:] %}{% endfor %}",
    "reversed slices": "{% set x = 'a' * 1000000 %}{% for i in range(99000) %}{% set y = x[::-1] %}{% endfor %}",
    "searches": "{% set x = 'a' * 1000000 %}{% for i in range(99000) %}{% set y = ('a'*500 ~ 'b') in x %}{% endfor %}",
    "starts": "{% set x = 'a' * 1000000 %}{% for i in range(99000) %}{% set y = x.startswith(x) %}{% endfor %}",
    "equal texts": "{% set x = 'a' * 1000000 %}{% set z = x ~ '' %}{% for i in range(99000) %}{% set y = x == z %}"
                   "{% endfor %}",
    "lists equal": "{% set x = range(90000) | list %}{% for i in range(90000) %}{% set y = x == (x + []) %}"
                   "{% endfor %}",
    "list membership": "{% set x = range(90000) | list %}{% for i in range(90000) %}{% set y = -1 in x %}{% endfor %}",
    "lists appended": "{% set x = range(90000) | list %}{% for i in range(90000) %}{% set y = x + x %}{% endfor %}",
    "list doubled": "{% set n = namespace(x=[1]) %}{% for i in range(60) %}{% set n.x = n.x + n.x %}{% endfor %}",
    "lists repeated": "{{ ([1] * 10000000000) | length }}",
    "splits": "{% set x = 'a ' * 100000 %}{% for i in range(90000) %}{% set y = x.split(' ') %}{% endfor %}",
    "splits at nothing": "{{ 'abc'.split('') }}",
    "sorts": "{% set x = range(90000) | list %}{% for i in range(9000) %}{% set y = x | sort %}{% endfor %}",
    "unique": "{{ range(90000) | unique | list | length }}",
    "groups": "{{ range(90000) | map('string') | groupby('x') }}",
    "centre": "{{ 'a' | center(10000000000) }}",
    "wraps": "{{ ('a b ' * 200000) | wordwrap(1) | length }}",
    "lines": "{{ 'a'.ljust(100000000000) }}{{ 'a'.rjust(10000000000) }}{{ 'a'.zfill(10000000000) }}",
    "format": "{{ '%s' * 1000000 % 1 }}", "format wide": "{{ '{:>99999999999}'.format(1) }}",
    "format width": "{{ '%*d' % (999999999, 1) }}{{ '%.999999999f' % 1.5 }}",
    "round": "{{ 1.5 | round(999999999) }}{{ 1e308 * 10 }}{{ 1.5 | round(-999999999) }}",
    "step of zero": "{{ 'abc'[::0] }}", "range with a step of zero": "{{ range(0, 5, 0) | list }}",
    "range backwards": "{{ range(9223372036854775807, -9223372036854775807, -1) | length }}",
    "batch of zero": "{{ [1, 2] | batch(0) | list }}{{ [1, 2] | slice(0) | list }}",
    "slices beyond": "{{ 'abc'[-9223372036854775808:9223372036854775807:-9223372036854775808] }}",
    "division by zero": "{{ 1 // 0 }}", "modulus of zero": "{{ 1 % 0 }}", "divided by zero": "{{ 1 / 0 }}",
    "lowest by minus one": "{{ (-9223372036854775807 - 1) // -1 }}",
    "modulus of minus one": "{{ (-9223372036854775807 - 1) % -1 }}",
    "sum beyond": "{{ 9223372036854775807 + 1 }}", "product beyond": "{{ 9223372036854775807 * 9223372036854775807 }}",
    "lowest negated": "{{ -(-9223372036854775807 - 1) }}{{ (-9223372036854775807 - 1) | abs }}",
    "number beyond": "{{ 99999999999999999999999999 }}{{ 0x }}{{ 1_000 }}{{ 1e99999 }}",
    "text to a number": "{{ '99999999999999999999999' | int }}{{ 'nan' | float | int }}{{ 1e300 | int }}",
    "negative text": "{{ 'abc' * -9223372036854775807 }}{{ [1] * -5 }}",
    "text that is half a character": "{{ '\u00e9\u20ac\U0001f600'[1:2] }}{{ '\\ud800' }}{{ '\\xff' }}",
    "tag that does not end": "{% for", "text that does not end": "{{ 'abc", "comment that does not end": "{# abc",
    "raw that does not end": "{% raw %}{{", "end that has no begin": "{% endfor %}{% endif %}{% endmacro %}",
    "break outside": "{% break %}{% continue %}", "else alone": "{% else %}", "zero byte": "a\0b{{ '\0' }}",
    "loop outside": "{{ loop.index }}", "caller outside": "{{ caller() }}", "self": "{{ self }}{{ super() }}",
    "include": "{% include '/etc/passwd' %}", "import": "{% import '/etc/passwd' as x %}",
    "classes": "{{ ''.__class__.__mro__[1].__subclasses__() }}", "globals": "{{ raise_exception.__globals__ }}",
    "attr": "{{ '' | attr('__class__') }}", "date": "{{ strftime_now('%Y' * 1000000) }}",
    "date of a width": "{{ strftime_now('%99999999Y') }}{{ strftime_now('%') }}{{ strftime_now('%Q%') }}",
    "messages changed": "{% for m in messages %}{% set _ = messages.append(m) %}{% endfor %}",
    "list changed in a loop": "{% set l = [1] %}{% for m in l %}{% set _ = l.append(m) %}{% endfor %}{{ l | length }}",
    "list emptied in a loop": "{% set l = [1, 2, 3] %}{% for m in l %}{% set _ = l.clear() %}{{ m }}{% endfor %}",
    "list popped in a loop": "{% set l = ['a', 'b', 'c'] %}{% for m in l %}{% set _ = l.pop() %}{{ m }}{% endfor %}",
    "dict changed in a loop": "{% set d = {'a': 1} %}{% for k in d %}{% set _ = d.update({k ~ 'a': 1}) %}{% endfor %}",
    "dict cleared in a loop": "{% set d = {'a': 1, 'b': 2} %}{% for k, v in d.items() %}{% set _ = d.clear() %}"
                              "{{ k }}{{ v }}{% endfor %}",
    "sort of kinds": "{{ [1, 'a', none, [], {}] | sort }}{{ [1, 'a'] | max }}",
    "unpacking": "{% for a, b, c in [1, [1, 2], 'abc'] %}{{ a }}{% endfor %}",
    "many names": "".join(f"{{% set a{i} = {i} %}}" for i in range(60_000)),
    "many macros": "".join(f"{{% macro a{i}() %}}{{% endmacro %}}" for i in range(30_000)),
    "many arguments": "{% macro m() %}{{ varargs | length }}{% endmacro %}{{ m(" + "1," * 100_000 + "1) }}",
    "long names": "{{ " + "a" * 2_000_000 + " }}",
    "output": "{% for i in range(99999) %}{{ 'abcdefgh' * 1000 }}{% endfor %}",
    "special tokens": "{{ '<|end|>' * 100000 }}",
}

A = {"type": "Replace", "pattern": {"String": "a"}, "content": "aa"}


def regex(source):
    return {"pre_tokenizer": {"type": "Sequence", "pretokenizers": [
        {"type": "Split", "pattern": {"Regex": source}, "behavior": "Isolated", "invert": False},
        {"type": "ByteLevel", "add_prefix_space": False, "use_regex": False, "trim_offsets": True}]}}


def nested(kind, key, depth, inner):
    for _ in range(depth):
        inner = {"type": kind, key: [inner]}
    return inner


TOKENIZERS = {
    "backtracking, nested": regex("(a+)+$"), "backtracking, alternatives": regex("(a|a)*$"),
    "backtracking, alternatives of many": regex("(a|aa|aaa)*c"),
    "backtracking, polynomial": regex("a*a*a*a*a*a*a*c"), "backtracking, lazy": regex("(.*?,){20}x"),
    "backtracking, look ahead": regex("(?=(a+)+$)b"), "backtracking, look behind": regex("(?<=a+)b"),
    "backtracking, back reference": regex("(a*)\\1*c"), "counts": regex("(((a{1000}){1000}){1000})"),
    "count beyond": regex("a{99999999999999999999}"), "groups in groups": regex("(" * 50_000 + ")" * 50_000),
    "stars of stars": regex("a" + "*" * 50_000), "alternatives": regex("|".join(["a"] * 200_000)),
    "classes": regex("[" + "a-z" * 200_000 + "]"), "classes in classes": regex("[[" * 20_000 + "]]" * 20_000),
    "empty": regex(""), "matches nothing": regex("(?!)"), "matches the empty text": regex("a*"), "bad": regex("(a"),
    "half a class": regex("[a-"), "unknown property": regex("\\p{Nothing}"), "half a character": regex("\\x{ffffffff}"),
    "replace that doubles": {"normalizer": {"type": "Sequence", "normalizers": [A] * 60}},
    "replace with much": {"normalizer": {"type": "Replace", "pattern": {"String": "a"}, "content": "b" * 3_000_000}},
    "replace of nothing": {"normalizer": {"type": "Sequence", "normalizers": [
        {"type": "Replace", "pattern": {"String": ""}, "content": "bb"}] * 60}},
    "replace by a pattern": {"normalizer": {"type": "Replace", "pattern": {"Regex": "(a+)+$"}, "content": "b"}},
    "replace of the empty text": {"normalizer": {"type": "Replace", "pattern": {"Regex": ""}, "content": "b"}},
    "prepend": {"normalizer": {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "b" * 1_000_000}] *
                               100}},
    "normalizers in each other": {"normalizer": nested("Sequence", "normalizers", 45, A)},
    "pre_tokenizers in each other": {"pre_tokenizer": nested("Sequence", "pretokenizers", 45, {
        "type": "ByteLevel", "add_prefix_space": False, "use_regex": False, "trim_offsets": True})},
    "normalizer unknown": {"normalizer": {"type": "Magic"}}, "pre_tokenizer unknown": {"pre_tokenizer": {"type": "X"}},
    "model unknown": {"model": {"type": "X"}}, "decoder unknown": {"decoder": {"type": "X"}},
    "post_processor of much": {"post_processor": {"type": "TemplateProcessing", "single": [
        {"SpecialToken": {"id": "<|end|>", "type_id": 0}}] * 200_000, "pair": [], "special_tokens": {
            "<|end|>": {"id": "<|end|>", "ids": [256], "tokens": ["<|end|>"]}}}},
    "post_processor of other numbers": {"post_processor": {"type": "TemplateProcessing", "single": [
        {"SpecialToken": {"id": "<|end|>", "type_id": 0}}], "pair": [], "special_tokens": {
            "<|end|>": {"id": "<|end|>", "ids": [1 << 40, -1, 4_000_000_000], "tokens": ["<|end|>"]}}}},
    "decoder replaces nothing": {"decoder": {"type": "Replace", "pattern": {"String": ""}, "content": "b" * 1000}},
    "decoder strips much": {"decoder": {"type": "Strip", "content": "a", "start": (1 << 63) - 1, "stop": 1 << 62}},
    "merges of nothing": {"model": dict(files.tokenizer()["model"], merges=["", " ", "a", "a b c", "h  e"])},
    "merges of others": {"model": dict(files.tokenizer()["model"], merges=[["q", "zz"], ["", ""], ["h", "e"]])},
    "merges twice": {"model": dict(files.tokenizer()["model"], merges=["h e"] * 200_000)},
    "numbers with gaps": {"model": dict(files.tokenizer()["model"], vocab={"a": 5, "b": 4_000_000})},
    "two tokens of one number": {"model": dict(files.tokenizer()["model"], vocab=dict(
        files.tokenizer()["model"]["vocab"], he=5))},
    "added tokens of one text": {"added_tokens": [dict(files.tokenizer()["added_tokens"][0], id=i) for i in
                                                  range(256)]},
    "added token of no text": {"added_tokens": [dict(files.tokenizer()["added_tokens"][0], content="")]},
    "added token of one letter": {"added_tokens": [dict(files.tokenizer()["added_tokens"][0], content="h", lstrip=True,
                                                        rstrip=True, single_word=True, normalized=True)]},
    "added token of much": {"added_tokens": [dict(files.tokenizer()["added_tokens"][0], content="a" * 3_000_000)]},
    "added tokens, many": {"added_tokens": [dict(files.tokenizer()["added_tokens"][0], id=257 + i, content="a" * i)
                                            for i in range(1, 1500)]},
    "unigram": {"model": {"type": "Unigram", "unk_id": 1 << 40, "vocab": [["a", 1e308], ["", -1.0], ["b", -1e308]]}},
    "unigram of long pieces": {"model": {"type": "Unigram", "unk_id": 0, "vocab": [["a" * i, -1.0] for i in
                                                                                   range(1, 1500)]}},
    "word pieces": {"model": {"type": "WordPiece", "vocab": {"[UNK]": 0, "a": 1}, "unk_token": "[UNK]",
                              "continuing_subword_prefix": "##", "max_input_chars_per_word": 1 << 62}},
    "words": {"model": {"type": "WordLevel", "vocab": {"a": 0}, "unk_token": "nothing"}},
}


# What takes more time or memory today: told, and no failure until it is mended.
KNOWN = {
    "template: slices": "a step may copy a megabyte", "template: reversed slices": "a step may copy a megabyte",
    "template: searches": "a step may read a megabyte",
    "tokenizer: replace that doubles": "16777216 characters take 350 to 420 MiB",
    "tokenizer: prepend": "16777216 characters take more than a second and 256 MiB",
}


class Attacks:
    def __init__(self, program, folder):
        self.program, self.folder, self.faults, self.count, self.worst = program, folder, [], 0, (0, 0)

    def call(self, what, *arguments, given=b"", expected=(0, *REFUSALS)):
        self.count += 1
        start = time.monotonic()
        with tempfile.TemporaryFile() as errors, tempfile.TemporaryFile() as stdin:
            stdin.write(given)
            stdin.seek(0)
            child = subprocess.Popen([self.program, *map(str, arguments)], stdin=stdin, stdout=subprocess.DEVNULL,
                                     stderr=errors,
                                     preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (12, 12)))
            timer = start + HANGS_AFTER_S
            while True:
                pid, status, usage = os.wait4(child.pid, os.WNOHANG)
                if pid or time.monotonic() > timer:
                    break
                time.sleep(0.002)
            hung = not pid
            if hung:
                child.kill()
                _, status, usage = os.wait4(child.pid, 0)
            child.returncode = code = os.waitstatus_to_exitcode(status)
            errors.seek(0)
            text = errors.read().decode(errors="backslashreplace")
        wall, used, space = time.monotonic() - start, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024
        found = []
        if hung or code < 0:
            found.append("hangs" if hung else f"dies by signal {-code}")
        elif code not in expected:
            found.append(f"exit code {code}")
        if used > SECONDS:
            found.append(f"{used:.2f} s of processor, {wall:.2f} s of the clock")
        if space > MEBIBYTES:
            found.append(f"{space:.0f} MiB")
        if code > 0 and (len(text.strip().splitlines()) != 1 or len(text) > 1200):
            found.append("not one clear line")
        if "bug in" in text or any(not each.isprintable() for each in text.strip()):
            found.append("unclean message")
        if found:
            known = any(what.startswith(each) for each in KNOWN) and code >= 0
            if not known:
                self.faults.append(what)
            call = " ".join(map(str, arguments))[:160]
            print(f"{'KNOWN' if known else 'BAD'} {what} ({call}): {', '.join(found)}; {text[:300]!r}", flush=True)
        return code, text

    def generate(self, what, path, prompt="aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab", **more):
        return self.call(what, "generate", path, "-p", prompt, "-n", 2, **more)

    def write(self, data, name="m.gguf"):
        path = self.folder / name
        path.write_bytes(data)
        return path

    def templates(self, draw, flips):
        model = self.write(files.gguf())
        for what, source in TEMPLATES.items():
            path = self.write(source.encode("utf-8", "surrogatepass"), "template")
            code, text = self.call("template: " + what, "chat", model, "--chat-template", path, "-n", 2,
                                   given=b"hello\n")
            print(f"    template: {what:34} {code} {text.strip()[:150]}", flush=True)
        whole = (r"{%- for m in messages[1:] if m.role != 'x' -%}{{ m['content'] | trim }}{% else %}{{ 1.5e3 // 2 }}"
                 r"{%- endfor %}{% macro f(a, b=2) %}{{ a ~ b }}{% endmacro %}{{ f('q', b={'k': [1, none]}) }}"
                 r"{% set n = namespace(x=1) %}{% if n.x is defined and not (3 in [1, 2]) %}{{ '%s' | format(3) }}"
                 r"{% elif x %}{% endif %}{# c #}{{ messages | selectattr('role', 'equalto', 'x') | list | tojson }}")
        pieces = ["{{", "}}", "{%", "%}", "'", "\\", "(", ")", "[", "]", "|", "~", "-", ":", "**", "not", "for", "in",
                  "0", "9" * 20, "is", "\xff", "namespace", "loop", ".", ",", "="]
        for i in range(flips):
            mutant = list(whole)
            for _ in range(draw.randint(1, 4)):
                at, width = draw.randrange(len(mutant)), draw.choice([0, 1, 1, 5, 20])
                mutant[at:at + width] = draw.choice(pieces) if draw.random() < 0.7 else mutant[:draw.randint(0, 40)]
            path = self.write("".join(mutant).encode("latin-1"), f"template{i}")
            code, _ = self.call(f"template mutant {i}", "chat", model, "--chat-template", path, "-n", 1,
                                given=b"hello\n")
            path.unlink()

    def tokenizers(self, draw, flips):
        for what, change in TOKENIZERS.items():
            path = files.write_folder(self.folder / "folder", tokens=files.tokenizer() | change)
            for prompt in ("a" * 40 + "b", "a,b," * 60 + "hello", "é\u0301 " * 30):
                code, text = self.generate("tokenizer: " + what, path, prompt)
            print(f"    tokenizer: {what:34} {code} {text.strip()[:170]}", flush=True)
        for what, values in {
                "tokens of much": {"tokenizer.ggml.tokens": (files.ARRAY, (files.STRING, ["x" * 30_000] * 258))},
                "tokens alike": {"tokenizer.ggml.tokens": (files.ARRAY, (files.STRING, ["x"] * 258))},
                "tokens of nothing": {"tokenizer.ggml.tokens": (files.ARRAY, (files.STRING, [""] * 258))},
                "a token less": {"tokenizer.ggml.tokens": (files.ARRAY, (files.STRING, files.vocabulary()[:-1]))},
                "tokens more": {"tokenizer.ggml.tokens": (files.ARRAY, (files.STRING, [*files.vocabulary(), "zz"]))},
                "types more": {"tokenizer.ggml.token_type": (files.ARRAY, (files.I32, [1] * 300))},
                "types less": {"tokenizer.ggml.token_type": (files.ARRAY, (files.I32, [1] * 30))},
                "types of all kinds": {"tokenizer.ggml.token_type": (files.ARRAY, (files.I32, [9, -1, 6] * 86))},
                "end beyond": {"tokenizer.ggml.eos_token_id": (files.U32, 258)},
                "begin beyond": {"tokenizer.ggml.bos_token_id": (files.U32, 4_000_000_000),
                                 "tokenizer.ggml.add_bos_token": (files.BOOL, True)},
                "ends beyond": {"tokenizer.ggml.eot_token_id": (files.I64, -5)},
                "pieces without scores": {"tokenizer.ggml.model": (files.STRING, "llama")},
                "pieces of no number": {"tokenizer.ggml.model": (files.STRING, "llama"), "tokenizer.ggml.scores": (
                    files.ARRAY, (files.F32_VALUE, [float("nan")] * 258))},
                "unigram of no number": {"tokenizer.ggml.model": (files.STRING, "t5"), "tokenizer.ggml.scores": (
                    files.ARRAY, (files.F32_VALUE, [float("inf")] * 258))},
                "no merges": {"tokenizer.ggml.merges": (files.ARRAY, (files.STRING, []))},
                "merges that are none": {"tokenizer.ggml.merges": (files.ARRAY, (
                    files.STRING, ["", " ", "h", " h e "]))},
        }.items():
            code, text = self.generate("GGUF tokenizer: " + what, self.write(files.gguf(files.metadata() | values)))
            print(f"    GGUF tokenizer: {what:30} {code} {text.strip()[:170]}", flush=True)

    def prompts(self, draw, flips):
        """Long texts for tokenizers without harm: 200,000 characters in a second."""
        model = self.write(files.gguf())
        folder = files.write_folder(self.folder / "folder")
        for what, text in {"one word": "a" * 200_000, "pairs": "he" * 100_000, "spaces": " " * 200_000,
                           "lines": "\n" * 200_000, "specials": "<|end|>" * 30_000, "half specials": "<|end|" * 33_000,
                           "numbers": "1" * 200_000, "faces": "\U0001f600" * 50_000, "marks": "e" + "\u0301" * 100_000,
                           "zero bytes": "\0" * 200_000, "apostrophes": "'s" * 100_000}.items():
            for path in (model, folder):
                file = self.write(text.encode(), "prompt")
                self.call("prompt: " + what, "tokenize", path, "--file", file)
                self.call("prompt: " + what, "generate", path, "--file", file, "-n", 2)
        for what, text in {"no UTF-8": b"\xff\xfe\x80" * 50_000, "half a character": b"abc\xf0\x9f", "surrogates":
                           b"\xed\xa0\x80" * 1000, "overlong": b"\xc0\xaf" * 1000}.items():
            for path in (model, folder):
                self.call("prompt: " + what, "tokenize", path, "--file", self.write(text, "prompt"))
                self.call("prompt: " + what, "chat", path, "-n", 2, given=text + b"\n")

    def json(self, draw, flips):
        """Every place of every JSON file, changed."""
        def places(node, path=()):
            yield path
            children = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
            for i, (key, child) in enumerate(children):
                if i < 40:
                    yield from places(child, (*path, key))

        def changed(node, path, value):
            if not path:
                return value
            copy = dict(node) if isinstance(node, dict) else list(node)
            copy[path[0]] = changed(node[path[0]], path[1:], value)
            return copy

        vocabulary = files.tokenizer()
        vocabulary["post_processor"] = {"type": "TemplateProcessing", "single": [
            {"SpecialToken": {"id": "<|end|>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}], "pair": [],
            "special_tokens": {"<|end|>": {"id": "<|end|>", "ids": [256], "tokens": ["<|end|>"]}}}
        entries, data = files.header()
        config = files.config() | {"rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0,
                                                    "high_freq_factor": 4.0, "original_max_position_embeddings": 32}}
        trees = {"config.json": config, "tokenizer.json": vocabulary, "model.safetensors": entries,
                 "tokenizer_config.json": {"chat_template": "{{ messages }}", "bos_token": {"content": "<|end|>"},
                                           "eos_token": "<|end|>", "add_bos_token": True, "added_tokens_decoder": {
                                               "256": {"content": "<|end|>", "special": True}}},
                 "generation_config.json": {"eos_token_id": [256, 255], "bos_token_id": 256, "temperature": 0.5},
                 "model.safetensors.index.json": {"metadata": {"total_size": 5}, "weight_map": {
                     name: "model.safetensors" for name in entries}}}
        for name, tree in trees.items():
            every = [(path, value) for path in places(tree) for value in (*HUGE, "../../../../etc/passwd")]
            for path, value in draw.sample(every, min(flips, len(every))):
                folder = files.write_folder(self.folder / "folder")
                mutant = changed(tree, path, value)
                text = json.dumps(mutant)
                if name == "model.safetensors":
                    (folder / name).write_bytes(files.safetensors(text.encode(), data))
                else:
                    (folder / name).write_text(text)
                self.generate(f"{name} {'/'.join(map(str, path))} = {str(value)[:30]}", folder)
                if name.endswith("index.json") or name.startswith(("tokenizer_", "generation_")):
                    (folder / name).unlink()

    def gguf(self, draw, flips):
        whole = files.gguf()
        header = len(whole) - sum(len(data) for _, data in files.weights().values())
        for i in range(flips):
            mutant = bytearray(whole)
            for _ in range(draw.randint(1, 3)):
                at = draw.randrange(4, header)
                mutant[at:at + 1] = draw.choice([b"\xff", b"\0", bytes([mutant[at] ^ 1 << draw.randrange(8)]),
                                                 b"\xff" * 8, b"", b"\x80"])
            path = self.write(bytes(mutant), f"m{i}.gguf")
            self.generate(f"GGUF mutant {i}", path, "hello")
            path.unlink()
        values = files.metadata()
        name = "blk.0.ffn_up.weight"
        again = files.text("llama.block_count") + b"\x04\0\0\0\x01\0\0\0"
        head = files.gguf(values, counts=(len(files.weights()), len(values) + 1))
        self.call("GGUF key twice", "generate", self.write(head[:24] + again + head[24:]), "-p", "h", "-n", 1)
        tensors = files.weights()
        data = files.gguf(values, tensors).replace(files.text(name), files.text("blk.0.ffn_gate.weight"[:19]))
        self.call("GGUF tensor twice", "generate", self.write(data), "-p", "h", "-n", 1)
        for kind in range(0, 45):
            shape = files.weights()[name][0][::-1]
            path = self.write(files.gguf(places={name: (shape, kind, sum(
                len(part) for other, (_, part) in list(files.weights().items())[:9]))}))
            self.generate(f"GGUF tensor type {kind}", path, "hello")

    def safetensors(self, draw, flips):
        entries, data = files.header()
        text = json.dumps(entries)
        first = next(iter(entries))
        for what, header in {
                "key twice": "{" + f'"{first}": {json.dumps(entries[first])}, ' + text[1:],
                "shape twice": text.replace('"shape":', '"shape": [1, 1], "shape":', 1),
                "metadata of much": '{"__metadata__": {"a": "' + "x" * 3_000_000 + '"}, ' + text[1:],
                "metadata of numbers": '{"__metadata__": {"a": 5}, ' + text[1:],
                "many names": "{" + ", ".join(f'"t{i}": {{"dtype": "F32", "shape": [0], "data_offsets": [0, 0]}}'
                                              for i in range(100_000)) + ", " + text[1:],
                "long name": '{"' + "x" * 3_000_000 + '": {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]}, ' +
                             text[1:],
                "exponents": text.replace('"shape": [', '"shape": [1e2, ', 1), "comments": "/* */" + text,
                "spaces before": " " * 1000 + text, "spaces behind": text + " " * 1000,
                "zero bytes behind": text + "\0" * 10, "byte order mark": "\ufeff" + text,
                "F64": text.replace("F32", "F64"), "I64": text.replace("F32", "I64"),
                "F8": text.replace("F32", "F8_E4M3"),
                "no type": text.replace("F32", "")}.items():
            path = files.write_folder(self.folder / "folder", file=files.safetensors(header.encode(), data))
            code, said = self.generate("safetensors " + what, path)
            print(f"    safetensors {what:30} {code} {said.strip()[:170]}", flush=True)
        for i in range(flips):
            mutant = bytearray(text.encode())
            for _ in range(draw.randint(1, 3)):
                at = draw.randrange(len(mutant))
                mutant[at:at + draw.randint(0, 2)] = draw.choice([b"\xff", b"\0", b"9", b"-", b"}", b'"', b"", b"1e9",
                                                                   b"["])
            path = files.write_folder(self.folder / "folder", file=files.safetensors(bytes(mutant), data))
            self.generate(f"safetensors mutant {i}", path, "hello")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", type=pathlib.Path)
    parser.add_argument("groups", nargs="*")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--flips", type=int, default=300, help="random changes of a group")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        tries = Attacks(options.program, pathlib.Path(folder))
        for group in options.groups or ("templates", "tokenizers", "prompts", "json", "gguf", "safetensors"):
            getattr(tries, group)(random.Random(options.seed), options.flips)
    print(f"{tries.count - len(tries.faults)} of {tries.count} attacks end well")
    return 1 if tries.faults else 0


if __name__ == "__main__":
    sys.exit(main())
