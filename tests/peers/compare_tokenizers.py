#!/usr/bin/env python3
"""Compares `tessera tokenize` with Hugging Face's tokenizers on tokenizers that are trained here.

Usage: compare_tokenizers.py PROGRAM, or compare_tokenizers.py --record FOLDER. Needs the packages `tokenizers`
(0.23.3 was used) and `sentencepiece`, which the tests do without: --record writes what they replay,
tests/text/data/*.json. Prints every difference and exits 1 where there is one.
"""
import json
import pathlib
import random
import subprocess
import sys
import tempfile

import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors, trainers

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
GPT4_WORDS = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|"
              r"\s*[\r\n]+|\s+(?!\S)|\s+")
SENTENCES = [
    "Hello, world!", "The quick brown fox jumps over the lazy dog.", "It's 12:30, isn't it? I'LL say we've 1,234.5.",
    "naïve café, Ångström, ÉCOLE, Straße, İstanbul, ﬁne ½ ①",
    "東京 is 日本の首都です。漢字かな交じり文", "Привет, мир! Ελληνικά עברית العربية",
    "tabs\tand  two   spaces \u00a0nbsp\u2003em",
    "emoji 😀👍🏽 👩\u200d👩\u200d👧 flags 🇩🇪",
    "e\u0301 combining a\u0308o\u0323\u0302", "", " ", "   leading and trailing   ",
    "snake_case CamelCase kebab-case http://example.org/a?b=c#d", "x" * 130,
    "a<b>c [MASK] d[SEP]e  [MASK]  f", "∑∫≠≈ ™ © $5 €7 +-*/=", "don't do not won't .?!, ' n't 's",
    "\u200bzero\u200dwidth\ufeff",
    "मानक हिन्दी ไทยภาษา 한국어 문장", "0123456789 ٣٤٥ Ⅷ", "hello[MASK]world",
]


def corpus():
    words = "the of and to in is that for it with as his on be at by this had not are but from or have an they which " \
            "one you were her all she there would their we him been has when who will more no if out so said what up " \
            "its about into than them can only other new some could time these two may then do first any my now such " \
            "like our over man me even most made after also did many before must through back years where much your " \
            "way well down should because each just those people how too little state good very make world still own " \
            "running runner tokenization tokenizer unbelievable naïve café"
    pick = random.Random(7)
    for _ in range(3000):
        sentence = " ".join(pick.choice(words.split()) for _ in range(12))
        yield sentence.capitalize() + pick.choice([".", "!", "?", ", 42."])
    yield from SENTENCES * 3


def trained(model, trainer, **parts):
    tokenizer = tokenizers.Tokenizer(model)
    for name, part in parts.items():
        if part is not None and name != "post_processor":
            setattr(tokenizer, name, part)
    tokenizer.train_from_iterator(corpus(), trainer)
    return tokenizer


def framed(tokenizer):
    ids = {name: tokenizer.token_to_id(name) for name in ("[CLS]", "[SEP]")}
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=list(ids.items()))
    return tokenizer


def character_map(folder):
    """A map of SentencePiece for few characters, which keeps the record short."""
    import sentencepiece  # 0.2.2 was used
    rules, texts = folder / "rules.tsv", folder / "corpus.txt"
    pairs = [("ﬁ", "fi"), ("½", "1/2"), ("①", "1"), ("İ", "i"), ("\u00a0", " "), ("\u2003", " "), ("™", "tm"),
             ("e\u0301", "é"), ("a\u0308", "ä"), ("Ⅷ", "viii"), ("\u200b", ""), ("가", "나")]
    pairs += [(letter, letter.lower()) for letter in "ABCDEFGHIJKLMNOPQRSTUVWXYZÉÅ"]
    rules.write_text("".join(" ".join(f"{ord(c):X}" for c in a) + "\t" + " ".join(f"{ord(c):X}" for c in b) + "\n"
                             for a, b in pairs), encoding="utf-8")
    texts.write_text("\n".join(corpus()), encoding="utf-8")
    sentencepiece.SentencePieceTrainer.train(input=str(texts), model_prefix=str(folder / "map"), vocab_size=200,
                                             normalization_rule_tsv=str(rules), minloglevel=2, hard_vocab_limit=False)
    from sentencepiece import sentencepiece_model_pb2
    model = sentencepiece_model_pb2.ModelProto()
    model.ParseFromString((folder / "map.model").read_bytes())
    return model.normalizer_spec.precompiled_charsmap


def all_tokenizers():
    with tempfile.TemporaryDirectory() as folder:
        precompiled = normalizers.Precompiled(character_map(pathlib.Path(folder)))
    yield "sentencepiece", trained(models.Unigram(), trainers.UnigramTrainer(
        vocab_size=250, unk_token="<unk>", special_tokens=["<unk>", "[MASK]"], show_progress=False),
        normalizer=precompiled, pre_tokenizer=pre_tokenizers.Metaspace(prepend_scheme="first"),
        decoder=decoders.Metaspace(prepend_scheme="first"))
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    yield "bert", framed(trained(models.WordPiece(unk_token="[UNK]"), trainers.WordPieceTrainer(
        vocab_size=500, special_tokens=SPECIAL, show_progress=False), normalizer=normalizers.BertNormalizer(),
        pre_tokenizer=pre_tokenizers.BertPreTokenizer(), decoder=decoders.WordPiece()))
    cased = framed(trained(models.WordPiece(unk_token="[UNK]"), trainers.WordPieceTrainer(
        vocab_size=500, special_tokens=SPECIAL, show_progress=False),
        normalizer=normalizers.BertNormalizer(lowercase=False, strip_accents=False),
        pre_tokenizer=pre_tokenizers.BertPreTokenizer(), decoder=decoders.WordPiece()))
    cased.enable_truncation(12)
    cased.enable_padding(length=12, pad_id=0, pad_token="[PAD]")
    yield "bert_cased_fixed", cased
    for name, adds_space in (("gpt2", False), ("roberta", True)):
        tokenizer = trained(models.BPE(), trainers.BpeTrainer(
            vocab_size=420, special_tokens=["<s>", "</s>", "[MASK]"], initial_alphabet=alphabet, show_progress=False),
            pre_tokenizer=pre_tokenizers.ByteLevel(add_prefix_space=adds_space), decoder=decoders.ByteLevel())
        tokenizer.post_processor = processors.ByteLevel(trim_offsets=False) if name == "gpt2" else \
            processors.RobertaProcessing(("</s>", 1), ("<s>", 0), add_prefix_space=True)
        yield name, tokenizer
    yield "gpt4", trained(models.BPE(ignore_merges=True), trainers.BpeTrainer(
        vocab_size=420, special_tokens=["[MASK]"], initial_alphabet=alphabet, show_progress=False),
        normalizer=normalizers.NFC(), pre_tokenizer=pre_tokenizers.Sequence([
            pre_tokenizers.Split(tokenizers.Regex(GPT4_WORDS), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]), decoder=decoders.ByteLevel())
    yield "bpe_suffix", trained(models.BPE(unk_token="[UNK]", end_of_word_suffix="</w>", fuse_unk=True),
                                trainers.BpeTrainer(vocab_size=300, special_tokens=["[UNK]", "[MASK]"],
                                                    end_of_word_suffix="</w>", limit_alphabet=60, show_progress=False),
                                normalizer=normalizers.Sequence([normalizers.NFKC(), normalizers.Lowercase()]),
                                pre_tokenizer=pre_tokenizers.Whitespace(), decoder=decoders.BPEDecoder())
    yield "unigram", trained(models.Unigram(), trainers.UnigramTrainer(
        vocab_size=300, unk_token="<unk>", special_tokens=["<unk>", "[MASK]"], show_progress=False),
        normalizer=normalizers.Sequence([normalizers.NFKD(), normalizers.StripAccents(),
                                         normalizers.Replace(tokenizers.Regex(" {2,}"), " ")]),
        pre_tokenizer=pre_tokenizers.Metaspace(), decoder=decoders.Metaspace())
    yield "words", trained(models.WordLevel(unk_token="[UNK]"), trainers.WordLevelTrainer(
        vocab_size=200, special_tokens=["[UNK]", "[MASK]"], show_progress=False),
        normalizer=normalizers.Strip(), pre_tokenizer=pre_tokenizers.Sequence([
            pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Punctuation(),
            pre_tokenizers.Digits(individual_digits=True)]))


def ours(program, *arguments):
    done = subprocess.run([program, "tokenize", *map(str, arguments), "--json"], stdout=subprocess.PIPE, text=True,
                          check=True, timeout=60)
    return json.loads(done.stdout)


PAIRED = "And that is the other one."


def record(folder, name, tokenizer):
    """One file: the tokenizer, and what it makes of each text."""
    def lists(encoding):
        return [encoding.ids, encoding.type_ids, encoding.attention_mask, encoding.special_tokens_mask]
    cases = [{"text": text, "single": lists(tokenizer.encode(text)), "pair": lists(tokenizer.encode(text, PAIRED)),
              "decoded": tokenizer.decode(tokenizer.encode(text).ids)} for text in SENTENCES]
    whole = {"tokenizer": json.loads(tokenizer.to_str()), "second": PAIRED, "cases": cases}
    (folder / f"{name}.json").write_text(json.dumps(whole, ensure_ascii=True, separators=(",", ":")) + "\n")


def compare(program, folder, name, tokenizer):
    """The differences as lines."""
    path, lines = folder / f"{name}.json", folder / "texts"
    tokenizer.save(str(path))
    texts = [text.replace("\n", " ") for text in SENTENCES + [line for _, line in zip(range(40), corpus())]]
    lines.write_text("\n".join(texts) + "\n", encoding="utf-8")
    result = ours(program, path, "--file", lines)
    pairs = ours(program, path, "--file", lines, "--pair", PAIRED)
    if result["vocabulary"] != tokenizer.get_vocab_size():
        yield f"{name}: {result['vocabulary']} tokens, expected {tokenizer.get_vocab_size()}"
    for text, got, pair in zip(texts, result["encodings"], pairs["encodings"], strict=True):
        for have, want in ((got, tokenizer.encode(text)), (pair, tokenizer.encode(text, PAIRED))):
            for field in ("ids", "type_ids", "attention_mask", "special_tokens_mask"):
                if have[field] != getattr(want, field):
                    yield f"{name}: {field} of {text!r}: {have[field]}, expected {getattr(want, field)}"
                    break
        if got["ids"]:
            back = ours(program, path, "--decode", ",".join(map(str, got["ids"])))["text"]
            if back != tokenizer.decode(got["ids"]):
                yield f"{name}: text of {got['ids']}: {back!r}, expected {tokenizer.decode(got['ids'])!r}"


def main():
    if sys.argv[1] == "--record":
        for name, tokenizer in all_tokenizers():
            record(pathlib.Path(sys.argv[2]), name, tokenizer)
        return
    program = sys.argv[1]
    failed = count = 0
    with tempfile.TemporaryDirectory() as folder:
        for name, tokenizer in all_tokenizers():
            count += 1
            for line in compare(program, pathlib.Path(folder), name, tokenizer):
                failed += 1
                print(line)
    print(f"{count} tokenizers, {failed} differences")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
