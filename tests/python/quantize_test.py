#!/usr/bin/env python3
"""tessera.quantize: files that load, reports, options, errors and Ctrl-C."""
import os
import re
import signal
import tempfile
import unittest
from unittest import mock

import models
import numpy
import tessera
import tessera._quantize


def samples(count, seed=0):
    return numpy.random.default_rng(seed).standard_normal((count, 16)).astype(numpy.float32)


class Quantize(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.session = tessera.Session(models.mlp(hidden=64))
        self.x = samples(8, seed=1)

    def path(self, name):
        return os.path.join(self.folder, name)

    def error_of(self, made):
        exact, rounded = self.session.run(self.x), made.session(threads=1).run(self.x)
        return float(numpy.abs(exact - rounded).max() / numpy.abs(exact).max())

    def test_weights_alone(self):
        errors = {}
        for weights, ending in (("int8", ".onnx"), ("int4", ".onnx"), ("int8", ".tsr")):
            made = tessera.quantize(self.session, self.path(weights + ending), weights=weights)
            errors[weights] = self.error_of(made)
            self.assertIn(weights, made.data["scheme"])
            self.assertEqual(made.data["file_bytes"], os.path.getsize(self.path(weights + ending)))
        self.assertTrue(0 < errors["int8"] < 0.02 < errors["int4"] < 0.3, errors)

    def test_everything_from_arrays_and_from_a_file(self):
        data = {"x": samples(64), "labels": self.session.run(samples(64)).argmax(1)}
        made = tessera.quantize(self.session, self.path("a.onnx"), full=True, data=data, metric="accuracy")
        self.assertTrue(0 < self.error_of(made) < 0.1)
        self.assertIn("accuracy", made.text)
        self.assertEqual(made.text, str(made))
        self.assertIn("<html", made.html)
        self.assertIn("<iframe srcdoc=", made._repr_html_())
        made.save_report(self.path("page.html"))
        self.assertGreater(os.path.getsize(self.path("page.html")), 1000)
        numpy.savez(self.path("data.npz"), **data)
        again = tessera.quantize(self.session, self.path("b.onnx"), full=True, data=self.path("data.npz"), fast=True)
        self.assertEqual(again.session().run(self.x).tolist(), made.session().run(self.x).tolist())

    def test_metrics_and_the_size_of_the_file_before(self):
        self.session.model.save(self.path("model.onnx"))
        made = tessera.quantize(self.path("model.onnx"), self.path("a.onnx"))
        self.assertEqual(made.data["file_bytes_before"], os.path.getsize(self.path("model.onnx")))
        with self.assertRaisesRegex(tessera.InvalidArgument, "there is no metric 'true'"):
            tessera.quantize(self.session, self.path("b.onnx"), full=True, data={"x": samples(16)}, metric="true")

    def test_adaptive_rounding(self):
        options = {"weights": "int4", "data": {"x": samples(64)}, "fast": True}
        nearest = tessera.quantize(self.session, self.path("a.onnx"), **options)
        adapted = tessera.quantize(self.session, self.path("b.onnx"), adaptive_rounding=True, rounding_steps=200,
                                   **options)
        self.assertNotEqual(nearest.session().run(self.x).tolist(), adapted.session().run(self.x).tolist())
        self.assertLess(self.error_of(adapted), 0.3)

    def test_layers_that_stay_in_float(self):
        made = tessera.quantize(self.session, self.path("a.onnx"), full=True, data={"x": samples(16)}, exclude=["*"])
        self.assertLess(self.error_of(made), 1e-5)
        made = tessera.quantize(self.session.model, self.path("b.onnx"), full=True, data={"x": samples(16)},
                                max_drop=0.0, metric="cosine", estimator="minmax")
        self.assertIn("cosine", made.text)

    def test_progress_is_shown_and_may_end_it(self):
        shown = []

        class Bar:
            def __enter__(self):
                return lambda what, done: shown.append((what, done))

            def __exit__(self, *_):
                return None

        with mock.patch.object(tessera._quantize, "progress_bar", lambda title: Bar()):
            tessera.quantize(self.session, self.path("a.onnx"), full=True, data={"x": samples(16)})
        self.assertGreater(len(shown), 2)
        self.assertEqual(shown[-1][1], 1)

        class Interrupted(Bar):
            def __enter__(self):
                return lambda what, done: os.kill(os.getpid(), signal.SIGINT)

        with mock.patch.object(tessera._quantize, "progress_bar", lambda title: Interrupted()):
            with self.assertRaises(KeyboardInterrupt):
                tessera.quantize(self.session, self.path("never.onnx"), full=True, data={"x": samples(16)})
        self.assertFalse(os.path.exists(self.path("never.onnx")))

    def test_a_model_from_memory(self):
        data = models.mlp(hidden=64)
        for model in (data, models.onnx.load_from_string(data)):
            made = tessera.quantize(model, self.path("a.onnx"))
            self.assertLess(self.error_of(made), 0.02)
            self.assertLess(len(made.text), 5000)  # the model's bytes are no name

    def test_a_file_that_grows_is_not_called_smaller(self):
        grown = tessera.quantize(models.mlp(inputs=4, hidden=2, outputs=4), self.path("a.onnx"))
        for line in grown.text.splitlines():
            for times in re.findall(r"([0-9.]+) times (?:smaller|larger)", line):
                self.assertGreaterEqual(float(times), 1, line)
        self.assertIn("times", grown.text)

    def test_calibration_data_go_by_the_names_of_inputs(self):
        with self.assertRaisesRegex(tessera.InvalidArgument, "no array for input 'x' of the model; they have 'wrong'"):
            tessera.quantize(self.session, self.path("a.onnx"), full=True, data={"wrong": samples(8)})

    def test_errors(self):
        wrong = [
            (tessera.InvalidArgument, {"weights": "int3"}),
            (tessera.InvalidArgument, {"group": 7}),
            (tessera.InvalidArgument, {"full": True}),  # without data
            (tessera.InvalidArgument, {"full": True, "data": {"x": samples(8)[:, :3]}}),
            (tessera.InvalidArgument, {"full": True, "data": {"x": samples(8), "q": samples(8)}, "metric": "accuracy"}),
            (tessera.InvalidArgument, {"full": True, "data": {"x": samples(8) * numpy.nan}}),
            (tessera.InvalidArgument, {"full": True, "data": {"x": samples(8)}, "estimator": "guess"}),
            (tessera.NotFound, {"full": True, "data": self.path("missing.npz")}),
        ]
        for kind, options in wrong:
            with self.subTest(options=list(options)), self.assertRaises(kind):
                tessera.quantize(self.session, self.path("a.onnx"), **options)
        self.assertRaises(tessera.InvalidArgument, lambda: tessera.quantize(self.session, self.path("a.txt")))
        self.assertRaises(tessera.IOFailure, lambda: tessera.quantize(self.session, self.path("no/a.onnx")))
        self.assertRaises(tessera.NotFound, lambda: tessera.quantize(self.path("no.onnx"), self.path("a.onnx")))
        self.assertEqual(os.listdir(self.folder), [])


if __name__ == "__main__":
    unittest.main()
