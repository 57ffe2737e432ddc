"""Pictures of two classes that are easy to tell apart, as an .npz file. Standard library only."""
import array
import random
import zipfile


def npy(descr, shape, data):
    header = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {tuple(shape)}, }}"
    header += " " * (63 - (10 + len(header)) % 64) + "\n"
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode() + data


def write_npz(path, x, y, names=("x", "y"), shape=None):
    """Pictures of 28 × 28 (rows of floats), or what the file calls this shape, and their classes."""
    with zipfile.ZipFile(path, "w") as archive:
        pixels = array.array("f", [pixel for row in x for pixel in row]).tobytes()
        archive.writestr(f"{names[0]}.npy", npy("<f4", shape or (len(y), 1, 28, 28), pixels))
        archive.writestr(f"{names[1]}.npy", npy("<i8", (len(y), ), array.array("q", y).tobytes()))


def pictures(samples):
    """Two classes that differ in where they are bright."""
    numbers = random.Random(3)
    y = [i % 2 for i in range(samples)]
    return [[numbers.random() + (1 if (k < 392) == (label == 0) else 0) for k in range(784)] for label in y], y
