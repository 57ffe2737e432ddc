#!/usr/bin/env python3
"""Where requests begin and end, as the server and h11 (https://h11.readthedocs.io) read the same bytes: neither takes
as two requests what the other takes as one, or a proxy that reads as h11 does would let requests through unseen.

    framing_differential_test.py TESSERA [--requests 10000] [--seed 1]
"""
import argparse
import pathlib
import random
import re
import socket
import sys
import tempfile

import h11
import server

PARSING = {400, 408, 413, 431, 501, 505}  # the statuses with which the server refuses bytes that are no request
METHODS = ["GET", "POST", "HEAD", "PUT", "get", "G\tET", "GET "]
VERSIONS = ["HTTP/1.1"] * 8 + ["HTTP/1.0", "HTTP/1.2", "HTTP/2.0", "http/1.1", "HTTP/1.1 ", "HTTP/01.1"]
TARGETS = ["/v2/health/live"] * 6 + ["/", "*", "http://x/v2", "/v2 ", "/v2/health/live?a=b", "/%00", "//"]
CODINGS = ["chunked"] * 6 + ["Chunked", " chunked ", "xchunked", "identity", "gzip, chunked", "chunked, chunked", "",
           "chunked;q=1", "\tchunked", "chunked\t", '"chunked"', "chunked,", ",chunked", "chunked\x0b", "cow"]
SIZES = ["{:x}", "{:X}", "0{:x}", "0x{:x}", "{:x};a=b", "{:x} ; a", "{:x};a=\"b\"", " {:x}", "{:x} ", "-{:x}", "+{:x}",
         "{:x}\t", "0000000000000000000{:x}"]
LENGTHS = ["{}"] * 6 + ["0{}", "+{}", "-{}", " {} ", "{}, {}", "{},", "0x{:x}", "{}.0", "{}\t", "1{}", "{} {}",
           "184467440737095516160{}"]
NAMES = ["Content-Length", "content-length", "Content-Length ", " Content-Length", "Content\tLength", "Content_Length",
         "Content-Length\0", "Transfer-Encoding", "transfer-encoding", "Transfer-Encoding ", "Transfer_Encoding", "X-Y",
         "X\x7f", "Trailer", "Expect", "Upgrade", "TE"]
ENDS = ["\r\n"] * 20 + ["\n", "\r", "\r\r\n", "\n\r", "\r\n ", "\r\n\t", "\0\r\n"]


class Maker:
    """Bytes of one to three requests, of which most have something odd."""

    def __init__(self, seed):
        self.random = random.Random(seed)

    def pick(self, choices, usual=0.8):
        return choices[0] if self.random.random() < usual else self.random.choice(choices)

    def chunks(self, body):
        text = ""
        while body:
            size = self.random.randint(1, len(body))
            part, body = body[:size], body[size:]
            text += self.pick(SIZES).format(size) + self.pick(ENDS, 0.97) + part + self.pick(ENDS, 0.97)
        trailers = range(self.random.choice([0, 0, 0, 1, 2]))
        trailer = "".join(self.pick(NAMES, 0) + ": 5" + self.pick(ENDS, 0.95) for _ in trailers)
        last = self.pick(["0", "00", "0;a", "0 ", "-0", ""], 0.9)
        return text + last + self.pick(ENDS, 0.97) + trailer + self.pick(ENDS, 0.97)

    def request(self):
        pick = self.pick
        lines = [f"{pick(METHODS, 0.6)} {pick(TARGETS)} {pick(VERSIONS)}"]
        lines += ["Host: x"] * self.random.choice([1] * 12 + [0, 2])
        body = self.random.choice(["", "hello", "GET /v2 HTTP/1.1\r\nHost: x\r\n\r\n", "0\r\n\r\n", "a" * 40])
        kind = self.random.choice(["none", "length", "length", "chunked", "chunked", "both", "odd"])
        content = body if kind != "none" else ""
        if kind in ("length", "both"):
            lines.append("Content-Length: " + pick(LENGTHS).format(len(body), len(body)))
        if kind in ("chunked", "both"):
            lines.append("Transfer-Encoding: " + pick(CODINGS, 0.7))
            content = self.chunks(body)
        if kind == "odd":
            value = self.random.choice([str(len(body)), "chunked", "100-continue", "close"])
            lines.append(f"{pick(NAMES, 0)}: {value}")
        if self.random.random() < 0.1:
            lines.append("Connection: " + self.random.choice(["close", "keep-alive", "Close", "x, close", "upgrade"]))
        fields = lines[1:]
        self.random.shuffle(fields)
        lines[1:] = fields
        return "".join(line + pick(ENDS, 0.98) for line in lines) + pick(ENDS, 0.98) + content

    def stream(self):
        data = "".join(self.request() for _ in range(self.random.randint(1, 3))).encode("latin-1")
        for _ in range(self.random.choice([0, 0, 0, 1, 2])):
            at = self.random.randrange(len(data) + 1)
            kind = self.random.randrange(3)
            if kind == 0:
                data = data[:at] + bytes([self.random.choice(b"\r\n\t \0:;,0\x80\xff")]) + data[at:]
            elif kind == 1:
                data = data[:at] + data[at + 1:]
            else:
                end = min(len(data), at + self.random.randint(1, 20))
                data = data[:end] + data[at:]
        return data


def by_h11(data):
    """How many whole requests h11 takes from the bytes, and whether it then refuses what follows."""
    connection = h11.Connection(h11.SERVER)
    connection.receive_data(data)
    count = 0
    try:
        while True:
            event = connection.next_event()
            if event is h11.NEED_DATA or event is h11.PAUSED or isinstance(event, h11.ConnectionClosed):
                return count, False
            if isinstance(event, h11.EndOfMessage):
                count += 1
                if connection.their_http_version == b"1.0":
                    return count, True  # h11 has no persistent connections of HTTP/1.0
                if connection.our_state is h11.SEND_RESPONSE:
                    connection.send(h11.Response(status_code=200, headers=[("content-length", "0")]))
                    connection.send(h11.EndOfMessage())
                if connection.our_state is not h11.DONE or connection.their_state is not h11.DONE:
                    return count, False
                connection.start_next_cycle()
    except h11.RemoteProtocolError:
        return count, True


def by_server(port, data):
    """The same for the server, by its answers."""
    with socket.create_connection(("127.0.0.1", port), timeout=20 * server.PATIENCE) as connection:
        found = b""
        try:
            connection.sendall(data)
            connection.shutdown(socket.SHUT_WR)
        except OSError:
            pass
        try:
            while part := connection.recv(65536):
                found += part
        except ConnectionResetError:
            pass
    answers = re.findall(rb"HTTP/1\.1 (\d+) [^\r]*\r\n(.*?)\r\n\r\n", found, re.DOTALL)
    answers = [(int(status), header) for status, header in answers if status != b"100"]
    refused = bool(answers) and answers[-1][0] in PARSING and b"Connection: close" in answers[-1][1]
    return len(answers) - refused, refused


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--requests", type=int, default=10000)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    server.program = arguments.program
    maker, both, wrong = Maker(arguments.seed), 0, 0
    with tempfile.TemporaryDirectory() as folder:
        with server.Server(server.make_repository(pathlib.Path(folder) / "models")) as running:
            for _ in range(arguments.requests):
                data = maker.stream()
                (theirs, they_refuse), (ours, we_refuse) = by_h11(data), by_server(running.port, data)
                if theirs > ours and not we_refuse:
                    # It may wait for the end of something that h11 takes to be over: what comes next decides.
                    ours, we_refuse = by_server(running.port, data + b"zz\r\n\r\n")
                both += theirs == ours and theirs > 0
                if (ours > theirs and not they_refuse) or (theirs > ours and not we_refuse):
                    wrong += 1
                    print(f"h11 takes {theirs} requests{' and refuses the rest' * they_refuse}, "
                          f"the server {ours}{' and refuses the rest' * we_refuse}:\n  {data!r}", flush=True)
                    if wrong >= 20:
                        break
    print(f"{arguments.requests} streams (seed {arguments.seed}), {both} with requests that both take, {wrong} differ")
    # A test in which hardly anything is taken shows nothing.
    sys.exit(wrong > 0 or both < arguments.requests // 20)


if __name__ == "__main__":
    main()
