"""Finds functions that are longer than the house allows, in C++ as clang-format lays it out.

A definition begins at a line of some indentation, its head ends with '{' at the end of a line, and its body ends with
the next line of the same indentation that begins with '}'. Lambdas count as part of the function around them.
"""
import re

LONGEST_FUNCTION = 80
# Kernels may be longer: they are told by phases, and their loops belong together.
KERNELS = (("src", "backends", "cpu"), ("src", "backends", "cuda", "kernels"),
           ("src", "backends", "reference", "kernels"))
REASON = re.compile(r"^\s*// Length: \S")
FUNCTION_HEAD = re.compile(r"\)\s*((const|noexcept|override|final|&|&&)\s*)*(->\s*[^;{}]+)?(\s*:\s*.+)?\s*$")
SCOPE_HEAD = re.compile(r"^(template <.*> )?(inline )?(namespace|class|struct|union|enum|extern \"C\")\b")
NO_DEFINITION = re.compile(r"^(#|//|\}|public:|private:|protected:|$)")


def indentation(line):
    return len(line) - len(line.lstrip(" "))


def statement_head(lines, begin):
    """Of the statement that begins at lines[begin]: its text up to the first '{' at the end of a line and the index of
    that line, or None where it ends without one."""
    text = ""
    for index in range(begin, min(begin + 40, len(lines))):
        line = lines[index].split("  //")[0].rstrip()
        text += " " + line.strip()
        if line.endswith("{"):
            return text[1:-1].rstrip(), index
        if line.endswith(";") or line.endswith("}") or not line:
            return None
    return None


def functions(lines):
    """Yields (begin, end) of every function definition, as indices of its first and last line."""
    index = 0
    while index < len(lines):
        line = lines[index]
        head = None if NO_DEFINITION.match(line.strip()) else statement_head(lines, index)
        if head is None or SCOPE_HEAD.match(head[0]):
            index = index + 1 if head is None else head[1] + 1
            continue
        end = next((i for i in range(head[1] + 1, len(lines))
                    if lines[i].lstrip().startswith("}") and indentation(lines[i]) == indentation(line)), None)
        if end is None:
            index = head[1] + 1
            continue
        if FUNCTION_HEAD.search(head[0]):
            yield index, end
        index = end + 1


def function_faults(path, lines):
    """Yields (line number, what is wrong) for each function that is too long and gives no reason."""
    if any(path.parts[:len(folder)] == folder for folder in KERNELS):
        return
    for begin, end in functions(lines):
        length = end - begin + 1
        comment = begin
        while comment > 0 and lines[comment - 1].lstrip().startswith("//"):
            comment -= 1
        if length > LONGEST_FUNCTION and not any(REASON.match(line) for line in lines[comment:begin]):
            yield begin + 1, (f"a function of {length} lines, over {LONGEST_FUNCTION}; split it, or give the reason in "
                              "a line '// Length: …' above it")
