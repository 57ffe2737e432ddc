"""The command line: `python -m tessera …` runs the program `tessera` of this installation."""

from __future__ import annotations

import os
import signal
import sys

FOLDER = os.path.dirname(os.path.abspath(__file__))

# The server is part of the extension module; as a program of its own it would be in a wheel twice.
SERVE = """
import sys
sys.path.insert(0, sys.argv.pop(1))
from tessera import _core
sys.exit(_core.serve_command(["tessera serve", *sys.argv[1:]]))
"""


def serve(arguments: list[str]) -> None:
    """Replaces this process by one that serves."""
    # The server waits for these signals in one thread. The mask survives exec, so threads that imported modules start
    # block them too.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT, signal.SIGHUP})
    os.execv(sys.executable, [sys.executable, "-P", "-c", SERVE, os.path.dirname(FOLDER), *arguments])


def main() -> int:
    program = os.path.join(FOLDER, "_bin", "tessera")
    arguments = sys.argv[1:]
    verb = next((i for i, argument in enumerate(arguments) if not argument.startswith("-")), len(arguments))
    if arguments[verb : verb + 1] == ["serve"] and not os.path.exists(f"{program}-serve"):
        serve(arguments[:verb] + arguments[verb + 1 :])
    if not os.access(program, os.X_OK):
        print(f"tessera: this installation lacks the command line ({program})", file=sys.stderr)
        return 70
    os.execv(program, [program, *arguments])


if __name__ == "__main__":
    sys.exit(main())
