#!/usr/bin/env python3
"""Sequences with Triton's own clients (tritonclient), unmodified.

    sequences_test.py TESSERA
"""
import json
import pathlib
import queue
import struct
import tempfile
import threading
import unittest

import grpc
import numpy as np
import server
import tritonclient.grpc as triton_grpc
import tritonclient.http as triton_http
from small_models import FLOAT, INT64, STRING, onnx_model
from tritonclient.grpc import service_pb2, service_pb2_grpc
from tritonclient.utils import InferenceServerException


def accumulator(id_type):
    """sum = x + total, which is the next total; the controls come back as they were given."""
    row = ["batch", 1]
    return onnx_model([("Add", ["x", "total"], ["sum"]), ("Identity", ["sum"], ["next_total"]),
                       ("Identity", ["START"], ["start"]), ("Identity", ["END"], ["end"]),
                       ("Identity", ["READY"], ["ready"]), ("Identity", ["ID"], ["id"])],
                      [("x", FLOAT, row), ("total", FLOAT, row), ("START", FLOAT, row), ("END", FLOAT, row),
                       ("READY", FLOAT, row), ("ID", id_type, row)],
                      [("sum", FLOAT, row), ("next_total", FLOAT, row), ("start", FLOAT, row), ("end", FLOAT, row),
                       ("ready", FLOAT, row), ("id", id_type, row)])


INPUT, HIDDEN = 4, 3


def lstm_weights():
    random = np.random.default_rng(7)
    return (random.standard_normal((1, 4 * HIDDEN, INPUT)).astype(np.float32),
            random.standard_normal((1, 4 * HIDDEN, HIDDEN)).astype(np.float32))


def lstm_model():
    """One step of an LSTM, batch first; y is h_next as well."""
    w, r = lstm_weights()
    state = ["batch", 1, HIDDEN]
    return onnx_model([("LSTM", ["x", "W", "R", "", "", "h", "c"], ["", "h_next", "c_next"],
                        {"hidden_size": HIDDEN, "layout": 1}), ("Identity", ["h_next"], ["y"])],
                      [("x", FLOAT, ["batch", 1, INPUT]), ("h", FLOAT, state), ("c", FLOAT, state)],
                      [("y", FLOAT, state), ("h_next", FLOAT, state), ("c_next", FLOAT, state)], [("W", w), ("R", r)])


def lstm_reference(steps):
    """The hidden states of a sequence, by the equations of ONNX's LSTM (gates i, o, f, c)."""
    w, r = (weights[0].astype(np.float64) for weights in lstm_weights())
    sigmoid = lambda x: 1 / (1 + np.exp(-x))
    h = c = np.zeros(HIDDEN)
    found = []
    for x in steps:
        i, o, f, g = np.split(w @ x + r @ h, 4)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        found.append(h)
    return np.array(found)


def control(name, kind, rest):
    return f'control_input {{ name: "{name}" control {{ kind: CONTROL_SEQUENCE_{kind} {rest} }} }}\n'


def sequence_config(id_type="TYPE_INT64", idle_us=20_000_000, batch=2, initial="", more=""):
    flags = "".join(control(name, name, "fp32_false_true: [ 0, 1 ]") for name in ("START", "END", "READY"))
    return (f'max_batch_size: {batch}\nsequence_batching {{ direct {{ }} max_sequence_idle_microseconds: {idle_us}\n' +
            flags + control("ID", "CORRID", f"data_type: {id_type}") +
            'state { input_name: "total" output_name: "next_total" data_type: TYPE_FP32 dims: [ 1 ] ' +
            f'{initial} }} }}\n' + more)


class Sequences(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.holder = tempfile.TemporaryDirectory()
        cls.folder = pathlib.Path(cls.holder.name) / "models"
        cls.add("sums", sequence_config())
        cls.add("named", sequence_config("TYPE_STRING"), STRING)
        cls.add("short", sequence_config(idle_us=100_000))
        initial = 'initial_state { name: "hundred" data_type: TYPE_FP32 dims: [ 1 ] data_file: "hundred" }'
        cls.add("hundred", sequence_config(initial=initial))
        (cls.folder / "hundred" / "initial_state").mkdir()
        (cls.folder / "hundred" / "initial_state" / "hundred").write_bytes(np.float32([100]).tobytes())
        (cls.folder / "lstm" / "1").mkdir(parents=True)
        (cls.folder / "lstm" / "1" / "model.onnx").write_bytes(lstm_model())
        (cls.folder / "lstm" / "config.toml").write_text(
            'max_batch_size = 4\n[sequence]\nslots = 3\nidle_ms = 20000\n' +
            '[sequence.state]\nh = "h_next"\nc = "c_next"\n')
        cls.server = server.Server(cls.folder)
        cls.http = triton_http.InferenceServerClient(f"127.0.0.1:{cls.server.port}", concurrency=8)
        cls.grpc = triton_grpc.InferenceServerClient(f"127.0.0.1:{cls.server.ports['grpc']}")

    @classmethod
    def add(cls, name, config, id_type=INT64):
        (cls.folder / name / "1").mkdir(parents=True, exist_ok=True)
        (cls.folder / name / "1" / "model.onnx").write_bytes(accumulator(id_type))
        (cls.folder / name / "config.pbtxt").write_text(config)

    @classmethod
    def tearDownClass(cls):
        cls.http.close()
        cls.grpc.close()
        cls.server.__exit__(None)
        cls.holder.cleanup()

    def both(self):
        return (("http", triton_http, self.http), ("grpc", triton_grpc, self.grpc))

    def x(self, kind, number):
        tensor = kind.InferInput("x", [1, 1], "FP32")
        tensor.set_data_from_numpy(np.full((1, 1), number, np.float32))
        return [tensor]

    def step(self, kind, client, model, number, identity, start=False, end=False, **more):
        result = client.infer(model, self.x(kind, number), sequence_id=identity, sequence_start=start,
                              sequence_end=end, **more)
        return {name: result.as_numpy(name).item() for name in ("sum", "start", "end", "ready", "id")}

    def test_states_pass_from_step_to_step_and_controls_tell_where_it_stands(self):
        for name, kind, client in self.both():
            for model, identity, told in (("sums", 7, 7), ("named", "user-7", b"user-7"), ("named", 9, b"9")):
                with self.subTest(name, model=model):
                    first = self.step(kind, client, model, 1, identity, start=True)
                    self.assertEqual(first, {"sum": 1, "start": 1, "end": 0, "ready": 1, "id": told})
                    second = self.step(kind, client, model, 2, identity)
                    self.assertEqual(second, {"sum": 3, "start": 0, "end": 0, "ready": 1, "id": told})
                    last = self.step(kind, client, model, 3, identity, end=True)
                    self.assertEqual(last, {"sum": 6, "start": 0, "end": 1, "ready": 1, "id": told})
                    with self.assertRaisesRegex(InferenceServerException, "must have sequence_start"):
                        self.step(kind, client, model, 4, identity)

    def test_a_start_begins_anew_and_states_may_have_a_first_value(self):
        for name, kind, client in self.both():
            with self.subTest(name):
                for _ in range(2):
                    self.assertEqual(self.step(kind, client, "hundred", 1, 3, start=True)["sum"], 101)
                    self.assertEqual(self.step(kind, client, "hundred", 1, 3)["sum"], 102)
                self.step(kind, client, "hundred", 0, 3, end=True)

    def test_metadata_and_configuration_do_not_show_controls_and_states(self):
        for name, _, client in self.both():
            with self.subTest(name):
                plain = {} if name == "http" else {"as_json": True}
                metadata = client.get_model_metadata("sums", **plain)
                self.assertEqual([each["name"] for each in metadata["inputs"]], ["x"])
                self.assertEqual([each["name"] for each in metadata["outputs"]], ["sum", "start", "end", "ready", "id"])
                config = client.get_model_config("sums", **plain)
                config = config.get("config", config)
                self.assertEqual(config["sequence_batching"]["state"][0]["input_name"], "total")
                self.assertNotIn("dynamic_batching", config)

    def test_what_is_wrong_is_told(self):
        for name, kind, client in self.both():
            with self.subTest(name):
                with self.assertRaisesRegex(InferenceServerException, "need a sequence_id"):
                    client.infer("sums", self.x(kind, 1))
                with self.assertRaisesRegex(InferenceServerException, "not a whole number"):
                    self.step(kind, client, "sums", 1, "text", start=True)
                tensor = kind.InferInput("x", [2, 1], "FP32")
                tensor.set_data_from_numpy(np.zeros((2, 1), np.float32))
                with self.assertRaisesRegex(InferenceServerException, "has one row"):
                    client.infer("sums", [tensor], sequence_id=5, sequence_start=True)
                state = kind.InferInput("total", [1, 1], "FP32")
                state.set_data_from_numpy(np.zeros((1, 1), np.float32))
                with self.assertRaisesRegex(InferenceServerException, "no input 'total'"):
                    client.infer("sums", self.x(kind, 1) + [state], sequence_id=5, sequence_start=True)

    def test_a_stream_keeps_the_order_of_many_sequences(self):
        answers = queue.Queue()
        self.grpc.start_stream(lambda result, error: answers.put((result, error)))
        sequences, steps = 6, 20  # more sequences than the two slots
        for step in range(steps):
            for identity in range(1, sequences + 1):
                self.grpc.async_stream_infer("sums", self.x(triton_grpc, step + identity),
                                             request_id=f"{identity}/{step}", sequence_id=identity,
                                             sequence_start=step == 0, sequence_end=step == steps - 1)
        found = {identity: [] for identity in range(1, sequences + 1)}
        for _ in range(sequences * steps):
            result, error = answers.get(timeout=60 * server.PATIENCE)
            self.assertIsNone(error)
            identity, step = map(int, result.get_response().id.split("/"))
            found[identity].append((step, result.as_numpy("sum").item()))
        self.grpc.stop_stream()
        for identity, made in found.items():
            expected = np.cumsum([step + identity for step in range(steps)])
            self.assertEqual(made, [(step, expected[step]) for step in range(steps)])

    def test_an_lstm_gives_over_a_stream_what_it_gives_for_the_whole_sequence(self):
        sequences, steps = 4, 12
        x = np.random.default_rng(3).standard_normal((sequences, steps, INPUT)).astype(np.float32)
        answers = queue.Queue()
        self.grpc.start_stream(lambda result, error: answers.put((result, error)))
        for step in range(steps):
            for each in range(sequences):
                tensor = triton_grpc.InferInput("x", [1, 1, INPUT], "FP32")
                tensor.set_data_from_numpy(x[each, step].reshape(1, 1, INPUT))
                self.grpc.async_stream_infer("lstm", [tensor], request_id=f"{each}/{step}",
                                             sequence_id=f"text {each}", sequence_start=step == 0,
                                             sequence_end=step == steps - 1)
        found = np.full((sequences, steps, HIDDEN), np.nan)
        for _ in range(sequences * steps):
            result, error = answers.get(timeout=60 * server.PATIENCE)
            self.assertIsNone(error)
            each, step = map(int, result.get_response().id.split("/"))
            found[each, step] = result.as_numpy("y")
        self.grpc.stop_stream()
        for each in range(sequences):
            np.testing.assert_allclose(found[each], lstm_reference(x[each]), rtol=1e-5, atol=1e-5)

    def test_an_idle_sequence_ends_and_gives_its_slot_to_one_that_waits(self):
        for identity in (1, 2):  # both slots
            self.step(triton_http, self.http, "short", 1, identity, start=True)
        self.assertEqual(self.step(triton_http, self.http, "short", 5, 3, start=True, end=True)["sum"], 5)
        with self.assertRaisesRegex(InferenceServerException, "idle too long"):
            self.step(triton_http, self.http, "short", 1, 1)

    def test_a_reload_keeps_sequences_on_their_version(self):
        self.add("moved", sequence_config())
        self.http.load_model("moved")
        self.step(triton_http, self.http, "moved", 1, 1, start=True)
        initial = 'initial_state { name: "t" data_type: TYPE_FP32 dims: [ 1 ] data_file: "t" }'
        self.add("moved", sequence_config(initial=initial))
        (self.folder / "moved" / "initial_state").mkdir()
        (self.folder / "moved" / "initial_state" / "t").write_bytes(np.float32([1000]).tobytes())
        self.http.load_model("moved")
        self.assertEqual(self.step(triton_http, self.http, "moved", 2, 1)["sum"], 3)
        self.assertEqual(self.step(triton_http, self.http, "moved", 0, 2, start=True)["sum"], 1000)
        self.assertEqual(self.step(triton_grpc, self.grpc, "moved", 3, 1, end=True)["sum"], 6)
        self.assertEqual(self.step(triton_http, self.http, "moved", 0, 1, start=True)["sum"], 1000)
        self.http.unload_model("moved")
        with self.assertRaisesRegex(InferenceServerException, "is not loaded"):
            self.step(triton_http, self.http, "moved", 2, 2)

    def perf_analyzer_steps(self):
        """What perf_analyzer sends with --concurrency-range 2 --sequence-length 3 --sequence-id-range 71:73: request
        ids count from a multiple of 2**48 in each of its workers, and sequence ids come again after their sequence.
        Yields the id, the parameters, x and the sum that is expected."""
        totals = {}
        for round_of_ids in range(2):
            for step in range(3):
                for worker in range(2):
                    number = step + 10 * worker + 1
                    totals[worker] = number + (totals[worker] if step else 0)
                    yield (str((worker << 48) + 3 * round_of_ids + step),
                           {"sequence_id": 71 + worker, "sequence_start": step == 0, "sequence_end": step == 2},
                           struct.pack("<f", number), totals[worker])

    def test_the_requests_of_perf_analyzer_over_http(self):
        config = self.server.json("GET", "/v2/models/sums/config")
        self.assertIn("sequence_batching", config)
        self.assertIn("statistics", self.server.json("GET", "/v2")["extensions"])
        names = ["end", "id", "ready", "start", "sum"]
        for request, parameters, data, expected in self.perf_analyzer_steps():
            head = json.dumps({"id": request, "parameters": parameters,
                               "inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 1],
                                           "parameters": {"binary_data_size": 4}}],
                               "outputs": [{"name": name, "parameters": {"binary_data": True}} for name in names]})
            status, headers, body = self.server.ask(
                "POST", "/v2/models/sums/infer", head.encode() + data,
                {"User-Agent": "libcurl-agent/1.0", "Accept": "*/*", "Content-Type": "application/octet-stream",
                 "Inference-Header-Content-Length": str(len(head))})
            self.assertEqual(status, 200, body)
            split = int(headers["Inference-Header-Content-Length"])
            answer = json.loads(body[:split])
            self.assertEqual((answer["id"], [each["name"] for each in answer["outputs"]]), (request, names))
            end, identity, ready, start, total = struct.unpack("<fqfff", body[split:])
            self.assertEqual((start, end, ready), (parameters["sequence_start"], parameters["sequence_end"], 1))
            self.assertEqual((identity, total), (parameters["sequence_id"], expected))

    def test_the_requests_of_perf_analyzer_over_grpc(self):
        """Alone, and over one stream for all sequences (--streaming --async), whose requests do not name outputs."""
        with grpc.insecure_channel(f"127.0.0.1:{self.server.ports['grpc']}") as channel:
            stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
            config = stub.ModelConfig(service_pb2.ModelConfigRequest(name="sums")).config
            self.assertTrue(config.HasField("sequence_batching"))
            before = stub.ModelStatistics(service_pb2.ModelStatisticsRequest(name="sums")).model_stats[0]
            steps = list(self.perf_analyzer_steps())
            requests = []
            for request, parameters, data, _ in steps:
                message = service_pb2.ModelInferRequest(model_name="sums", id=request, raw_input_contents=[data])
                message.parameters["sequence_id"].int64_param = parameters["sequence_id"]
                for name in ("sequence_start", "sequence_end"):
                    message.parameters[name].bool_param = parameters[name]
                message.inputs.add(name="x", datatype="FP32", shape=[1, 1])
                requests.append(message)
            alone = [stub.ModelInfer(each) for each in requests]
            streamed = [each.infer_response for each in stub.ModelStreamInfer(iter(requests))]
            for answers in (alone, sorted(streamed, key=lambda each: [step[0] for step in steps].index(each.id))):
                for (request, _, _, expected), answer in zip(steps, answers, strict=True):
                    at = [output.name for output in answer.outputs].index("sum")
                    found = struct.unpack("<f", answer.raw_output_contents[at])[0]
                    self.assertEqual((answer.id, found), (request, expected))
            after = stub.ModelStatistics(service_pb2.ModelStatisticsRequest(name="sums")).model_stats[0]
            self.assertEqual(after.inference_count - before.inference_count, 2 * len(steps))

    def test_concurrent_sequences_do_not_mix(self):
        wrong = []

        def run(identity):
            client = triton_http.InferenceServerClient(f"127.0.0.1:{self.server.port}")
            total = 0
            for step in range(15):
                total += identity + step
                found = self.step(triton_http, client, "sums", identity + step, identity, step == 0, step == 14)
                if found["sum"] != total or found["id"] != identity:
                    wrong.append((identity, step, found))
            client.close()

        threads = [threading.Thread(target=run, args=(100 + i,)) for i in range(5)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])


if __name__ == "__main__":
    server.main()
