"""The programs that a measurement of the server runs: options that name them, and what must be so before they start."""
import os
import pathlib
import signal
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from built import RELEASE, ensure_built  # noqa: E402


def add_program_options(parser):
    parser.add_argument("--program", default=str(RELEASE / "apps/tessera/tessera"))
    parser.add_argument("--load", default=str(RELEASE / "bench/bench_serve_load"))
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE")


def prepare(options, *others):
    """Builds what is missing in build/release, of these options and other programs. SIGTERM ends Python by an exception
    from here on, so that servers and shared memory go with it."""
    options.program = os.path.abspath(options.program)
    ensure_built(options.program, options.load, *others)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
