#!/usr/bin/env python3
"""Thousands of random hostile requests over HTTP, TLS and gRPC, to servers with little memory. An honest client asks
before and beside them. The servers must live to the end, hold no more memory than stated, and keep the honest client's
99th percentile within twice what it was. Standard library only.

    hostile_server.py TESSERA [--requests 24000] [--seed 1] [--memory-mib 512]

The memory is a limit of the operating system (RLIMIT_DATA), so that a request that asks for too much is refused by it.
With sanitizers: --memory-mib 0 --most-resident-mib 4096, and TESSERA_PATIENCE=10 in the environment.
"""
import argparse
import collections
import json
import multiprocessing
import os
import pathlib
import resource
import socket
import ssl
import struct
import sys
import tempfile
import threading
import time

import server
from hostile_messages import Maker

MIB = 1 << 20
LIMITS = "[limits]\nbody_mib = 16\nall_bodies_mib = 128\nheader_seconds = 5\nstall_seconds = 5\n"
INFER = b"POST /v2/models/lenet/infer HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%b"


def connect(port, context=None):
    connection = socket.create_connection(("127.0.0.1", port), timeout=20 * server.PATIENCE)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return context.wrap_socket(connection) if context else connection


def trusting():
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


class Honest(multiprocessing.Process):
    """A client of its own process: an inference and a look at the health, 100 times a second, on one connection."""

    def __init__(self, port, is_tls):
        super().__init__(daemon=True)
        self.port, self.is_tls = port, is_tls
        self.ends, self.found = multiprocessing.Event(), multiprocessing.Queue()

    def run(self):
        body = json.dumps(server.lenet_request()).encode()
        times, wrong, connection = [], collections.Counter(), None
        while not self.ends.is_set():
            for request in (INFER % (len(body), body), b"GET /v2/health/ready HTTP/1.1\r\nHost: x\r\n\r\n"):
                began = time.monotonic()
                try:
                    if connection is None:
                        connection = connect(self.port, trusting() if self.is_tls else None)
                    connection.sendall(request)
                    status, keeps = self.answer(connection)
                    if status != 200:
                        wrong[status] += 1
                    if not keeps:
                        connection.close()
                        connection = None
                except OSError as error:
                    wrong[type(error).__name__] += 1
                    connection = None
                times.append((time.monotonic() - began) * 1000)
            time.sleep(0.01)
        self.found.put((times, dict(wrong)))

    @staticmethod
    def answer(connection):
        data = b""
        while b"\r\n\r\n" not in data:
            part = connection.recv(65536)
            if not part:
                raise ConnectionError("closed")
            data += part
        head, _, rest = data.partition(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0])
        while len(rest) < length:
            rest += connection.recv(65536)
        return int(head.split(b" ")[1]), b"connection: close" not in head.lower()

    def stop(self):
        self.ends.set()
        times, wrong = self.found.get(timeout=60 * server.PATIENCE)
        self.join()
        times.sort()
        return {"p50": times[len(times) // 2], "p99": times[len(times) * 99 // 100], "wrong": wrong}


def frames(data):
    """Where the whole frames of HTTP/2 begin."""
    at = 0
    while at + 9 <= len(data):
        yield at
        at += 9 + int.from_bytes(data[at:at + 3], "big")


class Attack:
    """Sends what a maker makes, on a connection each, from some threads."""

    def __init__(self, port, kind, requests, seed, nice):
        self.port, self.kind, self.left, self.seed, self.nice = port, kind, requests, seed, nice
        self.lock, self.statuses = threading.Lock(), collections.Counter()
        self.context = trusting() if kind == "tls" else None

    def run(self, threads):
        workers = [threading.Thread(target=self.work, args=(number,)) for number in range(threads)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        return dict(self.statuses)

    def work(self, number):
        os.nice(self.nice)  # what the attacker's own work takes of the processor is not the server's doing
        maker = Maker(self.seed * 1000 + number)
        while True:
            with self.lock:
                if self.left <= 0:
                    return
                self.left -= 1
            status = self.send(maker, maker.grpc() if self.kind == "grpc" else maker.http())
            with self.lock:
                self.statuses[status] += 1

    def send(self, maker, data):
        """The status of the first answer, or what became of the connection."""
        found = b""
        try:
            with connect(self.port, self.context) as connection:
                connection.settimeout(3 * server.PATIENCE)  # for a server that reads no more
                connection.sendall(data)
                if maker.some(0.05):  # it vanishes with a reset
                    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    return "reset"
                connection.settimeout(0.3 * server.PATIENCE)
                while part := connection.recv(65536):
                    found += part
                    if self.kind != "grpc":
                        break  # the first answer is enough
                    # Headers that end a stream, or the server's farewell (RFC 9113, 6.2 and 6.8).
                    if any(found[at + 3] == 7 or found[at + 3] == 1 and found[at + 4] & 1 for at in frames(found)):
                        return "answered"
        except TimeoutError:
            return "silent"  # it waits for more
        except OSError:
            pass
        if found.startswith(b"HTTP/1.1 "):
            return found[9:12].decode("latin-1")
        return "closed"


class Memory(threading.Thread):
    """The most that a server holds."""

    def __init__(self, running):
        super().__init__(daemon=True)
        self.running, self.most, self.ends = running, 0, threading.Event()

    def run(self):
        while not self.ends.wait(0.02):
            try:
                self.most = max(self.most, self.running.resident_bytes())
            except (OSError, StopIteration):
                return


def limited(mib):
    """What a server under this limit is started by."""
    if mib > 0:
        resource.setrlimit(resource.RLIMIT_DATA, (mib * MIB, mib * MIB))


def faults_in(running):
    """What the log of a server shows that no request may cause."""
    faults = []
    for line in pathlib.Path(running.log.name).read_bytes().splitlines():
        if not line.startswith(b'{"time"'):
            continue  # gRPC's own
        try:
            entry = json.loads(line.decode("utf-8"))
        except ValueError:
            faults.append(f"a line of the log is no JSON: {line[:300]}")
            continue
        if entry["event"] in ("a request failed", "a request could not be read", "a step after a run failed"):
            faults.append(f"a fault of its own: {line[:600]}")
    return faults[:5]


def attack(running, kind, arguments):
    """Returns what was wrong, as sentences."""
    port = running.ports["grpc" if kind == "grpc" else "http"]
    is_tls, wrong = kind == "tls", []
    honest = Honest(running.port, is_tls)
    honest.start()
    time.sleep(arguments.seconds_before)
    before = honest.stop()
    memory, beside = Memory(running), Honest(running.port, is_tls)
    memory.start()
    beside.start()
    began = time.monotonic()
    statuses = Attack(port, kind, arguments.requests // 3, arguments.seed, arguments.nice).run(arguments.threads)
    seconds = time.monotonic() - began
    during = beside.stop()
    memory.ends.set()
    alive = running.process.poll() is None
    most = arguments.most_resident_mib or arguments.memory_mib
    if not alive:
        wrong.append(f"{kind}: the server ended with {running.process.returncode}: {running.log_text()[-3000:]}")
    if memory.most > most * MIB:
        wrong.append(f"{kind}: it held {memory.most // MIB} MiB, more than {most}")
    if before["wrong"] or during["wrong"]:
        wrong.append(f"{kind}: the honest client got {before['wrong']} before, {during['wrong']} beside")
    if arguments.p99_factor and during["p99"] > arguments.p99_factor * before["p99"] + 1:
        wrong.append(f"{kind}: p99 of the honest client went from {before['p99']:.2f} to {during['p99']:.2f} ms")
    print(f"{kind}: {sum(statuses.values())} hostile requests in {seconds:.1f} s, {'alive' if alive else 'DEAD'}, at "
          f"most {memory.most // MIB} MiB; honest client p50 {before['p50']:.2f} to {during['p50']:.2f} ms, p99 "
          f"{before['p99']:.2f} to {during['p99']:.2f} ms\n  answers: " +
          ", ".join(f"{status} {count}" for status, count in sorted(statuses.items(), key=lambda each: -each[1])),
          flush=True)
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--requests", type=int, default=24000, help="of the three protocols together")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int, default=8, help="of the attacker")
    parser.add_argument("--nice", type=int, default=19, help="of the attacker")
    parser.add_argument("--memory-mib", type=int, default=512, help="limit of the server's memory; 0: none")
    parser.add_argument("--most-resident-mib", type=int, default=0, help="that may be seen; 0: the limit")
    parser.add_argument("--p99-factor", type=float, default=2, help="0: not checked")
    parser.add_argument("--seconds-before", type=float, default=5)
    parser.add_argument("--kinds", default="http,tls,grpc")
    arguments = parser.parse_args()
    server.program = os.path.abspath(arguments.program)
    wrong = []
    with tempfile.TemporaryDirectory() as holder:
        holder = pathlib.Path(holder)
        folder = server.make_repository(holder / "models")
        server.make_certificate(holder, "server")
        certificate = f'[tls]\ncertificate = "{holder}/server.pem"\nkey = "{holder}/server.key"\n'
        for kind in arguments.kinds.split(","):
            config = LIMITS + (certificate if kind == "tls" else "")
            running = server.Server(folder, config=config, before_start=lambda: limited(arguments.memory_mib))
            wrong += attack(running, kind, arguments)
            code = running.stop()
            if code != 0:
                wrong.append(f"{kind}: the server ended with {code} after SIGTERM: {running.log_text()[-3000:]}")
            wrong += [f"{kind}: {sentence}" for sentence in faults_in(running)]
    for sentence in wrong:
        print("WRONG " + sentence)
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
