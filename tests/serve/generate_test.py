#!/usr/bin/env python3
"""Triton's generate extension, with answers at once and as a stream of events. Standard library and numpy only.

    generate_test.py TESSERA
"""
import contextlib
import http.client
import json
import pathlib
import socket
import tempfile
import time
import unittest

import numpy as np
import server
from small_models import FLOAT, INT64, onnx_model

STEPS, WIDTH = 400, 4096


def fibonacci():
    """next = token + before, where `before` is the token of the step before."""
    row = ["batch", 1]
    return onnx_model([("Add", ["token", "before"], ["next"]), ("Identity", ["token"], ["kept"])],
                      [("token", INT64, row), ("before", INT64, row)], [("next", INT64, row), ("kept", INT64, row)])


def wide():
    """Answers of many kilobytes: `sum` is the token added to each of WIDTH numbers; next = token + step."""
    row = ["batch", 1]
    return onnx_model([("Add", ["token", "step"], ["next"]), ("Add", ["token", "numbers"], ["sum"])],
                      [("token", FLOAT, row), ("step", FLOAT, row)],
                      [("next", FLOAT, row), ("sum", FLOAT, ["batch", WIDTH])],
                      [("numbers", np.arange(WIDTH, dtype=np.float32).reshape(1, WIDTH) / 7)])


def picker():
    """next = the element `token` of the table 1, 2, 3, 99: the index 99 is out of its range, and fails."""
    return onnx_model([("Gather", ["table", "token"], ["found"]), ("Cast", ["found"], ["next"], {"to": INT64})],
                      [("token", INT64, [1])], [("next", INT64, [1])], [("table", np.float32([1, 2, 3, 99]))])


def reference(prompt, steps):
    """What fibonacci() gives for the prompt and then for its own answers."""
    before, found = 0, []
    for token in prompt:
        answer, before = token + before, token
    found.append(answer)
    while len(found) < steps:
        answer, before = found[-1] + before, found[-1]
        found.append(answer)
    return [np.int64(value & (2**64 - 1)).item() if value < 2**63 else value for value in found]


SEQUENCE = '[sequence]\nslots = 8\nidle_ms = 20000\n[sequence.state.before]\noutput = "kept"\nshape = [1]\n'
FEED = '[generate]\nsteps = 64\n[generate.feed]\ntoken = "next"\n'


class Generate(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.holder = tempfile.TemporaryDirectory()
        cls.folder = pathlib.Path(cls.holder.name) / "models"
        cls.add("fibonacci", fibonacci(), "max_batch_size = 4\n" + SEQUENCE + FEED)
        cls.add("stops", fibonacci(), "max_batch_size = 4\n" + SEQUENCE + FEED + "[generate.stop]\nnext = 21\n")
        cls.add("wide", wide(), f'max_batch_size = 4\n[generate]\nsteps = {STEPS}\nfeed = {{ token = "next" }}\n')
        cls.add("picker", picker(), '[generate.feed]\ntoken = "next"\n')
        cls.add("plain", fibonacci(), "max_batch_size = 4\n")
        (cls.folder / "triton" / "1").mkdir(parents=True)
        (cls.folder / "triton" / "1" / "model.onnx").write_bytes(picker())
        (cls.folder / "triton" / "config.pbtxt").write_text(
            'parameters { key: "generate.feed.token" value { string_value: "next" } }\n'
            'parameters { key: "generate.steps" value { string_value: "2" } }\n')
        cls.server = server.Server(cls.folder)

    @classmethod
    def add(cls, name, model, config):
        (cls.folder / name / "1").mkdir(parents=True)
        (cls.folder / name / "1" / "model.onnx").write_bytes(model)
        (cls.folder / name / "config.toml").write_text(config)

    @classmethod
    def tearDownClass(cls):
        cls.server.__exit__(None)
        cls.holder.cleanup()

    def generate(self, model, body, path="generate"):
        status, _, text = self.server.ask("POST", f"/v2/models/{model}/{path}", body)
        return status, json.loads(text)

    def events(self, model, body):
        """The events of a stream, each of them a JSON object."""
        status, headers, text = self.server.ask("POST", f"/v2/models/{model}/generate_stream", body)
        self.assertEqual((status, headers["Content-Type"]), (200, "text/event-stream; charset=utf-8"), text)
        self.assertEqual(headers["Transfer-Encoding"], "chunked")
        self.assertIsNone(headers["Content-Length"])
        parts = text.decode().split("\n\n")
        self.assertEqual(parts.pop(), "")
        self.assertTrue(all(part.startswith("data: {") for part in parts), parts)
        return [json.loads(part[6:]) for part in parts]

    def count(self, model):
        return self.server.json("GET", f"/v2/models/{model}/stats")["model_stats"][0]["inference_count"]

    def test_steps_feed_each_other(self):
        for prompt, steps in (([1], 10), ([3, 4, 5], 1), ([3, 4, 5], 20), (2, 64)):
            body = {"token": prompt, "parameters": {"max_steps": steps}, "id": "a"}
            expected = reference(prompt if isinstance(prompt, list) else [prompt], steps)
            status, answer = self.generate("fibonacci", body)
            self.assertEqual((status, answer["model_name"], answer["id"]), (200, "fibonacci", "a"), answer)
            self.assertEqual(answer["next"], expected)
            events = self.events("fibonacci", body)
            self.assertEqual([event["next"] for event in events], expected)
            self.assertTrue(all(event["model_version"] == "1" and event["id"] == "a" for event in events))

    def test_without_max_steps_the_configuration_decides(self):
        self.assertEqual(len(self.events("fibonacci", {"token": [1]})), 64)
        self.assertEqual(len(self.events("triton", {"token": [0]})), 2)

    def test_ends_at_the_stop_value(self):
        self.assertEqual([event["next"] for event in self.events("stops", {"token": [1]})][-1], 21)
        self.assertEqual(self.generate("stops", {"token": [1]})[1]["next"][-1], 21)

    def test_each_generation_has_a_sequence_of_its_own(self):
        for _ in range(20):  # more than there are slots: each gives its slot back
            self.assertEqual(self.generate("stops", {"token": [1]})[1]["next"], reference([1], 7))

    def test_goes_on_with_the_callers_sequence(self):
        first = {"token": [1], "parameters": {"max_steps": 5, "sequence_id": 77, "sequence_start": True}}
        found = self.generate("fibonacci", first)[1]["next"]
        more = {"token": [found[-1]], "parameters": {"max_steps": 5, "sequence_id": 77, "sequence_end": True}}
        found += self.generate("fibonacci", more)[1]["next"]
        self.assertEqual(found, reference([1], 10))
        status, answer = self.generate("fibonacci", more)
        self.assertEqual(status, 400)
        self.assertIn("sequence_start", answer["error"])

    def test_models_without_feeds_answer_once(self):
        body = {"token": [[3]], "before": 4}
        self.assertEqual(self.generate("plain", body), (200, {"model_name": "plain", "model_version": "1", "next": 7,
                                                              "kept": 3}))
        self.assertEqual(self.events("plain", body),
                         [{"model_name": "plain", "model_version": "1", "next": 7, "kept": 3}])

    def test_a_failure_on_the_way_is_the_last_event(self):
        events = self.events("picker", {"token": [0]})
        self.assertEqual([event.get("next") for event in events[:-1]], [1, 2, 3, 99])
        self.assertEqual(list(events[-1]), ["error"])
        status, answer = self.generate("picker", {"token": [0]})
        self.assertEqual((status, list(answer)), (400, ["error"]))

    def test_mistakes_have_a_status_and_a_reason(self):
        for model, body, status, text in (
            ("fibonacci", {"tokens": [1]}, 400, "no input 'tokens'"),
            ("fibonacci", {"token": ["a"]}, 400, "'token'"),
            ("fibonacci", {"token": []}, 400, "at least one"),
            ("fibonacci", {"token": [[1, 2], [3]]}, 400, "different lengths"),
            ("fibonacci", {"token": [1], "parameters": {"max_steps": 0}}, 400, "below 1"),
            ("fibonacci", {"token": [1], "parameters": {"max_steps": 65}}, 400, "64 at most"),
            ("fibonacci", {"token": [1], "parameters": {"temperature": 1}}, 400, "no parameter 'temperature'"),
            ("fibonacci", {}, 400, "token"),
            ("fibonacci", [1], 400, "not an object"),
            ("fibonacci", "{", 400, "malformed"),
            ("fibonacci", '{"token": ' + "[" * 50 + "]" * 50 + "}", 400, "nested"),
            ("plain", {"token": [[[1]]], "before": 1}, 400, "at most 2"),
            ("wide", {"token": [1, 2], "step": [[1], [2]]}, 400, ""),
            ("nowhere", {"token": [1]}, 404, "nowhere"),
        ):
            for path in ("generate", "generate_stream"):
                found, answer = self.generate(model, body, path)
                self.assertEqual(found, status, (model, body, answer))
                self.assertIn(text, answer["error"])
        self.assertEqual(self.server.ask("GET", "/v2/models/fibonacci/generate")[0], 405)
        self.assertEqual(self.server.ask("POST", "/v2/models/fibonacci/versions/1/generate", {"token": 1})[0], 200)
        self.assertEqual(self.server.ask("POST", "/v2/models/fibonacci/versions/2/generate", {"token": 1})[0], 404)
        status, _, _ = self.server.ask("POST", "/v2/models/fibonacci/generate", b"[" * (2 << 20))
        self.assertEqual(status, 413)

    def test_one_connection_takes_streams_and_other_requests(self):
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=30 * server.PATIENCE)
        with contextlib.closing(connection):
            for _ in range(5):
                connection.request("POST", "/v2/models/fibonacci/generate_stream", json.dumps({"token": [1]}))
                self.assertEqual(connection.getresponse().read().count(b"data: "), 64)
                connection.request("GET", "/v2/health/ready")
                answer = connection.getresponse()
                self.assertEqual((answer.status, answer.read()), (200, b""))

    def test_http_1_0_gets_the_bytes_alone(self):
        body = json.dumps({"token": [1], "parameters": {"max_steps": 3}}).encode()
        with socket.create_connection(("127.0.0.1", self.server.port), timeout=30 * server.PATIENCE) as client:
            client.sendall(b"POST /v2/models/fibonacci/generate_stream HTTP/1.0\r\nContent-Length: " +
                           str(len(body)).encode() + b"\r\n\r\n" + body)
            text = b""
            while piece := client.recv(65536):
                text += piece
        header, _, events = text.partition(b"\r\n\r\n")
        self.assertNotIn(b"chunked", header)
        self.assertIn(b"Connection: close", header)
        self.assertEqual([json.loads(line[6:])["next"] for line in events.split(b"\n\n")[:-1]], reference([1], 3))

    def start_wide(self):
        client = socket.socket()
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16 << 10)
        client.settimeout(30 * server.PATIENCE)
        client.connect(("127.0.0.1", self.server.port))
        body = json.dumps({"token": 0, "step": 1}).encode()
        client.sendall(b"POST /v2/models/wide/generate_stream HTTP/1.1\r\nHost: localhost\r\nContent-Length: " +
                       str(len(body)).encode() + b"\r\n\r\n" + body)
        return client

    def settled_count(self):
        """The steps of the model "wide" once their number no longer grows."""
        counts = [-1, self.count("wide")]
        while counts[-1] != counts[-2]:
            time.sleep(0.5 * server.PATIENCE)
            counts.append(self.count("wide"))
        return counts[-1]

    def test_a_client_that_reads_slowly_holds_the_model_back(self):
        before = self.count("wide")
        with contextlib.closing(self.start_wide()) as client:
            waiting = self.settled_count() - before
            # An event has about 40 kB: what is made stays with the buffers of the sockets and one bounded piece.
            self.assertLess(waiting, STEPS // 2)
            text = b""
            while not text.endswith(b"0\r\n\r\n"):
                piece = client.recv(1 << 20)
                self.assertNotEqual(piece, b"")
                text += piece
        self.assertEqual(text.count(b"data: "), STEPS)
        self.assertEqual(self.settled_count() - before, STEPS)

    def test_a_client_that_goes_ends_the_generation(self):
        before = self.count("wide")
        client = self.start_wide()
        self.assertIn(b"data: ", client.recv(65536) + client.recv(65536))
        client.close()
        self.assertLess(self.settled_count() - before, STEPS // 2)
        self.assertEqual(self.generate("fibonacci", {"token": 1, "parameters": {"max_steps": 1}})[0], 200)


class Configurations(unittest.TestCase):
    def test_rules_that_do_not_fit_are_told_when_the_model_is_loaded(self):
        for rules, text in (('[generate.feed]\nother = "next"\n', "no input of the model"),
                            ('[generate.feed]\ntoken = "other"\n', "no output of the model"),
                            ('[generate]\nsteps = 0\n[generate.feed]\ntoken = "next"\n', "expected a whole number"),
                            ('[generate]\nsteps = 10\n', "without [generate.feed]"),
                            ('[generate]\nstep = 10\nfeed = { token = "next" }\n', "expected steps, feed or stop"),
                            ('[generate.feed]\ntoken = "next"\n[generate.stop]\nlast = 1\n', "no output of the model")):
            with tempfile.TemporaryDirectory() as folder:
                version = pathlib.Path(folder) / "model" / "1"
                version.mkdir(parents=True)
                (version / "model.onnx").write_bytes(picker())
                (version.parent / "config.toml").write_text(rules)
                with server.Server(folder) as running:
                    index = running.json("POST", "/v2/repository/index", {})
                    self.assertIn(text, index[0]["reason"])


if __name__ == "__main__":
    server.main()
