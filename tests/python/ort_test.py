#!/usr/bin/env python3
"""What programs expect of onnxruntime, asked of onnxruntime and of tessera.ort alike.

The cases are ours; they cover what onnxruntime's own Python tests of sessions and IO binding check for inference on the
CPU. docs/python.md lists what is different and why.
"""
# Length: one case for each part of onnxruntime's interface, all of them asked of both runtimes by the same classes.
import json
import os
import subprocess
import sys
import tempfile
import threading
import unittest
import warnings

import models
import numpy
import onnx
import onnxruntime
import onnxruntime.capi.onnxruntime_pybind11_state as onnxruntime_state
import tessera
import tessera.ort
import tessera.ort.capi.onnxruntime_pybind11_state as tessera_state


def ones(*shape):
    return numpy.ones(shape, numpy.float32)


class Shared:
    """Cases for both; subclasses say which module is meant."""

    recorded = {}  # results that must be the same, bit by bit

    def session(self, data=None, options=None, **others):
        return self.ort.InferenceSession(data or models.add(), options, providers=["CPUExecutionProvider"], **others)

    def test_run(self):
        session, feed = self.session(), {"x": ones(3, 2), "y": ones(3, 2)}
        for names in (None, [], ["z"], ["z", "z"]):
            results = session.run(names, feed)
            self.assertIsInstance(results, list)
            self.assertEqual([each.tolist() for each in results], [[[2, 2]] * 3] * (2 if names == ["z", "z"] else 1))
        self.assertEqual(session.run(None, {"x": [[1.0, 2.0]], "y": ones(1, 2)})[0].tolist(), [[2, 3]])
        self.assertEqual(session.run(None, feed, self.ort.RunOptions())[0].tolist(), [[2, 2]] * 3)

    def test_description(self):
        session = self.session(models.two_outputs())
        (argument,) = session.get_inputs()
        self.assertEqual((argument.name, argument.type, argument.shape), ("x", "tensor(float)", ["n", 3]))
        self.assertIn("NodeArg(name='x', type='tensor(float)'", str(argument))
        self.assertEqual([each.name for each in session.get_outputs()], ["positive", "negated"])
        self.assertEqual(session.get_providers(), ["CPUExecutionProvider"])
        self.assertEqual(session.get_overridable_initializers(), [])
        meta = session.get_modelmeta()
        self.assertEqual((meta.graph_name, meta.producer_name), ("graph", "tests"))
        self.assertEqual(meta.custom_metadata_map, {"k": "v"})
        for element, text in ((onnx.TensorProto.INT64, "tensor(int64)"), (onnx.TensorProto.STRING, "tensor(string)"),
                              (onnx.TensorProto.BOOL, "tensor(bool)"), (onnx.TensorProto.DOUBLE, "tensor(double)"),
                              (onnx.TensorProto.FLOAT16, "tensor(float16)"), (onnx.TensorProto.UINT8, "tensor(uint8)")):
            self.assertEqual(self.session(models.identity(element)).get_inputs()[0].type, text)
        self.assertEqual(self.session(models.sequence()).get_inputs()[0].type, "seq(tensor(float))")
        self.assertIn("CPUExecutionProvider", self.ort.get_available_providers())
        self.assertEqual(self.ort.get_device(), "CPU")

    def test_documentation_of_the_graph(self):
        model = onnx.load_from_string(models.add())
        model.doc_string, model.graph.doc_string = "of the model", "of the graph"
        meta = self.session(model.SerializeToString()).get_modelmeta()
        self.assertEqual((meta.description, meta.graph_description), ("of the model", "of the graph"))

    def test_initializers_that_may_be_overridden(self):
        session, x = self.session(models.scaled()), ones(2)
        (argument,) = session.get_overridable_initializers()
        self.assertEqual((argument.name, argument.type, argument.shape), ("scale", "tensor(float)", [1]))
        self.assertEqual([each.name for each in session.get_inputs()], ["x"])
        five = numpy.array([5], numpy.float32)
        for feed, expected in (({"x": x}, 3), ({"x": x, "scale": five}, 6), ({"x": x, "scale": five * 0}, 1),
                               ({"x": x}, 3)):
            self.assertEqual(session.run(["y"], feed)[0].tolist(), [expected] * 2)
        with self.assertRaises(self.state.InvalidArgument):
            session.run(None, {"x": x, "scale": ones(2)})
        with self.assertRaises(ValueError):
            session.run(None, {"scale": five})
        old = onnx.load_from_string(models.scaled())
        old.ir_version = 3
        old.opset_import[0].version = 8
        session = self.session(old.SerializeToString())
        self.assertEqual(session.get_overridable_initializers(), [])
        with self.assertRaises(self.state.InvalidArgument):
            session.run(None, {"x": x, "scale": five})

    def test_initializers_from_memory(self):
        options = self.ort.SessionOptions()
        held = self.ort.OrtValue.ortvalue_from_numpy(numpy.zeros((16, 32), numpy.float32))
        options.add_initializer("w1", held)
        x = numpy.random.default_rng(0).standard_normal((2, 16)).astype(numpy.float32)
        zeroed = self.session(models.mlp(), options).run(None, {"x": x})[0]
        self.assertEqual(zeroed[0].tolist(), zeroed[1].tolist())  # of no input anything is left
        self.assertNotEqual(*self.session(models.mlp()).run(None, {"x": x})[0][:, 0].tolist())

    def test_vectors_of_values(self):
        session = self.session()
        feeds, fetches = self.state.OrtValueVector(), self.state.OrtValueVector()
        for _ in range(2):
            feeds.push_back(self.ort.OrtValue.ortvalue_from_numpy(ones(1, 2))._ortvalue)
        self.assertEqual((len(feeds), feeds.element_type_at(1)), (2, onnx.TensorProto.FLOAT))
        self.assertEqual(numpy.asarray(self.ort.OrtValue(feeds[0]).numpy()).tolist(), [[1, 1]])
        device = self.state.OrtDevice(*((0, 0, 0) if self.ort is onnxruntime else ("cpu", 0)))
        session.run_with_ortvaluevector(self.ort.RunOptions(), ["x", "y"], feeds, ["z"], fetches, [device])
        self.assertEqual(fetches[0].numpy().tolist(), [[2, 2]])

    def test_names_that_programs_reach_for(self):
        session = self.session()
        self.assertEqual([each.name for each in session._sess.inputs_meta], ["x", "y"])
        self.assertIsNone(session._model_path)
        self.assertTrue(self.state.get_all_operator_schema())
        memory = self.ort.OrtMemoryInfo("Cpu", self.ort.OrtAllocatorType.ORT_ARENA_ALLOCATOR, 0,
                                        self.ort.OrtMemType.DEFAULT)
        config = self.ort.OrtArenaCfg({"max_mem": 1 << 20, "arena_extend_strategy": 0})
        self.assertEqual(config.max_mem, 1 << 20)
        if self.ort is tessera.ort:  # onnxruntime keeps it for the whole process
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                self.ort.create_and_register_allocator(memory, config)
            self.ort.set_global_thread_pool_sizes(1, 1)
        self.assertIn("CPUExecutionProvider", [each.ep_name for each in self.ort.get_ep_devices()])
        name, version, _ = self.ort.onnxruntime_validation.get_package_name_and_version_info()
        self.assertEqual((name, version), ("onnxruntime", self.ort.__version__))

    def test_weights_in_blocks(self):
        random = numpy.random.default_rng(0)
        for bits in (2, 4, 8):
            for symmetric in (False, True):
                weight = random.standard_normal((256, 3)).astype(numpy.float32)
                weight[:32, 0] = 0
                packed, scales = numpy.zeros((3, 8, 4 * bits), numpy.uint8), numpy.zeros((3, 8), numpy.float32)
                zeros = numpy.zeros((3, bits), numpy.uint8)
                getattr(self.state, f"quantize_matmul_{bits}bits")(packed, weight, scales, zeros, 32, 3, 256, symmetric)
                parts = numpy.stack([packed >> shift & (1 << bits) - 1 for shift in range(0, 8, bits)], -1)
                shift = 1 << bits - 1
                if not symmetric:
                    shift = numpy.stack([zeros >> i & (1 << bits) - 1 for i in range(0, 8, bits)], -1).reshape(3, 8, 1)
                found = ((parts.reshape(3, 8, 32).astype(int) - shift) * scales[..., None]).reshape(3, 256).T
                self.assertLess(abs(found - weight).max(), 1.01 * abs(scales).max())
                self.recorded.setdefault((bits, symmetric), []).append((packed, scales, zeros))
        elements, scales = numpy.zeros(96, numpy.uint8), numpy.zeros((2, 3), numpy.float32)
        zeros = numpy.zeros(3, numpy.uint8)
        weight = random.standard_normal((64, 3)).astype(numpy.float32)
        self.state.quantize_qdq_matmul_4bits(elements, weight, scales, zeros, 32, 3, 64, False)
        self.recorded.setdefault("qdq", []).append((elements, scales, zeros))
        for results in self.recorded.values():  # of onnxruntime and of Tessera, whichever ran first
            for one, other in zip(results[0], results[-1]):
                numpy.testing.assert_array_equal(one, other)

    def test_sparse_tensors_hold_what_they_were_given(self):
        device = self.ort.OrtDevice.make("cpu", 0)
        sparse = self.ort.SparseTensor.sparse_coo_from_numpy(numpy.array([3, 3]), ones(2), numpy.array([1, 5]), device)
        self.assertEqual((sparse.format(), sparse.data_type()),
                         (self.ort.OrtSparseFormat.ORT_SPARSE_COO, "sparse_tensor(float)"))
        self.assertEqual((list(sparse.dense_shape()), sparse.values().tolist()), ([3, 3], [1, 1]))
        self.assertEqual(sparse.as_coo_view().indices().tolist(), [1, 5])
        self.assertTrue(self.ort.OrtValue.ort_value_from_sparse_tensor(sparse).is_sparse_tensor())

    def test_wrong_calls(self):
        state, session, x = self.state, self.session(), ones(3, 2)
        with self.assertRaisesRegex(ValueError, r"Required inputs \(\['y'\]\) are missing from input feed"):
            session.run(None, {"x": x})
        for feed in ({"x": x, "y": x.astype("f8")}, {"x": x, "y": ones(3, 4)}, {"x": x, "y": ones(3)},
                     {"x": x, "y": x, "q": x}):
            with self.assertRaisesRegex(state.InvalidArgument, r"\[ONNXRuntimeError\] : 2 : INVALID_ARGUMENT"):
                session.run(None, feed)
        with self.assertRaises(state.InvalidArgument):
            session.run(["q"], {"x": x, "y": x})
        with self.assertRaises(TypeError):
            session.run("z", {"x": x, "y": x})
        with self.assertRaises(state.NoSuchFile):
            self.ort.InferenceSession("/nonexistent/model.onnx", providers=["CPUExecutionProvider"])
        with self.assertRaises(state.InvalidProtobuf):
            self.session(b"abc")
        with self.assertRaises(TypeError):
            self.session(123)
        with self.assertRaises((state.Fail, state.InvalidGraph, state.NotImplemented)):
            self.session(models.model_bytes([models.helper.make_node("NoSuchOperator", ["x"], ["y"])],
                                            [models.info("x", models.FLOAT, [1])],
                                            [models.info("y", models.FLOAT, [1])]))

    def test_strings_sequences_and_maps(self):
        session = self.session(models.identity(onnx.TensorProto.STRING))
        for given in (numpy.array(["a", "ä"]), numpy.array(["a", "ä"], object), ["a", "ä"]):
            result = session.run(None, {"x": given})[0]
            self.assertEqual((result.dtype, result.tolist()), (numpy.dtype(object), ["a", "ä"]))
        for given in (numpy.array(["a", None, 3], object), ["a", None, 3]):
            self.assertEqual(session.run(None, {"x": given})[0].tolist(), ["a", "None", "3"])
        self.assertEqual(session.run(None, {"x": numpy.array([1.5, True], object)})[0].tolist(), ["1.5", "True"])
        both, doubled = self.session(models.sequence()).run(None, {"values": [ones(2), ones(3)]})
        self.assertEqual([each.tolist() for each in both], [[1, 1], [2, 2]])
        self.assertEqual(doubled.tolist(), [2, 2])
        rows = self.session(models.zip_map()).run(None, {"x": numpy.array([[0.25, 0.75]], numpy.float32)})[0]
        self.assertEqual(list(rows), [{"cat": 0.25, "dog": 0.75}])

    def test_arrays_in_any_layout(self):
        session, base = self.session(), numpy.arange(24, dtype=numpy.float32).reshape(4, 6)
        for x in (base[:, ::3], base[::-1, :2], base.T[:, :2], numpy.zeros((0, 2), numpy.float32)):
            numpy.testing.assert_array_equal(session.run(None, {"x": x, "y": x})[0], x + x)

    def test_files_and_external_data(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "model.onnx")
            model = onnx.load_from_string(models.mlp(64, 64))
            onnx.save(model, path, save_as_external_data=True, location="weights.bin", size_threshold=16)
            self.assertTrue(os.path.exists(os.path.join(folder, "weights.bin")))
            import pathlib

            for source in (path, pathlib.Path(path)):
                session = self.session(source)
                self.assertEqual(session.run(None, {"x": ones(2, 64)})[0].shape, (2, 4))

    def test_session_options(self):
        options = self.ort.SessionOptions()
        self.assertEqual((options.intra_op_num_threads, options.inter_op_num_threads), (0, 0))
        self.assertEqual(options.graph_optimization_level, self.ort.GraphOptimizationLevel.ORT_ENABLE_ALL)
        self.assertEqual(options.execution_mode, self.ort.ExecutionMode.ORT_SEQUENTIAL)
        self.assertEqual((options.enable_profiling, options.profile_file_prefix), (False, "onnxruntime_profile_"))
        options.intra_op_num_threads = 1
        options.add_session_config_entry("session.set_denormal_as_zero", "1")
        self.assertEqual(options.get_session_config_entry("session.set_denormal_as_zero"), "1")
        with self.assertRaises(RuntimeError):
            options.get_session_config_entry("nothing")
        with self.assertRaises(TypeError):
            options.graph_optimization_level = 77
        for given in (options, self.ort.RunOptions()):
            with self.assertRaises(AttributeError):
                given.no_such_field = 1
            for field, value in (("log_severity_level", 1.5), ("log_severity_level", "2"), ("logid", 3)):
                with self.subTest(f"{given} {field}={value}"), self.assertRaises(TypeError):
                    setattr(given, field, value)
        for field, value in (("enable_profiling", "False"), ("enable_mem_pattern", "0"), ("execution_mode", 0),
                             ("intra_op_num_threads", "2"), ("intra_op_num_threads", 2.0),
                             ("graph_optimization_level", 99)):
            with self.subTest(field), self.assertRaises(TypeError):
                setattr(options, field, value)
        options.enable_mem_pattern = 1
        options.intra_op_num_threads = numpy.int64(1)
        self.assertEqual((options.enable_mem_pattern, options.intra_op_num_threads), (True, 1))
        for cls, field in ((self.ort.SessionOptions, "graph_optimization_level"), (self.ort.RunOptions, "terminate"),
                           (self.ort.SessionOptions, "intra_op_num_threads"), (self.ort.NodeArg, "name"),
                           (self.ort.RunOptions, "log_severity_level"), (self.ort.ModelMetadata, "graph_description")):
            self.assertTrue(hasattr(cls, field), field)
        level = self.ort.GraphOptimizationLevel.ORT_ENABLE_ALL
        self.assertEqual((str(level), f"{level}", level.name, level.value, int(level)),
                         ("GraphOptimizationLevel.ORT_ENABLE_ALL",) * 2 + ("ORT_ENABLE_ALL", 99, 99))
        options.add_free_dimension_override_by_name("n", 5)
        levels = self.ort.GraphOptimizationLevel
        for level in (levels.ORT_DISABLE_ALL, levels.ORT_ENABLE_BASIC):
            options.graph_optimization_level = level
            session = self.session(options=options)
            self.assertEqual(session.get_inputs()[0].shape, [5, 2])
            self.assertEqual(session.run(None, {"x": ones(5, 2), "y": ones(5, 2)})[0].tolist(), [[2, 2]] * 5)

    def test_optimized_model_is_written(self):
        with tempfile.TemporaryDirectory() as folder:
            options = self.ort.SessionOptions()
            options.optimized_model_filepath = os.path.join(folder, "out.onnx")
            options.graph_optimization_level = self.ort.GraphOptimizationLevel.ORT_ENABLE_BASIC
            expected = self.session(models.mlp(), options).run(None, {"x": ones(2, 16)})[0]
            found = self.session(options.optimized_model_filepath).run(None, {"x": ones(2, 16)})[0]
            numpy.testing.assert_allclose(found, expected, rtol=1e-5)
            options.optimized_model_filepath = os.path.join(folder, "optimized.model")
            self.session(models.mlp(), options)
            self.assertTrue(onnx.load(options.optimized_model_filepath).graph.node)
            self.assertEqual(sorted(os.listdir(folder)), ["optimized.model", "out.onnx"])

    def test_profiling(self):
        with tempfile.TemporaryDirectory() as folder:
            options = self.ort.SessionOptions()
            options.enable_profiling = True
            options.profile_file_prefix = os.path.join(folder, "profile")
            session = self.session(options=options)
            session.run(None, {"x": ones(1, 2), "y": ones(1, 2)})
            self.assertGreater(session.get_profiling_start_time_ns(), 0)
            path = session.end_profiling()
            self.assertTrue(os.path.basename(path).startswith("profile"), path)
            with open(path, encoding="utf-8") as file:
                events = json.load(file)
            self.assertIn("Node", {event["cat"] for event in events})
            self.assertIn("model_run", {event["name"] for event in events})

    def test_ort_values(self):
        x = numpy.arange(4, dtype=numpy.float32)
        value = self.ort.OrtValue.ortvalue_from_numpy(x)
        self.assertEqual((value.shape(), value.data_type(), value.device_name()), ([4], "tensor(float)", "cpu"))
        self.assertTrue(value.is_tensor() and value.has_value() and not value.is_sparse_tensor())
        self.assertEqual((value.element_type(), value.tensor_size_in_bytes()), (onnx.TensorProto.FLOAT, 16))
        self.assertEqual(value.data_ptr(), x.ctypes.data)
        view = value.numpy()
        value.update_inplace(ones(4))
        self.assertEqual((view.tolist(), x.tolist()), ([1, 1, 1, 1], [1, 1, 1, 1]))
        made = self.ort.OrtValue.ortvalue_from_shape_and_type([2, 3], numpy.int64, "cpu", 0)
        self.assertEqual((made.shape(), made.data_type()), ([2, 3], "tensor(int64)"))
        self.assertEqual(numpy.from_dlpack(value).tolist(), [1, 1, 1, 1])
        session = self.session(models.two_outputs())
        feed = {"x": self.ort.OrtValue.ortvalue_from_numpy(ones(1, 3))}
        results = session.run_with_ort_values(["negated"], feed)
        self.assertEqual(results[0].numpy().tolist(), [[-1, -1, -1]])
        bits = numpy.array([0x3F80, 0x4000], numpy.uint16)
        bf16 = self.ort.OrtValue.ortvalue_from_numpy_with_onnx_type(bits, onnx.TensorProto.BFLOAT16)
        self.assertEqual((bf16.data_type(), bf16.shape()), ("tensor(bfloat16)", [2]))

    def test_io_binding_of_arrays(self):
        session, binding = self.session(), self.session().io_binding()
        binding = session.io_binding()
        x = ones(3, 2)
        binding.bind_cpu_input("x", x)
        binding.bind_input("y", "cpu", 0, numpy.float32, x.shape, x.ctypes.data)
        binding.bind_output("z")
        session.run_with_iobinding(binding)
        self.assertEqual(binding.copy_outputs_to_cpu()[0].tolist(), [[2, 2]] * 3)
        out = numpy.zeros((3, 2), numpy.float32)
        binding.bind_output("z", "cpu", 0, numpy.float32, out.shape, out.ctypes.data)
        x[:] = 4
        session.run_with_iobinding(binding, self.ort.RunOptions())
        self.assertEqual(out.tolist(), [[8, 8]] * 3)
        (value,) = binding.get_outputs()
        self.assertEqual((value.data_ptr(), value.shape()), (out.ctypes.data, [3, 2]))
        binding.clear_binding_inputs()
        binding.clear_binding_outputs()
        self.assertEqual(len(binding.get_outputs()), 0)

    def test_io_binding_of_ort_values(self):
        session = self.session()
        binding = session.io_binding()
        value = self.ort.OrtValue.ortvalue_from_numpy(ones(3, 2))
        out = self.ort.OrtValue.ortvalue_from_shape_and_type([3, 2], numpy.float32)
        binding.bind_ortvalue_input("x", value)
        binding.bind_ortvalue_input("y", value)
        binding.bind_ortvalue_output("z", out)
        binding.synchronize_inputs()
        session.run_with_iobinding(binding)
        binding.synchronize_outputs()
        self.assertEqual(out.numpy().tolist(), [[2, 2]] * 3)
        value.update_inplace(ones(3, 2) * 3)
        session.run_with_iobinding(binding)
        self.assertEqual(out.numpy().tolist(), [[6, 6]] * 3)

    def test_asynchronous_run(self):
        done, got = threading.Event(), []

        def callback(results, data, error):
            got.append((results[0].tolist(), data, error))
            done.set()

        self.session().run_async(None, {"x": ones(1, 2), "y": ones(1, 2)}, callback, "data")
        self.assertTrue(done.wait(20))
        self.assertEqual(got, [([[2, 2]], "data", "")])

    def test_terminate(self):
        options = self.ort.RunOptions()
        options.terminate = True
        with self.assertRaises(self.state.Fail):
            self.session().run(None, {"x": ones(1, 2), "y": ones(1, 2)}, options)
        options.terminate = False
        self.session().run(None, {"x": ones(1, 2), "y": ones(1, 2)}, options)

    def test_threads(self):
        session, wrong = self.session(models.mlp()), []
        expected = session.run(None, {"x": ones(4, 16)})[0]

        def work():
            for _ in range(50):
                if not numpy.array_equal(session.run(None, {"x": ones(4, 16)})[0], expected):
                    wrong.append(1)

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])

    def test_missing_providers_are_warned_of(self):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            wanted = ["CUDAExecutionProvider", "CPUExecutionProvider"]
            session = self.ort.InferenceSession(models.add(), providers=wanted)
        self.assertIn("CUDAExecutionProvider", str(caught[0].message))
        self.assertEqual(session.get_providers(), ["CPUExecutionProvider"])


class RandomNumbers:
    """Cases for both: what random operators draw from run to run."""

    FEED = {"x": numpy.ones(64, numpy.float32), "p": numpy.zeros((1, 4), numpy.float32)}

    def draw(self, session):
        return tuple(each.tobytes() for each in session.run(None, self.FEED))

    def test_random_operators_draw_anew(self):
        session = self.ort.InferenceSession(models.random_numbers(), providers=["CPUExecutionProvider"])
        for drawn in zip(*[self.draw(session) for _ in range(5)]):
            self.assertEqual(len(set(drawn)), 5)

    def test_a_seed_makes_the_sequence_repeatable(self):
        sequences = []
        for seed in (11, 11, 12):
            self.ort.set_seed(seed)
            session = self.ort.InferenceSession(models.random_numbers(), providers=["CPUExecutionProvider"])
            sequences.append([self.draw(session) for _ in range(3)])
        self.assertEqual(sequences[0], sequences[1])
        self.assertNotEqual(sequences[0][0], sequences[2][0])
        self.assertEqual(len(set(sequences[0])), 3)

    def test_the_seed_of_a_node_makes_its_sequence_repeatable(self):
        sessions = [self.ort.InferenceSession(models.random_numbers(seed=3), providers=["CPUExecutionProvider"])
                    for _ in range(2)]
        first, second = [[self.draw(each)[0] for _ in range(3)] for each in sessions]
        self.assertEqual(first, second)
        self.assertEqual(len(set(first)), 3)


class RandomNumbersOfOnnxruntime(RandomNumbers, unittest.TestCase):
    ort = onnxruntime


class RandomNumbersOfTessera(RandomNumbers, unittest.TestCase):
    ort = tessera.ort

    def test_a_seed_is_for_sessions_that_exist_too(self):
        session = self.ort.InferenceSession(models.random_numbers())
        self.ort.set_seed(5)
        first = [self.draw(session), self.draw(session)]
        self.ort.set_seed(5)
        self.assertEqual([self.draw(session), self.draw(session)], first)


class OfOnnxruntime(Shared, unittest.TestCase):
    ort, state = onnxruntime, onnxruntime_state


class OfTessera(Shared, unittest.TestCase):
    ort, state = tessera.ort, tessera_state

    def test_errors_are_tesseras_too(self):
        self.assertTrue(issubclass(self.state.InvalidArgument, tessera.InvalidArgument))
        self.assertTrue(issubclass(self.state.Fail, RuntimeError))

    def test_what_is_ignored_is_named_once(self):
        options = self.ort.SessionOptions()
        options.inter_op_num_threads = 3
        options.enable_mem_pattern = False
        options.add_session_config_entry("session.unheard_of", "1")
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for _ in range(3):
                self.session(options=options)
        self.assertEqual(len(caught), 1)
        for name in ("inter_op_num_threads", "enable_mem_pattern", "session.unheard_of"):
            self.assertIn(name, str(caught[0].message))

    def test_bindings_are_checked_at_once(self):
        binding = self.session().io_binding()
        value = self.ort.OrtValue.ortvalue_from_numpy(ones(3, 2))
        for bind in (lambda: binding.bind_ortvalue_input("no such input", value),
                     lambda: binding.bind_cpu_input("no such input", ones(3, 2)),
                     lambda: binding.bind_output("no such output"),
                     lambda: binding.bind_ortvalue_output("no such output", value)):
            with self.assertRaisesRegex(self.state.InvalidArgument, "no such"):
                bind()

    def test_what_is_refused(self):
        with self.assertRaises(tessera.Unsupported):
            self.ort.SessionOptions().register_custom_ops_library("custom.so")
        with self.assertRaises(RuntimeError):
            self.ort.OrtValue.ortvalue_from_numpy(ones(1), "cuda")

    def test_messages_below_the_severity_are_dropped(self):
        wrong = models.model_bytes([models.helper.make_node("Relu", ["x"], ["y"])],
                                   [models.info("x", models.FLOAT, [2])], [models.info("y", models.FLOAT, [3])])
        options = self.ort.SessionOptions()
        with self.assertLogs("tessera", "WARNING") as caught:
            self.session(wrong, options)
        self.assertEqual(len(caught.output), 1)
        options.log_severity_level = 3
        with self.assertNoLogs("tessera", "WARNING"):
            self.session(wrong, options).run(None, {"x": ones(2)})


class Alias(unittest.TestCase):
    """Programs that know nothing of Tessera: `python -m tessera.ort PROGRAM`."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.write("model.onnx", models.add())
        self.write("mlp.onnx", models.mlp())

    def write(self, name, data):
        with open(os.path.join(self.folder, name), "wb") as file:
            file.write(data)

    def run_program(self, text, *arguments):
        """The lines that the program prints."""
        self.write("program.py", text.encode())
        done = subprocess.run([sys.executable, "-B", "-m", "tessera.ort", "program.py", *arguments], cwd=self.folder,
                              capture_output=True, text=True, timeout=150)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.splitlines()

    def test_a_program_runs_with_tessera_in_its_place(self):
        lines = self.run_program(
            "import sys, numpy, onnxruntime as ort\n"
            "from onnxruntime.capi.onnxruntime_pybind11_state import InvalidArgument\n"
            "session = ort.InferenceSession('model.onnx', providers=['CPUExecutionProvider'])\n"
            "print(session.run(None, {'x': numpy.ones((1, 2), 'f4'), 'y': numpy.ones((1, 2), 'f4')})[0])\n"
            "try: session.run(None, {'x': numpy.ones(1), 'y': numpy.ones(1)})\n"
            "except InvalidArgument as error: print(ort.InferenceSession.__module__, __name__)\n")
        self.assertEqual(lines, ["[[2. 2.]]", "tessera.ort._session __main__"])

    def test_workers_of_every_start_method_have_it_too(self):
        program = (
            "import sys, multiprocessing, concurrent.futures, numpy, onnxruntime\n"
            "def work(i):\n"
            "    session = onnxruntime.InferenceSession('mlp.onnx', providers=['CPUExecutionProvider'])\n"
            "    return onnxruntime.__name__, session.run(None, {'x': numpy.full((1, 16), i, 'f4')})[0].shape\n"
            "if __name__ == '__main__':\n"
            "    context = multiprocessing.get_context(sys.argv[1])\n"
            "    with context.Pool(2) as pool: print(pool.map(work, range(2)))\n"
            "    with concurrent.futures.ProcessPoolExecutor(1, context) as pool: print(list(pool.map(work, [0])))\n")
        for method in ("fork", "spawn", "forkserver"):
            with self.subTest(method):
                one = "('tessera.ort', (1, 4))"
                self.assertEqual(self.run_program(program, method), [f"[{one}, {one}]", f"[{one}]"])

    def test_modules_of_onnxruntimes_own_run_over_tessera(self):
        lines = self.run_program(
            "import importlib, importlib.metadata, importlib.util, onnxruntime\n"
            "for name in ('quantization', 'transformers', 'tools', 'backend', 'datasets',\n"
            "             'capi.onnxruntime_validation',\n"
            "             'tools.symbolic_shape_infer' if importlib.util.find_spec('sympy') else 'tools'):\n"
            "    importlib.import_module('onnxruntime.' + name)\n"
            "print(importlib.metadata.version('onnxruntime') == onnxruntime.__version__, onnxruntime.__name__)\n"
            "print(importlib.util.find_spec('onnxruntime.no_such_module'))\n"
            "import onnxruntime.backend, numpy\n"
            "prepared = onnxruntime.backend.prepare('model.onnx', 'CPU')\n"
            "print(prepared.run([numpy.ones((1, 2), 'f4')] * 2)[0].tolist())\n")
        self.assertEqual(lines, ["True tessera.ort", "None", "[[2.0, 2.0]]"])

    def test_quantization_static_and_dynamic(self):
        program = (
            "import numpy, onnx, onnxruntime\n"
            "from onnxruntime.quantization import (CalibrationDataReader, CalibrationMethod, QuantFormat, QuantType,\n"
            "                                      quant_pre_process, quantize_dynamic, quantize_static)\n"
            "random = numpy.random.default_rng(0)\n"
            "x = random.standard_normal((64, 16)).astype('f4')\n"
            "class Reader(CalibrationDataReader):\n"
            "    def __init__(self): self.samples = iter([{'x': x[i : i + 4]} for i in range(0, 64, 4)])\n"
            "    def get_next(self): return next(self.samples, None)\n"
            "def run(path):\n"
            "    return onnxruntime.InferenceSession(path, providers=['CPUExecutionProvider']).run(None, {'x': x})[0]\n"
            "exact = run('mlp.onnx')\n"
            "def report(path):\n"
            "    operators = {node.op_type for node in onnx.load(path).graph.node}\n"
            "    print(abs(run(path) - exact).max() < 0.05 * abs(exact).max(), *sorted(operators & {\n"
            "          'MatMulInteger', 'QLinearMatMul', 'QuantizeLinear', 'DequantizeLinear'}))\n"
            "quantize_dynamic('mlp.onnx', 'dynamic.onnx', weight_type=QuantType.QInt8)\n"
            "report('dynamic.onnx')\n"
            "quant_pre_process('mlp.onnx', 'prepared.onnx', skip_symbolic_shape=True)\n"
            "for method in CalibrationMethod.MinMax, CalibrationMethod.Entropy, CalibrationMethod.Percentile:\n"
            "    quantize_static('prepared.onnx', 'qdq.onnx', Reader(), calibrate_method=method)\n"
            "    report('qdq.onnx')\n"
            "quantize_static('mlp.onnx', 'operators.onnx', Reader(), quant_format=QuantFormat.QOperator,\n"
            "                per_channel=True)\n"
            "report('operators.onnx')\n")
        lines = [line for line in self.run_program(program) if line.startswith(("True", "False"))]
        qdq = "True DequantizeLinear QuantizeLinear"
        self.assertEqual(lines, ["True MatMulInteger", qdq, qdq, qdq,
                                 "True DequantizeLinear QLinearMatMul QuantizeLinear"])


if __name__ == "__main__":
    unittest.main()
