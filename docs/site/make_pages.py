#!/usr/bin/env python3
"""Puts the pages of the documentation site together: make_pages.py ROOT OUT TESSERA

OUT/pages gets README.md as its front page, docs/, a page of the command line from the program's own help, and one of
the Python package from its docstrings (tessera is imported). Links to files that are no pages become links to nothing
but their text, because the site has to work without the repository.
"""
import importlib
import inspect
import pathlib
import re
import shutil
import subprocess
import sys

root, out, program = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), sys.argv[3]
pages = out / "pages"
LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s]+)\)")
TASKS = [
    ("Get started", ["index.md", "python.md", "library.md"]),
    ("Make it faster and smaller",
     ["explain.md", "package.md", "protect.md", "diff.md", "write-onnx.md", "simulated.md", "quantisation.md",
      "quantisation_aware.md", "sparsity.md",
      "deep_compression.md", "dictionary.md", "distillation.md"]),
    ("Share a machine and serve", ["sharing.md", "serving.md", "serving_measured.md", "kubernetes.md", "security.md",
                                   "switching.md"]),
    ("Train", ["training.md", "scaling.md", "losses_and_metrics.md", "export_for_training.md", "gradients.md"]),
    ("Reference", ["cli.md", "python-reference.md", "cpp/index.html", "limits.md", "glossary.md"]),
    ("Performance", ["performance.md", "performance_ice_lake.md", "performance_zen5.md", "performance_dilated.md",
                     "performance_generate.md"]),
    ("Develop", ["house.md", "architecture.md", "add-operator.md", "add-pass.md", "add-device.md", "fuzzing.md"]),
]


def own_links(text, source):
    """Links of a page that lies at `source` in the repository, for the place that it gets in the site."""

    def replaced(match):
        bang, title, target = match.groups()
        path, _, anchor = target.partition("#")
        if "://" in target or not path:
            return match.group(0)
        found = (source.parent / path).resolve()
        here = page_of(source)
        if found.is_dir() and (found / "0001-one-form-per-operator.md").exists():
            found = found / "0001-one-form-per-operator.md"
        there = page_of(found)
        if there is None or not found.is_file():
            return match.group(0) if not found.exists() else title
        relative = "../" * (len(here.parts) - 1) + there.as_posix()
        return f"{bang}[{title}]({relative}{'#' + anchor if anchor else ''})"

    parts = re.split(r"(^```.*?^```$|`[^`\n]*`)", text, flags=re.MULTILINE | re.DOTALL)  # not in code
    return "".join(part if i % 2 else LINK.sub(replaced, part) for i, part in enumerate(parts))


def page_of(path):
    """Where a file of the repository is in the site, or None."""
    path = path.resolve()
    if path == (root / "README.md").resolve():
        return pathlib.PurePosixPath("index.md")
    docs = (root / "docs").resolve()
    if docs in path.parents and "site" not in path.relative_to(docs).parts:
        return pathlib.PurePosixPath(path.relative_to(docs).as_posix())
    return None


def command_line():
    def help_of(*verbs):
        return subprocess.run([program, *verbs, "--help"], capture_output=True, text=True, check=True).stdout.rstrip()

    text = help_of()
    verbs = re.findall(r"^  ([a-z]+)  ", text.split("Subcommands:")[1].split("\n\n")[0], re.MULTILINE)
    body = [f"# The command line\n\n```\n{text}\n```\n"]
    body += [f"## tessera {verb}\n\n```\n{help_of(verb)}\n```\n" for verb in verbs]
    return "\n".join(body)


def signature(member):
    # Annotations are texts, defaults may be.
    text = re.sub(r"(: |-> )'([^']*)'", r"\1\2", str(inspect.signature(member)))
    return re.sub(r"\btessera\._(?:\w+\.)?", "", text)


def described(member):
    """A docstring as Markdown: its examples are code."""
    prose, mark, example = inspect.cleandoc(member.__doc__ or "").partition(">>>")
    return f"{prose}\n" + (f"```\n{mark}{example}\n```\n" if mark else "")


def class_text(name, found):
    lines = [f"### {name}\n"]
    if inspect.isfunction(vars(found).get("__init__")):
        lines.append(f"```\n{name}{signature(found)}\n```\n")
    lines.append(described(found))
    for key, member in vars(found).items():
        if key.startswith("_") or not (inspect.isfunction(member) or isinstance(member, property)):
            continue
        is_property = isinstance(member, property)
        shown = key if is_property else key + signature(member)
        lines.append(f"```\n{name}.{shown}\n```\n\n{described(member)}")
    return "\n".join(lines)


def python_reference():
    body = ["# The Python package\n"]
    for name in ("tessera", "tessera.ort"):
        module = importlib.import_module(name)
        body.append(f"## {name}\n\n{inspect.cleandoc(module.__doc__).splitlines()[0]}\n")
        for each in module.__all__:
            member = getattr(module, each)
            if inspect.isclass(member):
                body.append(class_text(each, member))
            elif callable(member):
                body.append(f"### {each}\n\n```\n{each}{signature(member)}\n```\n\n{described(member)}")
    return "\n".join(body)


def navigation():
    lines, known = ["nav:"], set()
    for title, names in TASKS:
        lines.append(f"  - {title}:")
        # Doxygen writes the pages of C and C++ after this.
        lines += ["      - C and C++: cpp/index.html" if name == "cpp/index.html" else f"      - {name}"
                  for name in names if name == "cpp/index.html" or (pages / name).exists()]
        known.update(names)
    others = sorted(path.name for path in pages.glob("*.md") if path.name not in known)
    lines += ["  - More:", *(f"      - {name}" for name in others)] if others else []
    decisions = sorted(path.name for path in (pages / "adr").glob("*.md"))
    return "\n".join([*lines, "  - Decisions:", *(f"      - adr/{name}" for name in decisions)]) + "\n"


shutil.rmtree(out, ignore_errors=True)
shutil.copytree(root / "docs", pages, ignore=shutil.ignore_patterns("site"))
for path in [root / "README.md", *(root / "docs").rglob("*.md")]:
    target = page_of(path)
    if target is not None:
        (pages / target).write_text(own_links(path.read_text(encoding="utf-8"), path), encoding="utf-8")
(pages / "cli.md").write_text(command_line(), encoding="utf-8")
(pages / "python-reference.md").write_text(python_reference(), encoding="utf-8")
settings = (root / "docs/site/mkdocs.yml").read_text(encoding="utf-8")
(out / "mkdocs.yml").write_text(settings + navigation(), encoding="utf-8")
