#!/usr/bin/env python3
"""Encrypts seeds/package into seeds/protected, for the target `protected`: make_protected_seeds.py

Needs libsodium. The file key is zeros, as tests/fuzz/protected.cpp expects; checksums and the authentication code are
left zero, because the first byte of each seed, 1, has the target make them right. docs/protect.md has the format.
"""
import ctypes
import ctypes.util
import hashlib
import pathlib
import struct

SEEDS = pathlib.Path(__file__).resolve().parent / "seeds"
CHUNK, TAG, HEADER, ENTRY = 65536, 16, 64, 96
FILE_KEY, FILE_ID, KEY_ID = bytes(32), bytes(range(32)), bytes(range(16))

sodium = ctypes.CDLL(ctypes.util.find_library("sodium"))


def text(characters):
    return struct.pack("<I", len(characters)) + characters


def encrypted(name, kind, codec, raw_bytes, plain):
    """The chunks of a section, each with its tag."""
    key = hashlib.blake2b(text(b"tessera section") + FILE_ID + struct.pack("<I", kind), key=FILE_KEY,
                          digest_size=32).digest()
    stored = b""
    for index in range((len(plain) + CHUNK - 1) // CHUNK):
        chunk = plain[index * CHUNK:(index + 1) * CHUNK]
        associated = FILE_ID + name + struct.pack("<IIQQQ", kind, codec, len(plain), raw_bytes, index)
        out = ctypes.create_string_buffer(len(chunk) + TAG)
        sodium.crypto_aead_xchacha20poly1305_ietf_encrypt(out, None, chunk, ctypes.c_ulonglong(len(chunk)), associated,
                                                          ctypes.c_ulonglong(len(associated)), None,
                                                          struct.pack("<Q16x", index), key)
        stored += out.raw
    return stored


def protected(package):
    """The package with its sections encrypted, and the section that says how."""
    count = struct.unpack_from("<I", package, 12)[0]
    end = HEADER + (count + 1) * ENTRY
    table, body, described = b"", bytes(-end % 64), b""
    for number in range(count):
        entry = package[HEADER + number * ENTRY:HEADER + (number + 1) * ENTRY]
        name, (kind, codec, offset, stored, raw) = entry[:32], struct.unpack_from("<IIQQQ", entry, 32)
        sealed = encrypted(name, kind, codec, raw, package[offset:offset + stored])
        table += name + struct.pack("<IIQQQQ24x", kind, 2, end + len(body), len(sealed), len(sealed), 0)
        described += struct.pack("<IIQQ", kind, codec, stored, raw) + hashlib.blake2b(sealed, digest_size=32).digest()
        body += sealed + bytes(-(end + len(body) + len(sealed)) % 64)
    slots = b"".join(struct.pack("<II", kind, size) + bytes(size) for kind, size in ((1, 88), (2, 128)))
    last = (struct.pack("<II", 1, CHUNK) + FILE_ID + KEY_ID + struct.pack("<I", 2) + slots + struct.pack("<I", count) +
            described + struct.pack("<I", 1) + bytes(96) + bytes(32))
    table += b"protection".ljust(32, b"\0") + struct.pack("<IIQQQQ24x", 8, 0, end + len(body), len(last), len(last), 0)
    size = end + len(body) + len(last)
    return package[:8] + struct.pack("<IIQ", 3, count + 1, size) + bytes(40) + table + body + last


def main():
    (SEEDS / "protected").mkdir(exist_ok=True)
    for seed in sorted((SEEDS / "package").iterdir()):
        (SEEDS / "protected" / seed.name).write_bytes(b"\1" + protected(seed.read_bytes()[1:]))


if __name__ == "__main__":
    main()
