#!/usr/bin/env python3
"""Gives a public header the comments that doxygen reads, on standard output: doxygen_filter.py HEADER

Lines keep their numbers. A comment on lines of its own describes what follows it; one behind a declaration, with the
lines below that continue it in the same column, describes that; the one at the top describes the file.
"""
import pathlib
import re
import sys

# Code, in which strings and characters count as a whole, and then a comment that ends the line.
TRAILING = re.compile(r'^((?:[^"\'/]|"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])*\'|/(?![/*]))*)(?<=\S)(\s*)//(.*)$')
WHOLE = re.compile(r"^(\s*)//(.*)$")


def marked_up(text):
    """Doxygen takes @, backslashes and <words> for commands; `this` is code."""
    text = re.sub(r"[@\\<>&#%]", lambda found: "\\" + found.group(0), text)
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", text)


def converted(lines, name):
    column = None  # of the comment behind a declaration that the next line may continue
    at_top = True
    for number, line in enumerate(lines):
        whole, trailing = WHOLE.match(line), TRAILING.match(line)
        if whole and at_top:
            yield (f"/// @file {name}" if number == 0 else "///") + marked_up(whole.group(2))
        elif whole:
            mark = "///<" if len(whole.group(1)) == column else "///"
            column = column if mark == "///<" else None
            yield whole.group(1) + mark + marked_up(whole.group(2))
        elif trailing and not trailing.group(1).lstrip().startswith(("#", "}", "namespace")):
            column = len(trailing.group(1) + trailing.group(2))
            yield f"{trailing.group(1)}{trailing.group(2)}///<{marked_up(trailing.group(3))}"
        else:
            column = None
            yield line
        at_top = at_top and bool(whole)


def converted_c(text, name):
    """The same of the comments of C: /* … */."""

    def comment(match):
        before, body = match.groups()
        if body.strip(" -*") != body.strip(" *"):  # a line that parts the file
            return match.group(0)
        at_top, alone = match.start() == 0, not before.strip()
        return before + (f"/** @file {name} " if at_top else "/**" if alone else "/**<") + marked_up(body) + "*/"

    return re.sub(r"((?:^|(?<=\n))[^\n]*?)/\*(.*?)\*/", comment, text, flags=re.DOTALL)


def filtered(text, name):
    return converted_c(text, name) if text.startswith("/*") else "\n".join(converted(text.split("\n"), name))


if __name__ == "__main__":
    header = pathlib.Path(sys.argv[1])
    sys.stdout.write(filtered(header.read_text(encoding="utf-8"), header.name))
