#!/usr/bin/env python3
"""Sessions from Python: results, errors, threads, Ctrl-C, fork, reports, training and sharing."""
# Length: one case for each thing that Python programs do with a session, on models that most of them share.
import logging
import os
import pathlib
import pickle
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import models
import numpy
import tessera


def ones(*shape):
    return numpy.ones(shape, numpy.float32)


class Runs(unittest.TestCase):
    def test_ways_to_give_inputs_and_to_get_outputs(self):
        session = tessera.Session(models.add())
        x = ones(3, 2)
        for result in (session.run(x, x), session(x, y=x), session.run({"x": x, "y": x}), session.run(x=x, y=x),
                       session.run([[1, 1]] * 3, x)):
            self.assertEqual(result.tolist(), [[2, 2]] * 3)
            self.assertEqual(result.dtype, numpy.float32)
        both = tessera.Session(models.two_outputs())
        self.assertEqual(list(both.run(ones(1, 3))), ["positive", "negated"])
        self.assertEqual(both.run(ones(1, 3), outputs=["negated"]).tolist(), [[-1, -1, -1]])
        for call in (lambda: session.run(x, x, x), lambda: session.run(x, x=x), lambda: session.run(x, q=x)):
            self.assertRaises(tessera.InvalidArgument, call)

    def test_names_options_and_models_in_their_other_forms(self):
        both = tessera.Session(models.onnx.load_from_string(models.two_outputs()))
        self.assertEqual(both.run(ones(1, 3), outputs="negated").tolist(), [[-1, -1, -1]])
        self.assertEqual(both.run(ones(1, 3), outputs=("negated",)).tolist(), [[-1, -1, -1]])
        for data in (bytearray(models.add()), memoryview(models.add())):
            self.assertEqual(tessera.Session(data).run(ones(1, 2), ones(1, 2)).tolist(), [[2, 2]])
        with self.assertRaises(TypeError):
            tessera.Session(3)
        with self.assertRaises(TypeError):
            both.run(ones(1, 3), options={"time_limit": 1})
        options = tessera.RunOptions(seed=3, time_limit_s=2.5, priority="realtime")
        self.assertEqual((options.seed, options.time_limit_s), (3, 2.5))
        self.assertEqual(repr(options), "tessera.RunOptions(seed=3, time_limit_s=2.5, priority='realtime')")
        with self.assertRaisesRegex(tessera.InvalidArgument, "cannot have -1 threads"):
            tessera.Session(models.add(), threads=-1)
        for surrogate in ("\ud800.onnx", "\udcff\ud800"):
            with self.assertRaises(tessera.Error):
                tessera.load(surrogate)

    def test_initialisers_that_may_be_overridden(self):
        session = tessera.Session(models.scaled())
        x = ones(2)
        self.assertEqual([each.name for each in session.inputs], ["x"])
        self.assertEqual(repr(session.overridable), "[scale: f32[1]]")
        self.assertEqual(session.run(x).tolist(), [3, 3])
        self.assertEqual(session.run(x, scale=[5]).tolist(), [6, 6])
        self.assertEqual(session.run({"x": x, "scale": numpy.zeros(1, numpy.float32)}).tolist(), [1, 1])
        self.assertEqual(session.run(x).tolist(), [3, 3])
        with self.assertRaisesRegex(tessera.InvalidArgument, "input 'scale' has shape"):
            session.run(x, scale=[5, 6])

    def test_results_live_on(self):
        session = tessera.Session(models.identity(models.FLOAT))
        x = ones(4)
        first = session.run(x)
        x[:] = 5
        session.run(x)
        del session
        self.assertEqual(first.tolist(), [1, 1, 1, 1])
        first += 1  # it is the caller's

    def test_a_device_that_computes_nothing_gives_no_numbers(self):
        session = tessera.Session(models.add(), device="null", dims={"n": 2})
        with self.assertRaisesRegex(tessera.Unsupported, "the device computes none"):
            session.run({"x": numpy.zeros((2, 2), numpy.float32), "y": numpy.zeros((2, 2), numpy.float32)})

    def test_loading(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "ä.onnx")
            with open(path, "wb") as file:
                file.write(models.add())
            session = tessera.load(path, dims={"n": 3}, threads=1)
            self.assertEqual((session.name, session.inputs[0].shape, session.inputs[0].dtype), ("ä", [3, 2], "f32"))
            self.assertIn("x: f32[3, 2]", repr(session))
            self.assertRaises(tessera.InvalidArgument, lambda: tessera.load(path, dims={"q": 3}))
            self.assertRaises(tessera.InvalidArgument, lambda: tessera.load(path, device="gpu"))
            self.assertRaises(tessera.InvalidArgument, lambda: tessera.load(path, precision="f99"))
            self.assertRaises(tessera.NotFound, lambda: tessera.load(path + "x"))
            self.assertRaises(TypeError, lambda: tessera.load(3))
        for data in (b"", b"abc", models.add()[:40]):
            self.assertRaises(tessera.Error, lambda data=data: tessera.Session(data))

    def test_errors(self):
        with self.assertRaises(RuntimeError) as caught:
            tessera.Session(models.add()).run(ones(3, 2), ones(4, 2))
        error = caught.exception
        self.assertIsInstance(error, tessera.Error)
        self.assertTrue(error.message and str(error).startswith(error.message))
        self.assertIsInstance(error.context, tuple)
        self.assertEqual(str(pickle.loads(pickle.dumps(error))), str(error))
        self.assertTrue(issubclass(tessera.InvalidArgument, ValueError))
        with self.assertRaises(tessera.OverBudget):
            tessera.Session(models.mlp(), memory_limit_bytes=100).run(ones(1000, 16))

    def test_as_many_plans_are_kept_as_asked_for(self):
        with self.assertRaisesRegex(tessera.InvalidArgument, "max_cached_plans is 0, expected at least 1"):
            tessera.Session(models.mlp(), max_cached_plans=0)
        few = tessera.Session(models.mlp(), max_cached_plans=2)
        many = tessera.Session(models.mlp(), max_cached_plans=40)
        held = []
        for batch in range(1, 31):
            self.assertTrue(numpy.array_equal(few.run(ones(batch, 16)), many.run(ones(batch, 16))))
            held.append(few.memory()["plans_bytes"])
        self.assertLess(max(held), 5 * held[0])  # two, and two that plans for other sizes are made from
        self.assertGreater(many.memory()["plans_bytes"], 20 * held[0])

    def test_messages_go_to_logging(self):
        wrong = models.model_bytes([models.helper.make_node("Relu", ["x"], ["y"])],
                                   [models.info("x", models.FLOAT, [2])], [models.info("y", models.FLOAT, [3])])
        with self.assertLogs("tessera", logging.INFO) as caught:
            for _ in range(3):
                tessera.Session(wrong).run(ones(2))
        self.assertEqual(sum(line.startswith("WARNING") for line in caught.output), 1, caught.output)


class RandomNumbers(unittest.TestCase):
    FEED = {"x": numpy.ones(64, numpy.float32), "p": numpy.zeros((1, 4), numpy.float32)}

    def draw(self, session, seed=None):
        options = tessera.RunOptions()
        options.seed = seed
        return session.run(self.FEED, options=options)["normal"].tobytes()

    def test_seeds(self):
        data = models.random_numbers()
        session = tessera.Session(data)
        self.assertEqual(len({self.draw(session) for _ in range(5)}), 5)
        self.assertEqual(self.draw(session, 4), self.draw(tessera.Session(data), 4))
        one, two = [[self.draw(each) for _ in range(3)] for each in (tessera.Session(data, seed=6) for _ in range(2))]
        self.assertEqual(one, two)
        self.assertEqual(len(set(one)), 3)

    def test_a_package_draws_the_same(self):
        with tempfile.TemporaryDirectory() as folder:
            session = tessera.Session(models.random_numbers())
            session.optimize(os.path.join(folder, "m.tsr"))
            self.assertEqual(self.draw(tessera.load(os.path.join(folder, "m.tsr")), 4), self.draw(session, 4))


class Concurrency(unittest.TestCase):
    def test_threads_get_their_own_results(self):
        session = tessera.Session(models.mlp())
        inputs = [numpy.full((8, 16), i, numpy.float32) for i in range(8)]
        expected = [session.run(x) for x in inputs]
        wrong = []

        def work(i):
            for _ in range(200):
                if not numpy.array_equal(session.run(inputs[i]), expected[i]):
                    wrong.append(i)

        threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])

    def test_the_lock_is_released(self):
        session = tessera.Session(models.endless())
        cancellation = tessera.Cancellation()
        options = tessera.RunOptions()
        options.cancellation = cancellation
        caught = []

        def work():
            try:
                session.run(2**40, ones(1), options=options)
            except tessera.Cancelled as error:
                caught.append(error)

        thread = threading.Thread(target=work)
        thread.start()
        count, end = 0, time.monotonic() + 0.2
        while time.monotonic() < end:
            count += 1
        cancellation.cancel()
        thread.join(10)
        self.assertEqual((len(caught), thread.is_alive()), (1, False))
        self.assertGreater(count, 1000)

    def test_time_limit(self):
        options = tessera.RunOptions()
        options.time_limit_s = 0.05
        with self.assertRaises(tessera.OverBudget):
            tessera.Session(models.endless()).run(2**40, ones(1), options=options)

    def test_interrupt_stops_a_run_soon(self):
        session = tessera.Session(models.endless())
        for _ in range(2):
            threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
            begin = time.monotonic()
            with self.assertRaises(KeyboardInterrupt):
                session.run(2**40, ones(1))
            self.assertLess(time.monotonic() - begin, 5)
        self.assertEqual(session.run(3, ones(1)).tolist(), [8])

    def handled(self, number, handler, call, after=0.2):
        """How long the call lasted with this handler of the signal, which comes after that many seconds."""
        old = signal.signal(number, handler)
        try:
            threading.Timer(after, os.kill, (os.getpid(), number)).start()
            begin = time.monotonic()
            call()
            return time.monotonic() - begin
        finally:
            signal.signal(number, old)

    def test_a_handler_that_does_not_raise_runs_at_once_and_the_run_goes_on(self):
        session, hits = tessera.Session(models.endless()), []

        def call():
            with self.assertRaisesRegex(tessera.OverBudget, "longer than its limit"):
                session.run(2**40, ones(1), options=tessera.RunOptions(time_limit_s=1.5))

        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1):
            begin = time.monotonic()
            seconds = self.handled(number, lambda *_: hits.append(time.monotonic() - begin), call)
            self.assertTrue(1.4 < seconds < 2.6, seconds)  # the run does not begin anew, and its limit is one
        self.assertEqual(len(hits), 3)
        self.assertLess(max(hits), 1.2)

    def test_what_a_handler_of_any_signal_raises_ends_the_run(self):
        session = tessera.Session(models.endless())
        options = tessera.RunOptions(cancellation=tessera.Cancellation())

        def late(*_):
            raise TimeoutError("late")

        for number in (signal.SIGALRM, signal.SIGTERM, signal.SIGINT):
            for given in (None, options):

                def call():
                    session.run(2, ones(1), options=given)
                    with self.assertRaisesRegex(TimeoutError, "late"):
                        session.run(2**40, ones(1), options=given)

                self.assertLess(self.handled(number, late, call), 3)
        self.assertFalse(options.cancellation.is_cancelled)  # which is the caller's

    def test_a_handler_may_run_models_itself(self):
        session, other, results = tessera.Session(models.endless()), tessera.Session(models.mlp()), []

        def call():
            with self.assertRaises(tessera.OverBudget):
                session.run(2**40, ones(1), options={"time_limit_s": 1.0})

        self.handled(signal.SIGALRM, lambda *_: results.append(other.run(ones(2, 16)).shape), call)
        self.assertEqual(results, [(2, 4)])

    def test_a_cancellation_stops_a_run_of_the_main_thread(self):
        cancellation = tessera.Cancellation()
        threading.Timer(0.2, cancellation.cancel).start()
        with self.assertRaises(tessera.Cancelled):
            tessera.Session(models.endless()).run(2**40, ones(1), options={"cancellation": cancellation})

    def test_pickled_sessions_and_models(self):
        x, kept = ones(3, 16), tessera.Session(models.mlp(), threads=1)
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "net.onnx")
            with open(path, "wb") as file:
                file.write(models.mlp())
            of_file = tessera.load(path, dims={"batch": 3}, threads=1)
            for session in (kept, of_file, tessera.Session(kept.model)):
                again = pickle.loads(pickle.dumps(session))
                self.assertEqual((repr(again), again.options.threads), (repr(session), session.options.threads))
                numpy.testing.assert_array_equal(again.run(x), session.run(x))
            self.assertLess(len(pickle.dumps(of_file)), 500)
        again = pickle.loads(pickle.dumps(kept.model))
        self.assertIn("tessera.Model graph (x: f32[batch, 16])", repr(again))
        numpy.testing.assert_array_equal(tessera.Session(again).run(x), kept.run(x))

    def test_a_child_of_fork_runs(self):
        session = tessera.Session(models.mlp(64, 512, 64))
        x = ones(256, 64)
        expected = session.run(x)
        child = os.fork()
        if child == 0:
            same = numpy.array_equal(session.run(x), expected)
            os._exit(0 if same else 1)
        end = time.monotonic() + 20
        while True:
            done, status = os.waitpid(child, os.WNOHANG)
            if done:
                break
            if time.monotonic() > end:
                os.kill(child, signal.SIGKILL)
                self.fail("a run in the child of a fork does not end")
            time.sleep(0.01)
        self.assertEqual(status, 0)

    def test_the_interpreter_ends_while_daemon_threads_run(self):
        program = (
            "import threading, time, numpy, models, tessera\n"
            "a, b = tessera.Session(models.mlp()), tessera.Session(models.endless())\n"
            "x = numpy.ones((64, 16), numpy.float32)\n"
            "threading.Thread(target=lambda: [a.run(x) for _ in iter(int, 1)], daemon=True).start()\n"
            "threading.Thread(target=lambda: b.run(2**40, x[0, :1]), daemon=True).start()\n"
            "time.sleep(0.1)\n")
        done = subprocess.run([sys.executable, "-B", "-c", program], timeout=30, capture_output=True,
                              cwd=os.path.dirname(os.path.abspath(__file__)))
        self.assertEqual((done.returncode, done.stderr), (0, b""))


class Reports(unittest.TestCase):
    def setUp(self):
        self.session = tessera.Session(models.mlp())

    def test_explain(self):
        found = self.session.explain()
        self.assertIn("operators", found.data["devices"][0]["evaluation"] if "evaluation" in found.data["devices"][0]
                      else {"operators": 1})
        self.assertTrue(found.headline in found.text and found.text == str(found))
        self.assertIn("<iframe srcdoc=", found._repr_html_())
        self.assertIn("H100", self.session.explain(devices=["h100-sxm"], precision="f16").text)
        self.assertIn("H100", self.session.explain(devices="h100-sxm").text)
        self.assertRaises(tessera.Error, lambda: self.session.explain(devices=["abacus"]))
        self.assertRaises(tessera.InvalidArgument, lambda: self.session.explain(precision="f99"))

    def test_info_and_repr(self):
        info = self.session.info()
        self.assertEqual((info["parameters"], info["nodes"]), (16 * 32 + 32 + 32 * 4 + 4, 5))
        page = tessera.Session(models.mlp())._repr_html_()
        self.assertTrue("MatMul" in page and "<svg" in page and "batch" in page)

    def test_optimize_and_diff(self):
        with tempfile.TemporaryDirectory() as folder:
            for ending in (".onnx", ".tsr"):
                path = os.path.join(folder, "out" + ending)
                done = self.session.optimize(path)
                self.assertTrue(done.text and "<html" in done.html and done.data)
                difference = self.session.diff(tessera.load(path))
                self.assertTrue(self.session.diff(path).same)
                self.assertTrue(difference and difference.same, difference.text)
            self.assertRaises(tessera.InvalidArgument, lambda: self.session.optimize(os.path.join(folder, "out.txt")))
        self.assertTrue(self.session.diff(models.mlp()).same)
        other = self.session.diff(tessera.Session(models.mlp(seed=1)), {"x": ones(2, 16)})
        self.assertFalse(other)
        self.assertIn("y", other.text)

    def test_lists_devices_and_bounds_their_memory(self):
        names = [device["name"] for device in tessera.devices()]
        self.assertEqual(names[:3], ["cpu", "reference", "null"])
        session = tessera.Session(models.mlp(), device="simulated:t4", device_memory_limit_bytes=16)
        with self.assertRaisesRegex(tessera.OverBudget, "in the memory of device 'simulated:t4'"):
            session.run(ones(2, 16))
        roomy = tessera.Session(models.mlp(), device="simulated:t4")
        roomy.run(ones(2, 16))
        self.assertGreater(roomy.memory()["device"]["weights_bytes"], 0)
        uuid = next(device["uuid"] for device in tessera.devices() if device["name"] == "simulated:t4")
        self.assertEqual(tessera.Session(models.mlp(), device=uuid).run(ones(2, 16)).shape, (2, 4))

    def test_trace_memory_and_plan(self):
        feeds = self.session.made_up_inputs()
        self.assertIn("traceEvents", self.session.trace(feeds))
        self.assertGreater(self.session.memory()["weights_bytes"], 0)
        self.session.trim()


class TrainingAndSharing(unittest.TestCase):
    CONFIG = {
        "loss": {"name": "mse", "target": "t"},
        "optimiser": {"name": "sgd", "learning_rate": 0.05},
        "data": {"batch": 16, "workers": 0},
        "train": {"steps": 60, "log_every": 10},
    }

    def trainer(self, settings=None, **options):
        random = numpy.random.default_rng(0)
        x = random.standard_normal((64, 16)).astype(numpy.float32)
        fields = {"x": x, "t": x[:, :4] * 0.5}
        return tessera.Trainer(self.CONFIG, model=tessera.Session(models.mlp()), train=fields, test=fields,
                               settings=settings, **options)

    def test_training_learns_and_reports(self):
        trainer, lines, progress = self.trainer(), [], []
        before = trainer.evaluate()["loss"]
        result = trainer.run(on_step=lines.append, on_progress=lambda step, steps: progress.append((step, steps)))
        self.assertEqual((result["steps"], len(lines), progress[-1]), (60, 6, (60, 60)))
        self.assertLess(trainer.evaluate()["loss"], before / 2)
        trained = trainer.session()
        self.assertEqual(trained.run(ones(2, 16)).shape, (2, 4))

    def test_training_of_classes_is_judged_by_validation_data(self):
        numbers = numpy.random.default_rng(1)
        labels = numbers.integers(0, 3, 48)
        x = numpy.zeros((48, 16), numpy.float32)
        x[numpy.arange(48), labels] = 3
        fields = {"x": x + numbers.normal(0, 0.1, x.shape).astype(numpy.float32), "y": labels}
        with tempfile.TemporaryDirectory() as folder:
            config = {"output": folder, "model": {"classes": 3}, "data": {"batch": 16, "sampling": "balanced"},
                      "loss": [{"class_weights": [1.0, 2.0, 1.0]}],
                      "optimiser": {"name": "adam", "learning_rate": 0.01},
                      "train": {"steps": 60, "metrics": ["f1", "auc"], "evaluate_every": 30}}
            seen = []
            trainer = tessera.Trainer(config, model=tessera.Session(models.mlp()), train=fields, test=fields,
                                      validation=fields)
            self.assertIn("has 3 outputs in place of 4", trainer.notes()[0])
            result = trainer.run(on_evaluation=seen.append)
            self.assertEqual([each["data"] for each in seen][:3], ["validation", "validation", "test"])
            self.assertGreater(result["test"]["metrics"]["auc"], 0.95)
            self.assertEqual(numpy.array(result["test"]["confusion"]).sum(), 48)
            self.assertEqual([each["support"] for each in result["test"]["classes"]],
                             [int((labels == c).sum()) for c in range(3)])
            self.assertEqual(trainer.evaluate("train")["data"], "train")
            self.assertIn("<h1>", pathlib.Path(folder, "report.html").read_text(encoding="utf-8"))

    def test_what_a_hook_raises_ends_the_training(self):
        def fail(_):
            raise KeyError("mine")

        with self.assertRaisesRegex(KeyError, "mine"):
            self.trainer().run(on_step=fail)
        with self.assertRaisesRegex(tessera.InvalidArgument, "learning_rat"):
            self.trainer({"optimiser.learning_rat": 1})

    def test_a_folder_belongs_to_one_training(self):
        with tempfile.TemporaryDirectory() as folder:
            settings = {"output": folder, "train.steps": 3}
            self.trainer(settings).run()
            with self.assertRaisesRegex(tessera.InvalidArgument, "holds another training"):
                self.trainer(settings).run()
            again = self.trainer({"output": folder, "train.steps": 5})
            again.resume(folder)
            self.assertEqual(again.run()["steps"], 5)
            self.assertEqual(self.trainer(settings, overwrite=True).run()["steps"], 3)

    def test_targets_of_other_types(self):
        random = numpy.random.default_rng(0)
        x = random.standard_normal((64, 16))  # float64, as scikit-learn has it
        for target in (x[:, :4], x[:, :4].astype(numpy.float16), numpy.round(x[:, :4]).astype(numpy.int64)):
            fields = {"x": x, "t": target}
            trainer = tessera.Trainer(self.CONFIG, model=tessera.Session(models.mlp()), train=fields, test=fields)
            before = trainer.evaluate()
            self.assertEqual((before["samples"], before["skipped_samples"]), (64, 0))
            trainer.run()
            self.assertLess(trainer.evaluate()["loss"], before["loss"])
        self.assertEqual(trainer.data()["samples"], 64)

    def test_interrupt_stops_a_training(self):
        trainer = self.trainer({"train.steps": 100_000_000})
        threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
        with self.assertRaises(KeyboardInterrupt):
            trainer.run()

    def test_jobs(self):
        arbiter = tessera.Arbiter("fill")
        urgent = arbiter.job("urgent", priority="realtime", goal_s=1.0)
        session = tessera.Session(models.add())
        self.assertEqual(urgent.run(session, {"x": ones(1, 2), "y": ones(1, 2)})["z"].tolist(), [[2, 2]])
        for given in ((ones(1, 2), ones(1, 2)), ({"x": ones(1, 2), "y": ones(1, 2)}, ["z"])):
            self.assertEqual(urgent.run(session, *given)["z"].tolist(), [[2, 2]])
        self.assertEqual(urgent.run(session, ones(1, 2), y=ones(1, 2), outputs="z")["z"].tolist(), [[2, 2]])
        self.assertEqual(urgent.call("work", lambda: 41 + 1), 42)
        called = []
        urgent.call("work", lambda: called.append(1))
        self.assertEqual((urgent.report()["name"], urgent.report()["runs"] >= 1, called), ("urgent", True, [1]))
        self.assertRaises(tessera.InvalidArgument, lambda: tessera.Arbiter("coin"))
        self.assertRaises(tessera.InvalidArgument, lambda: arbiter.job("a", priority="highest"))


class Bounds(unittest.TestCase):
    def resident(self):
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE")

    def test_memory_stays_flat(self):
        session, x = tessera.Session(models.add()), ones(64, 2)

        def work(runs, sessions):
            for _ in range(runs):
                session.run(x, x)
            for _ in range(sessions):
                tessera.Session(models_of_it).run(x, x)

        models_of_it = models.add()
        work(2000, 50)
        before = self.resident()
        work(20000, 100)
        self.assertLess(self.resident() - before, 8 << 20)


if __name__ == "__main__":
    unittest.main()
