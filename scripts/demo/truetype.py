"""Draws a line of text with a TrueType font, using the standard library only.

Formats: the OpenType specification, tables head, hhea, hmtx, cmap (format 4), loca and glyf. No kerning, no hinting.
"""

import struct
import zlib

_SAMPLES = 4  # rows and columns of samples a pixel, for smooth edges


class Font:
    def __init__(self, path):
        with open(path, "rb") as file:
            self._data = file.read()
        count = struct.unpack_from(">H", self._data, 4)[0]
        self._tables = {}
        for i in range(count):
            tag, _, offset, _ = struct.unpack_from(">4sIII", self._data, 12 + 16 * i)
            self._tables[tag.decode()] = offset
        self.units_per_em = self._read("head", 18, ">H")
        self._long_offsets = self._read("head", 50, ">h") == 1
        self.ascent, self.descent = self._read("hhea", 4, ">h"), self._read("hhea", 6, ">h")
        self._advances = self._read("hhea", 34, ">H")
        self._segments = self._read_cmap()

    def _read(self, table, offset, code):
        values = struct.unpack_from(code, self._data, self._tables[table] + offset)
        return values[0] if len(values) == 1 else values

    def _read_cmap(self):
        """(last, first, delta, position of the range offset) a segment, from the Unicode BMP subtable."""
        for i in range(self._read("cmap", 2, ">H")):
            platform, encoding, offset = self._read("cmap", 4 + 8 * i, ">HHI")
            if (platform, encoding) == (3, 1) and self._read("cmap", offset, ">H") == 4:
                break
        else:
            raise ValueError("the font has no Unicode character map of format 4")
        n = self._read("cmap", offset + 6, ">H") // 2
        segments = []
        for i in range(n):
            at = offset + 14 + 2 * i
            last, first = self._read("cmap", at, ">H"), self._read("cmap", at + 2 * n + 2, ">H")
            segments.append((last, first, self._read("cmap", at + 4 * n + 2, ">H"), at + 6 * n + 2))
        return segments

    def glyph(self, character):
        code = ord(character)
        for last, first, delta, position in self._segments:
            if first <= code <= last:
                offset = self._read("cmap", position, ">H")
                if offset == 0:
                    return (code + delta) & 0xFFFF
                index = self._read("cmap", position + offset + 2 * (code - first), ">H")
                return (index + delta) & 0xFFFF if index else 0
        return 0

    def advance(self, glyph):
        return self._read("hmtx", 4 * min(glyph, self._advances - 1), ">H")

    def contours(self, glyph):
        """Closed contours of points (x, y, on the curve) in font units."""
        if self._long_offsets:
            begin, end = self._read("loca", 4 * glyph, ">II")
        else:
            begin, end = (2 * value for value in self._read("loca", 2 * glyph, ">HH"))
        if begin == end:
            return []
        at = self._tables["glyf"] + begin
        count = struct.unpack_from(">h", self._data, at)[0]
        return self._simple(at + 10, count) if count >= 0 else self._composite(at + 10)

    def _simple(self, at, count):
        data = self._data
        ends = struct.unpack_from(f">{count}H", data, at)
        at += 2 * count
        at += 2 + struct.unpack_from(">H", data, at)[0]
        flags = []
        while len(flags) <= ends[-1]:
            flag, at = data[at], at + 1
            flags.append(flag)
            if flag & 8:
                flags += [flag] * data[at]
                at += 1
        axes = []
        for short, same in ((2, 16), (4, 32)):
            values, value = [], 0
            for flag in flags:
                if flag & short:
                    value += data[at] if flag & same else -data[at]
                    at += 1
                elif not flag & same:
                    value += struct.unpack_from(">h", data, at)[0]
                    at += 2
                values.append(value)
            axes.append(values)
        points = [(x, y, bool(flag & 1)) for x, y, flag in zip(*axes, flags)]
        return [points[begin:end + 1] for begin, end in zip((0, *(end + 1 for end in ends)), ends)]

    def _composite(self, at):
        contours = []
        more = True
        while more:
            flags, glyph = struct.unpack_from(">HH", self._data, at)
            code = ">hh" if flags & 1 else ">bb"
            dx, dy = struct.unpack_from(code, self._data, at + 4)
            at += 4 + struct.calcsize(code) + (2 if flags & 8 else 4 if flags & 64 else 8 if flags & 128 else 0)
            contours += [[(x + dx, y + dy, on) for x, y, on in contour] for contour in self.contours(glyph)]
            more = flags & 32
        return contours


def _segments(contour):
    """Straight pieces of a contour; between two control points off the curve lies an implied one on it."""
    full = []
    for i, (x, y, on) in enumerate(contour):
        before_x, before_y, before_on = contour[i - 1]
        if not on and not before_on:
            full.append(((x + before_x) / 2, (y + before_y) / 2, True))
        full.append((x, y, on))
    start = next(i for i, point in enumerate(full) if point[2])
    full = full[start:] + full[:start + 1]
    points, i = [full[0][:2]], 1
    while i < len(full):
        x, y, on = full[i]
        if on:
            points.append((x, y))
            i += 1
            continue
        (x0, y0), (x2, y2, _) = points[-1], full[i + 1]
        for step in range(1, 9):
            t = step / 8
            points.append(((1 - t)**2 * x0 + 2 * t * (1 - t) * x + t * t * x2,
                           (1 - t)**2 * y0 + 2 * t * (1 - t) * y + t * t * y2))
        i += 2
    return list(zip(points, points[1:]))


def draw_text(font, text, height, margin=6):
    """Black text on white: (width, height, rows of bytes 0–255). The line of ascent and descent fills height - 2
    margin."""
    scale = (height - 2 * margin) / (font.ascent - font.descent)
    edges, pen = [], margin / scale
    for character in text:
        glyph = font.glyph(character)
        for contour in font.contours(glyph):
            for (x0, y0), (x1, y1) in _segments(contour):
                edges.append(((pen + x0) * scale, margin + (font.ascent - y0) * scale, (pen + x1) * scale,
                              margin + (font.ascent - y1) * scale))
        pen += font.advance(glyph)
    width = int(pen * scale + margin + 0.999)
    ink = [[0] * width for _ in range(height)]
    for line in range(height * _SAMPLES):
        _fill_line(ink[line // _SAMPLES], (line + 0.5) / _SAMPLES, edges, width)
    full = _SAMPLES * _SAMPLES
    return width, height, [bytes(255 - 255 * value // full for value in row) for row in ink]


def _fill_line(row, y, edges, width):
    """Adds to each pixel of `row` the samples inside the shape at height y (non-zero winding rule)."""
    crossings = []
    for x0, y0, x1, y1 in edges:
        if (y0 <= y) != (y1 <= y):
            crossings.append((x0 + (y - y0) * (x1 - x0) / (y1 - y0), 1 if y1 > y0 else -1))
    crossings.sort()
    winding = 0
    for (left, direction), (right, _) in zip(crossings, crossings[1:]):
        winding += direction
        if winding:
            for sample in range(round(left * _SAMPLES), min(round(right * _SAMPLES), width * _SAMPLES)):
                row[sample // _SAMPLES] += 1


def write_png(path, width, height, rows):
    """An 8-bit grey PNG."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    with open(path, "wb") as file:
        file.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)))
        file.write(chunk(b"IDAT", zlib.compress(b"".join(b"\0" + row for row in rows))) + chunk(b"IEND", b""))
