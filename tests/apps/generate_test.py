#!/usr/bin/env python3
"""tessera generate, bench and info on a language model: the model that scripts/fetch_models.py smollm2 fetches.
Standard library only.

    generate_test.py TESSERA
"""
import json
import os
import pathlib
import signal
import subprocess
import tempfile
import time
import unittest

import language_files
import program
from program import INVALID, IO, NOT_FOUND, WRONG_CALL, run

FOLDER = pathlib.Path(__file__).resolve().parents[2] / ".models" / "smollm2"
MODEL = FOLDER / "SmolLM2-135M-Instruct.Q4_1.gguf"
PROMPT = "The capital of France is"


class Refusals(unittest.TestCase):
    def fails(self, code, text, *arguments, **options):
        done = run(*arguments, **options)
        self.assertEqual(done.returncode, code, done.stderr)
        self.assertIn(text, done.stderr)
        self.assertEqual(len(done.stderr.strip().splitlines()), 1, done.stderr)

    def test_files_that_are_none(self):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "m.gguf"
            self.fails(NOT_FOUND, "has 0 .safetensors files", "generate", folder, "-p", "x")
            self.fails(NOT_FOUND, "m.gguf' does not exist", "generate", file, "-p", "x")
            file.write_bytes(b"GGUF\3\0\0\0")
            self.fails(INVALID, "the header ends early", "generate", file, "-p", "x")
            self.fails(INVALID, "the header ends early", "tokenize", file, "x")
            # The only GGUF file of a folder is the folder's model, for every verb.
            for verb in (("generate", folder, "-p", "x"), ("info", folder), ("bench", folder)):
                self.fails(INVALID, "the header ends early", *verb)
            file.write_bytes(b"nothing known")
            self.fails(WRONG_CALL, "is no language model", "generate", file, "-p", "x")
            (pathlib.Path(folder) / "model.safetensors").symlink_to(pathlib.Path(folder) / "model.safetensors")
            for verb in (("generate", folder, "-p", "x"), ("info", folder), ("bench", folder)):
                self.fails(IO, "symbolic link", *verb)


class OtherVerbs(Refusals):
    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.model = pathlib.Path(holder.name) / "m.gguf"
        self.model.write_bytes(language_files.gguf())

    def answers(self, model, *options):
        """What `generate` says in JSON, without its times."""
        done = run("generate", model, "-p", "hello", "-n", 8, "--ignore-eos", "--logprobs", 3, "--json", *options)
        self.assertEqual(done.returncode, 0, done.stderr)
        answer = json.loads(done.stdout)
        return {key: answer[key] for key in ("text", "tokens", "finish_reason", "prompt_tokens")}

    def test_packages_answer_as_the_files_that_they_were_made_of(self):
        folder = language_files.write_folder(self.model.with_name("folder"))
        (folder / "chat_template.jinja").write_text("{% for m in messages %}<{{ m.content }}>{% endfor %}")
        for model in (self.model, folder):
            package = self.model.with_name("m.tsr")
            done = run("optimize", model, "-o", package, "--verify", "--json")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertTrue(json.loads(done.stdout)["same_logits"])
            renamed = self.model.with_name("a.file")  # what a file is, its bytes say
            package.rename(renamed)
            for options in ((), ("--exact",), ("--cache", "int8"), ("--threads", 1)):
                self.assertEqual(self.answers(renamed, *options), self.answers(model, *options))
            chats = [run("chat", each, "--temperature", 0, "-n", 4, "--json", input="hello\n") for each in
                     (model, renamed)]
            self.assertEqual(chats[0].returncode, 0, chats[0].stderr)
            texts = [json.loads(chat.stdout)["text"] for chat in chats]
            self.assertEqual(texts[0], texts[1])
            tokens = [run("tokenize", each, "hello <|end|>", "--json").stdout for each in (model, renamed)]
            self.assertEqual(tokens[0], tokens[1])
            info = [json.loads(run("info", each, "--json").stdout) for each in (model, renamed)]
            for key in ("architecture", "parameters", "sizes", "tokenizer", "chat_template"):
                self.assertEqual(info[0][key], info[1][key], key)
            self.assertIn("all checksums agree", info[1]["package"])
            self.assertEqual(run("check", renamed).returncode, 0)
            bench = run("bench", renamed, "--prompt-tokens", 4, "--answer-tokens", 2, "--repetitions", 1, "--json")
            self.assertEqual(bench.returncode, 0, bench.stderr)
            explained = [json.loads(run("explain", each, "--prompt-tokens", 4, "--json").stdout)["steps"] for each in
                         (model, renamed)]
            self.assertEqual(explained[0][0]["bytes"], explained[1][0]["bytes"])
            self.fails(WRONG_CALL, "this is a language model", "run", renamed)
            renamed.unlink()

    def test_optimize_says_what_it_cannot_do_to_a_language_model(self):
        package = self.model.with_name("m.tsr")
        self.fails(WRONG_CALL, "ends in .tsr", "optimize", self.model, "-o", self.model.with_name("m.onnx"))
        for option in (("--only", "fuse_activations"), ("--dim", "batch=1"), ("--precision", "bf16"),
                       ("--report", self.model.with_name("r.html"))):
            self.fails(WRONG_CALL, "apply to a language model", "optimize", self.model, "-o", package, *option)
        self.fails(NOT_FOUND, "does not exist", "optimize", self.model.with_name("no.gguf"), "-o", package)
        self.model.write_bytes(language_files.gguf({key: value for key, value in language_files.metadata().items()
                                                    if key != "tokenizer.ggml.model"}))
        self.fails(INVALID, "tokenizer.ggml.model", "optimize", self.model, "-o", package)
        self.assertFalse(package.exists())

    def test_explain_compares_steps_with_the_speed_of_memory(self):
        done = run("explain", self.model, "--json", "--prompt-tokens", 16, "--depth", 8)
        self.assertEqual(done.returncode, 0, done.stderr)
        explained = json.loads(done.stdout)
        self.assertEqual((explained["model"], explained["architecture"]), ("m.gguf", "llama"))
        decoding, prompt = explained["steps"]
        self.assertEqual((decoding["rows"], decoding["depth"], prompt["rows"]), (1, 8, 16))
        # Each token reads all matrices; of the table of embeddings, which is the head's too, at least once.
        weights = sum(len(data) for name, (_, data) in language_files.weights().items() if "norm" not in name)
        self.assertGreater(decoding["bytes"], weights)
        self.assertLess(decoding["bytes"], 2 * weights)
        self.assertLess(prompt["bytes_per_token"], decoding["bytes_per_token"] / 4)
        for step in (decoding, prompt):
            self.assertAlmostEqual(step["memory_seconds"], step["bytes"] / explained["device"]["bandwidth"])
            self.assertAlmostEqual(step["most_tokens_per_second"], step["rows"] / step["memory_seconds"])
            products = next(kind for kind in step["operators"] if kind["operator"] == "tessera::BlockLinear")
            self.assertEqual(products["layers"], 8)
            self.assertAlmostEqual(sum(kind["seconds"] for kind in step["operators"]), step["predicted_seconds"])
        done = run("explain", self.model, "--json", "--prompt-tokens", 1, "--depth", 60)
        deeper = json.loads(done.stdout)["steps"][0]
        self.assertGreater(deeper["bytes"], decoding["bytes"])
        # The rows of keys and values in float32 are read and written, and the rest of the cache is left alone.
        appends = next(kind for kind in deeper["operators"] if kind["operator"] == "tessera::AppendRows")
        self.assertEqual(appends["layers"], 2)
        self.assertLessEqual(appends["bytes"], 2 * 2 * 4 * language_files.HIDDEN)
        elsewhere = run("explain", self.model, "--json", "--prompt-tokens", 16, "--device", "h100-sxm")
        self.assertEqual(json.loads(elsewhere.stdout)["device"]["name"], "h100-sxm")
        text = run("explain", self.model, "--prompt-tokens", 16)
        self.assertIn("of memory's speed", text.stdout)
        self.fails(WRONG_CALL, "a context of 513 tokens", "explain", self.model, "--depth", 1)
        self.fails(WRONG_CALL, "do not apply to a language model", "explain", self.model, "--measure")


class KilledProcesses(unittest.TestCase):
    def test_leave_no_file_behind(self):
        values = language_files.metadata()
        values["llama.context_length"] = (language_files.U32, 1 << 20)
        with tempfile.TemporaryDirectory() as holder:
            folder = pathlib.Path(holder)
            (folder / "m.gguf").write_bytes(language_files.gguf(values))
            environment = os.environ | {name: holder for name in ("TMPDIR", "HOME", "XDG_RUNTIME_DIR", "XDG_CACHE_HOME",
                                                                  "XDG_CONFIG_HOME", "XDG_STATE_HOME")}
            for verb in (("generate", "m.gguf", "-p", "hello", "--ignore-eos", "-n", 1 << 19, "--context", 1 << 20),
                         ("bench", "m.gguf", "--answer-tokens", 1 << 19, "--prompt-tokens", 512)):
                for seconds in (0.02, 0.2, 0.5):
                    with subprocess.Popen([program.path, *map(str, verb)], stdout=subprocess.DEVNULL,
                                          stderr=subprocess.PIPE, cwd=folder, env=environment) as child:
                        time.sleep(seconds * program.PATIENCE)
                        child.kill()
                        _, errors = child.communicate()
                    self.assertEqual(child.returncode, -signal.SIGKILL, errors)
                    self.assertEqual([path.name for path in folder.rglob("*")], ["m.gguf"])


@unittest.skipUnless(MODEL.exists(), "scripts/fetch_models.py fetches smollm2")
class Generate(Refusals):
    def answer(self, *arguments, **options):
        done = run("generate", MODEL, *arguments, "--json", **options)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def test_greedy(self):
        answer = self.answer("-p", PROMPT, "--temperature", 0, "-n", 12, "--logprobs", 2)
        self.assertIn("Paris", answer["text"])
        self.assertEqual((answer["finish_reason"], answer["prompt_tokens"], len(answer["tokens"])), ("length", 5, 12))
        for token in answer["tokens"]:
            self.assertEqual(token["id"], token["top_logprobs"][0]["id"])
            self.assertGreaterEqual(token["top_logprobs"][0]["logprob"], token["top_logprobs"][1]["logprob"])

    def test_text_is_that_of_json_and_threads_change_nothing(self):
        options = ("-p", PROMPT, "-n", 16, "--seed", 5)
        expected = self.answer(*options)
        for threads in (1, 2, 3):
            done = run("generate", MODEL, *options, "--threads", threads)
            self.assertEqual(done.stdout, expected["text"] + ("" if expected["text"].endswith("\n") else "\n"))
        other = self.answer("-p", PROMPT, "-n", 16, "--seed", 6)
        self.assertNotEqual(other["text"], expected["text"])

    def test_prompts_from_files_and_pipes(self):
        expected = self.answer("-p", PROMPT, "--temperature", 0, "-n", 4)["text"]
        self.assertEqual(self.answer("--temperature", 0, "-n", 4, input=PROMPT)["text"], expected)
        with tempfile.NamedTemporaryFile("w") as file:
            file.write(PROMPT)
            file.flush()
            self.assertEqual(self.answer("--file", file.name, "--temperature", 0, "-n", 4)["text"], expected)

    def test_stop_strings(self):
        whole = self.answer("-p", PROMPT, "--temperature", 0, "-n", 12)["text"]
        stop = whole[len(whole) // 2:][:3]
        answer = self.answer("-p", PROMPT, "--temperature", 0, "-n", 12, "--stop", stop)
        self.assertEqual((answer["text"], answer["finish_reason"]), (whole[:whole.index(stop)], "stop"))

    def test_exact_and_int8_cache(self):
        for option in (["--exact"], ["--cache", "int8"]):
            self.assertIn("Paris", self.answer("-p", PROMPT, "--temperature", 0, "-n", 6, *option)["text"])

    def test_context(self):
        answer = self.answer("-p", PROMPT, "--context", 8, "--ignore-eos")
        self.assertEqual((answer["finish_reason"], len(answer["tokens"])), ("length", 3))
        self.fails(WRONG_CALL, "leaves no room for an answer in the context of 5", "generate", MODEL, "-p", PROMPT,
                   "--context", 5)

    def test_wrong_options(self):
        self.fails(WRONG_CALL, "--bias expects TOKEN=BIAS", "generate", MODEL, "-p", "x", "--bias", "2")
        self.fails(WRONG_CALL, "logit_bias names the token 99999", "generate", MODEL, "-p", "x", "--bias", "99999=1")
        self.fails(WRONG_CALL, "expected one prompt", "generate", MODEL, "-p", "x", "--file", "y")
        self.fails(WRONG_CALL, "'tessera generate'", "run", MODEL)

    def test_an_interrupted_answer_is_shown(self):
        with subprocess.Popen([program.path, "generate", MODEL, "-p", PROMPT, "--ignore-eos", "-n", "4000"],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
            first = child.stdout.read(5)
            child.send_signal(signal.SIGINT)
            rest, errors = child.communicate(timeout=60 * program.PATIENCE)
        self.assertEqual(child.returncode, 130)
        self.assertTrue(first and rest.endswith("\n"))
        self.assertEqual(errors, "tessera: interrupted\n")

    def test_bench(self):
        done = run("bench", MODEL, "--prompt-tokens", 32, "--answer-tokens", 4, "--depth", "0,32", "--batch", "1,2",
                   "--repetitions", 1, "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        tests = [(each["test"], each["depth"], each["batch"]) for each in json.loads(done.stdout)["tests"]]
        self.assertEqual(tests, [("pp32", 0, 1), ("tg4", 0, 1), ("tg4", 0, 2), ("pp32", 32, 1), ("tg4", 32, 1),
                                 ("tg4", 32, 2)])

    def test_tokenize(self):
        done = run("tokenize", MODEL, PROMPT, "a<|im_end|>", "--json")
        encodings = json.loads(done.stdout)["encodings"]
        self.assertEqual(len(encodings[0]["ids"]), self.answer("-p", PROMPT, "-n", 0)["prompt_tokens"])
        self.assertEqual(encodings[1]["tokens"], ["a", "<|im_end|>"])
        ids = ",".join(map(str, encodings[0]["ids"]))
        self.assertEqual(run("tokenize", FOLDER, "--decode", ids).stdout, PROMPT + "\n")
        literal = json.loads(run("tokenize", MODEL, "a<|im_end|>", "--literal", "--json").stdout)["encodings"][0]
        self.assertNotIn(encodings[1]["ids"][1], literal["ids"])
        self.assertEqual("".join(literal["tokens"]), "a<|im_end|>")

    def test_a_package_gives_the_same_bits_with_packed_weights(self):
        with tempfile.TemporaryDirectory() as folder:
            package = pathlib.Path(folder) / "m.tsr"
            done = run("optimize", MODEL, "-o", package, "--json")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(json.loads(done.stdout)["packed"], 211)
            options = ("-p", PROMPT, "-n", 8, "--temperature", 0, "--logprobs", 3, "--json")
            tokens = [json.loads(run("generate", each, *options).stdout)["tokens"] for each in (MODEL, package)]
            self.assertEqual(tokens[0], tokens[1])

    def test_info(self):
        done = run("info", MODEL, "--json")
        info = json.loads(done.stdout)
        self.assertEqual((info["architecture"], info["sizes"]["block_count"]), ("llama", 30))
        self.assertEqual({each["format"]: each["tensors"] for each in info["formats"]},
                         {"q4_1": 210, "q8_0": 1, "f32": 61})


if __name__ == "__main__":
    program.main()
