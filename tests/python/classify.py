"""Ten lines that classify a file by Magika's model: classify.py MODEL CONFIG FILE"""
import json
import sys

import numpy
import tessera

model, config = tessera.load(sys.argv[1]), json.load(open(sys.argv[2], encoding="utf-8"))
content, pad = open(sys.argv[3], "rb").read().strip(), config["padding_token"]
begin, end = list(content[:config["beg_size"]]), list(content[-config["end_size"]:])
begin += [pad] * (config["beg_size"] - len(begin))
end = [pad] * (config["end_size"] - len(end)) + end
scores = model.run(numpy.array([begin + end], numpy.int32))[0]
print(config["target_labels_space"][scores.argmax()], round(float(scores.max()), 3), tessera.build_info()["python_abi"])
