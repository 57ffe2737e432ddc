#!/usr/bin/env python3
"""Clients that mean harm: each is refused, and the server's memory stays bounded. Standard library only.

    hostile_http_test.py TESSERA
"""
import json
import socket
import time
import unittest
import zlib

import server
from server import lenet_request

MIB = 1 << 20


class Hostile(server.WithServer):
    config = "[limits]\nbody_mib = 8\nall_bodies_mib = 24\nconnections = 40\nheader_seconds = 1\nstall_seconds = 1\n"

    def setUp(self):
        self.before, self.most_growth = self.server.resident_bytes(), 120 * MIB

    def tearDown(self):
        self.assertLess(self.server.resident_bytes() - self.before, self.most_growth * server.PATIENCE)
        answer = self.server.json("POST", "/v2/models/lenet/infer", lenet_request())
        self.assertEqual(answer["outputs"][0]["shape"], [1, 10])

    def send(self, data, *, pieces=None, timeout=20 * server.PATIENCE):
        """What the server answers to raw bytes, until it closes the connection."""
        with socket.create_connection(("127.0.0.1", self.server.port), timeout=timeout) as connection:
            try:
                connection.sendall(data)
                for piece in pieces or ():
                    connection.sendall(piece)
            except (BrokenPipeError, ConnectionResetError):
                pass  # it has refused already
            answer = b""
            try:
                while part := connection.recv(65536):
                    answer += part
            except ConnectionResetError:
                pass
            return answer

    def status(self, *arguments, **options):
        answer = self.send(*arguments, **options)
        return int(answer.split(b" ", 2)[1]) if answer else 0

    def test_malformed_requests(self):
        for request in (b"\0\1\2\3\r\n\r\n", b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"\x16\x03\x01\x02\x00\x01",
                        b"POST /v2/models/lenet/infer HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
                        b"POST /v2/models/lenet/infer HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
                        b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
                        b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nFFFFFFFFFFFFFFFFFF\r\n",
                        b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
                        b"GET / HTTP/1.1\r\nA : b\r\n\r\n", b"GET /%zz HTTP/1.1\r\nConnection: close\r\n\r\n"):
            self.assertIn(self.status(request), (400, 408), request)

    def test_a_million_headers_and_a_long_line(self):
        header = (f"X-{i}: y\r\n".encode() for i in range(1_000_000))
        self.assertEqual(self.status(b"GET / HTTP/1.1\r\n", pieces=header), 431)
        self.assertIn(self.status(b"GET /" + b"a" * MIB + b" HTTP/1.1\r\n\r\n"), (400, 431))

    def test_bodies_beyond_the_limit(self):
        head = b"POST /v2/models/lenet/infer HTTP/1.1\r\nHost: x\r\n"
        self.assertEqual(self.status(head + b"Content-Length: 99999999999\r\n\r\n"), 413)
        self.assertEqual(self.status(head + b"Content-Length: 18446744073709551616\r\n\r\n"), 400)
        chunk = b"100000\r\n" + b"a" * MIB + b"\r\n"
        self.assertEqual(self.status(head + b"Transfer-Encoding: chunked\r\n\r\n", pieces=[chunk] * 64), 413)

    def test_chunk_extensions_and_trailers_without_end(self):
        head = b"POST /v2/models/lenet/infer HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
        endless = [b"a" * MIB] * 64
        self.assertIn(self.status(head + b"1;", pieces=endless), (0, 400, 413, 431))
        self.assertIn(self.status(head + b"0" * 100, pieces=[b"0" * MIB] * 64), (0, 400, 413, 431))
        trailers = (f"X-{i}: y\r\n".encode() for i in range(1_000_000))
        self.assertIn(self.status(head + b"0\r\n", pieces=trailers), (0, 400, 413, 431))

    def test_pictures_that_grow(self):
        """A few kB of PNG that say that they are, or are, very large pictures."""
        for width, height in ((1 << 31, 1 << 31), (1 << 30, 1), (30000, 30000), (0, 5)):
            status, _, text = self.server.ask("POST", "/v2/models/reader/infer", server.flat_png(width, height, rows=1),
                                              {"Inference-Header-Content-Length": "0"})
            self.assertIn(status, (400, 413), text[:500])
        for _ in range(3):  # whole, just below the limit of pixels, and more than all bodies and images may take
            status, _, text = self.server.ask("POST", "/v2/models/reader/infer", server.flat_png(5792, 5792),
                                              {"Inference-Header-Content-Length": "0"})
            self.assertEqual(status, 413, text[:500])

    def test_compression_bombs(self):
        for coding, window in (("gzip", 31), ("deflate", 15)):
            packer = zlib.compressobj(1, zlib.DEFLATED, window)
            bomb = b"".join(packer.compress(bytes(MIB)) for _ in range(256)) + packer.flush()
            self.assertLess(len(bomb), 4 * MIB)
            self.refused(413, "when decompressed", "POST", "/v2/models/lenet/infer", bomb, {"Content-Encoding": coding})
        self.refused(400, "malformed or cut off", "POST", "/v2/models/lenet/infer", b"x", {"Content-Encoding": "gzip"})

    def test_deep_json_and_wrong_sizes(self):
        deep = b'{"inputs":' + b"[" * MIB + b"]" * MIB + b"}"
        self.refused(400, "nested", "POST", "/v2/models/lenet/infer", deep)
        huge = {"inputs": [{"name": "input", "datatype": "FP32", "shape": [1 << 40, 1, 28, 28], "data": [1]}]}
        self.refused(400, "expected", "POST", "/v2/models/lenet/infer", huge)
        for bytes_said in (-1, 0, 1, 3137, 1 << 62):
            text = json.dumps({"inputs": [{"name": "input", "datatype": "FP32", "shape": [1, 1, 28, 28],
                                           "parameters": {"binary_data_size": bytes_said}}]})
            self.refused(400, "", "POST", "/v2/models/lenet/infer", text + "x" * 3136,
                         {"Inference-Header-Content-Length": str(len(text))})
        for length in ("-1", "x", "99999999999999999999", "1e3"):
            self.refused(400, "", "POST", "/v2/models/lenet/infer", b"{}", {"Inference-Header-Content-Length": length})

    def test_slow_clients_are_cut_off(self):
        for begin in (b"", b"GET / HT", b"POST /v2/models/lenet/infer HTTP/1.1\r\nContent-Length: 5000000\r\n\r\n{"):
            start = time.monotonic()
            with socket.create_connection(("127.0.0.1", self.server.port), timeout=20 * server.PATIENCE) as connection:
                closed = False
                connection.sendall(begin)
                connection.settimeout(0.1)
                while not closed and begin and time.monotonic() - start < 10 * server.PATIENCE:
                    try:
                        closed = not connection.recv(4096)
                    except TimeoutError:
                        try:
                            connection.sendall(b"a")  # a byte now and then does not keep the connection
                        except OSError:
                            closed = True
                    except ConnectionResetError:
                        closed = True
                self.assertTrue(closed or not begin, begin)

    def test_more_connections_than_there_may_be(self):
        address = ("127.0.0.1", self.server.port)
        held = [socket.create_connection(address, timeout=5 * server.PATIENCE) for _ in range(60)]
        try:
            time.sleep(0.2 * server.PATIENCE)
            closed = 0  # those that were idle the longest
            for connection in held:
                connection.settimeout(0.05 * server.PATIENCE)
                try:
                    closed += connection.recv(4096) == b""
                except TimeoutError:
                    pass
                except ConnectionResetError:
                    closed += 1
            self.assertGreaterEqual(closed, 15)
            self.assertEqual(self.server.ask("GET", "/v2/health/live")[0], 200)
        finally:
            for connection in held:
                connection.close()
        time.sleep(0.3 * server.PATIENCE)

    def test_shared_memory_by_names_that_leave_it(self):
        for key in ("/../etc/passwd", "../x", "/a/b", "/", "", "/..", "/.hidden", "/none_" + "x" * 300, "/not_there"):
            self.refused(400, "", "POST", "/v2/systemsharedmemory/region/r/register",
                         {"key": key, "offset": 0, "byte_size": 8})
        self.assertEqual(self.server.json("GET", "/v2/systemsharedmemory/status"), [])
        request = {"inputs": [{"name": "input", "datatype": "FP32", "shape": [1, 1, 28, 28],
                               "parameters": {"shared_memory_region": "r", "shared_memory_byte_size": 3136}}]}
        self.refused(400, "no shared-memory region 'r'", "POST", "/v2/models/lenet/infer", request)

    def test_clients_that_vanish(self):
        body = json.dumps(lenet_request(rows=8)).encode()
        head = f"POST /v2/models/lenet/infer HTTP/1.1\r\nContent-Length: {len(body)}\r\n\r\n".encode()
        for sent in (head, head + body[:1000], head + body):
            for _ in range(20):
                address = ("127.0.0.1", self.server.port)
                with socket.create_connection(address, timeout=5 * server.PATIENCE) as connection:
                    connection.sendall(sent)

    def test_settings_and_repository_bodies(self):
        self.refused(400, "no JSON object", "POST", "/v2/repository/index", b"[" * 60000)
        self.refused(413, "too large", "POST", "/v2/repository/index", b" " * MIB)
        load = "/v2/repository/models/lenet/load"
        self.refused(501, "put them into the repository", "POST", load,
                     {"parameters": {"config": "{}", "file:1/model.onnx": "AAAA"}})
        for parameters in ({"config": 1}, {"config": None}, {"unknown": "x"}, [], "x", 1):
            self.refused(400, "parameter", "POST", load, {"parameters": parameters})
        for config in ("{" * 5000, '{"input":' * 300, '{"max_batch_size": 1e300}', '{"max_batch_size": -1}', "\0",
                       "null", '{"parameters": {"goal_ms": {"string_value": "nan"}}}'):
            self.refused(400, "could not be loaded", "POST", load, {"parameters": {"config": config}})
        self.refused(413, "too large", "POST", load, {"parameters": {"config": " " * 2 * MIB}})
        self.assertEqual(self.server.ask("GET", "/v2/models/lenet/ready")[0], 200)


if __name__ == "__main__":
    server.main()
