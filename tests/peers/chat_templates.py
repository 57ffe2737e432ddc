#!/usr/bin/env python3
"""Compares chat templates rendered by Tessera with Python's jinja2, set up as Hugging Face's transformers does it.

Usage: chat_templates.py --probe PROGRAM. Renders the templates of scripts/fetch_language_cases.py (without them it
exits with 77) and those of written_templates.json, the former for each conversation. Outcomes must be equal: the same
text, or an error on both sides. Needs the package jinja2.
"""
import argparse
import datetime
import json
import pathlib
import subprocess
import sys
import tempfile

try:
    import jinja2
    import jinja2.ext
    import jinja2.sandbox
except ImportError:
    print("the package jinja2 is missing: scripts/setup.sh --tests installs it")
    sys.exit(77)

ROOT = pathlib.Path(__file__).resolve().parents[2]
TEMPLATES = ROOT / ".models" / "language_cases" / "templates"
NOW = 1_795_000_000

TOOLS = [
    {"type": "function", "function": {
        "name": "get_weather", "description": "The weather of a city.",
        "parameters": {"type": "object", "properties": {
            "city": {"type": "string", "description": "Which city, \"quoted\" & <b>ä</b>"},
            "unit": {"type": "string", "enum": ["celsius", "fahrenheit"], "default": "celsius"},
            "days": {"type": ["integer", "null"], "description": "How many", "minimum": 1, "nullable": True}},
            "required": ["city"]},
        "return": {"type": "string", "description": "A sentence."}}},
    {"type": "function", "function": {
        "name": "search", "description": "Searches.",
        "parameters": {"type": "object", "properties": {
            "queries": {"type": "array", "items": {"type": "string"}, "description": "What for"},
            "options": {"type": "object", "properties": {"exact": {"type": "boolean"}, "limit": {"type": "number"}}},
            "any": {"anyOf": [{"type": "string"}, {"type": "integer"}]}}}}},
]
CALL = {"id": "call00001", "type": "function",
        "function": {"name": "get_weather", "arguments": {
            "city": "Zürich", "days": 2, "nested": {"a": [1, 2.5, None, True]}}}}
USER = {"role": "user", "content": "  Hello <|im_end|> wörld 東京 😀\n"}
SYSTEM = {"role": "system", "content": "You are helpful.\nBe 'brief' & \"kind\"."}
ASSISTANT = {"role": "assistant", "content": "Hi! <think>\nhmm\n</think>\n\nHow are you?"}
CONVERSATIONS = {
    "user": [USER],
    "system": [SYSTEM, USER],
    "turns": [SYSTEM, USER, ASSISTANT, {"role": "user", "content": "Fine."}],
    "ends with the assistant": [USER, ASSISTANT],
    "reasoning": [USER,
                  {"role": "assistant", "content": "4", "reasoning_content": "2+2", "thinking": "2+2"},
                  {"role": "user", "content": "And 3+3?"}],
    "parts": [{"role": "system", "content": [{"type": "text", "text": "Sys"}]},
              {"role": "user", "content": [{"type": "text", "text": "What is"}, {"type": "text", "text": " this?"}]}],
    "picture": [{"role": "user", "content": [{"type": "image"}, {"type": "text", "text": "What is this?"}]}],
    "tool call": [USER, {"role": "assistant", "content": "", "tool_calls": [CALL]},
                  {"role": "tool", "tool_call_id": "call00001", "name": "get_weather", "content": "{\"sun\": true}"},
                  {"role": "assistant", "content": "It is sunny."}, {"role": "user", "content": "Thanks."}],
    "tool call of text": [SYSTEM, USER, {"role": "assistant", "content": None, "tool_calls": [
        {**CALL, "function": {"name": "get_weather", "arguments": "{\"city\": \"Bern\"}"}}]},
        {"role": "tool", "tool_call_id": "call00001", "name": "get_weather", "content": "rain"}],
    "two calls": [USER, {"role": "assistant", "content": "I look.", "tool_calls": [
        CALL, {"id": "call00002", "type": "function",
               "function": {"name": "search", "arguments": {"queries": ["a", "b"]}}}]},
        {"role": "tool", "tool_call_id": "call00001", "name": "get_weather", "content": "sun"},
        {"role": "tool", "tool_call_id": "call00002", "name": "search",
         "content": [{"type": "text", "text": "found"}]}],
    "developer": [{"role": "developer", "content": "Rules."}, USER],
    "wrong order": [ASSISTANT, ASSISTANT],
    "empty text": [{"role": "user", "content": ""}, {"role": "assistant", "content": ""}],
    "none": [],
}
# jinja2 cannot write what this template's filter map gives as JSON; Tessera, where it is a list, can.
MORE_THAN_JINJA2 = "Object of type generator is not JSON serializable"
# Parts of Jinja that the templates of models do not show, and those that are easily wrong.
WRITTEN = json.loads((pathlib.Path(__file__).parent / "written_templates.json").read_text(encoding="utf-8"))


def environment():
    def raise_exception(message):
        raise jinja2.exceptions.TemplateError(message)

    def tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    class Generation(jinja2.ext.Extension):
        tags = {"generation"}

        def parse(self, parser):
            line = next(parser.stream).lineno
            body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
            return jinja2.nodes.CallBlock(self.call_method("_body"), [], [], body).set_lineno(line)

        def _body(self, caller):
            return caller()

    made = jinja2.sandbox.ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True,
                                                        extensions=[Generation, jinja2.ext.loopcontrols])
    made.filters["tojson"] = tojson
    made.globals["raise_exception"] = raise_exception
    made.globals["strftime_now"] = lambda form: datetime.datetime.fromtimestamp(NOW).strftime(form)
    return made


def variables():
    for name, messages in CONVERSATIONS.items():
        for tools in (None, TOOLS):
            for prompt in (False, True):
                given = {"messages": messages, "tools": tools, "documents": None, "add_generation_prompt": prompt,
                         "bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"}
                yield f"{name}, {'with' if tools else 'no'} tools, {'a' if prompt else 'no'} prompt", given
    yield "thinking", {**given, "messages": CONVERSATIONS["turns"], "enable_thinking": False, "thinking": True,
                       "reasoning_effort": "high", "documents": [{"title": "T", "text": "Body", "doc_id": 1}]}


def compare(program, name, source, made, cases, counts):
    with tempfile.NamedTemporaryFile("w", suffix=".jinja", encoding="utf-8", newline="") as file:
        file.write(source)
        file.flush()
        requests = "".join(json.dumps({"variables": given, "now": NOW}) + "\n" for _, given in cases)
        done = subprocess.run([program, file.name], input=requests, capture_output=True, text=True, encoding="utf-8")
    if not done.stdout:
        return [f"{name}: the program ended with {done.returncode}: {done.stderr}"]
    head, *answers = [json.loads(line) for line in done.stdout.splitlines()]
    try:
        template = made.from_string(source)
    except jinja2.TemplateError as error:
        counts["refused by both"] += len(cases)
        refused = "error" in head or all("error" in each for each in answers)
        return [] if refused else [f"{name}: jinja2 refuses: {error}"]
    if "error" in head:
        return [f"{name}: refused: {head['error']}"]
    faults = []
    for (case, given), got in zip(cases, answers, strict=True):
        try:
            expected, reason = template.render(**given), None
        except Exception as error:  # what Python raises where a template is wrong
            expected, reason = None, error
        if expected is None and "error" in got:
            # raise_exception gives the template's own message.
            same = type(reason) is not jinja2.TemplateError or got["error"].startswith(str(reason))
            counts["refused by both"] += 1
            if not same:
                faults.append(f"{name}, {case}: message {got['error']!r}, expected {reason}")
        elif expected is None and str(reason) == MORE_THAN_JINJA2:
            counts["refused by jinja2 alone"] += 1
        elif got.get("text") != expected:
            faults.append(f"{name}, {case}:\n  expected {expected!r} {reason!r}\n  got      {got.get('text', got)!r}")
        else:
            counts["equal"] += 1
            marked = "".join(got["text"].encode()[begin:end].decode() for begin, end in got["user_ranges"])
            # Everything that only users wrote is marked; it stands in no template.
            if got["text"].count("wörld") != marked.count("wörld"):
                faults.append(f"{name}, {case}: not all that users wrote is marked in {got}")
    return faults


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--probe", required=True)
    options = parser.parse_args()
    made = environment()
    counts = {"equal": 0, "refused by both": 0, "refused by jinja2 alone": 0}
    faults = []
    for name, source in WRITTEN.items():
        faults += compare(options.probe, name, source, made, [("", {})], counts)
    paths = sorted(TEMPLATES.glob("*.jinja"))
    for path in paths:
        source = path.read_bytes().decode("utf-8")
        faults += compare(options.probe, path.stem, source, made, list(variables()), counts)
    print("\n".join(faults[:60]))
    print(f"{len(WRITTEN)} templates of the tests and {len(paths)} of models beside jinja2 {jinja2.__version__}: "
          f"{counts}, {len(faults)} faults")
    if faults:
        return 1
    if not paths:
        print("there are no templates of models: run scripts/fetch_language_cases.py")
        return 77
    return 0 if len(paths) == 70 else 1


if __name__ == "__main__":
    sys.exit(main())
