#!/usr/bin/env python3
"""Tokens, roles, certificates and the audit log. Standard library and the program openssl.

    security_test.py TESSERA
"""
import hashlib
import http.client
import json
import pathlib
import select
import shutil
import socket
import ssl
import subprocess
import tempfile
import threading
import time
import unittest

import server
from server import Server, lenet_request, make_certificate, make_repository

TOKENS = {"alice": "token-of-alice-0123", "boss": "token-of-boss-45678"}


def keys():
    digest = {name: hashlib.sha256(token.encode()).hexdigest() for name, token in TOKENS.items()}
    return (f'[key.alice]\ntoken_sha256 = "{digest["alice"]}"\nroles = ["infer"]\nmodels = ["lenet"]\n'
            f'[key.boss]\ntoken_sha256 = "{digest["boss"]}"\nroles = ["read", "manage"]\n')


def bearer(name):
    return {"Authorization": "Bearer " + TOKENS[name]}


class Keys(unittest.TestCase):
    def test_who_may_do_what_and_what_is_recorded(self):
        with tempfile.TemporaryDirectory() as holder:
            folder = make_repository(pathlib.Path(holder) / "models")
            audit = pathlib.Path(holder) / "audit.log"
            config = f'[audit]\nfile = "{audit}"\ninference = true\n' + keys()
            with Server(folder, config=config) as running:
                infer = "/v2/models/lenet/infer"
                status, headers, _ = running.ask("POST", infer, lenet_request())
                self.assertEqual((status, headers["WWW-Authenticate"]), (401, "Bearer"))
                wrong = {"Authorization": "Bearer wrong"}
                self.assertEqual(running.ask("POST", infer, lenet_request(), wrong)[0], 401)
                self.assertEqual(running.ask("POST", infer, lenet_request(), bearer("boss"))[0], 403)
                self.assertEqual(running.ask("POST", infer, lenet_request(), bearer("alice"))[0], 200)
                self.assertEqual(running.ask("POST", "/v2/models/reader/infer", {}, bearer("alice"))[0], 403)
                load = "/v2/repository/models/lenet/load"
                self.assertEqual(running.ask("POST", load, None, bearer("alice"))[0], 403)
                self.assertEqual(running.ask("POST", load, None, bearer("boss"))[0], 200)
                self.assertEqual(running.ask("GET", "/v2/models/lenet", None, bearer("boss"))[0], 200)
                for path in ("/v2/models/stats", "/status/data", "/v2/logging"):
                    self.assertEqual(running.ask("GET", path)[0], 401, path)
                self.assertEqual(running.ask("GET", "/metrics", port=running.ports["metrics"])[0], 401)
                self.assertEqual(running.ask("GET", "/v2/health/live")[0], 200)
            lines = [json.loads(line) for line in audit.read_text().splitlines()]
            done = [(line["caller"], line["action"], line["result"]) for line in lines]
            self.assertIn(("boss", "load", "done"), done)
            self.assertIn(("alice", "infer", "accepted"), done)
            self.assertIn(("alice", "manage", "key 'alice' has not the role 'manage'"), done)
            self.assertTrue(any(caller == "unknown" for caller, _, _ in done))
            self.assertNotIn(TOKENS["alice"], audit.read_text())
            self.verify(audit)

    def verify(self, audit, name="alice"):
        check = [server.program, "serve", "audit-verify", audit]
        done = subprocess.run(check, capture_output=True, text=True, timeout=60 * server.PATIENCE)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("is whole", done.stdout)
        text = audit.read_text()
        audit.write_text(text.replace(name, "x" * len(name), 1))
        done = subprocess.run([*check, "--json"], capture_output=True, text=True, timeout=60 * server.PATIENCE)
        self.assertEqual(done.returncode, 1)
        self.assertFalse(json.loads(done.stdout)["whole"])

    def test_a_server_that_was_killed_comes_back_with_its_records(self):
        with tempfile.TemporaryDirectory() as holder:
            folder = make_repository(pathlib.Path(holder) / "models")
            audit = pathlib.Path(holder) / "audit.log"
            config = f'[audit]\nfile = "{audit}"\n' + keys()
            for round_ in range(2):
                running = Server(folder, config=config)
                try:
                    self.assertEqual(
                        running.ask("POST", "/v2/repository/models/lenet/load", None, bearer("boss"))[0], 200)
                finally:
                    running.process.kill()
                    running.stop()
                    running.log.close()
                    running.folder.cleanup()
                with open(audit, "a") as cut:  # as if it had been killed within a line
                    cut.write('{"sequence":' * (round_ == 0))
            self.assertEqual([json.loads(line)["action"] for line in audit.read_text().splitlines()],
                             ["start", "load", "load", "repair", "start", "load", "load"])
            self.verify(audit, "boss")

    def test_a_log_with_a_key_and_a_head_that_was_noted(self):
        with tempfile.TemporaryDirectory() as holder:
            folder = make_repository(pathlib.Path(holder) / "models")
            audit, key = pathlib.Path(holder) / "audit.log", pathlib.Path(holder) / "audit.key"
            key.write_text("0123456789abcdef" * 4 + "\n")
            config = f'[audit]\nfile = "{audit}"\naudit_key_file = "{key}"\n' + keys()
            running = Server(folder, config=config)
            self.assertEqual(running.ask("POST", "/v2/repository/models/lenet/load", None, bearer("boss"))[0], 200)
            self.assertEqual(running.stop(), 0)
            told = [json.loads(line) for line in running.log_text().splitlines() if "head" in line]
            running.log.close()
            running.folder.cleanup()
            lines = audit.read_text().splitlines()
            head = json.loads(lines[-1])["hmac"]
            self.assertEqual(told[-1]["head"], head)
            self.assertNotIn("0123456789abcdef", running.process.args)

            def verify(*arguments):
                done = subprocess.run([server.program, "serve", "audit-verify", audit, *arguments],
                                      capture_output=True, text=True, timeout=60 * server.PATIENCE)
                return done.returncode, done.stdout + done.stderr

            self.assertEqual(verify("--key", key, "--head", head)[0], 0)
            self.assertIn(f"line {len(lines)} of it has the hash of --head", verify("--key", key, "--head", head)[1])
            self.assertIn("name its file by --key", verify()[1])
            audit.write_text("".join(line + "\n" for line in lines[:-1]))  # cut off at its end
            self.assertEqual(verify("--key", key)[0], 0)
            code, text = verify("--key", key, "--head", head)
            self.assertEqual(code, 1)
            self.assertIn("cut off", text)

    def test_a_key_is_slowed_down_to_its_rate(self):
        with tempfile.TemporaryDirectory() as holder:
            folder = make_repository(pathlib.Path(holder) / "models")
            config = keys().replace('models = ["lenet"]', 'models = ["lenet"]\nrequests_per_second = 2')
            with Server(folder, config=config) as running:
                statuses = [running.ask("POST", "/v2/models/lenet/infer", lenet_request(), bearer("alice"))
                            for _ in range(6)]
                codes = [status for status, _, _ in statuses]
                self.assertEqual(codes[:2], [200, 200])
                self.assertIn(429, codes)
                self.assertTrue(all(headers["Retry-After"] for status, headers, _ in statuses if status == 429))


class Recorder:
    """Passes one connection on to a port of this machine, and keeps what the client sent."""
    def __init__(self, port):
        self.recorded, self.listener = b"", socket.create_server(("127.0.0.1", 0))
        self.port, self.thread = self.listener.getsockname()[1], threading.Thread(target=self.run, args=(port,))
        self.thread.start()

    def run(self, port):
        client, _ = self.listener.accept()
        with client, socket.create_connection(("127.0.0.1", port)) as far:
            while True:
                readable, _, _ = select.select([client, far], [], [])
                for source, target in ((client, far), (far, client)):
                    if source in readable:
                        data = source.recv(65536)
                        if not data:
                            return
                        self.recorded += data if source is client else b""
                        target.sendall(data)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.thread.join(timeout=20 * server.PATIENCE)
        self.listener.close()


@unittest.skipUnless(shutil.which("openssl"), "the program openssl makes the certificates")
class Tls(unittest.TestCase):
    def ask(self, running, folder, client=None, trusted="server"):
        context = ssl.create_default_context(cafile=folder / f"{trusted}.pem")
        if client:
            context.load_cert_chain(folder / f"{client}.pem", folder / f"{client}.key")
        connection = http.client.HTTPSConnection("127.0.0.1", running.port, timeout=20 * server.PATIENCE,
                                                 context=context)
        try:
            connection.request("GET", "/v2/models/lenet")
            return connection.getresponse().status
        finally:
            connection.close()

    def test_certificates_of_the_server_and_of_clients(self):
        with tempfile.TemporaryDirectory() as holder:
            folder = pathlib.Path(holder)
            repository = make_repository(folder / "models")
            for name, authority, days in (("server", None, "1"), ("authority", None, "1"), ("good", "authority", "1"),
                                          ("late", "authority", "-1"), ("forger", None, "1")):
                make_certificate(folder, name, authority, days)
            config = (f'[tls]\ncertificate = "{folder}/server.pem"\nkey = "{folder}/server.key"\n'
                      f'client_authorities = "{folder}/authority.pem"\n'
                      '[key.good]\ncertificate = "good"\nroles = ["read"]\n')
            with Server(repository, config=config) as running:
                self.assertEqual(self.ask(running, folder, "good"), 200)
                self.assertEqual(self.ask(running, folder), 401)
                for client in ("late", "forger"):
                    with self.assertRaises((ssl.SSLError, ConnectionError, http.client.HTTPException), msg=client):
                        self.ask(running, folder, client)
                with self.assertRaises((ConnectionError, http.client.HTTPException)):
                    running.ask("GET", "/v2")  # without TLS
                self.reload(running, folder)

    def test_a_recorded_request_cannot_be_replayed(self):
        with tempfile.TemporaryDirectory() as holder:
            folder = pathlib.Path(holder)
            repository = make_repository(folder / "models")
            make_certificate(folder, "server")
            audit = folder / "audit.log"
            config = (f'[tls]\ncertificate = "{folder}/server.pem"\nkey = "{folder}/server.key"\n'
                      f'[audit]\nfile = "{audit}"\n' + keys())
            with Server(repository, config=config) as running:
                with Recorder(running.port) as recorder:
                    context = ssl.create_default_context(cafile=folder / "server.pem")
                    connection = http.client.HTTPSConnection("127.0.0.1", recorder.port, timeout=20 * server.PATIENCE,
                                                             context=context)
                    connection.request("POST", "/v2/repository/models/lenet/load", headers=bearer("boss"))
                    self.assertEqual(connection.getresponse().status, 200)
                    connection.close()
                self.assertGreater(len(recorder.recorded), 500)
                self.assertNotIn(TOKENS["boss"].encode(), recorder.recorded)
                before = audit.read_text()
                self.assertIn('"boss"', before)
                with socket.create_connection(("127.0.0.1", running.port), timeout=20 * server.PATIENCE) as again:
                    again.sendall(recorder.recorded)
                    again.shutdown(socket.SHUT_WR)
                    try:
                        while again.recv(65536):
                            pass
                    except ConnectionResetError:
                        pass
                self.assertEqual(audit.read_text().count('"boss"'), before.count('"boss"'))

    def reload(self, running, folder):
        """A new certificate is shown to new connections while the server runs."""
        make_certificate(folder, "next")
        for kind in ("key", "pem"):
            shutil.copy(folder / f"next.{kind}", folder / f"server.{kind}.new")
        for kind in ("key", "pem"):
            (folder / f"server.{kind}.new").rename(folder / f"server.{kind}")
        for _ in range(50):
            try:
                self.assertEqual(self.ask(running, folder, trusted="next"), 401)
                return
            except ssl.SSLError:
                time.sleep(0.1 * server.PATIENCE)
        self.fail("the new certificate was not shown")


if __name__ == "__main__":
    server.main()
