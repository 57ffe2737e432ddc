"""A server under load, and what models and clients may do to it: bench/serve/faults.py and soak.py say when."""
import contextlib
import pathlib
import random
import signal
import socket
import struct
import subprocess
import time

import traffic
from traffic import serving

# Short timeouts, so that clients that stand still are cut off within a fault's time.
CONFIG = """
[audit]
file = "{folder}/audit.log"
inference = true
most_mib = 1
[limits]
header_seconds = {seconds}
stall_seconds = {seconds}
connections = 200
"""


class Trial:
    """`folder` gets the models, `records` the audit log. What went wrong is collected in `failures` and
    `traffic.wrong`."""
    def __init__(self, program, folder, records, seed):
        self.program, self.records, self.random = program, pathlib.Path(records), random.Random(seed)
        self.slow, self.failures = [], []
        self.repository = traffic.Repository(folder / "models", program)
        self.repository.learn(program)
        self.server, self.ports = None, None
        self.start_server()
        self.traffic = traffic.Traffic(self.repository, self.ports, seed=seed)

    # --- the server ---

    def start_server(self):
        config = CONFIG.format(folder=self.records, seconds=int(2 * serving.PATIENCE))
        self.server = serving.Server(self.repository.folder, config=config, ports=self.ports)
        self.ports = self.server.ports

    def audit_logs(self):
        rotated = sorted(self.records.glob("audit.log.*"), key=lambda path: int(path.suffix[1:]))
        return [*rotated, self.records / "audit.log"]

    def check_audit(self, when):
        done = subprocess.run([self.program, "serve", "audit-verify", *self.audit_logs()], capture_output=True,
                              text=True, timeout=120 * serving.PATIENCE, check=False)
        if done.returncode != 0:
            self.failures.append(f"audit log after {when}: {done.stdout}{done.stderr}")

    def manage(self, action, name, statuses=(200,)):
        begin_s = time.monotonic()
        try:
            status, _, text = self.server.ask("POST", f"/v2/repository/models/{name}/{action}")
        except OSError as error:
            status, text = 0, error
        if status not in statuses and not (status == 0 and self.traffic.is_allowed("paused", begin_s)):
            self.failures.append(f"{action} of {name}: {status} {text}")
        return status

    def end(self):
        """Drains the server and checks what it leaves."""
        if not self.traffic.end():
            self.failures.append("a client hangs")
        try:
            self.server.__exit__(None)
        except AssertionError as error:
            self.failures.append(str(error))
        self.check_audit("the end")

    def kill(self):
        """Also after an exception; safe to repeat."""
        self.traffic.stops.set()
        if self.server.process.poll() is None:
            self.server.process.kill()
            self.server.process.wait()

    # --- faults of models ---

    def exchange(self):
        name = self.random.choice(self.repository.names)
        number = self.repository.add_version(name)
        if self.manage("load", name) == 200:
            with self.traffic.lock:
                self.repository.current[name] = number
            self.repository.remove_version(name, number - 1)

    def reload(self):
        self.manage("load", self.random.choice(self.repository.names))

    def hang_up_signal(self):
        self.server.process.send_signal(signal.SIGHUP)

    def broken_version(self):
        name = self.random.choice(self.repository.names)
        number = self.repository.add_version(name, whole=False)
        self.manage("load", name, (400,))
        self.repository.remove_version(name, number)

    def unload(self):
        name = self.random.choice(self.repository.names)
        with self.traffic.allow("missing"):
            self.manage("unload", name)
            time.sleep(self.random.uniform(0, 0.2))
            self.manage("load", name)

    # --- faults of clients ---

    def connect(self, front="http", receives=None):
        """`receives`: bytes that may wait for it to be read, where it matters."""
        client = socket.socket()
        client.settimeout(5 * serving.PATIENCE)
        if receives is not None:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receives)
        client.connect(("127.0.0.1", self.ports[front]))
        return client

    def slow_clients(self):
        """They send a byte now and then; the server must have cut them off when they are looked at the next time."""
        for _ in range(8):
            client = self.connect()
            post = b"POST /v2/models/net0/infer HTTP/1.1\r\nContent-Length: 9000\r\n\r\n{"
            sent = self.random.choice((b"GET /v2 HT", post[:50], post))
            client.sendall(sent)
            self.slow.append((time.monotonic(), client, f"slow after {len(sent)} bytes"))
        self.feed_slow()

    def feed_slow(self):
        kept = []
        for since, client, kind in self.slow:
            client.settimeout(0.001)
            try:
                client.sendall(b"a")
                closed = kind != "deaf" and not client.recv(4096)
            except TimeoutError:
                closed = False
            except OSError:
                closed = True
            paused = self.traffic.is_allowed("paused", since)
            if not closed and not paused and time.monotonic() - since > traffic.PATIENCE_S:
                self.failures.append(f"a client ({kind}) was not cut off within {traffic.PATIENCE_S} s")
                closed = True
            if closed:
                client.close()
            else:
                kept.append((since, client, kind))
        self.slow = kept

    def vanish(self, client):
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # a reset
        client.close()

    def vanishing_clients(self):
        headers, body = traffic.binary_request(self.repository.images[0])
        lines = "".join(f"{name}: {value}\r\n" for name, value in {**headers, "Content-Length": len(body)}.items())
        whole = f"POST /v2/models/net0/infer HTTP/1.1\r\nHost: x\r\n{lines}\r\n".encode() + body
        for _ in range(20):
            client = self.connect()
            client.sendall(whole[:self.random.choice((20, len(whole) - 100, len(whole)))])
            if self.random.random() < 0.5:
                time.sleep(self.random.uniform(0, 0.002))
            self.vanish(client)

    def vanishing_grpc_clients(self):
        # Preface, empty SETTINGS, and the begin of a frame of headers (RFC 9113).
        frames = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0\0\0\0\0" + b"\0\1\0\1\4\0\0\0\1" + b"\x83\x86"
        for _ in range(20):
            client = self.connect("grpc")
            client.sendall(frames[:self.random.choice((10, 33, len(frames)))])
            self.vanish(client)

    def deaf_client(self):
        """Sends many requests and reads no answer, so that the server soon cannot write any more."""
        client = self.connect(receives=4096)
        client.settimeout(0.2)
        with contextlib.suppress(TimeoutError):
            for _ in range(2000):
                client.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")  # a page of some kB
        self.slow.append((time.monotonic(), client, "deaf"))

    def garbage(self):
        for front in ("http", "grpc", "metrics"):
            client = self.connect(front)
            with contextlib.suppress(OSError):
                client.sendall(self.random.randbytes(self.random.choice((1, 100, 20000))))
            client.close()
