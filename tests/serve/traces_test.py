#!/usr/bin/env python3
"""Traces over HTTP and gRPC, at a small collector of OTLP. With Triton's gRPC client where it is installed.

    traces_test.py TESSERA
"""
import concurrent.futures
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
    import grpc
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


def fields_of(data):
    """The fields of a message in protobuf's encoding: lists by their numbers."""
    fields, at = {}, 0

    def varint():
        nonlocal at
        number, shift = 0, 0
        while True:
            byte = data[at]
            at += 1
            number |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return number

    while at < len(data):
        tag = varint()
        if tag & 7 == 0:
            value = varint()
        else:
            size = {1: 8, 5: 4}.get(tag & 7) or varint()
            value = data[at:at + size]
            at += size
        fields.setdefault(tag >> 3, []).append(value)
    return fields


def json_span(data):
    """A span as OTLP's JSON encoding has it."""
    fields = {number: values[0] for number, values in fields_of(data).items()}
    text = lambda number: fields.get(number, b"").decode()
    number_of = lambda number: str(int.from_bytes(fields[number], "little"))
    span = {"traceId": fields[1].hex(), "spanId": fields[2].hex(), "traceState": text(3), "name": text(5),
            "kind": fields[6], "startTimeUnixNano": number_of(7), "endTimeUnixNano": number_of(8), "attributes": []}
    if fields.get(4):
        span["parentSpanId"] = fields[4].hex()
    for attribute in fields_of(data).get(9, ()):
        parts = fields_of(attribute)
        value = fields_of(parts[2][0])
        span["attributes"].append({"key": parts[1][0].decode(), "value": {"stringValue": value[1][0].decode()}
                                   if 1 in value else {"intValue": str(value[3][0])}})
    status = fields_of(fields.get(15, b""))
    span["status"] = {"code": status[3][0], "message": status[2][0].decode()} if 3 in status else {}
    return span


class GrpcCollector(Collector):
    """Takes spans over gRPC; over TLS with a key and a certificate of its own."""
    def __init__(self, certificate=None, token=None, rejects=0):
        self.spans, self.headers, self.changed = [], [], threading.Condition()

        def export(body, context):
            headers = dict(context.invocation_metadata())
            if token is not None and headers.get("authorization") != f"Bearer {token}":
                context.abort(grpc.StatusCode.UNAUTHENTICATED, "no such token")
            with self.changed:
                self.headers.append(headers)
                resource = fields_of(fields_of(body)[1][0])
                for scope in resource[2]:
                    self.spans += map(json_span, fields_of(scope)[2])
                self.service = fields_of(fields_of(fields_of(resource[1][0])[1][0])[2][0])[1][0].decode()
                self.changed.notify_all()
            return b"\x0a\x02\x08" + bytes([rejects]) if rejects else b""

        class Handler(grpc.GenericRpcHandler):
            def service(self, details):
                if details.method == "/opentelemetry.proto.collector.trace.v1.TraceService/Export":
                    return grpc.unary_unary_rpc_method_handler(export)

        self.grpc = grpc.server(concurrent.futures.ThreadPoolExecutor(2), [Handler()])
        if certificate is None:
            port = self.grpc.add_insecure_port("127.0.0.1:0")
        else:
            credentials = grpc.ssl_server_credentials([(certificate.with_suffix(".key").read_bytes(),
                                                        certificate.read_bytes())], certificate.read_bytes(), True)
            port = self.grpc.add_secure_port("127.0.0.1:0", credentials)
        self.endpoint = f"{'http' if certificate is None else 'https'}://127.0.0.1:{port}"
        self.grpc.start()

    def close(self):
        self.grpc.stop(None)


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
        self.server.json("POST", "/v2/models/lenet/infer", lenet_request(id="a"),
                         self.headers(TRACE) | {"X-Request-Id": "order-17"})
        spans = self.collector.wait("infer lenet", TRACE)
        self.check(spans)
        self.assertEqual(spans["infer lenet"]["traceState"], "vendor=7")
        texts = {each["key"]: each["value"].get("stringValue") for each in spans["infer lenet"]["attributes"]}
        self.assertEqual(texts, {"model.name": "lenet", "model.version": "1", "request.id": "a",
                                 "http.request.header.x-request-id": "order-17"})

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


@unittest.skipIf(triton_grpc is None, "grpcio is not installed")
class TracesOverGrpc(Traces):
    """The same at a collector of OTLP over gRPC."""
    @classmethod
    def make_collector(cls):
        return GrpcCollector()

    @classmethod
    def config(cls):
        return super().config() + 'protocol = "grpc"\n'

    def test_a_dead_collector_costs_no_request(self):
        log = self.log_of_lost_spans('[tracing]\nprotocol = "grpc"\nendpoint = "http://127.0.0.1:9"\nrate = 1\n')
        self.assertIn("the collector of traces takes no spans", log)

    def test_the_service_is_named_and_a_rejection_is_logged(self):
        trace = TRACE[:-1] + "7"
        self.server.json("POST", "/v2/models/lenet/infer", lenet_request(), self.headers(trace))
        self.collector.wait("infer lenet", trace)
        self.assertEqual(self.collector.service, "tests")
        rejecting = GrpcCollector(rejects=3)
        log = self.log_of_lost_spans(f'[tracing]\nprotocol = "grpc"\nendpoint = "{rejecting.endpoint}"\nrate = 1\n')
        rejecting.close()
        self.assertIn("it has rejected 3 spans", log)


@unittest.skipIf(triton_grpc is None or not shutil.which("openssl"), "grpcio or the program openssl is missing")
class TracesOverGrpcAndTls(TracesOverGrpc):
    @classmethod
    def make_collector(cls):
        cls.certificates = pathlib.Path(cls.holder.name)
        make_certificate(cls.certificates, "collector")
        make_certificate(cls.certificates, "stranger")
        make_certificate(cls.certificates, "tessera", authority="collector")
        (cls.certificates / "token").write_text("token-of-traces-0123\n")
        return GrpcCollector(cls.certificates / "collector.pem", "token-of-traces-0123")

    @classmethod
    def config(cls, rate=0, authority="collector", token=True):
        own = "".join(f'{key} = "{cls.certificates / name}"\n' for key, name in [
            ("authorities", f"{authority}.pem"), ("certificate", "tessera.pem"), ("key", "tessera.key"),
            *([("token_file", "token")] if token else [])])
        return (f'[tracing]\nprotocol = "grpc"\nendpoint = "{cls.collector.endpoint}"\nrate = {rate}\n'
                f'service = "tests"\n{own}[tracing.headers]\nX-Tenant = "blue"\n')

    def test_headers_are_sent(self):
        trace = TRACE[:-1] + "6"
        self.server.json("POST", "/v2/models/lenet/infer", lenet_request(), self.headers(trace))
        self.collector.wait("infer lenet", trace)
        last = self.collector.headers[-1]
        self.assertEqual((last["x-tenant"], last["authorization"]), ("blue", "Bearer token-of-traces-0123"))

    def test_strangers_and_refusals(self):
        before = len(self.collector.headers)
        self.log_of_lost_spans(self.config(rate=1, authority="stranger"))
        self.assertEqual(len(self.collector.headers), before)
        self.assertIn("no such token", self.log_of_lost_spans(self.config(rate=1, token=False)))


if __name__ == "__main__":
    server.main()
