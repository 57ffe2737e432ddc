#!/usr/bin/env python3
"""Triton's own clients (tritonclient), unmodified, over HTTP and gRPC.

    clients_test.py TESSERA
"""
import pathlib
import queue
import shutil
import tempfile
import time
import unittest

import ml_dtypes
import numpy as np
import security_test
import server
import tritonclient.grpc as triton_grpc
import tritonclient.http as triton_http
import tritonclient.utils.shared_memory as shared_memory
from server import grey_png
from tritonclient.utils import InferenceServerException

# The element types that a Cast takes and gives, by the names of the protocol.
TYPES = {
    "BOOL": np.bool_, "UINT8": np.uint8, "UINT16": np.uint16, "UINT32": np.uint32, "UINT64": np.uint64,
    "INT8": np.int8, "INT16": np.int16, "INT32": np.int32, "INT64": np.int64, "FP16": np.float16, "FP32": np.float32,
    "FP64": np.float64, "BF16": ml_dtypes.bfloat16, "BYTES": np.object_
}


def varint(number):
    out = b""
    while number > 127:
        out += bytes([number & 127 | 128])
        number >>= 7
    return out + bytes([number])


def field(number, value):
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    value = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(value)) + value


def identity_model(onnx_type):
    """An ONNX file with y = Identity(x), x of [batch, 3]; see onnx.proto for the numbers."""
    dims = field(1, field(2, "batch")) + field(1, field(1, 3))
    tensor = field(1, onnx_type) + field(2, dims)
    value = lambda name: field(1, name) + field(2, field(1, tensor))
    node = field(1, "x") + field(2, "y") + field(4, "Identity")
    graph = field(1, node) + field(2, "g") + field(11, value("x")) + field(12, value("y"))
    return field(1, 8) + field(7, graph) + field(8, field(1, "") + field(2, 17))


ONNX_TYPES = {"FP32": 1, "UINT8": 2, "INT8": 3, "UINT16": 4, "INT16": 5, "INT32": 6, "INT64": 7, "BYTES": 8, "BOOL": 9,
              "FP16": 10, "FP64": 11, "UINT32": 12, "UINT64": 13, "BF16": 16}


class Clients(server.WithServer):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.http = triton_http.InferenceServerClient(f"127.0.0.1:{cls.server.port}", concurrency=4)
        cls.grpc = triton_grpc.InferenceServerClient(f"127.0.0.1:{cls.server.ports['grpc']}")
        for name, number in ONNX_TYPES.items():
            version = cls.folder / f"same_{name}" / "1"
            version.mkdir(parents=True)
            (version / "model.onnx").write_bytes(identity_model(number))
            cls.http.load_model(f"same_{name}")

    @classmethod
    def tearDownClass(cls):
        cls.http.close()
        cls.grpc.close()
        super().tearDownClass()

    def both(self):
        return (("http", triton_http, self.http), ("grpc", triton_grpc, self.grpc))

    def lenet(self, kind, value=0.5, rows=1):
        x = np.full((rows, 1, 28, 28), value, np.float32)
        tensor = kind.InferInput("input", x.shape, "FP32")
        tensor.set_data_from_numpy(x)
        return tensor

    def test_health_metadata_configuration_statistics_and_settings(self):
        for name, _, client in self.both():
            with self.subTest(name):
                self.assertTrue(client.is_server_live() and client.is_server_ready() and client.is_model_ready("lenet"))
                self.assertFalse(client.is_model_ready("none"))
                plain = {} if name == "http" else {"as_json": True}
                self.assertEqual(client.get_server_metadata(**plain)["name"], "tessera")
                model = client.get_model_metadata("lenet", **plain)
                self.assertEqual(model["inputs"][0]["datatype"], "FP32")
                config = client.get_model_config("lenet", **plain)
                self.assertEqual(config.get("config", config)["max_batch_size"], 8)
                self.assertTrue(client.get_inference_statistics(**plain)["model_stats"])
                self.assertEqual(len(client.get_inference_statistics("lenet", **plain)["model_stats"]), 1)
                index = client.get_model_repository_index(**plain)
                names = [entry["name"] for entry in (index if name == "http" else index["models"])]
                self.assertIn("lenet", names)
                self.assertIn("trace_level", str(client.get_trace_settings(**plain)))
                self.assertIn("log_verbose_level", str(client.get_log_settings(**plain)))
                self.assertIn(client.get_cuda_shared_memory_status(**plain), ([], {}))

    def test_every_type_comes_back_as_it_was(self):
        for name, dtype in TYPES.items():
            if dtype is np.object_:
                x = np.array([[b"a", b"", b"\xc3\xa9\x00!"], [b"1", b"2", b"3"]], dtype)
            elif dtype is np.bool_:
                x = np.array([[True, False, True], [False, False, True]])
            elif np.issubdtype(dtype, np.integer):
                x = np.array([[0, 1, np.iinfo(dtype).max], [np.iinfo(dtype).min, 7, 100]], dtype)
            else:
                x = np.array([[0, 1.5, -2.25], [ml_dtypes.finfo(dtype).max, ml_dtypes.finfo(dtype).tiny, 0.1]], dtype)
            for label, kind, client in self.both():
                for binary in (True, False) if label == "http" and name not in ("FP16", "BF16", "BYTES") else (True,):
                    with self.subTest(type=name, client=label, binary=binary):
                        tensor = kind.InferInput("x", x.shape, name)
                        options = {"binary_data": binary} if label == "http" else {}
                        tensor.set_data_from_numpy(x, **options)
                        wish = kind.InferRequestedOutput("y", **options)
                        y = client.infer(f"same_{name}", [tensor], outputs=[wish], request_id="7").as_numpy("y")
                        np.testing.assert_array_equal(y.astype(x.dtype), x)

    def test_both_give_the_same_bits_and_compression_changes_nothing(self):
        results = [client.infer("lenet", [self.lenet(kind)]).as_numpy("output") for _, kind, client in self.both()]
        for coding in ("gzip", "deflate"):
            results.append(self.http.infer("lenet", [self.lenet(triton_http)], request_compression_algorithm=coding,
                                           response_compression_algorithm=coding).as_numpy("output"))
        for result in results[1:]:
            np.testing.assert_array_equal(result, results[0])

    def test_classification(self):
        for name, kind, client in self.both():
            with self.subTest(name):
                wish = kind.InferRequestedOutput("output", class_count=3)
                classes = client.infer("lenet", [self.lenet(kind)], outputs=[wish]).as_numpy("output")
                self.assertEqual(classes.shape, (1, 3))
                self.assertEqual(len(classes[0][0].split(b":")), 2)

    def test_an_ensemble_makes_labels_of_a_picture(self):
        x = np.frombuffer(grey_png(50, 31), np.uint8)
        for name, kind, client in self.both():
            with self.subTest(name):
                tensor = kind.InferInput("image", x.shape, "UINT8")
                tensor.set_data_from_numpy(x)
                labels = client.infer("reader", [tensor]).as_numpy("label")
                self.assertIn(labels[0][0].split(b":")[2], b"zero one two three four five six seven eight nine".split())

    def test_errors_are_exceptions_with_the_reason(self):
        for name, kind, client in self.both():
            with self.subTest(name):
                with self.assertRaisesRegex(InferenceServerException, "is not loaded"):
                    client.infer("none", [self.lenet(kind)])
                with self.assertRaisesRegex(InferenceServerException, "no version"):
                    client.infer("lenet", [self.lenet(kind)], model_version="9")
                with self.assertRaisesRegex(InferenceServerException, "expected 1 to 8"):
                    client.infer("lenet", [self.lenet(kind, rows=9)])
                with self.assertRaisesRegex(InferenceServerException, "too busy"):
                    client.infer("lenet", [self.lenet(kind)], timeout=1)

    def test_shared_memory(self):
        x = np.random.default_rng(1).random((2, 1, 28, 28), np.float32)
        for name, kind, client in self.both():
            with self.subTest(name):
                plain = self.lenet(kind)
                plain.set_shape(x.shape)
                plain.set_data_from_numpy(x)
                expected = client.infer("lenet", [plain]).as_numpy("output")
                given = shared_memory.create_shared_memory_region("in", f"/tessera_in_{name}", x.nbytes)
                made = shared_memory.create_shared_memory_region("out", f"/tessera_out_{name}", expected.nbytes)
                try:
                    shared_memory.set_shared_memory_region(given, [x])
                    client.register_system_shared_memory("in", f"/tessera_in_{name}", x.nbytes)
                    client.register_system_shared_memory("out", f"/tessera_out_{name}", expected.nbytes)
                    tensor = kind.InferInput("input", x.shape, "FP32")
                    tensor.set_shared_memory("in", x.nbytes)
                    wish = kind.InferRequestedOutput("output")
                    wish.set_shared_memory("out", expected.nbytes)
                    client.infer("lenet", [tensor], outputs=[wish])
                    found = shared_memory.get_contents_as_numpy(made, np.float32, list(expected.shape))
                    np.testing.assert_array_equal(found, expected)
                    wish.set_shared_memory("out", expected.nbytes - 4)
                    with self.assertRaises(InferenceServerException):
                        client.infer("lenet", [tensor], outputs=[wish])
                finally:
                    client.unregister_system_shared_memory()
                    shared_memory.destroy_shared_memory_region(given)
                    shared_memory.destroy_shared_memory_region(made)

    def test_a_stream_answers_every_request_and_errors_by_their_id(self):
        answers = queue.Queue()
        self.grpc.start_stream(lambda result, error: answers.put((result, error)))
        count = 200  # more than a stream keeps in flight
        for i in range(count):
            self.grpc.async_stream_infer("lenet", [self.lenet(triton_grpc, i / count)], request_id=str(i))
        self.grpc.async_stream_infer("none", [self.lenet(triton_grpc)], request_id="wrong")
        found, errors = set(), 0
        for _ in range(count + 1):
            result, error = answers.get(timeout=30 * server.PATIENCE)
            if error is not None:
                self.assertIn("is not loaded", str(error))
                errors += 1
            else:
                found.add(result.get_response().id)
        self.grpc.stop_stream()
        self.assertEqual((len(found), errors), (count, 1))

    def test_requests_at_once_are_batched(self):
        before = self.http.get_inference_statistics("lenet")["model_stats"][0]
        waiting = [self.http.async_infer("lenet", [self.lenet(triton_http)]) for _ in range(40)]
        results = queue.Queue()
        for _ in range(40):
            self.grpc.async_infer("lenet", [self.lenet(triton_grpc)],
                                  lambda result, error: results.put((result, error)))
        for request in waiting:
            self.assertEqual(request.get_result().as_numpy("output").shape, (1, 10))
        for _ in range(40):
            result, error = results.get(timeout=30 * server.PATIENCE)
            self.assertIsNone(error)
            self.assertEqual(result.as_numpy("output").shape, (1, 10))
        after = self.http.get_inference_statistics("lenet")["model_stats"][0]
        self.assertEqual(after["inference_count"] - before["inference_count"], 80)
        self.assertLessEqual(after["execution_count"] - before["execution_count"], 80)

    def test_a_call_that_is_cancelled_or_late_ends(self):
        with self.assertRaisesRegex(InferenceServerException, "(?i)deadline"):
            for _ in range(1000):  # the answer may be there before the client looks at its clock
                self.grpc.infer("lenet", [self.lenet(triton_grpc)], client_timeout=1e-6)
        call = self.grpc.async_infer("lenet", [self.lenet(triton_grpc)], lambda result, error: None)
        call.cancel()
        time.sleep(0.05 * server.PATIENCE)
        self.assertTrue(self.grpc.is_server_live())

    def test_load_and_unload(self):
        for name, kind, client in self.both():
            with self.subTest(name):
                client.unload_model("same_FP32")
                self.assertFalse(client.is_model_ready("same_FP32"))
                client.load_model("same_FP32")
                self.assertTrue(client.is_model_ready("same_FP32"))
                with self.assertRaisesRegex(InferenceServerException, "no model '../x'|nothing at this address"):
                    client.load_model("../x")
                with self.assertRaisesRegex(InferenceServerException, "put them into the repository"):
                    client.load_model("lenet", config="{}", files={"file:1/model.onnx": b"abc"})


@unittest.skipUnless(shutil.which("openssl"), "the program openssl makes the certificates")
class SecureGrpc(unittest.TestCase):
    def test_tokens_over_tls_with_a_certificate_that_is_exchanged(self):
        with tempfile.TemporaryDirectory() as holder:
            folder = pathlib.Path(holder)
            repository = server.make_repository(folder / "models")
            security_test.make_certificate(folder, "server")
            config = (f'[tls]\ncertificate = "{folder}/server.pem"\nkey = "{folder}/server.key"\n' +
                      security_test.keys())
            with server.Server(repository, config=config) as running:
                self.ask(running, folder / "server.pem")
                security_test.make_certificate(folder, "next")
                for kind in ("key", "pem"):
                    (folder / f"next.{kind}").rename(folder / f"server.{kind}")
                for left in range(50, -1, -1):
                    try:
                        self.ask(running, folder / "server.pem")
                        break
                    except InferenceServerException:
                        self.assertGreater(left, 0, "the new certificate was not shown")
                        time.sleep(0.2 * server.PATIENCE)

    def ask(self, running, certificate):
        client = triton_grpc.InferenceServerClient(f"127.0.0.1:{running.ports['grpc']}", ssl=True,
                                                   root_certificates=str(certificate))
        x = np.zeros((1, 1, 28, 28), np.float32)
        tensor = triton_grpc.InferInput("input", x.shape, "FP32")
        tensor.set_data_from_numpy(x)
        token = lambda name: {"authorization": "Bearer " + security_test.TOKENS[name]}
        try:
            self.assertEqual(client.infer("lenet", [tensor], headers=token("alice")).as_numpy("output").shape, (1, 10))
            with self.assertRaisesRegex(InferenceServerException, "UNAUTHENTICATED"):
                client.infer("lenet", [tensor])
            with self.assertRaisesRegex(InferenceServerException, "PERMISSION_DENIED"):
                client.infer("lenet", [tensor], headers=token("boss"))
            with self.assertRaisesRegex(InferenceServerException, "PERMISSION_DENIED"):
                client.load_model("lenet", headers=token("alice"))
            self.assertTrue(client.is_server_live())
        finally:
            client.close()


if __name__ == "__main__":
    server.main()
