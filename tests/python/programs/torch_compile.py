"""torch.compile and from_torch on small modules: equal results, shapes that change, and graphs that run in PyTorch."""
import logging
import sys
import unittest

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

    def test_a_transformer(self):
        layer = torch.nn.TransformerEncoderLayer(32, 4, 64, batch_first=True, dropout=0.1).eval()
        torch.backends.mha.set_fastpath_enabled(False)  # one operator for a whole layer, which ONNX does not have
        x = torch.randn(2, 7, 32)
        with torch.no_grad(), self.assertNoLogs("tessera", logging.WARNING):
            self.close(torch.compile(layer, backend=BACKEND)(x), layer(x))

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
