#!/usr/bin/env python3
"""Times llama.cpp on a GGUF file and prints the rates as JSON: MODEL THREADS TESTS.

TESTS is JSON, a list of [kind, tokens, depth, sequences], where kind is "pp" (tokens of a prompt) or "tg" (tokens of
each answer). A test runs once untimed and once timed, with the settings of llama-bench: logits of every generated token
and of the last of a prompt, a cache of float16, flash attention where llama.cpp chooses it.
"""
import ctypes
import json
import random
import sys
import time

import llama_cpp

MOST_ROWS = 512


class Model:
    def __init__(self, path, threads, tests):
        # Called by llama.cpp as long as it is loaded, so it must not be collected.
        self.no_log = llama_cpp.llama_log_callback(lambda level, text, data: None)
        llama_cpp.llama_log_set(self.no_log, ctypes.c_void_p(0))
        llama_cpp.llama_backend_init()
        self.model = llama_cpp.llama_model_load_from_file(path.encode(), llama_cpp.llama_model_default_params())
        if not self.model:
            sys.exit(f"llama.cpp cannot load {path}")
        self.vocabulary = llama_cpp.llama_vocab_n_tokens(llama_cpp.llama_model_get_vocab(self.model))
        self.sequences = max(sequences for _, _, _, sequences in tests)
        each = max(depth + tokens for _, tokens, depth, _ in tests) + 8
        parameters = llama_cpp.llama_context_default_params()
        parameters.n_ctx = each * self.sequences
        parameters.n_batch = 2048
        parameters.n_ubatch = MOST_ROWS
        parameters.n_seq_max = self.sequences
        parameters.n_threads = parameters.n_threads_batch = threads
        self.context = llama_cpp.llama_init_from_model(self.model, parameters)
        if not self.context:
            sys.exit(f"llama.cpp cannot make a context of {parameters.n_ctx} tokens")
        self.memory = llama_cpp.llama_get_memory(self.context)
        self.batch = llama_cpp.llama_batch_init(MOST_ROWS, 0, 1)
        self.random = random.Random(46)
        self.length = 0

    def clear(self, length=0):
        if length == 0:
            llama_cpp.llama_memory_clear(self.memory, True)
        else:
            llama_cpp.llama_memory_seq_rm(self.memory, -1, length, -1)
        self.length = length

    def decode(self, rows, wants_all):
        """Rows of (sequence, position)."""
        batch = self.batch
        batch.n_tokens = len(rows)
        for i, (sequence, position) in enumerate(rows):
            batch.token[i] = self.random.randrange(self.vocabulary)
            batch.pos[i] = position
            batch.n_seq_id[i] = 1
            batch.seq_id[i][0] = sequence
            batch.logits[i] = wants_all or i + 1 == len(rows)
        if llama_cpp.llama_decode(self.context, batch) != 0:
            sys.exit("llama.cpp cannot decode")
        llama_cpp.llama_synchronize(self.context)

    def read(self, tokens, sequence=0):
        for begin in range(0, tokens, MOST_ROWS):
            count = min(MOST_ROWS, tokens - begin)
            self.decode([(sequence, self.length + begin + i) for i in range(count)], False)
        self.length += tokens

    def generate(self, tokens, sequences):
        for _ in range(tokens):
            self.decode([(sequence, self.length) for sequence in range(sequences)], True)
            self.length += 1


def rate(model, test):
    """Tokens a second and tokens a second of processor time."""
    kind, tokens, depth, sequences = test
    model.clear()
    if depth > 0:
        model.read(depth)
    for is_timed in (False, True):
        model.clear(depth)
        begin, cpu = time.monotonic(), time.process_time()
        if kind == "pp":
            model.read(tokens)
        else:
            model.generate(tokens if is_timed else min(tokens, 16), sequences)
        seconds, cpu_seconds = time.monotonic() - begin, time.process_time() - cpu
    return tokens * sequences / seconds, tokens * sequences / cpu_seconds


def main():
    tests = json.loads(sys.argv[3])
    model = Model(sys.argv[1], int(sys.argv[2]), tests)
    print(json.dumps([rate(model, test) for test in tests]))


if __name__ == "__main__":
    main()
