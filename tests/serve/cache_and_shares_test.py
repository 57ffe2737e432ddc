#!/usr/bin/env python3
"""The response cache and shares of versions with Triton's own clients (tritonclient), unmodified.

    cache_and_shares_test.py TESSERA
"""
import pathlib
import tempfile
import unittest

import numpy as np
import server
import tritonclient.grpc as triton_grpc
import tritonclient.http as triton_http
from small_models import FLOAT, onnx_model


def scale(factor_of_two):
    """y = 2 ** factor_of_two · x, by additions."""
    names = ["x"] + [f"v{i}" for i in range(1, factor_of_two)] + ["y"]
    nodes = [("Add", [a, a], [b]) for a, b in zip(names, names[1:])]
    return onnx_model(nodes, [("x", FLOAT, ["batch", 1])], [("y", FLOAT, ["batch", 1])])


class CacheAndShares(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.holder = tempfile.TemporaryDirectory()
        cls.folder = pathlib.Path(cls.holder.name) / "models"
        for name, config in (("cached", "response_cache { enable: true }"), ("split", "version_policy { all {} }")):
            for version in (1, 2):
                (cls.folder / name / str(version)).mkdir(parents=True)
                (cls.folder / name / str(version) / "model.onnx").write_bytes(scale(version))
            warm_up = 'model_warmup { name: "w" batch_size: 2 inputs { key: "x" value { random_data: true } } }'
            (cls.folder / name / "config.pbtxt").write_text(f"max_batch_size: 4 {config} {warm_up}")
        noisy = onnx_model([("RandomNormalLike", ["x"], ["r"]), ("Add", ["x", "r"], ["y"])],
                           [("x", FLOAT, ["batch", 1])], [("y", FLOAT, ["batch", 1])])
        (cls.folder / "noisy" / "1").mkdir(parents=True)
        (cls.folder / "noisy" / "1" / "model.onnx").write_bytes(noisy)
        (cls.folder / "noisy" / "config.pbtxt").write_text("max_batch_size: 4 response_cache { enable: true }")
        cls.server = server.Server(cls.folder)
        cls.http = triton_http.InferenceServerClient(f"127.0.0.1:{cls.server.port}")
        cls.grpc = triton_grpc.InferenceServerClient(f"127.0.0.1:{cls.server.ports['grpc']}")

    @classmethod
    def tearDownClass(cls):
        cls.http.close()
        cls.grpc.close()
        cls.server.__exit__(None)
        cls.holder.cleanup()

    def ask(self, kind, client, model, number, **more):
        tensor = kind.InferInput("x", [1, 1], "FP32")
        tensor.set_data_from_numpy(np.full((1, 1), number, np.float32))
        return client.infer(model, [tensor], **more).as_numpy("y").item()

    def test_equal_requests_are_computed_once_whichever_way_they_come(self):
        for number in (3, 4):
            for kind, client in ((triton_http, self.http), (triton_grpc, self.grpc), (triton_http, self.http)):
                self.assertEqual(self.ask(kind, client, "cached", number, request_id="any"), 4 * number)
        stats = self.http.get_inference_statistics("cached")["model_stats"][0]
        self.assertEqual(stats["inference_count"], 2)
        inference = stats["inference_stats"]
        self.assertEqual([inference[key]["count"] for key in ("success", "cache_hit", "cache_miss")], [6, 4, 2])
        same = self.grpc.get_inference_statistics("cached", as_json=True)["model_stats"][0]["inference_stats"]
        self.assertEqual(same["cache_hit"]["count"], "4")
        self.assertTrue(self.http.get_model_config("cached")["response_cache"]["enable"])
        metrics = self.server.ask("GET", "/metrics", port=self.server.ports["metrics"])[2].decode()
        self.assertIn('nv_cache_num_hits_per_model{model="cached",version="2"} 4', metrics)

    def test_answers_with_random_numbers_are_not_kept(self):
        self.assertEqual(len({self.ask(triton_http, self.http, "noisy", 1) for _ in range(5)}), 5)

    def versions(self, count, **more):
        found = [self.ask(triton_http, self.http, "split", 1, **more) for _ in range(count)]
        return found.count(2), found.count(4)

    def test_shares_split_requests_between_versions(self):
        address = "/v2/repository/models/split/shares"
        self.assertEqual(self.server.json("GET", address), {})
        self.assertEqual(self.versions(4), (0, 4))  # the highest
        self.assertEqual(self.server.json("POST", address, {"1": 3, "2": 1}), {"1": 0.75, "2": 0.25})
        first, second = self.versions(40)
        self.assertEqual(first + second, 40)
        self.assertTrue(8 <= second <= 12, second)
        for kind, client in ((triton_http, self.http), (triton_grpc, self.grpc)):
            by_key = {key: {self.ask(kind, client, "split", 1, request_id=key) for _ in range(3)} for key in "abcdefgh"}
            self.assertTrue(all(len(found) == 1 for found in by_key.values()))
        self.assertEqual(self.ask(triton_http, self.http, "split", 1, model_version="2"), 4)  # as it was asked for
        metrics = self.server.ask("GET", "/metrics", port=self.server.ports["metrics"])[2].decode()
        self.assertIn('tessera_version_share{model="split",version="1"} 0.75', metrics)
        for body, message in (({"7": 1}, "not loaded"), ({"1": -1}, "expected a number"), ({"a": 1}, "by versions"),
                              ({"1": "x"}, "by versions"), ({"1": 0}, "above 0")):
            status, _, answer = self.server.ask("POST", address, body)
            self.assertEqual(status, 400, answer)
            self.assertIn(message, answer.decode())
        self.assertEqual(self.server.ask("POST", address.replace("split", "none"), {})[0], 404)
        self.server.json("POST", address, {})
        self.assertEqual(self.versions(4), (0, 4))


if __name__ == "__main__":
    server.main()
