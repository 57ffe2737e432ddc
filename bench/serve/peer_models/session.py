"""A model in onnxruntime, as both peers of bench/serve/peers.py run it."""
import os

import numpy
import onnxruntime


class Session:
    def __init__(self, path):
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = int(os.environ["PEERS_THREADS"])
        self.session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        self.input = self.session.get_inputs()[0].name
        self.outputs = [output.name for output in self.session.get_outputs()]

    def run(self, arrays):
        """Computes the requests of a batch at once: one list of outputs for each array of rows."""
        rows = arrays[0] if len(arrays) == 1 else numpy.concatenate(arrays)
        results, begin, answers = self.session.run(self.outputs, {self.input: rows}), 0, []
        for array in arrays:
            answers.append([result[begin:begin + len(array)] for result in results])
            begin += len(array)
        return answers
