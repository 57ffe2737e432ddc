#!/usr/bin/env python3
"""tessera.Server: a server in the process of its clients."""
import http.client
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import models
import numpy
import onnx
import tessera

FREE = {"http": "127.0.0.1:0", "grpc": "127.0.0.1:0", "metrics": "127.0.0.1:0"}


def ask(port, path, body=None):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.request("GET" if body is None else "POST", path, None if body is None else json.dumps(body))
        answer = connection.getresponse()
        text = answer.read()
        return answer.status, json.loads(text) if text.startswith((b"{", b"[")) else text
    finally:
        connection.close()


def infer(port, name, x, input_name="x"):
    tensor = {"name": input_name, "datatype": "FP32", "shape": list(x.shape), "data": x.ravel().tolist()}
    status, answer = ask(port, f"/v2/models/{name}/infer", {"inputs": [tensor]})
    assert status == 200, (status, answer)
    (output,) = answer["outputs"]
    return numpy.array(output["data"], numpy.float32).reshape(output["shape"])


@unittest.skipUnless(tessera.build_info()["server"], "this build is without the server")
class Serving(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.x = numpy.random.default_rng(0).standard_normal((2, 16)).astype(numpy.float32)

    def write(self, name, data):
        path = os.path.join(self.folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(data)
        return path

    def test_models_of_all_kinds_answer_as_they_do_in_the_process(self):
        session = tessera.Session(models.mlp())
        path = self.write("a/any name.onnx", models.mlp(seed=1))
        given = {"session": session, "model": session.model, "file": path}
        with tessera.Server(given, settings={"file": {"max_batch_size": 4}}, **FREE) as server:
            self.assertTrue(server.ready)
            self.assertEqual([each["state"] for each in server.models], ["READY"] * 3)
            for name, same in (("session", session), ("model", session), ("file", tessera.load(path))):
                found = infer(server.ports["http"], name, self.x)
                self.assertTrue(numpy.allclose(found, same.run(self.x), rtol=1e-5, atol=1e-6))
            config = ask(server.ports["http"], "/v2/models/file/config")[1]
            self.assertEqual(config["max_batch_size"], 4)
            self.assertEqual(ask(server.ports["metrics"], "/metrics")[0], 200)
            self.assertIn(f"http {server.ports['http']}", repr(server))
        self.assertFalse(server.ready)
        self.assertIn("stopped", repr(server))
        server.stop()
        self.assertRaises(OSError, lambda: ask(server.ports["http"], "/v2/health/live"))

    def test_nobody_can_connect_to_a_stopped_server(self):
        for _ in range(20):
            with tessera.Server({"net": tessera.Session(models.mlp())}, **{**FREE, "grpc": "off"}) as server:
                pass
            for port in (server.ports["http"], server.ports["metrics"]):
                self.assertRaises(ConnectionRefusedError, ask, port, "/v2/health/live")

    def test_weights_that_lie_beside_a_model(self):
        model = onnx.load_from_string(models.mlp())
        path = os.path.join(self.folder, "net.onnx")
        onnx.save_model(model, path, save_as_external_data=True, location="weights.bin", size_threshold=0)
        with tessera.Server({"net": path}, **FREE) as server:
            found = infer(server.ports["http"], "net", self.x)
        self.assertTrue(numpy.allclose(found, tessera.load(path).run(self.x), rtol=1e-5, atol=1e-6))

    def test_a_folder_of_models_is_read_anew(self):
        self.write("models/one/1/model.onnx", models.mlp())
        with tessera.Server(os.path.join(self.folder, "models"), **FREE) as server:
            self.assertEqual([each["name"] for each in server.models], ["one"])
            self.write("models/two/1/model.onnx", models.mlp())
            self.write("models/wrong/1/model.onnx", b"no model")
            server.reload()
            states = {each["name"]: each["state"] for each in server.models}
            self.assertEqual(states, {"one": "READY", "two": "READY", "wrong": "UNAVAILABLE"})
            self.assertFalse(server.ready)
            self.assertTrue({each["name"]: each["reason"] for each in server.models}["wrong"])

    def test_runs_of_the_process_and_requests_at_once(self):
        session = tessera.Session(models.mlp())
        expected, wrong = session.run(self.x), []
        with tessera.Server({"net": session}, **FREE) as server:

            def work(call):
                for _ in range(20):
                    if not numpy.allclose(call(), expected, rtol=1e-5, atol=1e-6):
                        wrong.append(1)

            calls = [lambda: session.run(self.x), lambda: infer(server.ports["http"], "net", self.x)] * 2
            threads = [threading.Thread(target=work, args=(call,)) for call in calls]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        self.assertEqual(wrong, [])

    def test_two_servers_and_addresses_that_are_off(self):
        off = {**FREE, "grpc": "off", "metrics": "off"}
        with tessera.Server({"a": tessera.Session(models.mlp())}, **off) as first:
            with tessera.Server({"b": tessera.Session(models.mlp())}, **off) as second:
                self.assertEqual((first.ports["grpc"], first.ports["metrics"]), (0, 0))
                self.assertNotEqual(first.ports["http"], second.ports["http"])
                self.assertEqual(ask(first.ports["http"], "/v2/models/b/ready")[0] // 100, 4)
            self.assertEqual(infer(first.ports["http"], "a", self.x).shape, (2, 4))
            taken = f"127.0.0.1:{first.ports['http']}"
            with self.assertRaises(tessera.IOFailure):
                tessera.Server({"b": tessera.Session(models.mlp())}, **{**off, "http": taken})

    def test_errors(self):
        net = tessera.Session(models.mlp())
        wrong = self.write("wrong.onnx", b"no model")
        for kind, arguments, options in [
                (tessera.NotFound, ({"a": os.path.join(self.folder, "missing.onnx")},), {}),
                (tessera.NotFound, (os.path.join(self.folder, "missing"),), {}),
                (tessera.InvalidModel, ({"a": wrong},), {}),
                (tessera.InvalidModel, (wrong,), {}),
                (tessera.Error, ({"a": net},), {"settings": {"a": {"unknown": 1}}}),
                (tessera.InvalidArgument, ({"a/b": net},), {}),
                (tessera.InvalidArgument, ({"a": net},), {"settings": {"b": {}}}),
                (tessera.InvalidArgument, ({"a": net},), {"http": "nowhere"}),
                (tessera.InvalidArgument, ({"a": net},), {"threads": 0}),
                (tessera.InvalidArgument, ({"a": net},), {"policy": "coin"}),
                (tessera.InvalidArgument, ({"a": net},), {"log_level": "loud"}),
        ]:
            with self.subTest(arguments=arguments, options=options), self.assertRaises(kind):
                tessera.Server(*arguments, **{**FREE, "log_level": "off", **options})

    def test_interrupts_come_to_the_main_thread(self):
        with tessera.Server({"net": tessera.Session(models.mlp())}, **FREE) as server:
            threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
            begin = time.monotonic()
            with self.assertRaises(KeyboardInterrupt):
                server.wait(30)
            self.assertLess(time.monotonic() - begin, 20)
            self.assertTrue(server.ready)
            threading.Timer(0.1, server.stop).start()
            self.assertTrue(server.wait(30))

    def test_a_program_that_forgets_its_server_ends(self):
        program = ("import models, tessera\n"
                   f"server = tessera.Server({{'net': tessera.Session(models.mlp())}}, **{FREE!r})\n"
                   "print(server.ready)\n")
        done = subprocess.run([sys.executable, "-B", "-c", program], timeout=60, capture_output=True, text=True,
                              cwd=os.path.dirname(os.path.abspath(__file__)))
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "True\n", ""))


class Without(unittest.TestCase):
    @unittest.skipIf(tessera.build_info()["server"], "this build has the server")
    def test_a_build_without_the_server_says_so(self):
        with self.assertRaisesRegex(tessera.Unsupported, "setup.sh --serve"):
            tessera.Server({"net": tessera.Session(models.mlp())})


if __name__ == "__main__":
    unittest.main()
