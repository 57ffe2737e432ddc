#!/usr/bin/env python3
"""Two servers behind a proxy of connections that follows their readiness, as a Service of Kubernetes does, are replaced
one after the other while clients ask over connections that they keep, HTTP and gRPC: no request is lost.

    rolling_restart_test.py TESSERA
"""
import http.client
import json
import pathlib
import select
import signal
import socket
import sys
import tempfile
import threading
import time
import unittest

import numpy as np
import server
import tritonclient.grpc
from server import lenet_request

DELAY_S = 1.0  # --shutdown-delay; the proxy looks much more often
LOOK_S = 0.1
HTTP_CLIENTS, GRPC_CLIENTS = 4, 2
BODY = json.dumps(lenet_request())


def free_ports():
    """Ports that were free a moment ago, by front."""
    sockets = {front: socket.create_server(("127.0.0.1", 0)) for front in ("http", "grpc", "metrics")}
    ports = {front: each.getsockname()[1] for front, each in sockets.items()}
    for each in sockets.values():
        each.close()
    return ports


def is_ready(port):
    try:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=2 * server.PATIENCE)
        connection.request("GET", "/v2/health/ready")
        ready = connection.getresponse().status == 200
        connection.close()
        return ready
    except OSError:
        return False


class Proxy:
    """Takes connections for HTTP and gRPC and gives each to the next server that is ready. Connections that are open
    stay where they are: it knows nothing of requests."""

    def __init__(self, backends):
        self.backends, self.ready, self.next = backends, [], 0
        self.listeners = {front: socket.create_server(("127.0.0.1", 0), backlog=64) for front in ("http", "grpc")}
        self.ports = {front: listener.getsockname()[1] for front, listener in self.listeners.items()}
        self.is_over, self.unserved, self.pipes = threading.Event(), 0, []
        self.threads = [threading.Thread(target=self.follow)]
        self.threads += [threading.Thread(target=self.accept, args=(front,)) for front in self.listeners]

    def look(self):
        self.ready = [backend for backend in self.backends if is_ready(backend["http"])]

    def follow(self):
        while not self.is_over.wait(LOOK_S):
            self.look()

    def accept(self, front):
        while not self.is_over.is_set():
            if not select.select([self.listeners[front]], [], [], LOOK_S)[0]:
                continue
            client, _ = self.listeners[front].accept()
            ready = self.ready
            if not ready:
                self.unserved += 1
                client.close()
                continue
            self.next += 1
            try:
                behind = socket.create_connection(("127.0.0.1", ready[self.next % len(ready)][front]), timeout=10)
            except OSError:
                self.unserved += 1
                client.close()
                continue
            self.pipes += [client, behind]
            for there, back in ((client, behind), (behind, client)):
                there.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                there.settimeout(None)
                threading.Thread(target=self.pass_on, args=(there, back), daemon=True).start()

    @staticmethod
    def pass_on(there, back):
        try:
            while data := there.recv(65536):
                back.sendall(data)
            back.shutdown(socket.SHUT_WR)
        except OSError:
            for end in (there, back):
                try:
                    end.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass

    def __enter__(self):
        self.look()
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.is_over.set()
        for thread in self.threads:
            thread.join()
        for each in [*self.listeners.values(), *self.pipes]:
            each.close()


class Client(threading.Thread):
    """Asks without a pause and counts; a request without its right answer is a loss."""

    def __init__(self, port, is_over):
        super().__init__()
        self.port, self.is_over, self.answered, self.connections, self.losses = port, is_over, 0, 0, []

    def run(self):
        while not self.is_over.is_set() and len(self.losses) < 20:
            try:
                self.ask()
                self.answered += 1
            except Exception as error:  # pylint: disable=broad-except
                self.losses.append(f"{time.monotonic():.3f} {type(self).__name__}: {type(error).__name__} {error}")
                self.reconnect()
        self.close()


class HttpClient(Client):
    connection = None

    def ask(self):
        if self.connection is None:
            self.connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20 * server.PATIENCE)
            self.connections += 1
        self.connection.request("POST", "/v2/models/lenet/infer", BODY)
        answer = self.connection.getresponse()
        text = answer.read()
        if answer.status != 200:
            raise AssertionError(f"{answer.status} {text[:200]}")
        # http.client opens another connection by itself where the server said that it closes this one.
        if answer.will_close:
            self.reconnect()

    def reconnect(self):
        self.close()
        self.connection = None

    def close(self):
        if self.connection is not None:
            self.connection.close()


class GrpcClient(Client):
    def __init__(self, port, is_over):
        super().__init__(port, is_over)
        # Connections of its own: clients of one process share them otherwise.
        self.client = tritonclient.grpc.InferenceServerClient(f"127.0.0.1:{port}", channel_args=[
            ("grpc.use_local_subchannel_pool", 1)])
        self.input = tritonclient.grpc.InferInput("input", [1, 1, 28, 28], "FP32")
        self.input.set_data_from_numpy(np.full([1, 1, 28, 28], 0.5, np.float32))

    def ask(self):
        found = self.client.infer("lenet", [self.input], client_timeout=20 * server.PATIENCE)
        assert found.get_response().outputs[0].shape == [1, 10]

    def reconnect(self):
        pass

    def close(self):
        self.client.close()


class RollingRestart(unittest.TestCase):
    def test_answers_of_a_server_that_will_end_close_their_connections(self):
        with tempfile.TemporaryDirectory() as folder:
            models = server.make_repository(pathlib.Path(folder) / "models")
            with server.Server(models, "--shutdown-delay", f"{2 * DELAY_S * server.PATIENCE}s") as running:
                kept = http.client.HTTPConnection("127.0.0.1", running.port, timeout=20 * server.PATIENCE)

                def ask():
                    kept.request("POST", "/v2/models/lenet/infer", BODY)
                    answer = kept.getresponse()
                    answer.read()
                    return answer.status, answer.headers["Connection"]

                self.assertEqual(ask(), (200, "keep-alive"))
                running.process.send_signal(signal.SIGTERM)
                while is_ready(running.port):
                    time.sleep(0.01)
                self.assertEqual(ask(), (200, "close"))
                self.assertEqual(ask(), (200, "close"))  # over another connection, which is still taken
                running.process.wait(60 * server.PATIENCE)  # a second signal would end it at once

    def test_no_request_is_lost(self):
        arguments = ["--shutdown-delay", f"{DELAY_S}s", "--drain", "20s"]
        with tempfile.TemporaryDirectory() as folder:
            models = server.make_repository(pathlib.Path(folder) / "models")
            backends = [free_ports(), free_ports()]
            running = [server.Server(models, *arguments, ports=ports) for ports in backends]
            is_over = threading.Event()
            try:
                with Proxy(backends) as proxy:
                    clients = [HttpClient(proxy.ports["http"], is_over) for _ in range(HTTP_CLIENTS)]
                    clients += [GrpcClient(proxy.ports["grpc"], is_over) for _ in range(GRPC_CLIENTS)]
                    for client in clients:
                        client.start()
                    time.sleep(0.5)
                    for _ in range(2):
                        for place, ports in enumerate(backends):
                            began = time.monotonic()
                            self.assertEqual(running[place].stop(), 0)
                            self.assertGreaterEqual(time.monotonic() - began, DELAY_S)
                            running[place].__exit__(None)
                            running[place] = server.Server(models, *arguments, ports=ports)
                            for _ in range(100):
                                if ports in proxy.ready:
                                    break
                                time.sleep(LOOK_S)
                    time.sleep(0.5)
                    is_over.set()
                    for client in clients:
                        client.join()
                    losses = [loss for client in clients for loss in client.losses]
                    answered = {kind.__name__: sum(each.answered for each in clients if isinstance(each, kind))
                                for kind in (HttpClient, GrpcClient)}
                    print(f"answered: {answered}; connections of HTTP: {sum(each.connections for each in clients)}; "
                          f"without a server: {proxy.unserved}", file=sys.stderr)
                    self.assertEqual(losses, [], "\n" + "\n".join(losses))
                    self.assertEqual(proxy.unserved, 0)
                    self.assertGreater(answered["HttpClient"], 1000)
                    self.assertGreater(answered["GrpcClient"], 500)
                    # Connections were kept: there are far fewer than requests.
                    self.assertLess(sum(each.connections for each in clients), answered["HttpClient"] / 2)
            finally:
                is_over.set()
                for each in running:
                    each.stop()


if __name__ == "__main__":
    server.main()
