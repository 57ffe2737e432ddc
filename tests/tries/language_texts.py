#!/usr/bin/env python3
"""Tokenizers and chat templates of language models beside `tokenizers` and transformers' Jinja.

    PYTHONPATH=build/release/python language_texts.py [tokenizers] [templates]

Trains small tokenizers of every usual kind on this repository's README and compares tokens and texts of lines that are
made to be hard; renders templates of real models and single expressions. What Tessera refuses by name is told and is
no fault. Exit status 1 where texts or tokens differ. Needs tessera, tokenizers and transformers.
"""
import os
import pathlib
import random
import sys
import tempfile

os.environ["HF_HUB_OFFLINE"] = "1"
import tokenizers
import torch
import transformers
from tokenizers import AddedToken, Regex, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers.utils.chat_template_utils import render_jinja_template

import tessera

ROOT = pathlib.Path(__file__).resolve().parents[2]
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
          r"|\s+(?!\S)|\s+")
QWEN2 = LLAMA3.replace("{1,3}", "")
GPT4O = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
         r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
         r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
DEEPSEEK = ["[\r\n]", "\\s?[A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-Ֆ]+", "\\s?[!-/:-~！-／：-～‘-‟　-。]+",
            "\\s+$", "[一-龥ࠀ-一가-퟿]+"]


def split(pattern, behaviour="isolated", invert=False):
    return pre_tokenizers.Split(Regex(pattern), behaviour, invert)


def byte_level(use_regex=False, prefix=False):
    return pre_tokenizers.ByteLevel(add_prefix_space=prefix, use_regex=use_regex)


def byte_pairs(before, normalizer=None, **more):
    made = tokenizers.Tokenizer(models.BPE(**more))
    made.pre_tokenizer = pre_tokenizers.Sequence(before)
    made.decoder = decoders.ByteLevel()
    if normalizer is not None:
        made.normalizer = normalizer
    made.train([str(ROOT / "README.md")], trainers.BpeTrainer(
        vocab_size=900, special_tokens=["<s>", "<|end|>"], initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False))
    return made


def pieces(normalizer, before, decoder, **more):
    made = tokenizers.Tokenizer(models.BPE(byte_fallback=True, fuse_unk=True, unk_token="<unk>", **more))
    if normalizer is not None:
        made.normalizer = normalizer
    if before is not None:
        made.pre_tokenizer = before
    made.decoder = decoder
    made.train_from_iterator([line for line in (ROOT / "README.md").read_text().splitlines()], trainers.BpeTrainer(
        vocab_size=900, special_tokens=["<unk>", "<s>", "<|end|>", *[f"<0x{i:02X}>" for i in range(256)]],
        max_token_length=12, show_progress=False))
    return made


def unigram(before, normalizer=None, byte_fallback=False):
    made = tokenizers.Tokenizer(models.Unigram(byte_fallback=byte_fallback))
    made.pre_tokenizer = before
    if normalizer is not None:
        made.normalizer = normalizer
    made.decoder = decoders.Metaspace()
    made.train([str(ROOT / "README.md")], trainers.UnigramTrainer(
        vocab_size=700, unk_token="<unk>", special_tokens=["<unk>", "<s>", "<|end|>"], show_progress=False))
    return made


def with_added(made, **flags):
    made.add_special_tokens([AddedToken("<|user|>", special=True, **flags)])
    made.add_tokens([AddedToken("speed", **flags), AddedToken("New York", normalized=True)])
    return made


def with_begin(made):
    begin = made.token_to_id("<s>")
    made.post_processor = processors.TemplateProcessing(single="<s> $A", pair="<s> $A <s> $B",
                                                        special_tokens=[("<s>", begin)])
    return made


SPM = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(),
                         decoders.Strip(" ", 1, 0)])
GEMMA = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
MADE = {
    "gpt2": lambda: byte_pairs([byte_level(True)]),
    "gpt2 with a space": lambda: byte_pairs([byte_level(True, True)]),
    "llama3": lambda: with_begin(byte_pairs([split(LLAMA3), byte_level()], ignore_merges=True)),
    "qwen2": lambda: byte_pairs([split(QWEN2), byte_level()], normalizers.NFC()),
    "gpt4o": lambda: byte_pairs([split(GPT4O), byte_level()]),
    "deepseek": lambda: byte_pairs([*[split(each) for each in DEEPSEEK], pre_tokenizers.Digits(True), byte_level()]),
    "smollm": lambda: byte_pairs([pre_tokenizers.Digits(True), byte_level(True)]),
    "removed": lambda: byte_pairs([split(r"\s+", "removed"), byte_level()]),
    "inverted": lambda: byte_pairs([split(r"\w+", "merged_with_next", True), byte_level()]),
    "contiguous": lambda: byte_pairs([split(r"[.,!]", "contiguous"), byte_level()]),
    "punctuation": lambda: byte_pairs([pre_tokenizers.Punctuation("merged_with_previous"), byte_level()]),
    "whitespace": lambda: byte_pairs([pre_tokenizers.Whitespace(), byte_level()]),
    "scripts": lambda: byte_pairs([pre_tokenizers.UnicodeScripts(), byte_level()]),
    "compatibility": lambda: byte_pairs([byte_level(True)], normalizers.Sequence(
        [normalizers.NFKC(), normalizers.Lowercase(), normalizers.StripAccents(), normalizers.Strip()])),
    "llama": lambda: with_begin(pieces(normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]),
                                       None, SPM)),
    "mistral": lambda: pieces(None, pre_tokenizers.Metaspace("▁", "first", False), SPM),
    "metaspace, always": lambda: pieces(None, pre_tokenizers.Metaspace("▁", "always", True), SPM),
    "metaspace, never": lambda: pieces(None, pre_tokenizers.Metaspace("▁", "never", True), GEMMA),
    "gemma": lambda: with_begin(pieces(normalizers.Replace(" ", "▁"), pre_tokenizers.Split(
        " ", "merged_with_previous"), GEMMA)),
    "gemma, ignoring merges": lambda: pieces(normalizers.Replace(" ", "▁"), None, GEMMA, ignore_merges=True),
    "unigram": lambda: unigram(pre_tokenizers.Metaspace()),
    "unigram, normalised": lambda: unigram(pre_tokenizers.Metaspace(), normalizers.Sequence(
        [normalizers.Nmt(), normalizers.NFKC(), normalizers.Replace(Regex(" {2,}"), " ")])),
    "added, stripped left": lambda: with_added(byte_pairs([byte_level(True)]), lstrip=True),
    "added, stripped right": lambda: with_added(byte_pairs([byte_level(True)]), rstrip=True),
    "added, both sides": lambda: with_added(byte_pairs([byte_level(True)]), lstrip=True, rstrip=True),
    "added, whole words": lambda: with_added(byte_pairs([byte_level(True)]), single_word=True),
    "added, in pieces": lambda: with_added(pieces(normalizers.Sequence(
        [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]), None, SPM), rstrip=True),
    "added, not normalised": lambda: with_added(pieces(normalizers.Replace(" ", "▁"), None, GEMMA), normalized=False),
}


def hard_texts():
    draw = random.Random(4)
    texts = ["", " ", "  ", "\n", "\n\n \n", "a", " a", "a ", "  a  b   c ", "Hello, world!",
    "don't I'LL WE'RE it's 'sx", "\t\tx",
             "12345 1,234.50 ٣٤٥ ½ ²", "Ünïcödé é e\u0301 \u0301\u0301 ﬁ Å Å Ⅷ", "日本語のテキスト、テスト。한국어 ไทย हिन्दी العربية",
             "🙂👩‍👩‍👧‍👦🇩🇪 👍🏽x", "a\u00a0b\u2003c\u200bd\u3000e\ufefff\u2028g\u0085h", "\r\n\r\n a\r",
             "<s>x<|end|>y <|end|> z",
             "<|user|>hi <|user|> you<|user|>", "speed speedy unspeed  speed  New York NewYork\u00a0speed", "▁a▁ ▁▁b",
             "x" * 70,
             "\0\x01\x7f\x1b", "<0x41> <0xFF>", "...!!!???---___###", "ß ẞ İ ı ς Σ ǅ",
             "foo.bar(baz[1], \"q\\n\")  // c",
             "\U0010ffff\ue000\ufffd", "a/b/c//\n/d", " \n  \n\tif x:\n        y"]
    alphabet = list("aeionrst  \n\t'.,!12é\u0301ß日한🙂\u00a0<>|▁-") + ["<s>", "<|end|>", "speed", "the ", "'s"]
    texts += ["".join(draw.choice(alphabet) for _ in range(draw.randint(1, 40))) for _ in range(200)]
    readme = (ROOT / "README.md").read_text()
    return texts + [readme[i:i + 300] for i in range(0, 6000, 300)]


def tiny(folder, size):
    torch.manual_seed(1)
    transformers.LlamaForCausalLM(transformers.LlamaConfig(
        vocab_size=size, hidden_size=32, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2,
        max_position_embeddings=4096, eos_token_id=2, bos_token_id=1)).save_pretrained(folder)


def try_tokenizers():
    faults = []
    for name, make in MADE.items():
        made = make()
        with tempfile.TemporaryDirectory() as folder:
            tiny(folder, made.get_vocab_size())
            made.save(folder + "/tokenizer.json")
            made = tokenizers.Tokenizer.from_file(folder + "/tokenizer.json")
            try:
                model = tessera.LanguageModel.load(folder, threads=1)
            except tessera.Error as error:
                print(f"    {name:24} refused: {error}")
                continue
            wrong = []
            for text in hard_texts():
                expected = made.encode(text).ids
                for what, had, wanted in (
                        ("tokens", model.encode(text), expected),
                        ("text", model.decode(expected, special=True), made.decode(expected,
                        skip_special_tokens=False)),
                        ("text without special tokens", model.decode(expected), made.decode(expected))):
                    if had != wanted:
                        wrong.append((what, text, had, wanted))
            print(f"{'BAD' if wrong else '   '} {name:24} {len(wrong)} of {3 * len(hard_texts())} differ", flush=True)
            for what in ("tokens", "text", "text without special tokens"):
                for _, text, had, wanted in [each for each in wrong if each[0] == what][:2]:
                    print(f"        {what} of {text[:60]!r}: {str(had)[:200]!r}, expected {str(wanted)[:200]!r}")
            faults += [name] if wrong else []
    return faults


CHATML = ("{%- for message in messages %}{{- '<|im_start|>' + message.role + '\\n' + message.content + "
"'<|im_end|>\\n' }}"
          "{%- endfor %}{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}")
TEMPLATES = [
    CHATML,
    "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}{{ "
    "'<|im_start|>system\nYou are"
    "<|im_end|>\n' }}{% endif %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}",
    "{{ bos_token }}{% if messages[0]['role'] == 'system' %}{% set loop_messages = messages[1:] %}{% set "
    "system_message = "
    "messages[0]['content'] %}{% else %}{% set loop_messages = messages %}{% set system_message = false %}{% endif %}"
    "{% for message in loop_messages %}{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ "
    "raise_exception("
    "'Conversation roles must alternate') }}{% endif %}{% if loop.index0 == 0 and system_message != false %}{% set "
    "content"
    " = '<<SYS>>\\n' + system_message + '\\n<</SYS>>\\n\\n' + message['content'] %}{% else %}{% set content = "
    "message['content'] %}{% endif %}{% if message['role'] == 'user' %}{{ '[INST] ' + content.strip() + ' [/INST]' }}"
    "{% elif message['role'] == 'assistant' %}{{ ' ' + content.strip() + ' ' + eos_token }}{% endif %}{% endfor %}",
    "{{ bos_token }}{%- if tools is not defined %}{%- set tools = none %}{%- endif %}{%- set ns = namespace(index=0) %}"
    "{%- for m in messages %}{%- if not (m.role == 'tool' or 'tool_calls' in m) %}{%- set ns.index = ns.index + 1 %}"
    "{%- endif %}{%- endfor %}{{ ns.index }}{{ '|' ~ tools }}",
    "{%- macro render(m, sep='--') -%}\n  {{ m.role | upper }}{{ sep }}{{ m.content | trim }}\n{%- endmacro -%}\n"
    "{% for m in messages %}\n  {{ render(m) }}\n  {{ render(m, sep='//') }}\n{% endfor %}\n",
    "{% for m in messages | selectattr('role', 'equalto', 'user') %}{{ m.content }}{{ ', ' if not loop.last }}{% "
    "endfor %}",
    "{% for m in messages | rejectattr('role', 'in', ['system']) | list %}{{ loop.cycle('a', 'b') }}{{ loop.revindex }}"
    "{{ loop.previtem.role if loop.previtem is defined }}{{ loop.nextitem.role if loop.nextitem is defined }}{% "
    "endfor %}",
    "{{ messages | map(attribute='role') | join(', ') }}{{ messages | length }}{{ messages[-1].content[::-1] }}",
    "{{ messages | tojson }}\n{{ messages | tojson(indent=2) }}\n{{ {'b': [1, 2.5, none, true], 'a': 'é<&\\''} | "
    "tojson }}",
    "{% if messages[-1].content is string and messages[-1].content is not mapping %}s{% endif %}{{ messages is "
    "iterable }}"
    "{{ messages is sequence }}{{ 1 is number }}{{ 1.5 is float }}{{ none is none }}{{ 3 is odd }}{{ 4 is "
    "divisibleby 2 }}"
    "{{ x is undefined }}{{ true is boolean }}{{ 'A' is upper }}{{ 1 is integer }}{{ 1 is sameas 1 }}{{ 'a' is in "
    "'abc' }}",
    "{{ 7 // 2 }} {{ -7 // 2 }} {{ 7 % -3 }} {{ -7 % 3 }} {{ 7 / 2 }} {{ 2 ** 10 }} {{ 2 ** -1 }} {{ 1e3 }} {{ 1.0 }}"
    " {{ 0.1 + 0.2 }} {{ 1e16 }} {{ 1e-5 }} {{ 123456789.123 }} {{ 10 / 5 }} {{ true + 1 }} {{ 1 == 1.0 }} {{ 3 < 4 "
    "< 5 }}",
    "{{ 'abc'[1] }}{{ 'abc'[-1] }}{{ 'abc'[:2] }}{{ 'abc'[5:] }}{{ 'abcdef'[::2] }}{{ 'äöü'[1:] }}{{ 'äöü' | length }}"
    "{{ 'a,b,c'.split(',') }}{{ 'a b  c'.split() }}{{ 'a,b,c'.split(',', 1) }}{{ 'a,b,c'.rsplit(',', 1) }}",
    "{{ ' x '.strip() }}|{{ 'xxaxx'.strip('x') }}|{{ 'xxa'.lstrip('x') }}|{{ 'axx'.rstrip('x') }}|{{ 'aXb'.lower() }}|"
    "{{ 'hello world'.title() }}|{{ 'hello World'.capitalize() }}|{{ 'abc'.startswith('ab') }}|{{ "
    "'abc'.endswith(('x', 'c'))"
    " }}|{{ 'abcabc'.replace('b', 'X', 1) }}|{{ 'abc'.find('c') }}|{{ 'abcb'.count('b') }}|{{ 'x'.join(['1', '2']) }}",
    "{{ [3, 1, 2] | sort }}{{ [3, 1, 2] | sort(reverse=true) }}{{ [1, 2] + [3] }}{{ [1, [2, 'a']] }}{{ (1, 2) }}{{ "
    "(1,) }}"
    "{{ {'a': 1, 'b': [none, true]} }}{{ ['it\\'s', \"q\\\"\"] }}{{ [] }}{{ {} }}{{ 'a\\nb' | list }}{{ ['a\\nb', "
    "'é', '\\t'] }}",
    "{{ [1, 2, 3] | first }}{{ [1, 2, 3] | last }}{{ [1, 2, 3] | sum }}{{ [1, 2, 3] | max }}{{ [1, 2, 3] | min }}"
    "{{ [1, 1, 2] | unique | list }}{{ [1, 2, 3] | reverse | list }}{{ 'abc' | reverse }}{{ [1, 2, 3] | batch(2) | "
    "list }}",
    "{{ x | default('d') }}{{ none | default('d') }}{{ '' | default('d', true) }}{{ x }}{{ [x] }}{{ none }}{{ true }}",
    "{{ 'a' ~ 1 ~ none ~ 1.5 ~ true }}{{ 'ab' * 3 }}{{ [1] * 2 }}{{ '%s-%03d-%.2f' % ('a', 5, 1.5) }}{{ '%s' | "
    "format('q') }}",
    "{{ '<a href=\"x\">' | escape }}{{ 'a b' | replace(' ', '_') }}{{ 'x\ny' | indent(2) }}{{ 'x\ny' | indent(2, "
    "true) }}|",
    "{{ 'one two three' | wordcount }}{{ 'abc' | center(9) }}|{{ 'hello world' | truncate(8) }}|{{ 3.7 | int }}{{ "
    "'3' | int }}"
    "{{ 'x' | int(7) }}{{ '2.5' | float }}{{ 2.5 | round }}{{ 3.5 | round }}{{ 2.567 | round(2) }}{{ -3 | abs }}{{ "
    "5 | string }}",
    "{% set d = {'a': 1, 'b': 2} %}{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}{{ d.keys() | list }}"
    "{{ d.values() | list }}{{ d.get('c', 9) }}{{ d | dictsort }}{{ d | items | list }}{{ 'a' in d }}{{ d['b'] }}{{ "
    "d.b }}",
    "{% for i in range(3) if i != 1 %}{{ i }}{{ loop.length }}{% else %}none{% endfor %}{% for i in [] %}{% else "
    "%}e{% endfor %}",
    "{% for i in range(10) %}{% if i == 2 %}{% continue %}{% endif %}{% if i == 5 %}{% break %}{% endif %}{{ i }}{% "
    "endfor %}",
    "{% set x = 1 %}{% for i in range(3) %}{% set x = x + i %}{{ x }}{% endfor %}{{ x }}{% if true %}{% set x = 9 "
    "%}{% endif %}{{ x }}",
    "{% set x %}block {{ 1 + 1 }}{% endset %}[{{ x }}]{% set a, b = 1, 2 %}{{ b }}{% filter upper %}abc{% endfilter %}",
    "{% raw %}{{ x }}{% endraw %}{# comment #}a  {#- comment -#}  b {{- ' c ' -}} d\n  {%- if true %}\n  e\n  {%- "
    "endif %}\n",
    "  {% if true %}\n    x\n  {% endif %}\n\n  {% if true +%}\n y{% endif %}\n {%+ if true %}z{% endif %}\n\n",
    "{% macro f(a) %}{{ a }}{{ caller() if caller }}{% endmacro %}{% call f(1) %}in{% endcall %}{% call(x) f(2) "
    "%}q{% endcall %}",
    "{% generation %}abc{% endgeneration %}",
    "{%- for m in messages recursive -%}{{ m.role }}{%- endfor -%}{{ 'a' if false }}{{ ('a' if false) is undefined }}",
    "{% set ns = namespace(a=1, l=[]) %}{% set ns.a = ns.a + 1 %}{% set _ = ns.l.append(3) %}{{ ns.a }}{{ ns.l }}{{ "
    "_ }}",
    "{{ not true or true and false }}{{ 1 if 0 else 2 if 0 else 3 }}{{ not 1 in [2] }}{{ 1 not in [2] }}{{ -2 ** 2 }}"
    "{{ 2 * 3 ~ 4 }}{{ 1 + 2 | string ~ 'x' if false else 'y' }}{{ 'a' 'b' }}{{ 5 - -2 }}{{ 2 ** 3 ** 2 }}",
    "{{ 'abc' | upper | lower | title }}{{ messages[0]['role'] }}{{ messages[0].get('name', '-') }}{{ "
    "messages[0].name }}",
    "{{ '\\u00e9\\x41\\t|' }}{{ \"a'b\" }}{{ 'a\"b' }}{{ '\\\\n' }}{{ \"\\\"\" }}",
    "{{ messages | groupby('role') | length }}{{ messages | map('tojson') | join }}{{ [1, 2, 3] | select('odd') | "
    "list }}",
    "{{ 1_000 }}{{ 0x1f }}{{ 'z' > 'a' }}{{ [1, 2] == [1, 2] }}{{ {'a': 1} == {'a': 1.0} }}{{ [1, 2] < [1, 3] }}",
    "{%- set image = 'x' %}{%- if messages[0].content is iterable and messages[0].content is not string %}l{%- else %}"
    "t{%- endif %}{{ messages[0].content.split('</think>')[-1].lstrip('\n') }}{{ 'a</think>b'.split('</think>')[0] }}",
    "{{ bos_token }}{{ eos_token }}{{ add_generation_prompt }}{{ documents is defined }}{{ enable_thinking is "
    "defined }}",
    "{{ '{:>5}|{:.2f}'.format('a', 1.234) }}", "{{ 'abc'.upper }}",
    "{{ dict(a=1) }}",
    "{% with a = 1 %}{{ a }}{% endwith %}{% set j = joiner(', ') %}{{ j() }}{{ j() }}", "{{ messages | pprint }}",
    "{{ 'a-b_c' | urlencode }}{{ ['b', 'A'] | sort }}{{ ['b', 'A'] | sort(case_sensitive=true) }}{{ [{'a': 2}] | "
    "sum(attribute='a') }}",
    "{{ 'x' is eq 'x' }}{{ 1 is lt 2 }}{{ [] is false }}{{ 'upper' is filter }}{{ messages[0] is mapping }}{{ 'a' "
    "is callable }}",
    "{{ 'ab\\ncd'.splitlines() }}{{ 'abc'.isdigit() }}{{ '12'.isdigit() }}{{ 'abc'.index('b') }}{{ 'a "
    "b'.partition(' ') }}",
    "{{ range(5)[1:3] | list }}{{ range(5) | list }}{{ range(5, 0, -2) | list }}{{ [[1, 2], [3]] | sum(start=[]) }}",
    "{{ messages[10] }}|{{ messages[10].x is defined }}", "{{ x.y }}", "{{ none.y }}|", "{{ 'a' + 1 }}",
    "{{ raise_exception('no') }}",
    "{{ [1, 2, 3][5] }}|{{ 'abc'[7] }}|", "{{ {'a': 1}.b }}|{{ {'a': 1}['b'] }}|", "{{ x + 'a' }}", "{{ 'a' ~ x }}",
    "{{ x | upper }}|",
]
CONVERSATIONS = [
    [{"role": "user", "content": "Hi é <b>'\"\n there "}],
    [{"role": "system", "content": " Be short. "}, {"role": "user", "content": "\nA?"}, {"role": "assistant",
    "content": "B. "},
     {"role": "user", "content": "C"}],
]


def rendered(template, messages):
    try:
        return render_jinja_template([messages], chat_template=template, add_generation_prompt=True, bos_token="<s>",
                                     eos_token="<|end|>")[0][0]
    except Exception:  # as many kinds as templates have errors
        return None


def try_templates():
    faults, refused, made = [], 0, byte_pairs([byte_level(True)])
    with tempfile.TemporaryDirectory() as folder:
        tiny(folder, made.get_vocab_size())
        made.save(folder + "/tokenizer.json")
        pathlib.Path(folder, "tokenizer_config.json").write_text('{"bos_token": "<s>", "eos_token": "<|end|>"}')
        for template in TEMPLATES:
            for messages in CONVERSATIONS:
                expected = rendered(template, messages)
                try:
                    model = tessera.LanguageModel.load(folder, threads=1, chat_template=template)
                    had = model.decode(model.encode_chat(messages), special=True)
                except tessera.Error as error:
                    if expected is not None:
                        refused += 1
                        print(f"    refused {template[:70]!r}: {str(error)[:230]}")
                        break
                    continue
                if had != expected:
                    faults.append(template)
                    print(f"BAD {template[:110]!r}:\n        {had!r}, expected\n        {expected!r}", flush=True)
                    break
    print(f"{len(TEMPLATES) - len(faults)} of {len(TEMPLATES)} templates agree, of which {refused} are refused")
    return faults


def main():
    groups = sys.argv[1:] or ["tokenizers", "templates"]
    transformers.logging.set_verbosity(transformers.logging.CRITICAL)
    faults = [each for group in groups for each in {"tokenizers": try_tokenizers, "templates": try_templates}[group]()]
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
