#!/usr/bin/env python3
"""Makes chat_templates.json: what Python's jinja2, set up as in make_jinja.py, renders for the templates in
chat_templates/, over conversations with and without system message, tools, tool calls, reasoning and content parts. The
templates are written anew with the constructs of the families they are named after. Needs jinja2 3.1.
Usage: make_chat_templates.py [OUTPUT]
"""
import copy
import json
import sys
from pathlib import Path

import jinja2

from make_jinja import NOW, render

FOLDER = Path(__file__).with_name("chat_templates")

WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Weather of a city, in °C <now>.",
        "parameters": {
            "type": "object",
            "properties": {
                "city": {"type": "string", "description": "The city's name"},
                "days": {"type": ["integer", "string"], "default": 1},
                "units": {"type": "string", "enum": ["C", "F"]},
                "tags": {"type": "array", "items": {"type": "string"}},
            },
            "required": ["city"],
        },
        "return": {"type": "object", "properties": {"t": {"type": "number"}}},
    },
}
CLOCK = {"type": "function", "function": {"name": "clock", "description": "", "parameters": {"type": "object", "properties": {}}}}


def call(name, arguments, number):
    return {"id": f"call0000{number}", "type": "function", "function": {"name": name, "arguments": arguments}}


SYSTEM = {"role": "system", "content": " Be brief.\n"}
PLAIN = [
    SYSTEM,
    {"role": "user", "content": "Hi there"},
    {"role": "assistant", "content": "Hello!\n"},
    {"role": "user", "content": "  2 + 2 = ?\n"},
]
ANSWERED = PLAIN[1:] + [{"role": "assistant", "content": "4"}]
TOOL_CHAT = [
    {"role": "user", "content": "Weather in Zürich and the time?"},
    {"role": "assistant", "content": "", "tool_calls": [call("get_weather", {"city": "Zürich", "days": 2}, 1)]},
    {"role": "tool", "content": '{"t": 7.5}', "tool_call_id": "call00001", "name": "get_weather"},
    {"role": "assistant", "content": "Now the time.", "tool_calls": [call("clock", {}, 2), call("get_weather", {"city": "Bern", "tags": ["a", "b"]}, 3)]},
    {"role": "tool", "content": "12:30", "tool_call_id": "call00002", "name": "clock"},
    {"role": "tool", "content": "none", "tool_call_id": "call00003", "name": "get_weather"},
    {"role": "assistant", "content": "7.5 degrees at half past twelve."},
]
THINKING = [
    SYSTEM,
    {"role": "user", "content": "q one"},
    {"role": "assistant", "content": "<think>\nhm, one\n</think>\n\na one"},
    {"role": "user", "content": "q two"},
    {"role": "assistant", "content": "a two", "reasoning_content": "\nhm, two\n", "thinking": "\nhm, two\n"},
]
PARTS = [
    {"role": "user", "content": [{"type": "text", "text": "Look: "}, {"type": "image"}, {"type": "text", "text": "what?"}]},
    {"role": "assistant", "content": [{"type": "text", "text": "A cat."}]},
]
CONTEXTS = {
    "plain": {"messages": PLAIN, "add_generation_prompt": True},
    "answered": {"messages": ANSWERED, "add_generation_prompt": False},
    "tools": {"messages": TOOL_CHAT, "tools": [WEATHER, CLOCK], "add_generation_prompt": False},
    "tools asked": {"messages": [SYSTEM] + TOOL_CHAT[:3], "tools": [WEATHER], "add_generation_prompt": True},
    "thinking": {"messages": THINKING, "add_generation_prompt": False},
    "thinking off": {"messages": THINKING[:4], "add_generation_prompt": True, "enable_thinking": False, "thinking": False, "reasoning_effort": "high"},
    "parts": {"messages": PARTS, "add_generation_prompt": False},
    "documents": {"messages": PLAIN, "documents": [{"title": "Cats", "text": "Cats purr."}, {"title": "Dogs", "text": "Dogs bark."}], "add_generation_prompt": True},
}
COMMON = {"bos_token": "<s>", "eos_token": "</s>", "tools": None, "documents": None}

TEMPLATES = {path.stem: path.read_text(encoding="utf-8") for path in sorted(FOLDER.glob("*.jinja"))}


def main():
    output = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).with_name("chat_templates.json"))
    cases = []
    errors = 0
    for template, source in TEMPLATES.items():
        for context, variables in CONTEXTS.items():
            entry = {"template": template, "context": context}
            try:
                entry["expect"], spans = render(source, copy.deepcopy({**COMMON, **variables}))
                if spans:
                    entry["spans"] = spans
            except Exception as error:  # whatever Python raises ends the render
                entry["error"] = str(error)
                if type(error) is jinja2.exceptions.TemplateError:
                    entry["raised"] = True
                errors += 1
            cases.append(entry)
    document = {
        "generator": "make_chat_templates.py with jinja2 " + jinja2.__version__,
        "now": NOW.strftime("%Y-%m-%dT%H:%M:%S"),
        "contexts": {name: {**COMMON, **variables} for name, variables in CONTEXTS.items()},
    }
    head = json.dumps(document, ensure_ascii=False, indent=0)[:-2]
    lines = [json.dumps(entry, ensure_ascii=False) for entry in cases]
    output.write_text(head + ',\n"cases": [\n' + ",\n".join(lines) + "\n]}\n", encoding="utf-8")
    print(len(cases), "cases,", errors, "errors")


if __name__ == "__main__":
    main()
