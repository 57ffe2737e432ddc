#!/usr/bin/env python3
"""Traces over HTTP and gRPC, at a small collector of OTLP. With Triton's gRPC client where it is installed.

    traces_test.py TESSERA
"""
import http.server
import json
import pathlib
import shutil
import ssl
import tempfile
import threading
import time
import unittest

import server
from server import grey_png, lenet_request, make_certificate

try:
    import numpy as np
    import tritonclient.grpc as triton_grpc
except ImportError:
    triton_grpc = None

TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


class Collector:
    """Takes spans at /v1/traces, as an OpenTelemetry collector does; over TLS with a context for it, and from those
    who have the token where there is one."""
    def __init__(self, tls=None, token=None):
        self.spans, self.headers, self.changed = [], [], threading.Condition()
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                known = self.path == "/v1/traces" and self.headers["Content-Type"] == "application/json"
                allowed = token is None or self.headers["Authorization"] == f"Bearer {token}"
                with outer.changed:
                    outer.headers.append(dict(self.headers))
                    for resource in body["resourceSpans"] if allowed else ():
                        for scope in resource["scopeSpans"]:
                            outer.spans += scope["spans"]
                    outer.changed.notify_all()
                self.send_response((200 if known else 400) if allowed else 401)
                self.send_header("Content-Length", "2")
                self.end_headers()
                self.wfile.write(b"{}")

            def log_message(self, *_):
                pass

        self.http = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.http.handle_error = lambda *_: None  # clients that end a handshake
        if tls is not None:
            self.http.socket = tls.wrap_socket(self.http.socket, server_side=True, do_handshake_on_connect=False)
        scheme = "http" if tls is None else "https"
        self.endpoint = f"{scheme}://127.0.0.1:{self.http.server_port}/v1/traces"
        threading.Thread(target=self.http.serve_forever, daemon=True).start()

    def wait(self, name, trace):
        """The spans of a trace once the one of that name is there."""
        end = time.monotonic() + 30 * server.PATIENCE
        with self.changed:
            while True:
                found = {span["name"]: span for span in self.spans if span["traceId"] == trace}
                if name in found:
                    return found
                if not self.changed.wait(end - time.monotonic()):
                    raise AssertionError(f"no span '{name}' in {sorted(found)}")

    def close(self):
        self.http.shutdown()
        self.http.server_close()


class Traces(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.holder = tempfile.TemporaryDirectory()
        cls.collector = cls.make_collector()
        folder = server.make_repository(pathlib.Path(cls.holder.name) / "models")
        cls.server = server.Server(folder, config=cls.config())

    @classmethod
    def make_collector(cls):
        return Collector()

    @classmethod
    def config(cls):
        return f'[tracing]\nendpoint = "{cls.collector.endpoint}"\nrate = 0\nservice = "tests"\n'

    @classmethod
    def tearDownClass(cls):
        cls.server.__exit__(None)
        cls.collector.close()
        cls.holder.cleanup()

    def check(self, spans):
        request = spans["infer lenet"]
        self.assertEqual((request["parentSpanId"], request["kind"]), (PARENT, 2))
        self.assertEqual(spans["queue"]["parentSpanId"], request["spanId"])
        self.assertEqual(spans["compute"]["parentSpanId"], request["spanId"])
        times = lambda span: (int(span["startTimeUnixNano"]), int(span["endTimeUnixNano"]))
        for part in ("input", "infer", "output"):
            inner = spans[f"compute {part}"]
            self.assertEqual(inner["parentSpanId"], spans["compute"]["spanId"])
            self.assertGreaterEqual(times(inner)[0], times(spans["compute"])[0])
            self.assertLessEqual(times(inner)[1], times(spans["compute"])[1])
        self.assertGreaterEqual(times(spans["queue"])[0], times(request)[0])
        self.assertLessEqual(abs(times(request)[1] - time.time_ns()), 60_000_000_000 * server.PATIENCE)

    def headers(self, trace):
        return {"traceparent": f"00-{trace}-{PARENT}-01", "tracestate": "vendor=7"}

    def test_a_request_over_http_goes_on_with_its_clients_trace(self):
        self.server.json("POST", "/v2/models/lenet/infer", lenet_request(id="a"), self.headers(TRACE))
        spans = self.collector.wait("infer lenet", TRACE)
        self.check(spans)
        self.assertEqual(spans["infer lenet"]["traceState"], "vendor=7")
        texts = {each["key"]: each["value"].get("stringValue") for each in spans["infer lenet"]["attributes"]}
        self.assertEqual(texts, {"model.name": "lenet", "model.version": "1", "request.id": "a"})

    def test_refusals_and_steps_of_ensembles_have_spans(self):
        refused, whole = TRACE[:-1] + "1", TRACE[:-1] + "2"
        status, _, _ = self.server.ask("POST", "/v2/models/lenet/infer",
                                       {"inputs": []}, self.headers(refused))
        self.assertEqual(status, 400)
        span = self.collector.wait("infer lenet", refused)["infer lenet"]
        self.assertEqual(span["status"]["code"], 2)
        self.assertIn("is missing", span["status"]["message"])
        status, _, _ = self.server.ask("POST", "/v2/models/reader/infer", grey_png(28, 28),
                                       self.headers(whole) | {"Inference-Header-Content-Length": "0"})
        self.assertEqual(status, 200)
        spans = self.collector.wait("infer reader", whole)
        for name in ("step picture", "step lenet"):
            self.assertEqual(spans[name]["parentSpanId"], spans["infer reader"]["spanId"])

    def test_what_is_not_sampled_is_not_traced(self):
        quiet, loud = TRACE[:-1] + "3", TRACE[:-1] + "4"
        self.server.json("POST", "/v2/models/lenet/infer", lenet_request(),
                         {"traceparent": f"00-{quiet}-{PARENT}-00"})
        self.server.json("POST", "/v2/models/lenet/infer", lenet_request(), self.headers(loud))
        self.collector.wait("infer lenet", loud)
        self.assertNotIn(quiet, [span["traceId"] for span in self.collector.spans])

    @unittest.skipIf(triton_grpc is None, "tritonclient is not installed")
    def test_a_request_over_grpc_too(self):
        trace = TRACE[:-1] + "5"
        client = triton_grpc.InferenceServerClient(f"127.0.0.1:{self.server.ports['grpc']}")
        tensor = triton_grpc.InferInput("input", [1, 1, 28, 28], "FP32")
        tensor.set_data_from_numpy(np.zeros((1, 1, 28, 28), np.float32))
        client.infer("lenet", [tensor], headers=self.headers(trace))
        client.close()
        self.check(self.collector.wait("infer lenet", trace))

    def log_of_lost_spans(self, config):
        """What a server logs that has lost all the spans of its requests, and answered the requests."""
        with tempfile.TemporaryDirectory() as holder:
            folder = server.make_repository(pathlib.Path(holder) / "models")
            with server.Server(folder, config=config) as running:
                for _ in range(20):
                    running.json("POST", "/v2/models/lenet/infer", lenet_request())
                end = time.monotonic() + 30 * server.PATIENCE
                while time.monotonic() < end:
                    metrics = running.ask("GET", "/metrics", port=running.ports["metrics"])[2].decode()
                    if 'tessera_trace_spans_total{result="lost"} 0' not in metrics:
                        break
                    time.sleep(0.1)
                self.assertIn('tessera_trace_spans_total{result="sent"} 0', metrics)
                self.assertNotIn('tessera_trace_spans_total{result="lost"} 0', metrics)
                self.assertTrue(running.ask("GET", "/v2/health/ready")[0] == 200)
                return running.log_text()

    def test_a_dead_collector_costs_no_request(self):
        # Nobody listens at port 9 (discard) of this machine; were somebody there, no answer would come.
        log = self.log_of_lost_spans('[tracing]\nendpoint = "http://127.0.0.1:9/v1/traces"\nrate = 1\n')
        self.assertIn("the collector of traces takes no spans", log)


@unittest.skipUnless(shutil.which("openssl"), "the program openssl makes certificates")
class TracesOverTls(Traces):
    """The same at a collector that asks for a token and for the certificate of the client."""
    @classmethod
    def make_collector(cls):
        cls.certificates = pathlib.Path(cls.holder.name)
        make_certificate(cls.certificates, "collector")
        make_certificate(cls.certificates, "stranger")
        make_certificate(cls.certificates, "tessera", authority="collector")
        (cls.certificates / "token").write_text("token-of-traces-0123\n")
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(cls.certificates / "collector.pem", cls.certificates / "collector.key")
        tls.load_verify_locations(cls.certificates / "collector.pem")
        tls.verify_mode = ssl.CERT_REQUIRED
        return Collector(tls, "token-of-traces-0123")

    @classmethod
    def config(cls, rate=0, authority="collector", token=True, endpoint=None):
        own = "".join(f'{key} = "{cls.certificates / name}"\n' for key, name in [
            ("authorities", f"{authority}.pem"), ("certificate", "tessera.pem"), ("key", "tessera.key"),
            *([("token_file", "token")] if token else [])])
        return (f'[tracing]\nendpoint = "{endpoint or cls.collector.endpoint}"\nrate = {rate}\nservice = "tests"\n'
                f'{own}[tracing.headers]\nx-tenant = "blue"\n')

    def test_headers_are_sent(self):
        trace = TRACE[:-1] + "6"
        self.server.json("POST", "/v2/models/lenet/infer", lenet_request(), self.headers(trace))
        self.collector.wait("infer lenet", trace)
        last = self.collector.headers[-1]
        self.assertEqual((last["x-tenant"], last["Authorization"]), ("blue", "Bearer token-of-traces-0123"))
        self.assertNotIn("token-of-traces", self.server.log_text())

    def test_a_collector_whose_certificate_is_a_strangers_gets_nothing(self):
        before = len(self.collector.headers)
        log = self.log_of_lost_spans(self.config(rate=1, authority="stranger"))
        self.assertIn("the certificate of 127.0.0.1 is not accepted: self-signed certificate", log)
        self.assertEqual(len(self.collector.headers), before)

    def test_a_collector_of_another_name_gets_nothing(self):
        before = len(self.collector.headers)
        endpoint = self.collector.endpoint.replace("127.0.0.1", "localhost")
        log = self.log_of_lost_spans(self.config(rate=1, endpoint=endpoint))
        self.assertIn("the certificate of localhost is not accepted: hostname mismatch", log.lower())
        self.assertEqual(len(self.collector.headers), before)

    def test_a_refusal_of_the_collector_is_logged(self):
        log = self.log_of_lost_spans(self.config(rate=1, token=False))
        self.assertIn("it answers with the status 401", log)


if __name__ == "__main__":
    server.main()
