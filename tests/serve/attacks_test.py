#!/usr/bin/env python3
"""Attacks on the server's budgets, on the framing of requests, and by one tenant on another; beside each an honest
client is served. Standard library only.

    attacks_test.py TESSERA
"""
import gzip
import http.client
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import tempfile
import threading
import time
import unittest
import zlib

import server
from security_test import bearer, keys
from server import Server, lenet_request, make_repository

MIB = 1 << 20
INFER = "/v2/models/lenet/infer"
HEAD = b"POST /v2/models/lenet/infer HTTP/1.1\r\nHost: x\r\n"


def connect(port):
    return socket.create_connection(("127.0.0.1", port), timeout=20 * server.PATIENCE)


def answers(port, data):
    """All that comes back for the bytes, and whether the server has closed the connection."""
    with connect(port) as connection:
        connection.settimeout(2 * server.PATIENCE)
        found = b""
        try:
            connection.sendall(data)
        except OSError:
            pass
        try:
            while part := connection.recv(65536):
                found += part
        except TimeoutError:
            return found, False
        except OSError:
            pass
        return found, True


def statuses(data):
    return [int(status) for status in re.findall(rb"HTTP/1\.1 (\d+) ", data)]


class Framing(server.WithServer):
    config = "[limits]\nheader_seconds = 5\nstall_seconds = 5\n"

    def test_a_transfer_coding_that_is_not_chunked_is_refused_and_the_connection_closed(self):
        inner = b"GET /v2 HTTP/1.1\r\nHost: smuggled\r\n\r\n"
        for coding in (b"xchunked", b"chunked, identity", b"gzip", b"identity", b"chunked;q=1", b"chunked,",
                       b'"chunked"', b"gzip, chunked", b"chunked, chunked"):
            request = b"GET /v2/health/live HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: " + coding + b"\r\n\r\n"
            found, closed = answers(self.server.port, request + inner)
            self.assertEqual((statuses(found), closed), ([400], True), coding)

    def test_framing_that_two_readers_may_understand_differently(self):
        for header in (b"", b"Host: x\r\nHost: y\r\n", b"Host: a b\r\n",
                       b"Host: x\r\nContent-Length: 0\r\nContent-Length: 0\r\n",
                       b"Host: x\r\nContent-Length: 0, 0\r\n", b"Host: x\r\nContent-Length: +0\r\n",
                       b"Host: x\r\nContent-Length: 0x0\r\n",
                       b"Host: x\r\nContent-Length: 99999999999999999999999\r\n",
                       b"Host: x\r\nContent-Length: 0\r\nTransfer-Encoding: chunked\r\n",
                       b"Host: x\r\nTransfer-Encoding: chunked\r\nContent-Length: 0\r\n",
                       b"Host: x\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n"):
            found, closed = answers(self.server.port, b"POST /v2/health/live HTTP/1.1\r\n" + header + b"\r\n")
            self.assertEqual((statuses(found), closed), ([400], True), header)
        old = b"GET /v2/health/live HTTP/1.0\r\n"
        found, _ = answers(self.server.port, old + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n")
        self.assertEqual(statuses(found), [400])
        found, _ = answers(self.server.port, old + b"\r\n")
        self.assertEqual(statuses(found), [200])

    def test_trailers_and_extensions_are_bounded_on_every_port(self):
        chunked = b"GET /v2/health/live HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
        for port in (self.server.port, self.server.ports["metrics"]):
            for rest in (b"0\r\nX: " + b"a" * 66000 + b"\r\n\r\n", b"0\r\n" + b"X: " + b"a" * (4 * MIB),
                         b"1;" + b"a" * (4 * MIB), b"1;a=b\r\nx\r\n" * 20000):
                found, closed = answers(port, chunked + rest)
                self.assertTrue(closed, (port, rest[:8], found))
                self.assertIn(statuses(found), ([431], []), rest[:8])
        before = self.server.resident_bytes()
        with connect(self.server.port) as connection:
            connection.sendall(chunked + b"1;")
            try:
                for _ in range(64):
                    connection.sendall(b"a" * MIB)
            except OSError:
                pass
        self.assertLess(self.server.resident_bytes() - before, 32 * MIB * server.PATIENCE)
        live = b"GET /v2/health/live HTTP/1.1\r\nHost: x\r\n\r\n"
        found, _ = answers(self.server.port, chunked + b"0\r\nX: y\r\n\r\n" + live)
        self.assertEqual(statuses(found), [200, 200])

    def test_lengths_that_are_no_numbers_of_bytes(self):
        self.refused(400, "no number of bytes", "POST", INFER, lenet_request(),
                     {"Inference-Header-Content-Length": "1" + "0" * 23})

    def test_web_pages_of_other_sites(self):
        unload = "/v2/repository/models/reader/unload"
        for headers in ({"Origin": "http://evil.example"}, {"Origin": "null"}, {"Host": "evil.example:8000"},
                        {"Host": "evil.example", "Origin": "http://evil.example"}):
            self.refused(403, "", "POST", unload, None, headers)
        self.refused(415, "application/json", "POST", unload, "{}", {"Content-Type": "text/plain"})
        own = f"127.0.0.1:{self.server.port}"
        self.assertEqual(self.server.ask("POST", INFER, lenet_request(), {"Origin": f"http://{own}"})[0], 200)

    def test_repeated_names(self):
        asked = lenet_request()
        asked["outputs"] = [{"name": "output"}] * 600
        self.refused(400, "twice", "POST", INFER, asked)
        asked = lenet_request()
        asked["inputs"] *= 2
        self.refused(400, "twice", "POST", INFER, asked)


class Honest(threading.Thread):
    """A client that asks again and again; `slowest_s` and `wrong` tell how it fared."""
    def __init__(self, running, headers=None):
        super().__init__(daemon=True)
        self.running, self.headers, self.ends = running, headers or {}, threading.Event()
        self.times_s, self.wrong = [], []

    def run(self):
        while not self.ends.is_set():
            began = time.monotonic()
            status, _, text = self.running.ask("POST", INFER, lenet_request(), self.headers)
            self.times_s.append(time.monotonic() - began)
            if status != 200:
                self.wrong.append((status, text[:200]))
            self.ends.wait(0.02)

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.ends.set()
        self.join()


class Budgets(unittest.TestCase):
    def serve(self, config, folder):
        return Server(make_repository(pathlib.Path(folder) / "models"), config=config)

    def test_slow_bodies_do_not_lock_others_out(self):
        limits = "[limits]\nbody_mib = 8\nall_bodies_mib = 16\nstall_seconds = 60\n"
        with tempfile.TemporaryDirectory() as folder, self.serve(limits, folder) as running:
            slow = [connect(running.port) for _ in range(4)]
            for connection in slow:
                connection.sendall(HEAD + b"Content-Length: %d\r\n\r\n" % (8 * MIB))
                connection.sendall(b"a" * (8 * MIB - MIB // 2))  # they hold more than all that may be held
            time.sleep(1.5)
            with Honest(running) as honest:
                time.sleep(4)
            self.assertEqual(honest.wrong, [])
            self.assertGreater(len(honest.times_s), 20)
            for connection in slow:
                connection.close()

    def test_announced_bodies_count_nothing(self):
        limits = "[limits]\nbody_mib = 8\nall_bodies_mib = 8\n"
        with tempfile.TemporaryDirectory() as folder, self.serve(limits, folder) as running:
            slow = [connect(running.port) for _ in range(8)]
            for connection in slow:
                connection.sendall(HEAD + b"Content-Length: %d\r\n\r\n" % (8 * MIB))
            self.assertEqual(running.ask("POST", INFER, lenet_request())[0], 200)
            for connection in slow:
                connection.close()

    def test_nobody_elses_body_is_read_or_decompressed(self):
        packer = zlib.compressobj(9, zlib.DEFLATED, 31)
        bomb = packer.compress(bytes(200 * MIB)) + packer.flush()
        with tempfile.TemporaryDirectory() as folder, self.serve(keys(), folder) as running:
            with Honest(running, bearer("alice")) as honest:
                for path in (INFER, "/v2/repository/index", "/v2/models/none/infer"):
                    status, _, _ = running.ask("POST", path, bomb, {"Content-Encoding": "gzip"})
                    self.assertEqual(status, 401, path)
                # Refused from the header alone: the body is never sent.
                with connect(running.port) as connection:
                    connection.sendall(HEAD + b"Content-Length: 1000000\r\n\r\n")
                    self.assertIn(b" 401 ", connection.recv(4096))
            self.assertEqual(honest.wrong, [])
            lower = {"Authorization": "bearer " + bearer("alice")["Authorization"].split(" ")[1]}
            self.assertEqual(running.ask("POST", INFER, lenet_request(), lower)[0], 200)

    def test_what_is_decompressed_counts(self):
        limits = "[limits]\nbody_mib = 32\nall_bodies_mib = 40\n"
        with tempfile.TemporaryDirectory() as folder, self.serve(limits, folder) as running:
            body = json.dumps(lenet_request()).encode()
            packed = gzip.compress(body + b" " * (31 * MIB - len(body)))
            before, found = running.resident_bytes(), []

            def ask():
                found.append(running.ask("POST", INFER, packed, {"Content-Encoding": "gzip"})[0])

            clients = [threading.Thread(target=ask) for _ in range(8)]
            for client in clients:
                client.start()
            peak = 0
            while any(client.is_alive() for client in clients):
                peak = max(peak, running.resident_bytes())
                time.sleep(0.01)
            self.assertLessEqual(set(found), {200, 503})
            self.assertIn(200, found)
            self.assertLess(peak - before, 160 * MIB * server.PATIENCE)
            self.assertEqual(running.ask("POST", INFER, gzip.compress(body), {"Content-Encoding": "gzip"})[0], 200)

    def test_idle_connections_leave_room_for_others(self):
        limits = "[limits]\nconnections = 40\nidle_seconds = 60\n"
        with tempfile.TemporaryDirectory() as folder, self.serve(limits, folder) as running:
            idle = [connect(running.port) for _ in range(60)]
            time.sleep(0.5)
            self.assertEqual(running.ask("GET", "/v2/health/live")[0], 200)
            self.assertEqual(running.ask("GET", "/metrics", port=running.ports["metrics"])[0], 200)
            self.assertEqual(running.ask("POST", INFER, lenet_request())[0], 200)
            for connection in idle:
                connection.close()
            # Connections that are in the middle of a request are not closed for others, who still learn the health.
            busy = [connect(running.port) for _ in range(60)]
            for connection in busy:
                connection.sendall(b"GET /v2/hea")
            time.sleep(0.5)
            self.assertEqual(running.ask("GET", "/v2/health/ready")[0], 200)
            self.assertEqual(running.ask("GET", "/metrics", port=running.ports["metrics"])[0], 200)
            for connection in busy:
                connection.close()

    def test_refusals_do_not_wait_for_the_disk(self):
        with tempfile.TemporaryDirectory() as folder:
            audit = pathlib.Path(folder) / "audit.log"
            with self.serve(f'[audit]\nfile = "{audit}"\n' + keys(), folder) as running:
                connection = http.client.HTTPConnection("127.0.0.1", running.port, timeout=30)
                for _ in range(2000):
                    connection.request("GET", "/v2/models/" + "M" * 100)
                    answer = connection.getresponse()
                    answer.read()
                    self.assertEqual(answer.status, 401)
                connection.close()
            lines = audit.read_text().splitlines()
            self.assertLess(len(lines), 1500)
            counted = sum(int(json.loads(line)["result"].split()[0]) for line in lines if '"count"' in line)
            self.assertEqual(counted + sum('"read"' in line for line in lines), 2000)


class Tenants(unittest.TestCase):
    def test_shared_memory_belongs_to_who_registered_it(self):
        config = keys().replace('roles = ["read", "manage"]', 'roles = ["read", "manage", "infer"]')
        config = 'shared_memory_prefix = "tessera-test-"\n' + config
        region = pathlib.Path(f"/dev/shm/tessera-test-{os.getpid()}")
        other = pathlib.Path(f"/dev/shm/other-{os.getpid()}")
        with tempfile.TemporaryDirectory() as folder:
            region.write_bytes(bytes(4096))
            other.write_bytes(bytes(4096))
            try:
                with Server(make_repository(pathlib.Path(folder) / "models"), config=config) as running:
                    base = "/v2/systemsharedmemory"
                    path = f"{base}/region/mine/register"
                    asked = {"key": "/" + region.name, "offset": 0, "byte_size": 4096}
                    self.assertEqual(running.ask("POST", path, asked, bearer("alice"))[0], 200)
                    self.assertEqual(running.json("GET", base + "/status", None, bearer("boss")), [])
                    self.assertEqual(running.ask("GET", f"{base}/region/mine/status", None, bearer("boss"))[0], 404)
                    inference = lenet_request()
                    inference["inputs"][0].pop("data")
                    inference["inputs"][0]["parameters"] = {"shared_memory_region": "mine",
                                                            "shared_memory_byte_size": 28 * 28 * 4}
                    self.assertEqual(running.ask("POST", INFER, inference, bearer("boss"))[0], 400)
                    self.assertEqual(running.ask("POST", INFER, inference, bearer("alice"))[0], 200)
                    self.assertEqual(running.ask("POST", f"{base}/unregister", None, bearer("boss"))[0], 200)
                    self.assertEqual(len(running.json("GET", base + "/status", None, bearer("alice"))), 1)
                    asked["key"] = "/" + other.name
                    self.assertEqual(running.ask("POST", f"{base}/region/b/register", asked, bearer("alice"))[0], 403)
            finally:
                region.unlink()
                other.unlink()


class Life(unittest.TestCase):
    def ensemble(self, folder, name, step):
        (folder / name).mkdir(parents=True)
        (folder / name / "config.pbtxt").write_text(f"""
platform: "ensemble"
input {{ name: "x" data_type: TYPE_FP32 dims: [1] }}
output {{ name: "y" data_type: TYPE_FP32 dims: [1] }}
ensemble_scheduling {{ step {{ model_name: "{step}" input_map {{ key: "x" value: "x" }}
                               output_map {{ key: "y" value: "y" }} }} }}""")

    def test_an_ensemble_that_is_a_step_of_itself(self):
        with tempfile.TemporaryDirectory() as holder:
            folder = pathlib.Path(holder) / "models"
            for name, step in (("loop", "loop"), ("a", "b"), ("b", "c"), ("c", "a")):
                self.ensemble(folder, name, step)
            with Server(folder) as running:
                states = {each["name"]: each for each in running.json("POST", "/v2/repository/index")}
                self.assertEqual(states["loop"]["state"], "UNAVAILABLE")
                self.assertIn("a step of itself: loop → loop", states["loop"]["reason"])
                self.assertIn("a step of itself", states["c"]["reason"])
                asked = {"inputs": [{"name": "x", "datatype": "FP32", "shape": [1], "data": [1]}]}
                for name in ("loop", "a", "b", "c"):
                    self.assertIn(running.ask("POST", f"/v2/models/{name}/infer", asked)[0], (400, 404))

    def test_a_folder_that_is_gone_for_a_moment_and_one_that_is_a_link(self):
        with tempfile.TemporaryDirectory() as holder:
            folder = make_repository(pathlib.Path(holder) / "models")
            (folder / "a b").mkdir()
            with Server(folder, "--poll", "0.05") as running:
                self.assertIn("a b", running.log_text())

                def wait_for(status):
                    end = time.monotonic() + 20 * server.PATIENCE
                    while running.ask("GET", "/v2/models/lenet/ready")[0] != status:
                        self.assertLess(time.monotonic(), end)
                        time.sleep(0.02)

                (folder / "lenet").rename(pathlib.Path(holder) / "away")
                wait_for(400)
                (pathlib.Path(holder) / "away").rename(folder / "lenet")
                wait_for(200)
                self.assertEqual(running.ask("GET", "/v2/health/ready")[0], 200)
                version = pathlib.Path(holder) / "version"
                (folder / "lenet" / "1").rename(version)
                (folder / "lenet" / "1").symlink_to(version, target_is_directory=True)
                wait_for(200)
                (version / "model.onnx").write_bytes(b"no model")
                end = time.monotonic() + 20 * server.PATIENCE
                while "not loaded anew" not in json.dumps(running.json("POST", "/v2/repository/index")):
                    self.assertLess(time.monotonic(), end)
                    time.sleep(0.02)

    def test_the_end_while_models_load(self):
        with tempfile.TemporaryDirectory() as holder:
            folder = pathlib.Path(holder) / "models"
            for i in range(6):
                (folder / f"m{i}" / "1").mkdir(parents=True)
            made = subprocess.run([server.program, "new", "resnet50", "-o", folder / "m0" / "1" / "model.onnx"],
                                  capture_output=True, timeout=60 * server.PATIENCE)
            self.assertEqual(made.returncode, 0)
            for i in range(1, 6):
                os.link(folder / "m0" / "1" / "model.onnx", folder / f"m{i}" / "1" / "model.onnx")
            with socket.socket() as free:
                free.bind(("127.0.0.1", 0))
                port = free.getsockname()[1]
            log = open(pathlib.Path(holder) / "log", "w")
            command = [server.program, "serve", folder, "--http", f"127.0.0.1:{port}"]
            command += ["--grpc", "off", "--metrics", "off"]
            process = subprocess.Popen(command, stdout=log, stderr=log)
            live = 0
            end = time.monotonic() + 20 * server.PATIENCE
            while live != 200 and time.monotonic() < end:
                try:
                    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
                    connection.request("GET", "/v2/health/live")
                    live = connection.getresponse().status
                    connection.close()
                except OSError:
                    time.sleep(0.005)
            self.assertEqual(live, 200)
            process.send_signal(signal.SIGTERM)
            self.assertEqual(process.wait(timeout=10 * server.PATIENCE), 0)
            log.close()


if __name__ == "__main__":
    server.main()
