"""Programs of build/release that a benchmark runs: built when they are missing."""
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
RELEASE = ROOT / "build/release"


def ensure_built(*programs):
    """Builds those of these paths that lie in build/release and do not exist; what the build says goes to standard
    error. A missing path elsewhere ends the program."""
    missing = [path for path in map(pathlib.Path, programs) if not path.exists()]
    for path in missing:
        if RELEASE not in path.absolute().parents:
            sys.exit(f"error: there is no {path}")
    if missing:
        done = subprocess.run([ROOT / "scripts/build.sh", "release", *[path.name for path in missing]],
                              stdout=sys.stderr, check=False)
        if done.returncode != 0:
            sys.exit(f"error: {', '.join(path.name for path in missing)} could not be built")
