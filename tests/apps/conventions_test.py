#!/usr/bin/env python3
"""What shells and scripts expect of a program: streams that fail, signals, nonsense in options and variables,
completion, a manual page. Standard library only.

    conventions_test.py TESSERA
"""
import json
import os
import pty
import resource
import shutil
import signal
import subprocess
import time
import unittest

import program
from program import IO, WRONG_CALL, run


class Conventions(program.WithModel):
    def refused(self, text, *arguments, **options):
        done = run(*arguments, **options)
        self.assertEqual(done.returncode, WRONG_CALL, f"{arguments}: {done.stderr}")
        self.assertIn(text, done.stderr)
        self.assertTrue(done.stderr.startswith("tessera: "), done.stderr)
        self.assertEqual((len(done.stderr.splitlines()), done.stdout), (1, ""), done.stderr)

    # --- streams ------------------------------------------------------------------------------------------------------

    def test_what_cannot_be_printed_is_an_error(self):
        calls = [["--help"], ["--version"], ["manual"], ["completion", "bash"], ["info", self.model],
                 ["info", self.model, "--json"], ["info", self.model, "--plan"], ["run", self.model],
                 ["run", self.model, "--outputs", "-"], ["new", "lenet5", "-o", self.folder / "again.onnx"],
                 ["diff", self.model, "--precision-b", "bf16", "--rtol", "1e-6"]]
        for arguments in calls:
            with open("/dev/full", "w") as full:
                done = run(*arguments, stdout=full)
            self.assertEqual(
                (done.returncode, done.stderr),
                (IO, "tessera: input/output error: cannot write to standard output: No space left on device\n"),
                arguments)

    def test_a_closed_output_is_an_error_and_no_file_takes_its_place(self):
        out = self.folder / "closed.json"
        done = subprocess.run(["sh", "-c", 'exec "$0" "$@" >&-', program.path, "run", self.model, "--outputs", out],
                              stderr=subprocess.PIPE, text=True, timeout=120)
        self.assertEqual(done.returncode, IO)
        self.assertIn("cannot write to standard output: Bad file descriptor", done.stderr)
        self.assertEqual(list(json.loads(out.read_text())), ["output"])  # the file is whole, and nothing else in it
        done = subprocess.run(
            ["sh", "-c", 'exec "$0" "$@" <&- 2>&-', program.path, "run", self.model, "--outputs", out],
            stdout=subprocess.PIPE, text=True, timeout=120)
        self.assertEqual(done.returncode, 0)
        self.assertEqual(list(json.loads(out.read_text())), ["output"])

    def test_a_limit_of_the_output_is_an_error(self):
        with open(self.folder / "out", "w") as out:
            done = run("--help", stdout=out, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (10, 10)))
        self.assertEqual(done.returncode, IO)
        self.assertIn("cannot write to standard output: File too large", done.stderr)

    def test_a_reader_that_leaves_ends_it_quietly(self):
        for preparation in (None, lambda: signal.signal(signal.SIGPIPE, signal.SIG_IGN)):
            reading, writing = os.pipe()
            os.close(reading)
            # subprocess restores SIGPIPE before it calls the preparation.
            done = run("info", self.model, "--plan", stdout=writing, preexec_fn=preparation)
            os.close(writing)
            self.assertIn(done.returncode, (128 + signal.SIGPIPE, -signal.SIGPIPE))
            self.assertEqual(done.stderr, "")

    def test_colours_are_for_terminals(self):
        def on_terminal(**environment):
            ours, theirs = pty.openpty()
            child = subprocess.Popen([program.path, "fly"], stdout=subprocess.DEVNULL, stderr=theirs,
                                     env={"PATH": os.environ["PATH"], **environment})
            child.wait(timeout=60)
            os.close(theirs)
            text = os.read(ours, 4096)
            os.close(ours)
            return text
        self.assertIn(b"\x1b[1;31mtessera:\x1b[0m invalid argument: unknown verb", on_terminal(TERM="xterm"))
        self.assertNotIn(b"\x1b", on_terminal(TERM="xterm", NO_COLOR="1"))
        self.assertNotIn(b"\x1b", on_terminal(TERM="dumb"))

    # --- signals ------------------------------------------------------------------------------------------------------

    def interrupted(self, number, arguments, *, seconds=1.0, **options):
        child = subprocess.Popen([program.path, *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                 text=True, **options)
        time.sleep(seconds)
        child.send_signal(number)
        out, err = child.communicate(timeout=60)
        return child.returncode, out, err

    def test_signals_end_it_with_one_line(self):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            code, out, err = self.interrupted(number, ["calibrate", "-o", self.folder / "c.toml"])
            self.assertEqual((code, out, err), (128 + number, "", "tessera: interrupted\n"))
        self.assertFalse((self.folder / "c.toml").exists())

    def test_bench_prints_what_it_measured_so_far(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            arguments = ["bench", self.model, "--seconds", "100"]
            code, out, err = self.interrupted(number, arguments, seconds=2)
            self.assertEqual((code, err), (128 + number, "tessera: interrupted\n"))
            self.assertRegex(out, r"run     median .* \(\d+ runs, interrupted\)")
            code, out, err = self.interrupted(number, [*arguments, "--json"], seconds=2)
            self.assertEqual(code, 128 + number)
            self.assertTrue(json.loads(out)["interrupted"])
        self.assertFalse(json.loads(run("bench", self.model, "--runs", "1", "--json").stdout)["interrupted"])

    def test_the_second_signal_does_not_wait(self):
        child = subprocess.Popen(
            [program.path, "bench", self.model, "--dim", "batch=20000", "--device", "reference", "--seconds", "100"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        time.sleep(1)
        start = time.monotonic()
        for _ in range(2):
            child.send_signal(signal.SIGINT)
            time.sleep(0.1)
        _, err = child.communicate(timeout=60)
        self.assertEqual((child.returncode, err), (130, "tessera: interrupted\n"))
        self.assertLess(time.monotonic() - start, 5)

    def test_ignored_signals_stay_ignored(self):
        code, out, err = self.interrupted(signal.SIGHUP, ["bench", self.model, "--runs", "1", "--seconds", "2"],
                                          preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
        self.assertEqual((code, err), (0, ""))

    # --- words --------------------------------------------------------------------------------------------------------

    def test_unknown_words_name_the_nearest(self):
        self.refused("unknown verb 'rnu'; did you mean 'run'?", "rnu", self.model)
        self.refused("unknown verb 'optimise'; did you mean 'optimize'?", "optimise")
        self.refused("unknown verb 'opt'; did you mean 'optimize'?", "opt")
        self.refused("unknown verb 'fly'; verbs: run, bench, ", "fly")
        self.refused("no verb given; verbs: run, bench, ")
        self.refused("there is no option '--bogus' before a verb; see 'tessera --help'", "--bogus")
        self.refused("there is no option '--versio' before a verb; see 'tessera --help'", "-v", "--versio")
        self.refused("'run' has no option '--thread'; did you mean '--threads'?", "run", self.model, "--thread", "2")
        self.refused("'bench' has no option '--sede'; did you mean '--seed'?", "bench", self.model, "--sede=2")
        self.refused("'run' has no option '--fly'; see 'tessera run --help'", "run", self.model, "--fly")
        self.refused("'info' has no place for 'b.onnx'; see 'tessera info --help'", "info", self.model, "b.onnx")
        self.refused("MODEL is required; see 'tessera run --help'", "run")
        self.refused("COMMAND is required; see 'tessera share run --help'", "share", "run")

    def test_numbers_out_of_range(self):
        huge = "1" + "0" * 23
        for verb, option, least, most in [("run", "--threads", 0, 1024), ("bench", "--threads", 0, 1024),
                                          ("explain", "--threads", 0, 1024), ("diff", "--threads", 0, 1024),
                                          ("check", "--threads", 0, 1024), ("run", "--seed", 0, 2**64 - 1),
                                          ("new", "--seed", 0, 2**64 - 1), ("explain", "--seed", 0, 2**64 - 1),
                                          ("diff", "--seed", 0, 2**64 - 1), ("bench", "--runs", 1, 1000000),
                                          ("bench", "--warmup", 0, 1000000), ("run", "--memory-limit", 0, 1 << 30),
                                          ("diff", "--chunk", 1, 1 << 20)]:
            for value in ("-1", huge, "garbage", "1.5", "0x10", "", " 1"):
                self.refused(f"{option} expects a whole number from {least} to {most}, got '{value}'", verb,
                             "lenet5" if verb == "new" else self.model, f"{option}={value}" if value else option,
                             *([] if value else [""]))
        for verb, option in [("bench", "--seconds"), ("diff", "--rtol"), ("diff", "--atol"), ("explain", "--samples")]:
            for value in ("-1", "garbage", "nan", "inf", "1e999"):
                self.refused(f"{option} expects a number from ", verb, self.model, f"{option}={value}")
        for value in ("-1", "garbage", "1d", "1e30", "ms"):
            self.refused(f"--time-limit expects a time such as 10, 0.5s, 250ms, 2m or 1h, got '{value}'", "run",
                         self.model, f"--time-limit={value}")
        self.assertEqual(
            run("run", self.model, "--time-limit", "0.5m", "--seed", 2**64 - 1, "--threads", "1024").returncode, 0)
        for value in ("batch=-1", f"batch={huge}", "batch=garbage", "batch=1.5", "batch= 1", "batch=+1"):
            self.refused(f"--dim expects NAME=N with a whole number N from 0 to {2**63 - 1}, got '{value}'", "run",
                         self.model, "--dim", value)

    def test_lists_with_commas(self):
        self.assertEqual(run("run", self.model, "--without", "fuse_attention,channels_last").returncode, 0)
        self.refused("there is no pass 'fly'", "run", self.model, "--without", "fuse_attention,fly")
        self.refused("no input has a dimension 'depth'", "run", self.model, "--dim", "batch=2,depth=3")
        self.refused("no input has a dimension 'a,batch'", "run", self.model, "--dim", "a,batch=3")
        self.assertIn("f32[3, 10]", run("run", self.model, "--dim", "batch=3").stdout)
        self.assertIn("f32[3, 10]", run("run", "--dim", "batch=3", self.model).stdout)
        self.assertEqual(run("diff", "--dim", "batch=3", self.model, self.model).returncode, 0)

    def test_nonsense_in_variables(self):
        for name, values, text in [
            ("TESSERA_NUM_THREADS", ("garbage", "-1", "1" + "0" * 23, "100000", "2x", " 2", "1.5"),
             "expects a whole number from 0 (all cores) to 1024, got "),
            ("TESSERA_ISA", ("garbage", "AVX2", "sse"), "expects scalar, avx2, avx512 or amx, got ")
        ]:
            for value in values:
                for arguments in (["run", self.model], ["info", self.model]):
                    self.refused(f"{name} {text}'{value}'", *arguments, env={**os.environ, name: value})
            self.assertEqual(run("run", "--help", env={**os.environ, name: values[0]}).returncode, 0)
            self.assertEqual(run("run", self.model, env={**os.environ, name: ""}).returncode, 0)

    # --- completion and manual

    def completions(self, *words):
        script = ('source <("$1" completion bash); shift; COMP_WORDS=(tessera "$@"); COMP_CWORD=$#; _tessera; '
                  'printf "%s\\n" "${COMPREPLY[@]}"')
        done = subprocess.run(["bash", "--norc", "-c", script, "bash", program.path, *words], capture_output=True,
                              text=True, timeout=60)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout.split()

    @unittest.skipIf(shutil.which("bash") is None, "no bash")
    def test_bash_completes(self):
        self.assertEqual(self.completions("b"), ["bench"])
        self.assertEqual(set(self.completions("")) & {"run", "explain", "completion"}, {"run", "explain", "completion"})
        self.assertEqual(self.completions("run", "m.onnx", "--thr"), ["--threads"])
        self.assertEqual(self.completions("run", "--precision", ""), ["f32", "bf16"])
        self.assertEqual(self.completions("run", "--device", "re"), ["reference"])
        self.assertEqual(self.completions("run", "m.onnx", "--without", "fuse_att"), ["fuse_attention"])
        self.assertEqual(self.completions("new", "vgg"), ["vgg16"])
        self.assertEqual(self.completions("completion", "z"), ["zsh"])
        self.assertEqual(self.completions("run", "x"), [])  # file names, which bash adds
        self.assertEqual(self.completions("run", "--json", ""), [])
        self.assertEqual(self.completions("share", "da"), ["daemon"])
        self.assertEqual(self.completions("share", "run", "--cl"), ["--class"])
        self.assertEqual(self.completions("share", "run", "--class", "b"), ["background"])
        self.assertEqual(self.completions("share", "status", "--cl"), [])

    def test_scripts_know_every_verb_and_option(self):
        for shell in ("bash", "zsh", "fish"):
            script = run("completion", shell).stdout
            for word in ("calibrate", "threads", "bf16", "resnet50", "profile"):
                self.assertIn(word, script, shell)
            parser = shutil.which(shell)
            if parser is not None:
                self.assertEqual(
                    subprocess.run([parser, "-n", "/dev/stdin"], input=script, capture_output=True, text=True,
                                   timeout=60).stderr, "", shell)
        self.refused("SHELL: csh not in {bash,zsh,fish}", "completion", "csh")

    def test_the_manual_has_every_verb_and_no_faults(self):
        page = run("manual").stdout
        for text in (".TH TESSERA 1", ".SS tessera explain", "\\fB\\-\\-threads\\fR \\fIINT\\fR", ".SH NOTES",
                     "TESSERA_NUM_THREADS"):
            self.assertIn(text, page)
        if shutil.which("groff") is not None:
            done = subprocess.run(["groff", "-man", "-Tutf8", "-ww", "-z"], input=page, capture_output=True, text=True,
                                  timeout=60)
            self.assertEqual((done.returncode, done.stderr), (0, ""))


if __name__ == "__main__":
    program.main()
