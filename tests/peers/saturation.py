"""Which x86 machines the peers multiply bytes exactly on."""

import functools
import pathlib
import platform


@functools.cache
def peers_saturate():
    """Whether ONNX Runtime's and OpenVINO's products of unsigned by signed bytes saturate in pairs: on x86 without
    VNNI. Both advise weights of 7 bits there."""
    flags = pathlib.Path("/proc/cpuinfo").read_text().split()
    return platform.machine() == "x86_64" and not {"avx512_vnni", "avx_vnni"} & set(flags)
