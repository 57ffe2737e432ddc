"""The command line: `python -m tessera …` runs the program `tessera` of this installation."""

from __future__ import annotations

import os
import sys


def main() -> int:
    program = os.path.join(os.path.dirname(os.path.abspath(__file__)), "_bin", "tessera")
    if not os.access(program, os.X_OK):
        print(f"tessera: this installation lacks the command line ({program})", file=sys.stderr)
        return 70
    os.execv(program, [program, *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
