#!/usr/bin/env python3
"""Limits of callers by key and by IP address, the access log, and the ids of requests, over HTTP and gRPC.

    callers_test.py TESSERA
"""
import concurrent.futures
import contextlib
import http.client
import json
import pathlib
import re
import tempfile
import time
import unittest

import grpc
import server
from hostile_grpc_test import GOOD, SERVICE
from security_test import bearer, keys
from server import lenet_request

INFER = "/v2/models/lenet/infer"


class WithBoth(unittest.TestCase):
    @contextlib.contextmanager
    def serve(self, config=""):
        with tempfile.TemporaryDirectory() as holder:
            self.holder = pathlib.Path(holder)
            folder = server.make_repository(self.holder / "models")
            with server.Server(folder, config=config.replace("HOLDER", holder)) as running:
                self.channel = grpc.insecure_channel(f"127.0.0.1:{running.ports['grpc']}")
                with self.channel:
                    yield running

    def ask(self, running, who=None, headers=None):
        """Status of a request over HTTP, and its header."""
        status, answer, _ = running.ask("POST", INFER, lenet_request(), (bearer(who) if who else {}) | (headers or {}))
        return status, answer

    def call(self, who=None, body=GOOD, method="ModelInfer", metadata=()):
        """Code, text and metadata of a call over gRPC."""
        metadata = [*metadata, *([("authorization", bearer(who)["Authorization"])] if who else [])]
        try:
            _, call = self.channel.unary_unary(SERVICE + method).with_call(body, timeout=20 * server.PATIENCE,
                                                                          metadata=metadata)
            return grpc.StatusCode.OK, "", dict(call.initial_metadata())
        except grpc.RpcError as error:
            return error.code(), error.details(), dict(error.initial_metadata() or ())

    def metrics(self, running, headers=None):
        return running.ask("GET", "/metrics", None, headers, running.ports["metrics"])[2].decode()


class Allowances(WithBoth):
    def limited(self, found):
        return [code for code, *_ in found if code in (429, grpc.StatusCode.RESOURCE_EXHAUSTED)]

    def test_a_rate_is_one_for_both_fronts(self):
        config = keys().replace('models = ["lenet"]', 'models = ["lenet"]\nrequests_per_second = 4')
        with self.serve(config) as running:
            found = [self.ask(running, "alice") if i % 2 else self.call("alice") for i in range(12)]
            self.assertEqual([code for code, *_ in found[:4]], [grpc.StatusCode.OK, 200] * 2)
            limited = self.limited(found)
            self.assertIn(429, limited)
            self.assertIn(grpc.StatusCode.RESOURCE_EXHAUSTED, limited)
            self.assertTrue(all(answer[1]["Retry-After"] for answer in found if answer[0] == 429))
            texts = [answer[1] for answer in found if answer[0] == grpc.StatusCode.RESOURCE_EXHAUSTED]
            self.assertIn("key 'alice' has used up its 4 requests a second", texts[0])
            metrics = self.metrics(running, bearer("boss"))
            count = re.search(r'tessera_requests_limited_total\{by="key",key="alice"\} (\d+)', metrics)
            self.assertGreaterEqual(int(count.group(1)), len(limited))

    def test_a_body_beyond_the_rate_is_not_read(self):
        config = keys().replace('models = ["lenet"]', 'models = ["lenet"]\nrequests_per_second = 1')
        with self.serve(config) as running:
            self.assertEqual(self.ask(running, "alice")[0], 200)
            connection = http.client.HTTPConnection("127.0.0.1", running.port, timeout=20 * server.PATIENCE)
            connection.putrequest("POST", INFER)
            for name, value in (bearer("alice") | {"Content-Length": "1000000"}).items():
                connection.putheader(name, value)
            connection.endheaders()
            self.assertEqual(connection.getresponse().status, 429)
            connection.close()

    def test_requests_in_progress(self):
        config = keys().replace('models = ["lenet"]', 'models = ["lenet"]\nrequests_in_flight = 2')
        with self.serve(config) as running:
            folder = self.holder / "models" / "lenet"
            (folder / "config.toml").write_text("max_batch_size = 8\n[batching]\ndelay_us = 1500000\n")
            self.assertEqual(running.ask("POST", "/v2/repository/models/lenet/load", None, bearer("boss"))[0], 200)
            with concurrent.futures.ThreadPoolExecutor(6) as pool:
                found = list(pool.map(lambda i: self.ask(running, "alice") if i % 2 else self.call("alice"), range(6)))
            self.assertEqual(len(self.limited(found)), 4, found)
            self.assertEqual(self.ask(running, "alice")[0], 200)  # those before have ended

    def test_addresses_where_there_are_no_keys(self):
        with self.serve("[limits]\npeer_requests_per_second = 3\n") as running:
            found = [self.call() if i % 2 else self.ask(running) for i in range(10)]
            self.assertEqual([code for code, *_ in found[:3]], [200, grpc.StatusCode.OK, 200])
            self.assertIn(429, self.limited(found))
            self.assertIn(grpc.StatusCode.RESOURCE_EXHAUSTED, self.limited(found))
            self.assertEqual(running.ask("GET", "/v2/health/ready")[0], 200)
            self.assertRegex(self.metrics(running), r'tessera_requests_limited_total\{by="address",key=""\} [1-9]')

    def test_who_guesses_tokens_is_slowed_down_and_holders_of_keys_are_not(self):
        with self.serve("[limits]\npeer_requests_per_second = 3\n" + keys()) as running:
            wrong = {"Authorization": "Bearer wrong"}
            codes = [self.ask(running, None, wrong)[0] for _ in range(8)]
            self.assertEqual(codes[:3], [401] * 3)
            self.assertIn(429, codes)
            self.assertEqual([self.ask(running, "alice")[0] for _ in range(8)], [200] * 8)

    def test_requests_of_a_stream_count(self):
        config = keys().replace('models = ["lenet"]', 'models = ["lenet"]\nrequests_per_second = 2')
        with self.serve(config):
            metadata = [("authorization", bearer("alice")["Authorization"])]
            answers = list(self.channel.stream_stream(SERVICE + "ModelStreamInfer")(
                iter([GOOD] * 6), timeout=20 * server.PATIENCE, metadata=metadata))
            self.assertEqual(len(answers), 6)
            self.assertGreaterEqual(sum(b"has used up its 2 requests" in answer for answer in answers), 3)


class AccessLog(WithBoth):
    config = '[access_log]\nfile = "HOLDER/access.log"\n'

    def lines(self, count):
        end = time.monotonic() + 20 * server.PATIENCE
        while True:
            text = (self.holder / "access.log").read_text()
            if text.count("\n") >= count or time.monotonic() > end:
                return [json.loads(line) for line in text.splitlines()]
            time.sleep(0.05)

    def test_a_line_a_request_over_http(self):
        with self.serve(self.config + keys()) as running:
            _, header = self.ask(running, "alice", {"X-Request-Id": "order-17"})
            self.assertEqual(header["X-Request-Id"], "order-17")
            _, made = self.ask(running, None, {"X-Request-Id": "no good\u00ff"})
            self.assertRegex(made["X-Request-Id"], "^[0-9a-f]{16}$")
            running.ask("GET", "/v2/health/live")
            with contextlib.closing(http.client.HTTPConnection("127.0.0.1", running.port)) as connection:
                connection.putrequest("BAD", "/", skip_host=True)
                connection.endheaders()
                self.assertEqual(connection.getresponse().status, 400)
            good, stranger, live, bad = self.lines(4)
            names = ("id", "key", "protocol", "method", "path", "model", "status", "peer")
            self.assertEqual([good[name] for name in names],
                             ["order-17", "alice", "http", "POST", INFER, "lenet", 200, "127.0.0.1"])
            self.assertGreater(good["bytes_in"], 1000)
            self.assertGreater(good["bytes_out"], 50)
            self.assertGreater(good["run_us"], 0)
            self.assertGreaterEqual(good["duration_us"], good["run_us"])
            self.assertEqual((stranger["id"], stranger["key"], stranger["status"]), (made["X-Request-Id"], "", 401))
            self.assertEqual((live["path"], live["status"], bad["status"]), ("/v2/health/live", 200, 400))
            self.assertNotIn("token-of", (self.holder / "access.log").read_text())

    def test_a_line_a_request_over_grpc(self):
        with self.serve(self.config + keys()):
            given = [("x-request-id", "order-18")]
            self.assertEqual(self.call("alice", metadata=given)[2]["x-request-id"], "order-18")
            made = self.call()[2]["x-request-id"]
            self.assertRegex(made, "^[0-9a-f]{16}$")
            self.call("alice", b"\xff\xff", metadata=[("x-request-id", "malformed")])
            self.call("alice", b"", "NoSuchMethod", metadata=[("x-request-id", "unknown")])
            metadata = [("authorization", bearer("alice")["Authorization"]), ("x-request-id", "stream")]
            list(self.channel.stream_stream(SERVICE + "ModelStreamInfer")(iter([GOOD, GOOD[:-4]]), metadata=metadata))
            lines = self.lines(7)  # written when a call has ended, which its client may know before
            good, stranger, malformed, unknown = (next(line for line in lines if line["id"] == name)
                                                  for name in ("order-18", made, "malformed", "unknown"))
            one, other, stream = sorted((line for line in lines if line["id"] == "stream"),
                                        key=lambda line: line["bytes_in"])
            self.assertEqual([good[key] for key in ("id", "key", "protocol", "path", "model", "status", "peer")],
                             ["order-18", "alice", "grpc", SERVICE + "ModelInfer", "lenet", 0, "127.0.0.1"])
            self.assertEqual(good["bytes_in"], len(GOOD))
            self.assertGreater(good["bytes_out"], 40)
            self.assertGreater(good["run_us"], 0)
            self.assertEqual((stranger["id"], stranger["key"], stranger["status"]),
                             (made, "", grpc.StatusCode.UNAUTHENTICATED.value[0]))
            self.assertEqual(malformed["status"], grpc.StatusCode.INVALID_ARGUMENT.value[0])
            self.assertEqual(unknown["status"], grpc.StatusCode.UNIMPLEMENTED.value[0])
            self.assertEqual(sorted([one["status"], other["status"]]), [0, grpc.StatusCode.INVALID_ARGUMENT.value[0]])
            self.assertEqual((stream["status"], stream["path"]), (0, SERVICE + "ModelStreamInfer"))
            self.assertEqual(stream["bytes_in"], 2 * len(GOOD) - 4)

    def test_steps_of_an_ensemble_count_together(self):
        with self.serve(self.config) as running:
            body, header = server.grey_png(28, 28), {"Inference-Header-Content-Length": "0"}
            self.assertEqual(running.ask("POST", "/v2/models/reader/infer", body, header)[0], 200)
            line = self.lines(1)[0]
            self.assertEqual(line["model"], "reader")
            self.assertGreater(line["run_us"], 0)


if __name__ == "__main__":
    server.main()
