#!/usr/bin/env python3
"""Clients over gRPC that mean harm: each is refused, and the server's memory stays bounded.

    hostile_grpc_test.py TESSERA
"""
import concurrent.futures
import pathlib
import socket
import struct
import tempfile
import threading
import time
import unittest

import grpc
import server
from clients_test import field
from server import lenet_request

MIB = 1 << 20
SERVICE = "/inference.GRPCInferenceService/"
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"  # RFC 9113, 3.4


def tensor(name="input", datatype="FP32", shape=(1, 1, 28, 28), contents=b""):
    """The field `inputs` of a ModelInferRequest; sizes may be negative."""
    sizes = b"".join(field(3, size % (1 << 64)) for size in shape)
    return field(5, field(1, name) + field(2, datatype) + sizes + (field(5, contents) if contents else b""))


def raw(data):
    return field(7, data)


MODEL = field(1, "lenet")
IMAGE = struct.pack("<784f", *[0.5] * 784)
GOOD = MODEL + tensor() + raw(IMAGE)


class HostileGrpc(server.WithServer):
    config = "[limits]\nbody_mib = 8\nall_bodies_mib = 64\n"

    def setUp(self):
        self.before = self.server.resident_bytes()

    def tearDown(self):
        self.assertLess(self.server.resident_bytes() - self.before, 200 * MIB * server.PATIENCE)
        self.assertEqual(self.code(GOOD), grpc.StatusCode.OK)
        self.assertEqual(self.server.json("POST", "/v2/models/lenet/infer", lenet_request())["outputs"][0]["shape"],
                         [1, 10])

    def channel(self):
        options = [("grpc.max_send_message_length", -1), ("grpc.use_local_subchannel_pool", 1),
                   ("grpc.max_metadata_size", 64 << 20)]
        return grpc.insecure_channel(f"127.0.0.1:{self.server.ports['grpc']}", options=options)

    def call(self, body, method="ModelInfer", metadata=None, compression=None):
        with self.channel() as channel:
            channel.unary_unary(SERVICE + method)(body, timeout=20 * server.PATIENCE, metadata=metadata,
                                                  compression=compression)
            return grpc.StatusCode.OK, ""

    def code(self, *arguments, **options):
        try:
            return self.call(*arguments, **options)[0]
        except grpc.RpcError as error:
            return error.code()

    def refused(self, text, body):
        with self.assertRaises(grpc.RpcError) as caught:
            self.call(body)
        self.assertEqual(caught.exception.code(), grpc.StatusCode.INVALID_ARGUMENT, caught.exception.details())
        self.assertIn(text, caught.exception.details())

    def test_malformed_messages(self):
        overlong = b"\x3a" + b"\x80" * 9 + b"\x7f"
        for body in (b"\xff" * 40, GOOD[:-5], b"\x0a\xff\xff\xff\xff\x0f", overlong, b"\x0b" * 5000):
            self.assertEqual(self.code(body), grpc.StatusCode.INVALID_ARGUMENT, body[:20])
        self.assertEqual(self.code(b"", "NoSuchMethod"), grpc.StatusCode.UNIMPLEMENTED)

    def test_sizes_types_and_shapes(self):
        self.refused("bytes, expected 3136", MODEL + tensor() + raw(IMAGE[:-1]))
        self.refused("bytes, expected 3136", MODEL + tensor() + raw(IMAGE + b"\0"))
        self.refused("bytes, expected", MODEL + tensor(shape=(1 << 40, 1 << 10)) + raw(IMAGE))
        self.refused("more elements than can be counted", MODEL + tensor(shape=(1 << 40, 1 << 40)) + raw(IMAGE))
        self.refused("has the dimension -1", MODEL + tensor(shape=(-1, 1, 28, 28)) + raw(IMAGE))
        self.refused("dimensions, at most", MODEL + tensor(shape=[1] * 10000) + raw(IMAGE))
        self.refused("unknown datatype", MODEL + tensor(datatype="FP99" * 1000) + raw(IMAGE))
        self.refused("is FP64, expected FP32", MODEL + tensor(datatype="FP64") + raw(IMAGE * 2))
        self.refused("has the shape", MODEL + tensor(shape=(1, 28, 28)) + raw(IMAGE))
        self.refused("elements, expected", MODEL + tensor(shape=(1 << 40,), contents=field(6, IMAGE)))
        self.refused("too few for", MODEL + tensor(datatype="BYTES", shape=(1 << 40,)) + raw(IMAGE))
        self.refused("no data for input", MODEL + tensor() * 2 + raw(IMAGE))
        self.refused("more entries than there are inputs", MODEL + tensor() + raw(IMAGE) * 2)
        self.refused("is there twice", MODEL + (tensor() + raw(IMAGE)) * 2)
        self.refused("has no input", MODEL + tensor(name="nothing") + raw(IMAGE))
        self.refused("expected 1 to", MODEL + tensor(shape=(0, 1, 28, 28)) + raw(b""))
        self.refused("is missing", MODEL)

    def test_large_and_compressed_messages_and_metadata(self):
        self.assertEqual(self.code(GOOD + field(3, bytes(9 * MIB))), grpc.StatusCode.RESOURCE_EXHAUSTED)
        bomb = GOOD + field(3, "a" * (4 * MIB))  # a few kB when compressed
        self.assertNotEqual(self.code(bomb, compression=grpc.Compression.Gzip), grpc.StatusCode.OK)
        self.assertNotEqual(self.code(GOOD, metadata=[("a", "b" * (1 << 20))]), grpc.StatusCode.OK)
        self.assertNotEqual(self.code(GOOD, metadata=[(f"a{i}", "b" * 20) for i in range(20000)]), grpc.StatusCode.OK)

    def test_streams_that_never_end_or_vanish(self):
        never = threading.Event()

        def requests(count):
            yield from [GOOD] * count
            never.wait(20 * server.PATIENCE)

        for _ in range(20):  # answered as they come; then the client goes in the middle
            channel = self.channel()
            answers = channel.stream_stream(SERVICE + "ModelStreamInfer")(requests(100), timeout=20 * server.PATIENCE)
            for _ in range(5):
                self.assertGreater(len(next(answers)), 40)
            channel.close()
        never.set()
        with self.channel() as channel:  # one that reads no answers is read no further
            sent = []

            def many():
                for i in range(20000):
                    sent.append(i)
                    yield GOOD
            answers = channel.stream_stream(SERVICE + "ModelStreamInfer")(many(), timeout=20 * server.PATIENCE)
            next(answers)
            answers.cancel()
        self.assertLess(len(sent), 20000)

    def test_frames_that_are_no_http2(self):
        def frame(kind, flags, stream, payload):
            return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload

        address = ("127.0.0.1", self.server.ports["grpc"])
        settings = PREFACE + frame(4, 0, 0, b"")
        for data in (b"GET / HTTP/1.1\r\n\r\n", bytes(1000), PREFACE + b"\xff" * 1000,
                     settings + frame(0, 0, 1, bytes(100)), settings + frame(1, 4, 2, b"\xff" * 50),
                     settings + frame(1, 0, 1, b"\x82") + frame(9, 0, 1, b"\x00\x01a\x01b" * 3000) * 200,
                     settings + frame(6, 0, 0, bytes(8)) * 20000, settings + frame(4, 0, 0, bytes(6)) * 20000,
                     settings + frame(3, 0, 1, bytes(4)) * 20000):
            with socket.create_connection(address, timeout=5 * server.PATIENCE) as connection:
                try:
                    connection.sendall(data)
                    connection.shutdown(socket.SHUT_WR)
                    while connection.recv(65536):
                        pass
                except OSError:
                    pass  # it has refused already

    def test_a_thousand_connections(self):
        address = ("127.0.0.1", self.server.ports["grpc"])
        held = []
        try:
            for _ in range(1000):
                held.append(socket.create_connection(address, timeout=5 * server.PATIENCE))
                held[-1].sendall(PREFACE[:10])
            with concurrent.futures.ThreadPoolExecutor(4) as pool:
                codes = list(pool.map(lambda _: self.code(GOOD), range(8)))
            self.assertEqual(set(codes), {grpc.StatusCode.OK})
        finally:
            for connection in held:
                connection.close()

    def test_long_ids(self):
        self.refused("the request's id has 65537 bytes", GOOD + field(3, "a" * 65537))
        self.assertEqual(self.code(GOOD + field(3, "a" * 65536)), grpc.StatusCode.OK)
        sequence = field(1, "sequence_id") + field(2, field(3, "a" * 65537))
        self.refused("the sequence's id has 65537 bytes", GOOD + field(4, sequence))

    def test_repeated_outputs(self):
        output = field(6, field(1, "output"))
        code = self.code(GOOD + output * 600)
        self.assertEqual(code, grpc.StatusCode.INVALID_ARGUMENT)
        self.assertEqual(self.code(GOOD + output), grpc.StatusCode.OK)


class Drain(unittest.TestCase):
    def test_an_idle_stream_does_not_delay_the_end(self):
        with tempfile.TemporaryDirectory() as folder:
            running = server.Server(server.make_repository(pathlib.Path(folder) / "models"))
            done = threading.Event()

            def requests():
                yield GOOD
                done.wait(60)

            with grpc.insecure_channel(f"127.0.0.1:{running.ports['grpc']}") as channel:
                answers = channel.stream_stream(SERVICE + "ModelStreamInfer")(requests())
                next(answers)
                began = time.monotonic()
                self.assertEqual(running.stop(), 0)
                self.assertLess(time.monotonic() - began, 5 * server.PATIENCE)
                done.set()


if __name__ == "__main__":
    server.main()
