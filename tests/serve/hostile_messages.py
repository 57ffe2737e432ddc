"""Random requests that mean harm: mutations of what a server's clients send, over HTTP/1.1 and over gRPC's frames.
Standard library only."""
import gzip
import json
import random
import struct
import zlib

import server

MIB = 1 << 20
METHOD = "/inference.GRPCInferenceService/"
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"  # RFC 9113, 3.4
ODD_NAMES = ["", "..", "../lenet", "%2e%2e", "%00", "a%0d%0ab", "é", "lenet%20", "none", "lenet/versions/9",
             "x" * 3000, "reader", "lenet", "%ff%fe", "lenet;a=b", "LENET"]
ODD_VALUES = [None, True, -1, 0, 1, 2**31, 2**63, -2**63, 10**30, 1.5, 1e308, -1e-320, "", "a", "\0", "\ud800",
              "x" * 5000, [], {}, [[]], [None], [[[[[[1]]]]]], {"a": {"a": {}}}, [2**62, 2**62], [-1], [1] * 70, "FP32",
              "BYTES", "INT99", "1e999", [1e308] * 50, "lenet", "../../etc/passwd"]
DATATYPES = ["FP32", "BYTES", "INT8", "UINT64", "BOOL", "FP16", "BF16", "", "fp32", "INT4", "STRING"]
PARAMETERS = ["sequence_id", "sequence_start", "sequence_end", "priority", "timeout", "binary_data_output",
              "binary_data_size", "shared_memory_region", "shared_memory_byte_size", "shared_memory_offset",
              "classification", "binary_data", "headers", "triton_enable_empty_final_response", "odd"]
GETS = ["", "/health/live", "/health/ready", "/models/{}", "/models/{}/config", "/models/{}/stats", "/models/{}/ready",
        "/models/{}/versions/1", "/models/stats", "/systemsharedmemory/status", "/systemsharedmemory/region/{}/status",
        "/cudasharedmemory/status", "/trace/setting", "/logging", "/repository/models/{}/shares"]
POSTS = ["/repository/index", "/repository/models/{}/load", "/repository/models/{}/unload",
         "/systemsharedmemory/region/{}/register", "/systemsharedmemory/region/{}/unregister", "/trace/setting",
         "/logging", "/models/{}/trace/setting", "/repository/models/{}/shares", "/cudasharedmemory/region/{}/register"]


def field(number, value):
    """A field of a protobuf message: bytes, text, or a whole number."""
    def varint(n):
        n %= 1 << 64
        out = b""
        while n > 127:
            out += bytes([n & 127 | 128])
            n >>= 7
        return out + bytes([n])
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    value = value.encode("utf-8", "surrogatepass") if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(value)) + value


def frame(kind, flags, stream, payload):
    """A frame of HTTP/2 (RFC 9113, 4.1)."""
    length = struct.pack(">I", len(payload) & 0xFFFFFF)[1:]
    return length + bytes([kind, flags]) + struct.pack(">I", stream & 0x7FFFFFFF) + payload


class Maker:
    def __init__(self, seed):
        self.random = random.Random(seed)
        self.image = server.grey_png(60, 40)
        self.bombs = {}

    def some(self, chance):
        return self.random.random() < chance

    def pick(self, values):
        return self.random.choice(values)

    # --- bytes

    def damaged(self, data, most=4):
        data = bytearray(data)
        for _ in range(self.random.randint(1, most)):
            at = self.random.randrange(len(data) + 1)
            kind = self.random.randrange(5)
            if kind == 0 and data:
                data[at % len(data)] = self.random.randrange(256)
            elif kind == 1:
                del data[at:at + self.random.randint(1, 40)]
            elif kind == 2:
                data[at:at] = bytes(self.random.choices(b"\0\r\n :;,\xff\x80aZ09%{}[]\"", k=self.random.randint(1, 30)))
            elif kind == 3:
                data[at:at] = data[at:at + self.random.randint(1, 200)]
            else:
                data[at:] = data[at:at + self.random.randint(0, 300)]
        return bytes(data)

    def bomb(self, coding):
        """Some kB that are 64 MiB when they are decompressed."""
        if coding not in self.bombs:
            packer = zlib.compressobj(9, zlib.DEFLATED, 31 if coding == "gzip" else 15)
            self.bombs[coding] = b"".join(packer.compress(b" " * MIB) for _ in range(64)) + packer.flush()
        return self.bombs[coding]

    def image_file(self):
        width, height = self.pick([1, 60, 5000, 60000, 2**31 - 1, 0]), self.pick([1, 40, 4000, 60000, 2**31 - 1])
        kind = self.random.randrange(6)
        if kind == 0:
            return self.damaged(self.image)
        if kind == 1:
            return server.flat_png(width, height, rows=1)
        if kind == 2:
            table = bytes(self.random.randrange(256) for _ in range(self.random.randint(0, 900)))
            return b"GIF89a" + struct.pack("<HH", width & 0xFFFF, height & 0xFFFF) + b"\xf7\0\0" + table
        if kind == 3:
            return b"P6 %d %d 255\n" % (width, height) + b"x" * self.random.randint(0, 5000)
        if kind == 4:
            exif = b"Exif\0\0" + self.damaged(b"MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x06\0\0")
            size = struct.pack(">HH", height & 0xFFFF, width & 0xFFFF)
            return (b"\xff\xd8\xff\xe1" + struct.pack(">H", len(exif) + 2) + exif + b"\xff\xc0\0\x11\x08" + size +
                    b"\x03\x01\x22\0\x02\x11\x01\x03\x11\x01" + self.damaged(bytes(200)))
        begin = self.pick([b"II*\0", b"RIFF\xff\xff\0\0WEBPVP8X", b"BM", b"\xff\x4f\xff\x51"])
        return self.damaged(begin + bytes(400), 9)

    # --- JSON

    def odd(self, value, depth=0):
        """The value with some of its parts replaced."""
        if self.some(0.12 if depth else 0.02):
            return self.pick(ODD_VALUES)
        if isinstance(value, dict):
            changed = {key: self.odd(each, depth + 1) for key, each in value.items() if not self.some(0.04)}
            if self.some(0.2):
                changed[self.pick(PARAMETERS)] = self.pick(ODD_VALUES)
            return changed
        if isinstance(value, list) and len(value) < 50:
            times = self.random.randint(2, 40) if self.some(0.05) else 1
            return [self.odd(each, depth + 1) for each in value] * times
        return value

    def inference(self):
        shape = self.pick([[1, 1, 28, 28], [2, 1, 28, 28], [2**62, 2**62], [0, 1, 28, 28], [-1, 1, 28, 28], [784]])
        request = {"id": self.pick(["", "a", "x" * 2000]),
                   "inputs": [{"name": "input", "datatype": self.pick(DATATYPES[:1] * 6 + DATATYPES), "shape": shape,
                               "data": self.pick([[0.5] * 784, [0.5] * 784, ["a"], [[0.5] * 28] * 28])}],
                   "outputs": [{"name": "output", "parameters": {self.pick(PARAMETERS): self.pick(ODD_VALUES)}}]}
        if self.some(0.5):
            request["parameters"] = {self.pick(PARAMETERS): self.pick(ODD_VALUES) for _ in range(3)}
        if self.some(0.3):
            request["inputs"][0]["parameters"] = {self.pick(PARAMETERS): self.pick(ODD_VALUES)}
        return self.odd(request)

    def json(self, value):
        text = json.dumps(value)
        kind = self.random.randrange(20)
        if kind == 0:
            text = text.replace('"shape"', '"shape": ' + "[" * self.random.randint(1, 5000))
        elif kind == 1:
            text = text.replace("0.5", self.pick(["NaN", "1e999", "-", "0x1", "5" * 400]), 3)
        elif kind == 2:
            text = "[" * self.random.randint(1, 100000)
        return text.encode("utf-8", "replace")

    # --- HTTP

    def http(self):
        """The bytes of one connection."""
        request = self.one_http()
        if self.some(0.25):
            request = self.damaged(request)
        if self.some(0.1):
            request += self.one_http()
        if self.some(0.1):
            request = request[:self.random.randrange(len(request) + 1)]
        return request

    def one_http(self):
        model, headers = self.pick(ODD_NAMES + ["lenet", "reader", "picture"] * 8), []
        kind = self.random.randrange(10)
        if kind < 2:
            path, method, body = "/v2" + self.pick(GETS).format(model), self.pick(["GET", "HEAD", "POST", "PUT"]), b""
        elif kind < 4:
            path, method = "/v2" + self.pick(POSTS), "POST"
            # What is loaded stays loaded: the honest client needs it.
            path = path.format(self.pick(ODD_NAMES[:11]) if "load" in path else model)
            body = self.json(self.odd({"key": "/none", "offset": 0, "byte_size": 8, "parameters": {"config": "{}"},
                                       "ready": True, "log_verbose_level": 0, "1": 0.5}))
        else:
            version = self.pick(["", "", "", "/versions/1", "/versions/99", "/versions/-1"])
            path, method = f"/v2/models/{model}{version}/infer", "POST"
            body = self.image_file() if kind < 6 else self.json(self.inference())
            if kind < 6:
                headers.append(("Inference-Header-Content-Length", "0"))
            elif kind == 9:
                size = self.pick([len(body), len(body), 0, -1, 10**23, len(body) + 5])
                headers.append(("Inference-Header-Content-Length", str(size)))
                body += bytes(self.random.randint(0, 4000))
        return self.framed(method, path, headers, body)

    def framed(self, method, path, headers, body):
        kind = self.random.randrange(12)
        if kind == 0:
            coding = self.pick(["gzip", "deflate"])
            body = self.bomb(coding) if self.some(0.3) else gzip.compress(body, 1)
            headers.append(("Content-Encoding", self.pick([coding, coding, "br", "gzip, gzip", "identity"])))
            if self.some(0.3):
                body = self.damaged(body)
        headers.append(("Host", self.pick(["x"] * 8 + ["", "a b", "evil.example", "127.0.0.1"])))
        if self.some(0.1):
            name = self.pick(["Authorization", "Origin", "Accept-Encoding", "Content-Type", "Expect", "traceparent",
                              "Connection", "X" * 200, "Host"])
            headers.append((name, self.pick(["Bearer x", "null", "gzip;q=0", "text/plain", "100-continue", "close",
                                             "y" * 9000])))
        if kind in (1, 2):
            coding = self.pick(["chunked"] * 6 + ["gzip", "xchunked", "chunked, chunked"])
            headers.append(("Transfer-Encoding", coding))
            body = self.chunked(body)
        elif body or method == "POST":
            length = self.pick([len(body)] * 12 + [len(body) + 9, max(len(body) - 9, 0), -1, 10**23, "0x9"])
            headers.append(("Content-Length", str(length)))
        self.random.shuffle(headers)
        head = f"{method} {path} HTTP/1.1\r\n" + "".join(f"{name}: {value}\r\n" for name, value in headers) + "\r\n"
        return head.encode("latin-1", "replace") + body

    def chunked(self, body):
        out = b""
        while body:
            size = self.random.randint(1, len(body))
            extension = self.pick([b""] * 8 + [b";a=b", b";" + b"x" * 3000, b' ; a="' + b"y" * 20000])
            out += b"%x" % size + extension + b"\r\n" + body[:size] + b"\r\n"
            body = body[size:]
        trailer = self.pick([b""] * 6 + [b"X: y\r\n", b"X: " + b"y" * 70000 + b"\r\n", b"X: y\r\n" * 3000])
        return out + self.pick([b"0", b"0", b"0", b"0;x", b"-0", b""]) + b"\r\n" + trailer + b"\r\n"

    # --- gRPC

    def message(self):
        """A ModelInferRequest with odd parts."""
        shape = self.pick([(1, 1, 28, 28)] * 5 + [(2**62, 2**62), (-1,), (0,), (1,) * 3000, (2**40,)])
        tensor = field(1, self.pick(["input"] * 6 + ["", "x" * 4000, "\ud800"]))
        tensor += field(2, self.pick(["FP32"] * 5 + DATATYPES))
        tensor += b"".join(field(3, size) for size in shape)
        if self.some(0.3):
            tensor += field(4, field(1, self.pick(PARAMETERS)) + field(2, field(self.random.randint(1, 9), self.pick(
                [0, 1, 2**63, b"", b"lenet"]))))
        if self.some(0.2):
            tensor += field(5, field(self.random.randint(1, 9), bytes(self.random.randint(0, 500))))
        whole = field(1, self.pick(["lenet"] * 8 + ["reader", "", "x" * 5000])) + field(5, tensor)
        whole += field(7, self.pick([struct.pack("<784f", *[0.5] * 784)] * 5 + [b"", b"x" * 70000, self.image_file()]))
        for _ in range(self.random.choice([0, 0, 0, 1, 3, 600])):
            whole += field(6, field(1, "output"))
        if self.some(0.3):
            whole += field(4, field(1, self.pick(PARAMETERS)) + field(2, field(self.random.randint(1, 9), 2**64 - 1)))
        return self.damaged(whole) if self.some(0.3) else whole

    def header_block(self):
        """HPACK literals without indexing (RFC 7541, 6.2.2)."""
        path = METHOD + self.pick(["ModelInfer"] * 8 + ["ModelStreamInfer", "ServerLive", "ModelMetadata", "None",
                                                        "RepositoryIndex", "ModelStatistics", "x" * 200,
                                                        "SystemSharedMemoryStatus"])
        fields = [(":method", "POST"), (":scheme", "http"), (":path", path), (":authority", "x"),
                  ("content-type", "application/grpc"), ("te", "trailers")]
        if self.some(0.2):
            name = self.pick(["grpc-timeout", "grpc-encoding", "authorization", "x-bin", ":path", "A", "grpc-status"])
            fields.append((name, self.pick(["1n", "99999999999H", "gzip", "deflate", "Bearer x", "%%%", "y" * 300])))
        if self.some(0.1):
            self.random.shuffle(fields)
        length = lambda text: bytes([len(text)]) if len(text) < 127 else b"\x7f" + field(0, len(text) - 127)[1:]
        return b"".join(b"\0" + length(name) + name.encode() + length(value) + value.encode()
                        for name, value in fields)

    def grpc(self):
        """The bytes of one connection."""
        settings = self.pick([b""] * 5 + [struct.pack(">HI", 4, 2**31 - 1), struct.pack(">HI", 5, 1)])
        data = PREFACE + frame(4, 0, 0, settings)
        for number in range(self.random.choice([1, 1, 1, 2, 8])):
            message, flag = self.message(), 0
            if self.some(0.1):
                flag, message = 1, self.pick([self.bomb("gzip"), gzip.compress(message), message])
            size = self.pick([len(message)] * 12 + [0, 2**32 - 1, len(message) + 5])
            body, stream = bytes([flag]) + struct.pack(">I", size) + message, 1 + 2 * number
            data += frame(1, 4, stream, self.header_block())
            for at in range(0, len(body), 16000):
                data += frame(0, int(at + 16000 >= len(body)), stream, body[at:at + 16000])
        for _ in range(self.random.choice([0, 0, 0, 1, 2])):
            stream = self.pick([0, 1, 2, 3, 2**31 - 1])
            data += self.pick([frame(6, 0, 0, bytes(8)) * self.random.randint(1, 2000),
                               frame(8, 0, stream, b"\x7f\xff\xff\xff"),
                               frame(3, 0, stream, bytes(4)), frame(4, 0, 0, bytes(6)) * self.random.randint(1, 500),
                               frame(9, 0, 1, b"\0\1a\1b" * 900) * self.random.randint(1, 40), frame(7, 0, 0, bytes(8)),
                               frame(self.random.randrange(256), self.random.randrange(256), stream, bytes(20))])
        if self.some(0.25):
            data = PREFACE + self.damaged(data[len(PREFACE):])
        return data
