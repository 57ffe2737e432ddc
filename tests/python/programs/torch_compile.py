"""torch.compile and from_torch on small modules: equal results, shapes that change, and graphs that run in PyTorch."""
import logging
import sys
import unittest
import unittest.mock

import tessera
import torch

BACKEND = "tessera" if "tessera" in torch._dynamo.list_backends() else tessera._torch.compile_backend


class TorchTest(unittest.TestCase):
    def setUp(self):
        torch._dynamo.reset()
        torch.manual_seed(0)
        self.net = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.BatchNorm2d(8), torch.nn.ReLU(),
                                       torch.nn.AdaptiveAvgPool2d(2), torch.nn.Flatten(), torch.nn.Linear(32, 10))
        self.net.eval()
        self.x = torch.randn(2, 3, 16, 16)

    def close(self, a, b):
        self.assertLess((torch.as_tensor(a) - b).abs().max(), 1e-5)

    def test_from_torch(self):
        session = tessera.from_torch(self.net, self.x)
        with torch.no_grad():
            self.close(session.run(self.x), self.net(self.x))
        self.assertFalse(self.net.training)

    def test_compile_with_shapes_that_change(self):
        compiled = torch.compile(self.net, backend=BACKEND)
        with torch.no_grad(), self.assertNoLogs("tessera", logging.WARNING):
            for size in ((2, 3, 16, 16), (4, 3, 16, 16), (3, 3, 20, 24), (2, 3, 16, 16)):
                x = torch.randn(size)
                self.close(compiled(x), self.net(x))

    def test_weights_are_constants_that_may_change(self):
        compiled = torch.compile(self.net, backend=BACKEND)
        with torch.no_grad(), self.assertNoLogs("tessera", logging.WARNING):
            self.close(compiled(self.x), self.net(self.x))
            self.net[0].weight.mul_(2)
            self.net[5].bias.copy_(torch.randn(10))
            self.close(compiled(self.x), self.net(self.x))
            self.net[1].running_mean = torch.randn(8)
            self.close(compiled(self.x), self.net(self.x))

    def test_options_are_those_of_a_session(self):
        with torch.no_grad(), self.assertNoLogs("tessera", logging.WARNING):
            self.close(torch.compile(self.net, backend=BACKEND, options={"threads": 1})(self.x), self.net(self.x))
        with torch.no_grad(), self.assertLogs("tessera", logging.WARNING) as caught:
            torch._dynamo.reset()
            torch.compile(self.net, backend=BACKEND, options={"precision": "f99"})(self.x)
        self.assertIn("f99", caught.output[0])

    def test_bfloat16(self):
        net, x = torch.nn.Linear(8, 4).bfloat16().eval(), torch.randn(3, 8).bfloat16()
        with torch.no_grad(), self.assertNoLogs("tessera", logging.WARNING):
            result = torch.compile(net, backend=BACKEND)(x)
            self.assertEqual(result.dtype, torch.bfloat16)
            self.assertLess((result.float() - net(x).float()).abs().max(), 0.05)

    def test_transformers_whose_layers_are_one_operator(self):
        padding = torch.tensor([[False] * 7, [False] * 5 + [True] * 2])
        causal = torch.triu(torch.ones(7, 7, dtype=torch.bool), 1)
        x = torch.randn(2, 7, 32)
        for more in ({}, {"norm_first": True, "activation": "gelu"}):
            layer = torch.nn.TransformerEncoderLayer(32, 4, 64, batch_first=True, dropout=0.1, **more).eval()
            for masks in ({}, {"src_key_padding_mask": padding}, {"src_mask": causal},
                          {"src_mask": causal, "src_key_padding_mask": padding}):
                torch._dynamo.reset()
                with self.subTest(more=more, masks=list(masks)), torch.no_grad():
                    with self.assertNoLogs("tessera", logging.WARNING):
                        found = torch.compile(layer, backend=BACKEND)(x, **masks)
                    self.close(found, layer(x, **masks))
        attention = torch.nn.MultiheadAttention(32, 4, batch_first=True).eval()
        for needed in (True, False):
            torch._dynamo.reset()
            with torch.no_grad(), self.assertNoLogs("tessera", logging.WARNING):
                found = torch.compile(attention, backend=BACKEND)(x, x, x, need_weights=needed)
            for a, b in zip(found, attention(x, x, x, need_weights=needed)):
                self.assertTrue(a is b is None or (a - b).abs().max() < 1e-5)

    def test_one_session_for_all_sizes_that_are_open(self):
        net = torch.nn.Sequential(*self.net[:3], torch.nn.Conv2d(8, 4, 3, padding=1)).eval()
        compiled = torch.compile(net, backend=BACKEND, dynamic=True)
        with torch.no_grad(), self.assertNoLogs("tessera", logging.WARNING):
            with unittest.mock.patch.object(tessera._torch, "exported", wraps=tessera._torch.exported) as exported:
                for n in range(2, 15):  # PyTorch captures its graph anew from 16 images on
                    x = torch.randn(n, 3, 24, 30 + n)
                    self.close(compiled(x), net(x))
            self.assertEqual(exported.call_count, 1)

    def test_sizes_that_cannot_stay_open(self):
        compiled = torch.compile(self.net, backend=BACKEND, dynamic=True)  # its pooling depends on the sizes
        with torch.no_grad(), self.assertLogs("tessera", logging.WARNING) as caught:
            for n in range(2, 13):
                x = torch.randn(n, 3, 16, 16 + n)
                self.close(compiled(x), self.net(x))
        self.assertEqual(len(caught.output), 1)
        self.assertIn("further sizes", caught.output[0])

    def test_numbers_that_are_inputs_and_outputs(self):
        def cut(x, n):
            return x[:, :n] * 2, x.shape[0] * n

        compiled = torch.compile(cut, backend=BACKEND, dynamic=True)
        with torch.no_grad():
            for n in (3, 5, 4, 7):
                x = torch.randn(n + 2, 9)
                found, wanted = compiled(x, n), cut(x, n)
                self.close(found[0], wanted[0])
                self.assertEqual(found[1], wanted[1])

    def agrees(self, function, *arguments, logs=None):
        """Whatever way it is computed: values, types, shapes and signs are PyTorch's. `logs`: a part of the warning."""
        torch._dynamo.reset()
        given = [each.clone() if isinstance(each, torch.Tensor) and not each.is_neg() and not each.is_conj() else each
                 for each in arguments]
        compiled = torch.compile(function, backend=BACKEND)
        with torch.no_grad():
            wanted = function(*arguments)
            watch = self.assertLogs if logs else self.assertNoLogs
            with watch("tessera", logging.WARNING) as caught:
                found = compiled(*given)
                again = compiled(*given) if logs is None else found
            if logs:
                self.assertEqual(len(caught.output), 1)
                self.assertIn(logs, caught.output[0])
        as_list = lambda result: list(result) if isinstance(result, (tuple, list)) else [result]
        for found in (as_list(found), as_list(again)):
            self.assertEqual(len(found), len(as_list(wanted)))
            for a, b in zip(found, as_list(wanted)):
                if not isinstance(b, torch.Tensor):
                    self.assertEqual(a, b)
                    continue
                self.assertEqual((a.dtype, a.shape), (b.dtype, b.shape))
                torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-4, equal_nan=True)

    def test_complex_numbers(self):
        x, z = torch.randn(2, 32), torch.randn(2, 5, dtype=torch.complex64)
        self.agrees(lambda x: torch.fft.rfft(x), x)
        self.agrees(lambda x: torch.fft.rfft(x).abs(), x)
        self.agrees(lambda z: (z * 2).abs(), z, logs="complex")
        self.agrees(lambda z: z * z, z, logs="complex")

    def test_negated_and_conjugated_views(self):
        view = torch.tensor([1 + 2j, 3 - 4j]).conj().imag
        self.assertTrue(view.is_neg())
        self.agrees(lambda x: x * 3 + 1, view)
        self.agrees(lambda x: (x + view).relu(), torch.ones(2))
        net = torch.nn.Linear(2, 2).eval()
        net.bias = torch.nn.Parameter(torch._neg_view(torch.ones(2)), requires_grad=False)
        self.agrees(net, torch.ones(1, 2))
        session = tessera.from_torch(torch.nn.ReLU(), torch.ones(2))
        self.assertEqual(session.run(view).tolist(), view.relu().tolist())

    def test_types_layouts_and_places(self):
        for dtype in (torch.bool, torch.int8, torch.uint8, torch.int32, torch.int64, torch.float16, torch.float64):
            with self.subTest(str(dtype)):
                x = torch.tensor([[1, 0, 3], [0, 5, 6]]).to(dtype)
                self.agrees(lambda x: torch.cat([x, x], 1).flip(0), x)
        self.agrees(lambda x: x * 2, torch.tensor(3.0))
        self.agrees(lambda x: x.sum() * 2, torch.ones(3))
        self.agrees(lambda x: x + 1, torch.randn(4, 3).t())
        self.agrees(lambda x: x + 1, torch.randn(1, 3).expand(5, 3))
        self.agrees(lambda x: x + 1, torch.randn(6, 5)[1::2, 1:])
        self.agrees(lambda x: x + 1, torch.randn(0, 3))
        self.agrees(lambda x: (x + 1, None, 4, x.argmax(1)), torch.randn(2, 3))

    def test_results_that_are_views_of_arguments(self):
        def views(x):
            return x, x.t(), x[1:, 0], x * 2

        compiled, x = torch.compile(views, backend=BACKEND), torch.randn(3, 4)
        with torch.no_grad(), self.assertNoLogs("tessera", logging.WARNING):
            for _ in range(2):
                same, turned, part, twice = compiled(x)
                self.assertIs(same, x)
                turned.zero_()  # is seen in x, as in PyTorch
                self.assertEqual(x.abs().max(), 0)
                x.copy_(torch.randn(3, 4))
                self.assertTrue(torch.equal(part, x[1:, 0]))
                self.assertFalse(torch.equal(twice, x * 2))

    def test_what_changes_its_arguments(self):
        norm = torch.nn.BatchNorm1d(4).train()
        twin = torch.nn.BatchNorm1d(4).train()
        compiled = torch.compile(norm, backend=BACKEND)
        with torch.no_grad(), self.assertLogs("tessera", logging.WARNING):
            for _ in range(3):
                x = torch.randn(5, 4)
                self.close(compiled(x), twin(x))
        self.close(norm.running_mean, twin.running_mean)

    def test_autocast_and_graph_breaks(self):
        net, x = torch.nn.Linear(16, 16).eval(), torch.randn(2, 16)
        with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
            found, wanted = torch.compile(net, backend=BACKEND)(x), net(x)
        self.assertEqual(found.dtype, wanted.dtype)
        self.assertLess((found.float() - wanted.float()).abs().max(), 0.05)

        def broken(x):
            y = x * 2
            torch._dynamo.graph_break()
            return y.relu() + x

        self.agrees(broken, x)

    def test_random_numbers_follow_the_generator(self):
        net = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.Dropout(0.5)).train()
        noise = lambda x: x + torch.randn_like(x)
        for function in (net, noise):
            torch._dynamo.reset()
            compiled, x = torch.compile(function, backend=BACKEND), torch.ones(1, 64)
            with torch.no_grad(), self.assertNoLogs("tessera", logging.WARNING):
                self.assertEqual(len({tuple(compiled(x).flatten().tolist()) for _ in range(10)}), 10)
                torch.manual_seed(3)
                first = [compiled(x) for _ in range(3)]
                torch.manual_seed(3)
                for each in first:
                    self.assertTrue(torch.equal(compiled(x), each))

    def test_the_first_call_follows_the_generator_as_others_do(self):
        for dynamic in (None, True):
            torch._dynamo.reset()
            compiled = torch.compile(torch.nn.Dropout(0.5).train(), backend=BACKEND, dynamic=dynamic)
            results = []
            with torch.no_grad():
                for _ in range(3):
                    torch.manual_seed(3)
                    results.append((compiled(torch.ones(50)), torch.rand(1)))
            for drawn, after in results:
                self.assertTrue(torch.equal(drawn, results[0][0]))
                self.assertTrue(torch.equal(after, results[0][1]))

    def test_recurrent_layers_are_operators_of_their_own(self):
        for kind in (torch.nn.LSTM, torch.nn.GRU):
            for more in ({"batch_first": True}, {"num_layers": 2, "bidirectional": True}, {"bias": False}):
                torch._dynamo.reset()
                net, x = kind(8, 12, **more).eval(), torch.randn(2, 5, 8)
                with self.subTest(str(net)), torch.no_grad(), self.assertNoLogs("tessera", logging.WARNING):
                    with unittest.mock.patch.object(tessera._torch, "exported", wraps=tessera._torch.exported) as calls:
                        found, wanted = torch.compile(net, backend=BACKEND)(x), net(x)
                    self.assertEqual(calls.call_count, 1)
                    self.close(found[0], wanted[0])
                    states = (found[1], wanted[1]) if kind is torch.nn.GRU else (found[1][1], wanted[1][1])
                    self.close(*states)

    def test_what_runs_in_pytorch_says_why(self):
        class InPlace(torch.nn.Module):
            def forward(self, x):
                x.add_(1)
                return x * 2

        class Eigenvalues(torch.nn.Module):
            def forward(self, x):
                return torch.linalg.eigvals(x[0, 0])

        with torch.no_grad():
            for module, reason in ((InPlace(), "in place"), (Eigenvalues(), "eig")):
                with self.subTest(reason), self.assertLogs("tessera", logging.WARNING) as caught:
                    a, b = self.x.clone(), self.x.clone()
                    result = torch.compile(module, backend=BACKEND)(a)
                    self.assertTrue(torch.equal(result, module(b)) and torch.equal(a, b))
                    self.assertIn(reason, caught.output[0])
        with self.assertLogs("tessera", logging.WARNING) as caught:
            result = torch.compile(self.net, backend=BACKEND)(self.x.clone().requires_grad_())
        self.assertTrue(result.requires_grad and "gradients" in caught.output[0])


if __name__ == "__main__":
    print(f"backend: {BACKEND}", file=sys.stderr)
    unittest.main()
