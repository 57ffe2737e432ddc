"""Runs models in onnxruntime for common.Reference: requests and answers are pickles with their length before them."""

import pickle
import struct
import sys

import onnxruntime

requests, answers = sys.stdin.buffer, sys.stdout.buffer
while len(head := requests.read(8)) == 8:
    model, feeds = pickle.loads(requests.read(struct.unpack("<Q", head)[0]))
    try:
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        options.intra_op_num_threads = 2
        session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        names = [output.name for output in session.get_outputs()]
        answer = (True, [dict(zip(names, session.run(None, feed))) for feed in feeds])
    except Exception as error:
        answer = (False, str(error)[:1000])
    data = pickle.dumps(answer)
    answers.write(struct.pack("<Q", len(data)) + data)
    answers.flush()
