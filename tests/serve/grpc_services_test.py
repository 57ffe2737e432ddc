#!/usr/bin/env python3
"""The services beside inference that standard tools speak over gRPC: health and reflection, with the packages
grpcio-health-checking and grpcio-reflection.

    grpc_services_test.py TESSERA
"""
import contextlib
import pathlib
import tempfile
import threading
import time
import unittest

import grpc
import server
from google.protobuf.descriptor_pool import DescriptorPool
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase
from security_test import bearer, keys

SERVING, NOT_SERVING = health_pb2.HealthCheckResponse.SERVING, health_pb2.HealthCheckResponse.NOT_SERVING
UNKNOWN = health_pb2.HealthCheckResponse.SERVICE_UNKNOWN


class WithChannel(unittest.TestCase):
    @contextlib.contextmanager
    def serve(self, config=""):
        with tempfile.TemporaryDirectory() as holder:
            folder = server.make_repository(pathlib.Path(holder) / "models")
            with server.Server(folder, config=config) as running:
                self.channel = grpc.insecure_channel(f"127.0.0.1:{running.ports['grpc']}")
                self.health = health_pb2_grpc.HealthStub(self.channel)
                with self.channel:
                    yield running

    def check(self, name="", metadata=None, compression=None):
        request = health_pb2.HealthCheckRequest(service=name)
        return self.health.Check(request, timeout=20 * server.PATIENCE, metadata=metadata,
                                 compression=compression).status

    def refused(self, code, call):
        with self.assertRaises(grpc.RpcError) as caught:
            call()
        self.assertEqual(caught.exception.code(), code, caught.exception.details())
        return caught.exception.details()


class Health(WithChannel):
    def test_check_follows_the_server_and_its_models(self):
        with self.serve() as running:
            for name in ("", "inference.GRPCInferenceService", "lenet", "reader"):
                self.assertEqual(self.check(name), SERVING, name)
            self.assertEqual(self.check("lenet", compression=grpc.Compression.Gzip), SERVING)
            self.assertIn("none", self.refused(grpc.StatusCode.NOT_FOUND, lambda: self.check("none")))
            running.json("POST", "/v2/repository/models/lenet/unload")
            with contextlib.suppress(grpc.RpcError):  # a model that is gone may be unknown
                self.assertEqual(self.check("lenet"), NOT_SERVING)

    def test_watch_tells_changes_and_the_end(self):
        with self.serve() as running:
            found = {name: [] for name in ("", "lenet", "none")}

            def watch(name):
                with contextlib.suppress(grpc.RpcError):
                    for answer in self.health.Watch(health_pb2.HealthCheckRequest(service=name)):
                        found[name].append(answer.status)

            threads = [threading.Thread(target=watch, args=(name,)) for name in found]
            for thread in threads:
                thread.start()
            self.wait(lambda: all(found.values()))
            self.assertEqual(found, {"": [SERVING], "lenet": [SERVING], "none": [UNKNOWN]})
            running.json("POST", "/v2/repository/models/lenet/unload")
            self.wait(lambda: len(found["lenet"]) == 2)
            self.assertIn(found["lenet"][1], (NOT_SERVING, UNKNOWN))
            running.json("POST", "/v2/repository/models/lenet/load")
            self.wait(lambda: len(found["lenet"]) == 3)
            self.assertEqual(found["lenet"][2], SERVING)
            began = time.monotonic()
            self.assertEqual(running.stop(), 0)
            self.assertLess(time.monotonic() - began, 10 * server.PATIENCE)
            for thread in threads:
                thread.join(20)
            self.assertEqual(found["lenet"][-1], NOT_SERVING)

    def wait(self, holds):
        end = time.monotonic() + 20 * server.PATIENCE
        while not holds():
            self.assertLess(time.monotonic(), end)
            time.sleep(0.05)

    def test_watches_are_bounded_and_do_not_bar_checks(self):
        with self.serve("[limits]\nstreams_per_connection = 1000\n"):
            watches = [self.health.Watch(health_pb2.HealthCheckRequest()) for _ in range(64)]
            for watch in watches:
                self.assertEqual(next(watch).status, SERVING)
            more = self.health.Watch(health_pb2.HealthCheckRequest())
            self.assertIn("too many", self.refused(grpc.StatusCode.RESOURCE_EXHAUSTED, lambda: next(more)))
            self.assertEqual(self.check(), SERVING)
            for watch in watches:
                watch.cancel()

            def is_free():
                with contextlib.suppress(grpc.RpcError):
                    watch = self.health.Watch(health_pb2.HealthCheckRequest())
                    return next(watch).status == SERVING
                return False

            self.wait(is_free)

    def test_with_keys_the_server_is_public_and_models_are_not(self):
        with self.serve(keys()):
            self.assertEqual(self.check(), SERVING)
            self.refused(grpc.StatusCode.UNAUTHENTICATED, lambda: self.check("lenet"))
            self.refused(grpc.StatusCode.UNAUTHENTICATED,
                         lambda: next(self.health.Watch(health_pb2.HealthCheckRequest(service="lenet"))))
            metadata = [("authorization", bearer("boss")["Authorization"])]
            self.assertEqual(self.check("lenet", metadata), SERVING)
            self.refused(grpc.StatusCode.PERMISSION_DENIED,
                         lambda: self.check("lenet", [("authorization", bearer("alice")["Authorization"])]))


class Reflection(WithChannel):
    def ask(self, requests, version="v1alpha", metadata=None):
        method = self.channel.stream_stream(f"/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo",
                                            lambda message: message.SerializeToString(),
                                            reflection_pb2.ServerReflectionResponse.FromString)
        return list(method(iter(requests), timeout=20 * server.PATIENCE, metadata=metadata))

    def test_tools_find_services_and_messages(self):
        with self.serve():
            database = ProtoReflectionDescriptorDatabase(self.channel)
            self.assertIn("inference.GRPCInferenceService", database.get_services())
            self.assertIn("grpc.health.v1.Health", database.get_services())
            pool = DescriptorPool(database)
            service = pool.FindServiceByName("inference.GRPCInferenceService")
            self.assertIn("ModelInfer", [method.name for method in service.methods])
            self.assertEqual(pool.FindMessageTypeByName("inference.ModelConfig").fields_by_name["name"].number, 1)
            for name in database.get_services():
                pool.FindServiceByName(name)

    def test_v1_and_what_is_not_there(self):
        request = reflection_pb2.ServerReflectionRequest
        with self.serve():
            asked = [request(list_services=""), request(file_by_filename="inference.proto"),
                     request(file_containing_symbol="no.such.Thing"), request(file_by_filename="otlp.proto"),
                     request(all_extension_numbers_of_type="inference.ModelConfig"), request()]
            listed, file, symbol, own, numbers, nothing = self.ask(asked, "v1")
            self.assertEqual(len(listed.list_services_response.service), 3)
            self.assertEqual(len(file.file_descriptor_response.file_descriptor_proto), 2)
            self.assertEqual(symbol.error_response.error_code, grpc.StatusCode.NOT_FOUND.value[0])
            self.assertEqual(own.error_response.error_code, grpc.StatusCode.NOT_FOUND.value[0])
            self.assertEqual(list(numbers.all_extension_numbers_response.extension_number), [])
            self.assertEqual(nothing.error_response.error_code, grpc.StatusCode.INVALID_ARGUMENT.value[0])
            with self.assertRaises(grpc.RpcError) as caught:
                self.ask([request(file_by_filename="x" * 100_000)])
            self.assertEqual(caught.exception.code(), grpc.StatusCode.INVALID_ARGUMENT)

    def test_with_keys_it_is_off_unless_the_option_says_so_and_wants_a_key_then(self):
        listing = [reflection_pb2.ServerReflectionRequest(list_services="")]
        with self.serve(keys()):
            self.refused(grpc.StatusCode.UNIMPLEMENTED, lambda: self.ask(listing))
        with self.serve("reflection = true\n" + keys()):
            self.refused(grpc.StatusCode.UNAUTHENTICATED, lambda: self.ask(listing))
            metadata = [("authorization", bearer("alice")["Authorization"])]
            self.assertEqual(len(self.ask(listing, metadata=metadata)), 1)
        with self.serve("reflection = false\n"):
            self.refused(grpc.StatusCode.UNIMPLEMENTED, lambda: self.ask(listing))


if __name__ == "__main__":
    server.main()
