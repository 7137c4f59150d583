# SPDX-License-Identifier: MIT
"""Recognising a checkpoint's chat template, and hostile templates.

.venv/bin/python -m pytest tests/py/test_chat_recognise.py
"""

from __future__ import annotations

import dataclasses
import json
import re
import sys
from pathlib import Path
from typing import Any

import jinja2
import pytest

from chat_cases import LOOKALIKE, ODD, ORDINARY, OTHERS, TEMPLATES, render_own, template_of
from mlb import chat, chat_render, chat_templates
from mlb.chat_templates import ChatTemplate, Thoughts, Trim

ROOT = Path(__file__).resolve().parent.parent.parent
ROWS = ROOT / "runtime" / "core" / "chat_templates.c"

# What is no row of ours: its nearest, and words of the difference.
NEAREST = {
    "llama-3.2-instruct": ("llama3", "puts today's date into its text: it writes"),
    "mistral-7b-instruct-v0.2": ("llama2", "'Hello.</s>[INST] Why?"),
    "smollm3": ("chatml", "## Metadata"),
}
HOSTILE = {
    "a loop without end": "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}"
    "{% endfor %}",
    "text without end": "{% for a in range(99999) %}{{ 'aaaaaaaaaaaaaaaa' }}{% endfor %}",
    "a text larger than memory": "{{ 'a' * 99999999999 }}",
    "macros that call each other": "{% macro f(x) %}{{ f(x) }}{% endmacro %}{{ f(1) }}",
    "deep nesting": "{{ " + "(" * 20000 + "1" + ")" * 20000 + " }}",
    "deep blocks": "{% if 1 %}" * 5000 + "{% endif %}" * 5000,
    "Python's insides": "{{ messages.__class__.__mro__[1].__subclasses__() }}",
    "a broken program": "{% for %}",
    "no text": "",
    "an import": "{% include '/etc/passwd' %}",
    "a format string": "{{ '%s{0.__class__}'.format(messages) }}",
}


def c_rows() -> list[dict[str, Any]]:
    """Return the fields of each row of chat_templates.c, as Python values."""
    text = ROWS.read_text(encoding="ascii")
    table = text[text.index("templates[] = {") : text.index("\n};")]
    rows = []
    for row in re.findall(r"\n    \{\n(.*?)\n    \},", table, re.DOTALL):
        fields: dict[str, Any] = {}
        for name, value in re.findall(r"\.(\w+) =\s+(.*?),(?: /\*.*?\*/)?(?=\n|$)", row):
            if value.startswith("{"):
                fields[name] = tuple(json.loads(f"[{value[1:-1]}]"))
            elif value.startswith('"'):
                fields[name] = json.loads(value)
            else:
                fields[name] = value
        rows.append(fields)
    return rows


def as_c(value: Any) -> Any:
    """Return a field of a Python row as c_rows() has it."""
    if isinstance(value, Trim):
        return f"TRIM_{value.name}"
    if isinstance(value, Thoughts):
        return f"THOUGHTS_{value.name}"
    return "true" if value is True else value


def test_the_rows_are_those_of_the_runtime() -> None:
    defaults = {
        f.name: f.default
        for f in dataclasses.fields(ChatTemplate)
        if f.default is not dataclasses.MISSING
    }
    ours = []
    for template in chat_templates.TEMPLATES:
        fields = {f.name: getattr(template, f.name) for f in dataclasses.fields(template)}
        ours.append({k: as_c(v) for k, v in fields.items() if defaults.get(k, ...) != v})
    assert c_rows() == ours


@pytest.mark.parametrize("name", sorted(TEMPLATES))
def test_a_models_own_template_is_recognised(name: str) -> None:
    text, tokens = template_of(name)
    assert chat.recognise(text, tokens) == chat.Recognised(TEMPLATES[name].ours)


@pytest.mark.parametrize("name", sorted(NEAREST))
def test_a_template_that_is_none_of_ours_is_told_with_the_nearest(name: str) -> None:
    nearest, words = NEAREST[name]
    text, tokens = template_of(name)
    found = chat.recognise(text, tokens)
    assert found.name is None
    assert words in found.note
    assert found.note.endswith(f"; --chat {nearest} uses the nearest all the same")


@pytest.mark.parametrize("name", sorted(TEMPLATES | OTHERS))
def test_jinja_is_set_up_as_transformers_does_it(name: str) -> None:
    utils = pytest.importorskip("transformers.utils.chat_template_utils")
    text, tokens = template_of(name)
    dated: list[str] = []
    renderer = chat_render.make_environment(chat_render.load_jinja(), dated).from_string(text)
    for messages in (*ORDINARY[::5], *ODD, *LOOKALIKE, *chat.CONVERSATIONS):
        try:
            (want,), _ = utils.render_jinja_template(
                [list(messages)], chat_template=text, add_generation_prompt=True, **tokens
            )
        except jinja2.exceptions.TemplateError:
            want = None
        assert want == chat_render.render(renderer, messages, tokens)
        if not dated:
            assert want == render_own(name, list(messages))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("'\\n' + message['content']", "'\\n' + message['content'] | trim"),
        ("<|im_end|>' + '\\n'", "<|im_end|>'"),
        ("assistant\\n", "assistant\\n "),
        ("message['role']", "message['role'] | upper"),
    ],
    ids=["trims", "no line end", "a space more", "upper case"],
)
def test_the_smallest_difference_is_seen(old: str, new: str) -> None:
    text, tokens = template_of("openhermes-2.5")
    assert old in text
    found = chat.recognise(text.replace(old, new), tokens)
    assert found.name is None
    assert found.note


@pytest.mark.parametrize("what", sorted(HOSTILE))
def test_a_hostile_template_is_told_in_one_line(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chat, "SECONDS", 2)
    found = chat.recognise(HOSTILE[what], {})
    assert found.name is None
    assert found.note.startswith("its chat template ")
    assert "\n" not in found.note
    assert len(found.note) < 400


@pytest.mark.parametrize(
    ("what", "words"),
    [
        ("text without end", "it writes without end"),
        ("a text larger than memory", "it needs more memory than a template may"),
    ],
)
def test_output_and_memory_of_a_template_are_limited(what: str, words: str) -> None:
    """Before its time is over, which on a busy machine is long."""
    assert words in chat.recognise(HOSTILE[what], {}).note


def test_a_template_that_is_too_long_is_not_run() -> None:
    found = chat.recognise(" " * (chat.MAX_TEMPLATE + 1), {})
    assert "1048577 characters, at most 1048576 are read" in found.note


def test_without_jinja2_the_remedy_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jinja2", None)
    answer = chat_render.answer({"template": "", "conversations": [], "tokens": {}})
    assert answer == {"error": "jinja2 is missing (pip install jinja2)"}
    monkeypatch.setattr(chat, "_render_theirs", lambda *_: answer["error"])
    note = chat.recognise("", {}).note
    assert note.startswith("its chat template was not recognised: jinja2 is missing")
    assert note.endswith(f"; --chat takes one of {', '.join(chat_templates.NAMES)}")


def test_an_old_jinja2_runs_no_template_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jinja2.__version__", "3.1.2")
    answer = chat_render.answer({"template": "", "conversations": [], "tokens": {}})
    assert "jinja2 3.1.2 is too old" in answer["error"]


@pytest.mark.parametrize("form", ["text", "list", "file"])
def test_the_template_is_found_beside_the_tokenizer(form: str, tmp_path: Path) -> None:
    text, _ = template_of("llama-2-chat")
    config: dict[str, Any] = {"bos_token": {"content": "<s>"}, "eos_token": "</s>"}
    if form == "text":
        config["chat_template"] = text
    elif form == "list":
        tools = {"name": "tool_use", "template": "{{ 1 }}"}
        config["chat_template"] = [tools, {"name": "default", "template": text}]
    else:
        config["chat_template"] = "{{ 1 }}"
        (tmp_path / "chat_template.jinja").write_text(text)
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    assert chat.recognise_beside(tmp_path) == chat.Recognised("llama2")


@pytest.mark.parametrize(
    "config", [{}, {"chat_template": None}, {"chat_template": 7}, {"chat_template": [1, {}]}]
)
def test_no_template_is_nothing_to_tell(config: dict[str, Any], tmp_path: Path) -> None:
    assert chat.recognise_beside(tmp_path) == chat.Recognised(None)
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    assert chat.recognise_beside(tmp_path) == chat.Recognised(None)
