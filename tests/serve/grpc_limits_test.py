#!/usr/bin/env python3
"""What clients over gRPC may make the server hold: messages, answers that nobody reads, connections, pings; and
compressed messages.

    grpc_limits_test.py TESSERA
"""
import contextlib
import pathlib
import socket
import struct
import tempfile
import threading
import time
import unittest

import grpc
import numpy as np
import server
import tritonclient.grpc as triton_grpc
from attacks_test import Honest
from clients_test import field, identity_model
from hostile_grpc_test import GOOD, MIB, MODEL, PREFACE, SERVICE, raw, tensor
from security_test import bearer, keys
from server import lenet_request

INFER, STREAM = SERVICE + "ModelInfer", SERVICE + "ModelStreamInfer"


def frame(kind, flags, stream, payload):
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


def same(mib):
    """A request whose answer has as many bytes: `same` is an identity of [batch, 3]."""
    rows = mib * MIB // 12
    return field(1, "same") + tensor("x", shape=(rows, 3)) + raw(bytes(rows * 12))


def connect(port):
    return socket.create_connection(("127.0.0.1", port), timeout=20 * server.PATIENCE)


class Proxy:
    """Hands on what comes, and counts the bytes."""
    def __init__(self, port):
        self.listener, self.target = socket.create_server(("127.0.0.1", 0)), port
        self.port = self.listener.getsockname()[1]
        self.to_server = self.to_client = 0
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                client = self.listener.accept()[0]
            except OSError:
                return
            there = connect(self.target)
            for source, goal, name in ((client, there, "to_server"), (there, client, "to_client")):
                threading.Thread(target=self.hand_on, args=(source, goal, name), daemon=True).start()

    def hand_on(self, source, goal, name):
        with contextlib.suppress(OSError), source:
            source.settimeout(None)
            while data := source.recv(65536):
                setattr(self, name, getattr(self, name) + len(data))
                goal.sendall(data)
            goal.shutdown(socket.SHUT_WR)


class WithGrpc(unittest.TestCase):
    @contextlib.contextmanager
    def serve(self, config):
        with tempfile.TemporaryDirectory() as holder:
            folder = server.make_repository(pathlib.Path(holder) / "models")
            (folder / "same" / "1").mkdir(parents=True)
            (folder / "same" / "1" / "model.onnx").write_bytes(identity_model(1))
            (folder / "same" / "config.toml").write_text("max_batch_size = 0\n")
            with server.Server(folder, config=config) as running:
                yield running

    def channel(self, running, port=None):
        options = [("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1),
                   ("grpc.use_local_subchannel_pool", 1)]
        return grpc.insecure_channel(f"127.0.0.1:{port or running.ports['grpc']}", options=options)

    def code(self, running, body=GOOD, method=INFER, **options):
        with self.channel(running) as channel:
            try:
                channel.unary_unary(method)(body, timeout=20 * server.PATIENCE, **options)
                return grpc.StatusCode.OK, ""
            except grpc.RpcError as error:
                return error.code(), error.details()


class Budgets(WithGrpc):
    def test_a_stream_whose_answers_are_not_read_ends_and_holds_little(self):
        limits = "[limits]\nbody_mib = 8\nall_bodies_mib = 256\nstream_answers_mib = 8\nstall_seconds = 2\n"
        with self.serve(limits + "transfer_seconds = 3\n") as running, self.channel(running) as channel:
            ends = threading.Event()

            def requests():
                yield from [same(4)] * 50
                ends.wait(30 * server.PATIENCE)

            with Honest(running) as honest:
                self.assertEqual(self.code(running, same(4))[0], grpc.StatusCode.OK)
                time.sleep(0.5)  # what first requests load is no stream's
                before = running.resident_bytes()
                calls = [channel.stream_stream(STREAM)(requests()) for _ in range(4)]
                time.sleep(2.5)
                held = running.resident_bytes() - before
                time.sleep(3 * server.PATIENCE)
            ends.set()
            # Of 800 MiB. The allocator may keep as much again of what was freed, in the memory of several threads.
            self.assertLess(held, 2 * 4 * (8 + 16 + 8) * MIB * server.PATIENCE)
            self.assertEqual(honest.wrong, [])
            for call in calls:
                with self.assertRaises(grpc.RpcError) as caught:
                    for _ in call:
                        pass
                self.assertEqual(caught.exception.code(), grpc.StatusCode.RESOURCE_EXHAUSTED)
                self.assertIn("not read in time", caught.exception.details())

    def test_an_answer_that_is_not_read_ends(self):
        with self.serve("[limits]\nstall_seconds = 1\ntransfer_seconds = 2\n") as running:
            with self.channel(running) as channel:
                call = channel.stream_stream(INFER)(iter([same(16)]))
                time.sleep(4 * server.PATIENCE)
                with self.assertRaises(grpc.RpcError) as caught:
                    list(call)
                self.assertEqual(caught.exception.code(), grpc.StatusCode.RESOURCE_EXHAUSTED)
            self.assertEqual(self.code(running)[0], grpc.StatusCode.OK)

    def test_both_fronts_share_one_budget(self):
        limits = "[limits]\nbody_mib = 32\nall_bodies_mib = 128\nstall_seconds = 60\n"
        with self.serve(limits) as running, contextlib.ExitStack() as stack:
            calls = []
            for _ in range(4):  # answers that nobody reads
                channel = stack.enter_context(self.channel(running))
                calls.append(channel.stream_stream(INFER)(iter([same(30)])))
                time.sleep(0.7)
            # They hold nearly all, and the slowest gives it up for a request over HTTP.
            status, _, text = running.ask("POST", "/v2/models/lenet/infer", b" " * (30 * MIB))
            self.assertEqual(status, 400, text)  # it was read whole, and is no JSON
            ended = []
            for call in calls:
                try:
                    list(call)
                except grpc.RpcError as error:
                    ended.append(error.details())
            self.assertTrue(ended)
            given_up = [details for details in ended if "holds too many answers" in details]
            self.assertLessEqual(len(given_up), 2)
            # Where messages come slowly, gRPC's own share may run out first, and it resets streams.
            for details in set(ended) - set(given_up):
                self.assertIn("error code 11", details)

    def test_messages_beyond_the_limit_are_not_held(self):
        with self.serve("[limits]\nbody_mib = 8\nall_bodies_mib = 64\n") as running:
            before, peak, ends = running.resident_bytes(), [0], threading.Event()

            def watch():
                while not ends.wait(0.01):
                    peak[0] = max(peak[0], running.resident_bytes())

            watcher = threading.Thread(target=watch)
            watcher.start()
            body = GOOD + field(3, bytes(600 * MIB))
            clients = [threading.Thread(target=lambda: found.append(self.code(running, body)[0])) for _ in range(2)]
            found = []
            for client in clients:
                client.start()
            for client in clients:
                client.join()
            ends.set()
            watcher.join()
            self.assertNotIn(grpc.StatusCode.OK, found)
            self.assertLess(peak[0] - before, 250 * MIB * server.PATIENCE)
            self.assertEqual(self.code(running)[0], grpc.StatusCode.OK)

    def test_a_pipelining_client_that_reads_gets_all_answers(self):
        with self.serve("[limits]\nstream_answers_mib = 8\n") as running, self.channel(running) as channel:
            answers = list(channel.stream_stream(STREAM)(iter([same(2)] * 40), timeout=60 * server.PATIENCE))
            self.assertEqual(len(answers), 40)
            self.assertTrue(all(len(answer) > 2 * MIB - 100 for answer in answers))


class Callers(WithGrpc):
    def test_strangers_are_refused_before_their_message_is_read(self):
        with self.serve(keys()) as running, self.channel(running) as channel:
            never = threading.Event()

            def silent():
                never.wait(20 * server.PATIENCE)
                yield GOOD

            for method in (INFER, STREAM, SERVICE + "ModelConfig"):
                for metadata in (None, [("authorization", "Bearer wrong")]):
                    began = time.monotonic()
                    with self.assertRaises(grpc.RpcError) as caught:
                        list(channel.stream_stream(method)(silent(), metadata=metadata))
                    self.assertEqual(caught.exception.code(), grpc.StatusCode.UNAUTHENTICATED)
                    self.assertLess(time.monotonic() - began, 5 * server.PATIENCE)
            never.set()
            metadata = [("authorization", bearer("alice")["Authorization"])]
            self.assertEqual(self.code(running, metadata=metadata)[0], grpc.StatusCode.OK)
            other = self.code(running, GOOD.replace(b"lenet", b"reade"), metadata=metadata)
            self.assertEqual(other[0], grpc.StatusCode.PERMISSION_DENIED)

    def test_idle_connections_give_way(self):
        limits = "[limits]\nconnections = 40\nconnections_per_peer = 40\n"
        with self.serve(limits) as running, self.channel(running) as channel:
            hold, answers = threading.Event(), None

            def requests():
                yield GOOD
                hold.wait(30 * server.PATIENCE)
                yield GOOD

            answers = channel.stream_stream(STREAM)(requests())
            next(answers)
            idle = [connect(running.ports["grpc"]) for _ in range(120)]
            time.sleep(0.5)
            self.assertEqual(self.code(running)[0], grpc.StatusCode.OK)
            closed = 0
            for connection in idle:
                connection.settimeout(0.05)
                with contextlib.suppress(TimeoutError):
                    while data := connection.recv(4096):
                        pass
                    closed += 1
            self.assertGreaterEqual(closed, 80)
            hold.set()
            self.assertGreater(len(next(answers)), 40)  # a connection with a call is not closed for others
            for connection in idle:
                connection.close()

    def test_a_flood_of_pings_closes_the_connection(self):
        with self.serve("") as running, connect(running.ports["grpc"]) as connection:
            connection.sendall(PREFACE + frame(4, 0, 0, b"") + frame(6, 0, 0, bytes(8)) * 50)
            found = b""
            with contextlib.suppress(OSError):
                while data := connection.recv(65536):
                    found += data
            self.assertIn(b"too_many_pings", found)

    def test_calls_of_an_address_are_bounded(self):
        with self.serve("[limits]\ncalls = 8\n") as running, contextlib.ExitStack() as stack:
            idle = []
            ends = threading.Event()

            def requests():
                yield GOOD
                ends.wait(30 * server.PATIENCE)

            for _ in range(4):
                idle.append(stack.enter_context(self.channel(running)).stream_stream(STREAM)(requests()))
                next(idle[-1])
            code, text = self.code(running)
            self.assertEqual((code, text), (grpc.StatusCode.RESOURCE_EXHAUSTED, "too many calls are in progress"))
            ends.set()
            for call in idle:
                self.assertEqual(list(call), [])
            self.assertEqual(self.code(running)[0], grpc.StatusCode.OK)

    def test_calls_of_a_connection_are_bounded(self):
        with self.serve("[limits]\nstreams_per_connection = 4\n") as running, connect(running.ports["grpc"]) as raw_one:
            raw_one.sendall(PREFACE + frame(4, 0, 0, b""))
            settings = raw_one.recv(4096)
            self.assertIn(struct.pack(">HI", 3, 4), settings)  # SETTINGS_MAX_CONCURRENT_STREAMS


class Compression(WithGrpc):
    def test_tritons_client_compresses_and_gets_compressed_answers(self):
        with self.serve("") as running:
            proxy = Proxy(running.ports["grpc"])
            for algorithm in ("gzip", "deflate", None):
                client = triton_grpc.InferenceServerClient(f"127.0.0.1:{proxy.port}")
                x = np.zeros((100000, 3), np.float32)
                x[::100] = np.arange(3)
                given = triton_grpc.InferInput("x", x.shape, "FP32")
                given.set_data_from_numpy(x)
                for stream in (False, True):
                    before = proxy.to_server, proxy.to_client
                    if stream:
                        answers = []
                        client.start_stream(lambda result, error: answers.append((result, error)),
                                            compression_algorithm=algorithm)
                        client.async_stream_infer("same", [given])
                        client.stop_stream()
                        self.assertIsNone(answers[0][1])
                        y = answers[0][0].as_numpy("y")
                    else:
                        y = client.infer("same", [given], compression_algorithm=algorithm).as_numpy("y")
                    np.testing.assert_array_equal(x, y)
                    sent, got = proxy.to_server - before[0], proxy.to_client - before[1]
                    for count in (sent, got):
                        (self.assertLess if algorithm else self.assertGreater)(count, 300_000, (algorithm, stream))
                client.close()

    def test_bombs_and_garbage_are_refused(self):
        with self.serve("[limits]\nbody_mib = 8\n") as running:
            before = running.resident_bytes()
            for algorithm in (grpc.Compression.Gzip, grpc.Compression.Deflate):
                bomb = GOOD + field(3, bytes(64 * MIB))
                code, text = self.code(running, bomb, compression=algorithm)
                self.assertEqual(code, grpc.StatusCode.INVALID_ARGUMENT, text)
                self.assertIn("larger than 8388608 bytes when decompressed", text)
                with self.channel(running) as channel:
                    answers = channel.stream_stream(STREAM, )(iter([bomb, GOOD]), compression=algorithm)
                    self.assertIn(b"when decompressed", next(answers))
                    self.assertGreater(len(next(answers)), 40)  # the stream goes on
            self.assertLess(running.resident_bytes() - before, 100 * MIB * server.PATIENCE)
            # Marked as compressed, and not compressed.
            with connect(running.ports["grpc"]) as connection:
                # Header fields that are not indexed (RFC 7541, 6.2.2), names and values in plain.
                plain = lambda name, value: b"\0" + bytes([len(name)]) + name + bytes([len(value)]) + value
                head = b"".join(plain(*each) for each in [
                    (b":method", b"POST"), (b":scheme", b"http"), (b":path", INFER.encode()), (b":authority", b"x"),
                    (b"te", b"trailers"), (b"content-type", b"application/grpc"), (b"grpc-encoding", b"gzip")])
                message = b"\x01" + struct.pack(">I", len(GOOD)) + GOOD
                connection.sendall(PREFACE + frame(4, 0, 0, b"") + frame(1, 4, 1, head) + frame(0, 1, 1, message))
                connection.settimeout(5 * server.PATIENCE)
                found = b""
                with contextlib.suppress(TimeoutError):
                    while b"malformed" not in found and (data := connection.recv(65536)):
                        found += data
                self.assertIn(b"malformed", found)

    def test_every_method_takes_compressed_messages(self):
        with self.serve("") as running:
            for method, body in (("ServerLive", b""), ("ModelMetadata", MODEL), ("ModelInfer", GOOD)):
                code = self.code(running, body, SERVICE + method, compression=grpc.Compression.Gzip)
                self.assertEqual(code[0], grpc.StatusCode.OK, (method, code))


if __name__ == "__main__":
    server.main()
