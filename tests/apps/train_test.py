#!/usr/bin/env python3
"""`tessera train` and `tessera eval` as a user calls them: results, going on after kill -9, files that are broken or
missing, a full disk, NaN in the data, a training that diverges. Standard library only.

    train_test.py TESSERA
"""
import json
import pathlib
import random
import resource
import signal
import subprocess
import tempfile
import time
import unittest

import program
from training_data import pictures, write_npz
from program import INVALID, IO, NOT_FOUND, WRONG_CALL, run

FAILED = 9
CONFIG = """output = "{output}"
[model]
builder = "lenet5"
[data]
train = "{data}"
hold_out = 0.2
batch = 32
[optimiser]
name = "adamw"
learning_rate = 0.001
[train]
steps = {steps}
log_every = 1
checkpoint_every = 3
evaluate_every = 10
seed = 4
"""


def log_of(folder):
    """Lines without what differs from run to run."""
    changing = {"samples_per_s", "data_wait_share", "seconds", "peak_rss_bytes"}
    lines = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    return sorted(str({key: value for key, value in line.items() if key not in changing}) for line in lines)


class Train(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.holder = tempfile.TemporaryDirectory()
        cls.folder = pathlib.Path(cls.holder.name)
        cls.x, cls.y = pictures(160)
        write_npz(cls.folder / "data.npz", cls.x, cls.y)

    @classmethod
    def tearDownClass(cls):
        cls.holder.cleanup()

    def config(self, name, steps=30, data="data.npz"):
        path = self.folder / f"{name}.toml"
        path.write_text(CONFIG.format(output=self.folder / name, data=self.folder / data, steps=steps))
        return path

    def fails(self, code, text, *arguments, **options):
        done = run(*arguments, **options)
        self.assertEqual(done.returncode, code, done.stderr)
        self.assertIn(text, done.stderr)
        return done

    def test_trains_tests_and_exports(self):
        done = run("train", self.config("whole"), "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        result = json.loads(done.stdout)
        self.assertGreater(result["test_accuracy"], 0.95)
        lines = [json.loads(line) for line in (self.folder / "whole/log.jsonl").read_text().splitlines()]
        self.assertEqual([line["step"] for line in lines if "learning_rate" in line], list(range(1, 31)))
        last = lines[-1]
        self.assertEqual(last["test_accuracy"], result["test_accuracy"])
        self.assertEqual(last["precision"], "f32")
        self.assertGreater(last["peak_rss_bytes"], 1 << 20)
        self.assertGreater(last["seconds"], 0)
        tested = run("eval", self.folder / "whole", "--json", "--export", self.folder / "exported.onnx")
        self.assertEqual(tested.returncode, 0, tested.stderr)
        self.assertEqual(json.loads(tested.stdout)["test_accuracy"], result["test_accuracy"])
        self.assertEqual((self.folder / "exported.onnx").read_bytes(), (self.folder / "whole/model.onnx").read_bytes())
        self.assertEqual(run("run", self.folder / "whole/model.onnx").returncode, 0)

    def test_lists_what_is_trained_and_what_is_not(self):
        frozen = ("--set", 'model.frozen=["conv1*"]')
        done = run("train", self.config("listed", 2), *frozen)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("trains 8 weights with ", done.stderr)
        self.assertIn("  an initializer: ", done.stderr)
        self.assertIn("does not train 2 constants (model.trained and model.frozen turn either)", done.stderr)
        self.assertIn("\n  frozen: conv1", done.stderr)
        done = run("train", self.config("listed_whole", 2), "--json", *frozen)
        weights = json.loads(done.stdout)["weights"]
        self.assertEqual(len(weights["trained"]), 8)
        self.assertEqual(weights["trained"][0]["reason"], "an initializer")
        self.assertEqual([each["reason"] for each in weights["untrained"]], ["frozen", "frozen"])

    def test_judges_by_validation_data(self):
        config = self.config("judged", 20)
        extra = ["--set", "data.validation_share=0.25", "--set", 'train.metrics=["f1","auc"]', "--set",
                 "train.tensorboard=true", "--set", 'data.sampling="balanced"', "--set",
                 'loss.class_weights="balanced"']
        done = run("train", config, "--json", *extra)
        self.assertEqual(done.returncode, 0, done.stderr)
        result = json.loads(done.stdout)
        for key in ("validation_f1", "validation_auc", "test_f1", "test_auc", "test_loss"):
            self.assertIn(key, result)
        labels = len(result["classes"])
        self.assertEqual(sum(each["support"] for each in result["classes"]), 32)
        self.assertEqual([len(row) for row in result["confusion"]], [labels] * labels)
        tests = [line for line in map(json.loads, (self.folder / "judged/log.jsonl").read_text().splitlines())
                 if "test_f1" in line and "precision" not in line]
        self.assertIn(len(tests), (1, 2))  # once, and once for the best weights where they are others
        self.assertEqual(len(list((self.folder / "judged/tensorboard").iterdir())), 1)
        tested = run("eval", self.folder / "judged", "--json")
        self.assertEqual(json.loads(tested.stdout)["test_f1"], result["test_f1"])
        self.assertEqual(json.loads(tested.stdout)["confusion"], result["confusion"])
        tested = run("eval", self.folder / "judged", "--on", "validation")
        self.assertIn("validation f1", tested.stdout)
        self.assertIn("precision  recall", tested.stdout)

    def test_gives_a_net_another_head(self):
        self.assertEqual(run("train", self.config("first", 3)).returncode, 0)
        config = self.config("second", 3)
        head = ["--set", "model.builder=", "--set", f"model.file={self.folder / 'first/model.onnx'}", "--set",
                "model.classes=14"]
        done = run("train", config, *head, "--set", "output=" + str(self.folder / "second"))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("has 14 outputs in place of 10, with new weights", done.stderr)
        self.assertIn("14]", run("info", self.folder / "second/model.onnx").stdout)
        again = ["--set", f"model.weights={self.folder / 'first/model.onnx'}", "--set", "train.steps=1"]
        done = run("train", self.config("third", 3), *again)
        self.assertIn("constants are those of", done.stderr)
        self.fails(NOT_FOUND, "model.weights: there is no 'nothing.npz'", "train", config, "--set",
                   "model.weights=nothing.npz")

    def test_goes_on_after_kill(self):
        steps = 120
        begin = time.monotonic()
        self.assertEqual(run("train", self.config("quiet", steps)).returncode, 0)
        whole = time.monotonic() - begin  # kills come before the training can have ended, however fast the machine is
        numbers = random.Random(time.time_ns())
        config = self.config("killed", steps)
        kills = 0
        for _ in range(40):
            resume = ["--resume", str(self.folder / "killed")] if kills else []
            child = subprocess.Popen([program.path, "train", str(config), *resume], stdout=subprocess.DEVNULL,
                                     stderr=subprocess.PIPE, text=True)
            try:
                child.wait(numbers.uniform(0.1, 0.8) * whole if kills < 20 else None)
            except subprocess.TimeoutExpired:
                child.send_signal(signal.SIGKILL)
            message = child.communicate()[1]
            if child.returncode == 0:
                break
            self.assertEqual(child.returncode, -signal.SIGKILL, message)
            if list((self.folder / "killed").glob("checkpoint-*")):
                kills += 1
        self.assertEqual(child.returncode, 0)
        self.assertGreater(kills, 0)
        self.assertEqual(log_of(self.folder / "quiet"), log_of(self.folder / "killed"))
        self.assertEqual((self.folder / "quiet/model.onnx").read_bytes(),
                         (self.folder / "killed/model.onnx").read_bytes())

    def test_an_interrupt_saves_and_ends(self):
        child = subprocess.Popen([program.path, "train", str(self.config("stopped", 100000))], stdout=subprocess.PIPE,
                                 stderr=subprocess.PIPE, text=True)
        while not list((self.folder / "stopped").glob("checkpoint-*")) and child.poll() is None:
            time.sleep(0.02)
        child.send_signal(signal.SIGINT)
        out, _ = child.communicate(timeout=60)
        self.assertEqual(child.returncode, 130)
        self.assertIn("go on with --resume", out)
        self.assertEqual(run("eval", self.folder / "stopped").returncode, 0)

    def test_nan_in_the_data(self):
        x = [row[:] for row in self.x]
        for row in x:
            row[5] = float("nan")
        write_npz(self.folder / "nan.npz", x, self.y)
        self.fails(FAILED, "input 'input' is nan at", "train", self.config("nan", data="nan.npz"))

    def test_a_training_that_diverges(self):
        self.fails(FAILED, "The training diverged: a smaller learning rate", "train", self.config("diverged"), "--set",
                   "optimiser.name=sgd", "--set", "optimiser.learning_rate=1e30")

    def test_files_that_are_broken_or_missing(self):
        self.fails(NOT_FOUND, "absent.npz", "train", self.config("absent", data="absent.npz"))
        self.fails(NOT_FOUND, "nowhere.toml", "train", self.folder / "nowhere.toml")
        whole = (self.folder / "data.npz").read_bytes()
        (self.folder / "cut.npz").write_bytes(whole[:len(whole) // 2])
        self.fails(WRONG_CALL, "cut.npz", "train", self.config("cut", data="cut.npz"))
        self.fails(WRONG_CALL, "did you mean 'steps'?", "train", self.config("key"), "--set", "train.step=3")
        self.fails(WRONG_CALL, "unknown metric 'nope'; there are accuracy, ", "train", self.config("metric"), "--set",
                   "train.metric=nope")
        self.fails(NOT_FOUND, "there is no checkpoint", "train", self.config("none"), "--resume", self.folder)
        (self.folder / "net.onnx").write_bytes(b"no model")
        self.fails(INVALID, "net.onnx", "train", self.config("net"), "--set", "model.builder=", "--set",
                   f"model.file={self.folder / 'net.onnx'}")

    def test_goes_on_from_a_checkpoint_by_its_name(self):
        folder = self.folder / "named"
        self.assertEqual(run("train", self.config("named", 6)).returncode, 0)
        whole = (folder / "model.onnx").read_bytes()
        (folder / "model.onnx").unlink()
        checkpoint = folder / "checkpoint-000000003.npz"
        done = run("train", "--resume", checkpoint.name, cwd=folder)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual((folder / "model.onnx").read_bytes(), whole)
        (folder / "config.toml").unlink()
        self.fails(NOT_FOUND, f"there is no '{folder / 'config.toml'}' beside the checkpoint '{checkpoint}': name a",
                   "train", "--resume", checkpoint)
        self.fails(NOT_FOUND, "nowhere.toml' does not exist", "train", self.folder / "nowhere.toml", "--resume",
                   checkpoint)

    def test_test_data_are_checked_before_the_training(self):
        write_npz(self.folder / "others.npz", self.x, self.y, names=("pictures", "y"))
        wrong = ["--set", f"data.test={self.folder / 'others.npz'}", "--set", "data.hold_out=0"]
        text = "no field of the test data feeds the input 'input', as 'x' of the training data does"
        self.fails(WRONG_CALL, text, "train", self.config("others"), *wrong)
        self.assertFalse((self.folder / "others").exists())
        self.assertEqual(run("train", self.config("fine", 2)).returncode, 0)
        self.fails(WRONG_CALL, text, "eval", self.folder / "fine", *wrong)
        write_npz(self.folder / "others.npz", self.x, self.y, names=("x", "classes"))
        self.fails(WRONG_CALL, "the test data have no field 'y' to compare with (loss.target)", "eval",
                   self.folder / "fine", *wrong)

    def test_an_output_that_is_no_folder(self):
        (self.folder / "file").write_text("mine")
        for path, text in [(self.folder / "file", "there is a file of that name"), ("/proc/x", "No such file")]:
            done = self.fails(IO, f"cannot make the folder '{path}': {text}", "train", self.config("output"), "--set",
                              f"output={path}")
            self.assertEqual(done.stdout, "")
        self.assertEqual((self.folder / "file").read_text(), "mine")

    def test_a_folder_that_holds_another_training(self):
        config = self.config("twice", 6)
        self.assertEqual(run("train", config).returncode, 0)
        net = (self.folder / "twice/model.onnx").read_bytes()
        done = self.fails(WRONG_CALL, "holds another training (its newest checkpoint is of step 6)", "train", config,
                          "--set", "train.steps=3")
        for way in ["--resume", "'output'", "--overwrite"]:
            self.assertIn(way, done.stderr)
        self.assertEqual((self.folder / "twice/model.onnx").read_bytes(), net)
        self.assertEqual(run("train", config, "--set", "train.steps=3", "--overwrite").returncode, 0)
        self.assertEqual(json.loads(run("eval", self.folder / "twice", "--json").stdout)["step"], 3)

    def test_two_trainings_into_one_folder(self):
        config = self.config("both", 100000)
        child = subprocess.Popen([program.path, "train", str(config)], stdout=subprocess.DEVNULL,
                                 stderr=subprocess.DEVNULL)
        while not list((self.folder / "both").glob("checkpoint-*")) and child.poll() is None:
            time.sleep(0.02)
        for more in [["--overwrite"], ["--resume", self.folder / "both"]]:
            self.fails(WRONG_CALL, "another training is writing to", "train", config, *more)
        child.kill()
        child.wait()
        # The lock ends with the process.
        step = json.loads(run("eval", self.folder / "both", "--json").stdout)["step"]
        done = run("train", "--resume", self.folder / "both", "--set", f"train.steps={step + 1}", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_goes_on_and_evaluates_from_any_folder(self):
        config = self.folder / "relative.toml"
        config.write_text(CONFIG.format(output="relative", data="data.npz", steps=6))
        self.assertEqual(run("train", config.name, cwd=self.folder).returncode, 0)
        with tempfile.TemporaryDirectory() as elsewhere:
            done = run("eval", self.folder / "relative", cwd=elsewhere)
            self.assertEqual(done.returncode, 0, done.stderr)
            done = run("train", "--resume", self.folder / "relative", "--set", "train.steps=8", cwd=elsewhere)
            self.assertEqual(done.returncode, 0, done.stderr)
            # Into another folder where that is asked for; the old one stays as it is.
            done = run("train", "--resume", self.folder / "relative", "--set", "train.steps=9", "--set", "output=new",
                       "--json", cwd=elsewhere)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(json.loads(done.stdout)["output"], "new")
            lines = (pathlib.Path(elsewhere) / "new/log.jsonl").read_text().splitlines()
            self.assertEqual([json.loads(line)["step"] for line in lines if "learning_rate" in line],
                             list(range(1, 10)))
            self.assertEqual(json.loads(run("eval", pathlib.Path(elsewhere) / "new", "--json").stdout)["step"], 9)
        self.assertEqual(json.loads(run("eval", self.folder / "relative", "--json").stdout)["step"], 8)

    def test_numbers_that_are_not_finite(self):
        self.fails(WRONG_CALL, "optimiser.learning_rate is inf, expected a finite number", "train",
                   self.config("infinite"), "--set", "optimiser.learning_rate=inf")

    def test_a_metric_that_does_not_fit(self):
        self.fails(WRONG_CALL, "differ in shape", "train", self.config("unfit"), "--set", "train.metric=mae")
        self.assertFalse((self.folder / "unfit").exists())

    def test_a_full_disk(self):
        def no_room():
            resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))

        self.fails(IO, "checkpoint-", "train", self.config("full"), preexec_fn=no_room)
        self.assertEqual(list((self.folder / "full").glob("*.npz")), [])


if __name__ == "__main__":
    program.main()
