#!/usr/bin/env python3
"""The Open Inference Protocol over HTTP as curl and Prometheus see it. Standard library only.

    http_test.py TESSERA
"""
import contextlib
import gzip
import http.client
import json
import pathlib
import shutil
import signal
import struct
import subprocess
import tempfile
import threading
import time
import unittest

import server
from server import Server, grey_png, lenet_request, make_repository


class Http(server.WithServer):
    def test_the_requests_of_perf_analyzer_with_and_without_names(self):
        metadata = self.server.json("GET", "/v2")
        self.assertEqual(metadata["name"], "tessera")
        self.assertIn("binary_tensor_data", metadata["extensions"])
        self.assertEqual(self.server.ask("GET", "/v2/health/live")[0], 200)
        self.assertEqual(self.server.ask("GET", "/v2/health/ready")[0], 200)
        for path in ("/v2/models/lenet", "/v2/models/lenet/versions/1"):
            self.assertEqual(self.server.ask("GET", path + "/ready")[0], 200)
            model = self.server.json("GET", path)
            self.assertEqual(model["inputs"], [{"name": "input", "datatype": "FP32", "shape": [-1, 1, 28, 28]}])
            config = self.server.json("GET", path + "/config")
            self.assertEqual((config["max_batch_size"], config["input"][0]["dims"]), (8, [1, 28, 28]))
            stats = self.server.json("GET", path + "/stats")["model_stats"]
            self.assertEqual([(entry["name"], entry["version"]) for entry in stats], [("lenet", "1")])
        everything = self.server.json("GET", "/v2/models/stats")["model_stats"]
        self.assertEqual([entry["name"] for entry in everything], ["lenet", "picture", "reader"])
        self.assertEqual(self.server.json("GET", "/v2/trace/setting")["trace_level"], ["OFF"])
        self.assertEqual(self.server.json("GET", "/v2/logging")["log_verbose_level"], 0)

    def test_json_binary_and_compressed_requests_give_the_same(self):
        request = lenet_request()
        expected = self.server.json("POST", "/v2/models/lenet/infer", request)["outputs"][0]["data"]
        self.assertEqual(len(expected), 10)
        packed = gzip.compress(json.dumps(request).encode())
        status, headers, body = self.server.ask("POST", "/v2/models/lenet/infer", packed,
                                                {"Content-Encoding": "gzip", "Accept-Encoding": "gzip"})
        self.assertEqual(status, 200)
        text = gzip.decompress(body) if headers["Content-Encoding"] == "gzip" else body
        self.assertEqual(json.loads(text)["outputs"][0]["data"], expected)
        data = struct.pack("<784f", *[0.5] * 784)
        head = json.dumps({"inputs": [{"name": "input", "datatype": "FP32", "shape": [1, 1, 28, 28],
                                       "parameters": {"binary_data_size": len(data)}}],
                           "parameters": {"binary_data_output": True}}).encode()
        status, headers, body = self.server.ask("POST", "/v2/models/lenet/infer", head + data,
                                                {"Inference-Header-Content-Length": str(len(head))})
        self.assertEqual(status, 200, body)
        binary = struct.unpack("<10f", body[int(headers["Inference-Header-Content-Length"]):])
        self.assertEqual(list(binary), [struct.unpack("<f", struct.pack("<f", value))[0] for value in expected])
        _, _, body = self.server.ask("POST", "/v2/models/lenet/infer", data, {"Inference-Header-Content-Length": "0"})
        self.assertEqual(json.loads(body)["outputs"][0]["data"], expected)

    def test_one_connection_serves_many_requests(self):
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=30 * server.PATIENCE)
        with contextlib.closing(connection):
            for i in range(50):
                path = "/v2/models/lenet/infer" if i % 3 else "/v2/models/none/infer"
                connection.request("POST", path, json.dumps(lenet_request(i / 50)))
                answer = connection.getresponse()
                self.assertEqual((answer.status, bool(answer.read())), (200 if i % 3 else 404, True))

    def test_a_picture_comes_back_as_labels(self):
        status, _, body = self.server.ask("POST", "/v2/models/reader/infer", grey_png(60, 40),
                                          {"Inference-Header-Content-Length": "0"})
        self.assertEqual(status, 200, body)
        labels = json.loads(body)["outputs"][0]["data"]
        self.assertEqual(len(labels), 3)
        for label in labels:
            value, index, name = label.split(":")
            float(value)
            self.assertEqual(name, "zero one two three four five six seven eight nine".split()[int(index)])
        for body in (b"no picture", b"", grey_png(60, 40)[:60]):
            self.refused(400, "no picture that can be decoded", "POST", "/v2/models/reader/infer", body,
                         {"Inference-Header-Content-Length": "0"})

    def test_classes_and_ids(self):
        request = lenet_request(rows=2, id="mine", outputs=[{"name": "output", "parameters": {"classification": 2}}])
        answer = self.server.json("POST", "/v2/models/lenet/infer", request)
        self.assertEqual((answer["id"], answer["outputs"][0]["shape"]), ("mine", [2, 2]))
        self.assertEqual(answer["outputs"][0]["datatype"], "BYTES")

    def test_what_is_wrong_is_told_without_names_of_the_inside(self):
        self.refused(404, "model 'none' is not loaded", "POST", "/v2/models/none/infer", lenet_request())
        self.refused(404, "no version '7'", "GET", "/v2/models/lenet/versions/7")
        self.refused(404, "nothing at this address", "GET", "/v3")
        self.refused(405, "POST only", "GET", "/v2/models/lenet/infer")
        self.refused(400, "is not a text", "POST", "/v2/models/lenet/infer", {"inputs": [{"name": 5}]})
        self.refused(400, "expected [-1, 1, 28, 28]", "POST", "/v2/models/lenet/infer",
                     {"inputs": [{"name": "input", "datatype": "FP32", "shape": [1, 2], "data": [1, 2]}]})
        self.refused(400, "expected 1 to 8", "POST", "/v2/models/lenet/infer", lenet_request(rows=9))

    def test_a_deadline_that_cannot_be_met_is_refused_with_a_time_to_try_again(self):
        headers = self.refused(503, "too busy", "POST", "/v2/models/lenet/infer",
                               lenet_request(parameters={"timeout": 1}))
        self.assertGreaterEqual(int(headers["Retry-After"]), 1)

    def test_metrics_have_the_names_that_dashboards_expect(self):
        self.server.json("POST", "/v2/models/lenet/infer", lenet_request())
        status, headers, text = self.server.ask("GET", "/metrics", port=self.server.ports["metrics"])
        self.assertEqual((status, headers["Content-Type"].split(";")[0]), (200, "text/plain"))
        values = {}
        for line in text.decode().splitlines():
            if not line.startswith("#"):
                name, value = line.rsplit(" ", 1)
                values[name] = float(value)
        self.assertGreaterEqual(values['nv_inference_request_success{model="lenet",version="1"}'], 1)
        self.assertGreater(values['nv_inference_compute_infer_duration_us{model="lenet",version="1"}'], 0)
        self.assertGreaterEqual(values["tessera_connections"], 1)
        buckets = [value for name, value in values.items()
                   if name.startswith('tessera_request_latency_seconds_bucket{model="lenet"')]
        self.assertEqual(buckets, sorted(buckets))
        self.assertEqual(buckets[-1], values['tessera_request_latency_seconds_count{model="lenet",version="1"}'])

    def test_curl_sends_a_large_body_with_expect(self):
        curl = shutil.which("curl")
        if not curl:
            self.skipTest("no curl here")
        file = pathlib.Path(self.holder.name) / "request.json"
        file.write_text(json.dumps(lenet_request(0.123456789, rows=8)) + " " * (2 << 20))
        done = subprocess.run([curl, "-sS", "-H", "Expect: 100-continue", "--data-binary", f"@{file}",
                               f"http://127.0.0.1:{self.server.port}/v2/models/lenet/infer"],
                              capture_output=True, text=True, timeout=60 * server.PATIENCE)
        self.assertEqual(json.loads(done.stdout)["outputs"][0]["shape"], [8, 10], done.stderr)


class Repository(unittest.TestCase):
    def test_models_are_loaded_exchanged_and_unloaded(self):
        with tempfile.TemporaryDirectory() as holder:
            folder = make_repository(pathlib.Path(holder) / "models")
            with Server(folder) as running:
                index = running.json("POST", "/v2/repository/index")
                self.assertEqual([(m["name"], m["state"]) for m in index],
                                 [("lenet", "READY"), ("picture", "READY"), ("reader", "READY")])
                shutil.copytree(folder / "lenet" / "1", folder / "lenet" / "2")
                self.assertEqual(running.ask("POST", "/v2/repository/models/lenet/load")[0], 200)
                self.assertEqual(running.json("GET", "/v2/models/lenet")["versions"], ["2"])
                (folder / "lenet" / "config.pbtxt").write_text("version_policy { all {} } max_batch_size: 4")
                running.process.send_signal(signal.SIGHUP)
                for _ in range(200):
                    if running.json("GET", "/v2/models/lenet")["versions"] == ["1", "2"]:
                        break
                    time.sleep(0.02 * server.PATIENCE)
                self.assertEqual(running.json("GET", "/v2/models/lenet")["versions"], ["1", "2"])
                self.assertEqual(running.ask("POST", "/v2/repository/models/lenet/unload")[0], 200)
                self.assertEqual(running.ask("GET", "/v2/models/lenet/ready")[0], 400)
                states = {m["name"]: m["state"] for m in running.json("POST", "/v2/repository/index")}
                self.assertEqual(states["lenet"], "UNAVAILABLE")
                for name in ("..", "%2e%2e", "..%2fmodels", "none"):
                    self.assertEqual(running.ask("POST", f"/v2/repository/models/{name}/load")[0], 404, name)

    def test_the_index_says_why_a_model_was_not_loaded_anew(self):
        with tempfile.TemporaryDirectory() as holder:
            folder = make_repository(pathlib.Path(holder) / "models")
            config = folder / "lenet" / "config.toml"
            with Server(folder) as running:
                for text, why in (("file = 'none.onnx'", "missing"), ("[", "config.toml"),
                                  ("[shares]\n9 = 0.5", "version 9 of model 'lenet' has a share"),
                                  ("instances = 0", "config.toml is 0, expected 1 to 64"),
                                  ("max_batch_size = 100000", "is 100000, expected 0 to 4096")):
                    config.write_text(text)
                    self.assertEqual(running.ask("POST", "/v2/repository/models/lenet/load")[0], 400, text)
                    (state,) = [m for m in running.json("POST", "/v2/repository/index") if m["name"] == "lenet"]
                    self.assertEqual(state["state"], "READY")
                    self.assertIn("not loaded anew: ", state["reason"])
                    self.assertIn(why, state["reason"])
                config.write_text("max_batch_size = 4")
                running.json("POST", "/v2/repository/models/lenet/load")
                (state,) = [m for m in running.json("POST", "/v2/repository/index") if m["name"] == "lenet"]
                self.assertEqual(state.get("reason", ""), "")

    def test_one_file_alone_and_requests_in_flight_are_answered_on_sigterm(self):
        with tempfile.TemporaryDirectory() as holder:
            folder = make_repository(pathlib.Path(holder) / "models")
            with Server(folder / "lenet" / "1" / "model.onnx") as running:
                answers, stop = [], threading.Event()

                def ask():
                    while not stop.is_set():
                        try:
                            answers.append(running.ask("POST", "/v2/models/model/infer", lenet_request())[0])
                        except (ConnectionError, OSError):
                            if running.process.poll() is None and not stop.is_set():
                                time.sleep(0.01)  # refused at the door: it was never accepted
                            continue

                threads = [threading.Thread(target=ask) for _ in range(4)]
                for thread in threads:
                    thread.start()
                time.sleep(0.5 * server.PATIENCE)
                code = running.stop()
                stop.set()
                for thread in threads:
                    thread.join()
                self.assertEqual(code, 0, running.log_text())
                self.assertGreater(answers.count(200), 10)
                self.assertLessEqual(set(answers), {200, 503})

    def test_a_port_in_use_is_an_error_of_one_line(self):
        with tempfile.TemporaryDirectory() as holder:
            folder = make_repository(pathlib.Path(holder) / "models")
            with Server(folder) as running:
                done = subprocess.run([server.program, "serve", folder, "--http", f"127.0.0.1:{running.port}"],
                                      capture_output=True, text=True, timeout=60 * server.PATIENCE)
                self.assertEqual(done.returncode, 6, done.stderr)
                self.assertIn("cannot listen on", done.stderr)
            done = subprocess.run([server.program, "serve", folder / "none"], capture_output=True, text=True,
                                  timeout=60 * server.PATIENCE)
            self.assertEqual((done.returncode, done.stdout), (5, ""), done.stderr)


if __name__ == "__main__":
    server.main()
