"""A model of Triton's Python backend: onnxruntime inside. bench/serve/peers.py copies it to NAME/1/model.py."""
import os
import sys

sys.path[:0] = os.environ["PEERS_PATH"].split(":")  # the backend runs the system's Python, not that of the environment

import triton_python_backend_utils as backend  # noqa: E402  pylint: disable=wrong-import-position,import-error
from session import Session  # noqa: E402  pylint: disable=wrong-import-position


class TritonPythonModel:
    def initialize(self, arguments):
        folder = os.path.join(arguments["model_repository"], arguments["model_version"])
        self.session = Session(os.path.join(folder, "model.onnx"))

    def execute(self, requests):
        arrays = [backend.get_input_tensor_by_name(request, self.session.input).as_numpy() for request in requests]
        return [backend.InferenceResponse([backend.Tensor(*pair) for pair in zip(self.session.outputs, results)])
                for results in self.session.run(arrays)]
