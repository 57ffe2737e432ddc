#!/usr/bin/env python3
"""Which models a server loads, who may have others loaded, and how it ends, with Triton's own clients.

    model_control_test.py TESSERA
"""
import json
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import threading
import time
import unittest

import numpy as np
import server
import tritonclient.grpc as triton_grpc
import tritonclient.http as triton_http
from server import Server, lenet_request, make_repository
from tritonclient.utils import InferenceServerException


def wait_until(what, seconds=20):
    end = time.monotonic() + seconds * server.PATIENCE
    while not what():
        if time.monotonic() > end:
            raise AssertionError("it did not come to be in time")
        time.sleep(0.02)


class WithRepository(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.holder = pathlib.Path(holder.name)
        self.folder = make_repository(self.holder / "models")

    def clients(self, running):
        clients = [triton_http.InferenceServerClient(f"127.0.0.1:{running.port}"),
                   triton_grpc.InferenceServerClient(f"127.0.0.1:{running.ports['grpc']}")]
        for client in clients:
            self.addCleanup(client.close)
        return zip((triton_http, triton_grpc), clients)

    def states(self, running):
        return {each["name"]: each.get("state", "") for each in running.json("POST", "/v2/repository/index")}

    def add_broken(self):
        (self.folder / "broken" / "1").mkdir(parents=True)
        (self.folder / "broken" / "1" / "model.onnx").write_bytes(b"no model")


class ControlModes(WithRepository):
    def test_explicit_loads_what_is_named_and_what_requests_name(self):
        self.add_broken()
        with Server(self.folder, "--model-control-mode", "explicit", "--load-model", "picture") as running:
            self.assertEqual(self.states(running), {"picture": "READY", "lenet": "", "reader": "", "broken": ""})
            self.assertEqual(running.ask("GET", "/v2/health/ready")[0], 200)
            for _, client in self.clients(running):
                self.assertFalse(client.is_model_ready("lenet"))
                client.load_model("lenet")
                self.assertTrue(client.is_model_ready("lenet"))
                client.unload_model("lenet")
                self.assertFalse(client.is_model_ready("lenet"))
                # An ensemble brings the models that it needs, and takes them with it where that is asked for.
                client.load_model("reader")
                self.assertTrue(client.is_model_ready("lenet"))
                client.unload_model("reader", unload_dependents=True)
                self.assertEqual(self.states(running)["lenet"], "UNAVAILABLE")
                client.load_model("picture")
            # SIGHUP takes changes of what is loaded, and loads nothing else.
            running.json("POST", "/v2/repository/models/lenet/load")
            (self.folder / "lenet" / "config.toml").write_text("max_batch_size = 3")
            running.process.send_signal(signal.SIGHUP)
            wait_until(lambda: running.json("GET", "/v2/models/lenet/config")["max_batch_size"] == 3)
            self.assertEqual(self.states(running)["broken"], "")

    def test_explicit_remembers_a_model_whose_folder_is_gone_for_a_moment(self):
        with Server(self.folder, "--model-control-mode", "explicit", "--load-model", "lenet", "--load-model",
                    "none_such") as running:
            self.assertEqual(self.states(running)["none_such"], "UNAVAILABLE")
            self.assertEqual(running.ask("GET", "/v2/health/ready")[0], 503)
            running.json("POST", "/v2/repository/models/picture/load")
            for name in ("lenet", "picture"):
                (self.folder / name).rename(self.holder / name)
            running.process.send_signal(signal.SIGHUP)
            wait_until(lambda: self.states(running)["lenet"] == self.states(running)["picture"] == "UNAVAILABLE")
            for name in ("lenet", "picture"):
                (self.holder / name).rename(self.folder / name)
            running.process.send_signal(signal.SIGHUP)
            wait_until(lambda: self.states(running)["lenet"] == self.states(running)["picture"] == "READY")
            # A folder that is a link is as good, and so is one that comes to be later.
            shutil.copytree(self.folder / "lenet", self.holder / "elsewhere")
            (self.folder / "none_such").symlink_to(self.holder / "elsewhere", target_is_directory=True)
            running.process.send_signal(signal.SIGHUP)
            wait_until(lambda: self.states(running)["none_such"] == "READY")
            self.assertEqual(running.ask("GET", "/v2/health/ready")[0], 200)

    def test_explicit_takes_all_with_a_star(self):
        with Server(self.folder, "--model-control-mode", "explicit", "--load-model", "*") as running:
            self.assertEqual(set(self.states(running).values()), {"READY"})

    def test_none_changes_nothing_after_the_start(self):
        with Server(self.folder, "--model-control-mode", "none") as running:
            self.assertEqual(set(self.states(running).values()), {"READY"})
            for _, client in self.clients(running):
                for change in (client.load_model, client.unload_model):
                    with self.assertRaisesRegex(InferenceServerException, "model control mode none"):
                        change("lenet")
            (self.folder / "lenet").rename(self.holder / "lenet")
            running.process.send_signal(signal.SIGHUP)
            time.sleep(0.3)
            self.assertEqual(self.states(running)["lenet"], "READY")

    def test_poll_takes_changes_on_disk_and_no_requests(self):
        with Server(self.folder, "--model-control-mode", "poll", "--poll", "0.05") as running:
            for _, client in self.clients(running):
                with self.assertRaisesRegex(InferenceServerException, "model control mode poll"):
                    client.unload_model("lenet")
            shutil.copytree(self.folder / "lenet", self.folder / "another")
            wait_until(lambda: self.states(running).get("another") == "READY")

    def test_the_index_tells_what_is_served_while_the_repository_is_away(self):
        with Server(self.folder) as running:
            self.folder.rename(self.holder / "away")
            self.assertEqual(self.states(running), {"lenet": "READY", "picture": "READY", "reader": "READY"})
            self.assertEqual(running.ask("POST", "/v2/models/lenet/infer", lenet_request())[0], 200)
            (self.holder / "away").rename(self.folder)

    def test_contradictions_are_told(self):
        for arguments, message in ((("--load-model", "lenet"), "mode explicit"),
                                   (("--model-control-mode", "explicit", "--poll", "1"), "takes no changes on disk"),
                                   (("--model-control-mode", "manual"), "the modes are none, poll and explicit"),
                                   (("--ready-when", "a,,b"), "expected all, any, or names")):
            done = subprocess.run([server.program, "serve", self.folder, *arguments], capture_output=True, text=True,
                                  timeout=60 * server.PATIENCE)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(message, done.stderr)


class Readiness(WithRepository):
    def is_ready(self, *arguments, config=None):
        with Server(self.folder, *arguments, config=config) as running:
            answers = {running.ask("GET", "/v2/health/ready")[0] == 200}
            answers.update(client.is_server_ready() for _, client in self.clients(running))
            self.assertEqual(len(answers), 1)
            return answers.pop()

    def test_the_rule_says_whether_one_broken_model_matters(self):
        self.add_broken()
        self.assertFalse(self.is_ready())
        self.assertFalse(self.is_ready("--ready-when", "all"))
        self.assertTrue(self.is_ready("--ready-when", "any"))
        self.assertTrue(self.is_ready("--ready-when", "lenet,picture"))
        self.assertFalse(self.is_ready("--ready-when", "lenet,broken"))
        self.assertTrue(self.is_ready(config='ready_when = ["lenet", "reader"]'))
        self.assertFalse(self.is_ready(config='ready_when = "broken"'))

    def test_any_wants_one_model(self):
        for each in self.folder.iterdir():
            shutil.rmtree(each)
        self.add_broken()
        self.assertFalse(self.is_ready("--ready-when", "any"))


class Override(WithRepository):
    def test_a_configuration_of_the_request_holds_until_the_next_load(self):
        (self.folder / "lenet" / "config.pbtxt").write_text("max_batch_size: 2")
        with Server(self.folder) as running:
            for _, client in self.clients(running):
                client.load_model("lenet", config=json.dumps({"max_batch_size": 5, "dynamic_batching": {}}))
                self.assertEqual(running.json("GET", "/v2/models/lenet/config")["max_batch_size"], 5)
                self.assertEqual(running.ask("POST", "/v2/models/lenet/infer", lenet_request(rows=5))[0], 200)
                # Also when the model's files change.
                os.utime(self.folder / "lenet" / "1" / "model.onnx")
                before = running.log_text().count("model loaded")
                running.process.send_signal(signal.SIGHUP)
                wait_until(lambda: running.log_text().count("model loaded") > before)
                self.assertEqual(running.json("GET", "/v2/models/lenet/config")["max_batch_size"], 5)
                client.load_model("lenet")
                self.assertEqual(running.json("GET", "/v2/models/lenet/config")["max_batch_size"], 2)

    def test_the_configuration_that_a_server_tells_can_be_sent_back(self):
        (self.folder / "lenet" / "config.pbtxt").write_text("""max_batch_size: 4 dynamic_batching {}
            input { name: "input" dims: [784] reshape { shape: [1, 28, 28] } }""")
        with Server(self.folder) as running:
            for name in ("lenet", "picture", "reader"):
                told = running.json("GET", f"/v2/models/{name}/config")
                for _, client in self.clients(running):
                    client.load_model(name, config=json.dumps(told))
                self.assertEqual(running.json("GET", f"/v2/models/{name}/config"), told)

    def test_mistakes_are_told_and_the_old_model_stays(self):
        with Server(self.folder) as running:
            for _, client in self.clients(running):
                for config, message in (('{"max_batchsize": 4}', "max_batchsize"), ("[", "the configuration in"),
                                        ('{"name": "other"}', "named 'other'"),
                                        ('{"dynamic_batching": {"preserve_ordering": true}}', "preserve_ordering"),
                                        ('{"input": [{"name": "input", "dims": [3, 99]}]}', "but the model's has"),
                                        ('{"backend": "python"}', "asks for the backend 'python'")):
                    with self.assertRaisesRegex(InferenceServerException, message):
                        client.load_model("lenet", config=config)
                with self.assertRaisesRegex(InferenceServerException, "file:1/model.onnx.*into the repository"):
                    client.load_model("lenet", config="{}", files={"file:1/model.onnx": b"abc"})
                self.assertTrue(client.is_model_ready("lenet"))
            self.assertEqual(running.ask("POST", "/v2/repository/models/lenet/load",
                                         {"parameters": {"cofig": "{}"}})[0], 400)


class Configuration(WithRepository):
    def load(self, running, text):
        (self.folder / "lenet" / "config.pbtxt").write_text(text)
        return running.ask("POST", "/v2/repository/models/lenet/load")[0]

    def reason(self, running):
        (state,) = [m for m in running.json("POST", "/v2/repository/index") if m["name"] == "lenet"]
        return state.get("reason", "")

    def test_a_comment_on_batching_changes_nothing(self):
        with Server(self.folder) as running:
            self.assertEqual(running.json("GET", "/v2/models/lenet/config")["max_batch_size"], 8)
            self.assertEqual(self.load(running, "# max_batch_size is left to the server"), 200)
            self.assertEqual(running.json("GET", "/v2/models/lenet/config")["max_batch_size"], 8)

    def test_unknown_and_unsupported_fields_stand_in_the_index(self):
        with Server(self.folder) as running:
            for text, why in (("max_batch_size: 4\ndynamic_batchin {}", "did you mean 'dynamic_batching'?"),
                              ("input { name: \"input\" dims: [3, 99] }", "but the model's has"),
                              ("backend: \"python\"", "asks for the backend 'python'")):
                self.assertEqual(self.load(running, text), 400)
                self.assertIn(why, self.reason(running))

    def test_fields_without_effect_are_said_once(self):
        with Server(self.folder) as running:
            for _ in range(2):
                self.assertEqual(self.load(running, "optimization { graph { level: 1 } }"), 200)
            lines = [line for line in running.log_text().splitlines() if "optimization (line 1)" in line]
            self.assertEqual(len(lines), 1, lines)

    def test_a_reshaped_input_gives_the_same_answer(self):
        with Server(self.folder) as running:
            whole = running.json("POST", "/v2/models/lenet/infer", lenet_request(rows=2))["outputs"][0]["data"]
            self.assertEqual(self.load(running, """max_batch_size: 4
                input { name: "input" data_type: TYPE_FP32 dims: [784] reshape { shape: [1, 28, 28] } }
                output { name: "output" data_type: TYPE_FP32 dims: [2, 5] reshape { shape: [10] } }"""), 200)
            pixels = np.full((2, 784), 0.5, np.float32)
            for kind, client in self.clients(running):
                self.assertEqual(list(map(int, self.input_shape(client))), [-1, 784])
                given = kind.InferInput("input", [2, 784], "FP32")
                given.set_data_from_numpy(pixels)
                answer = client.infer("lenet", [given]).as_numpy("output")
                self.assertEqual(answer.shape, (2, 2, 5))
                np.testing.assert_allclose(answer.reshape(-1), whole, rtol=1e-5)

    def input_shape(self, client):
        metadata = client.get_model_metadata("lenet")
        return metadata["inputs"][0]["shape"] if isinstance(metadata, dict) else metadata.inputs[0].shape


class End(WithRepository):
    def test_the_delay_is_not_ready_and_answers(self):
        with Server(self.folder, "--shutdown-delay", "2s") as running:
            clients = list(self.clients(running))
            running.process.send_signal(signal.SIGTERM)
            wait_until(lambda: running.ask("GET", "/v2/health/ready")[0] == 503, 1.5)
            for _, client in clients:
                self.assertFalse(client.is_server_ready())
                self.assertTrue(client.is_server_live())
            answers = []
            end = time.monotonic() + 1
            while time.monotonic() < end:  # new connections, too
                answers.append(running.ask("POST", "/v2/models/lenet/infer", lenet_request())[0])
            self.assertEqual(set(answers), {200})
            self.assertIsNone(running.process.poll())
            self.assertEqual(running.process.wait(30 * server.PATIENCE), 0)

    def test_a_second_signal_ends_it_at_once(self):
        running = Server(self.folder, config="shutdown_delay_seconds = 600")
        running.process.send_signal(signal.SIGTERM)
        wait_until(lambda: running.ask("GET", "/v2/health/ready")[0] == 503)
        threading.Timer(0.05, running.process.send_signal, [signal.SIGTERM]).start()
        self.assertEqual(running.process.wait(10 * server.PATIENCE), 128 + signal.SIGTERM)
        self.assertIn("second signal", running.log_text())
        running.stop()
        running.log.close()
        running.folder.cleanup()


if __name__ == "__main__":
    server.main()
