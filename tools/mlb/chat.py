# SPDX-License-Identifier: MIT
"""Recognise which of the runtime's chat templates a checkpoint was trained with.

Its own template is a program: it is run on a set of conversations and has to write, byte for byte,
what one of ours writes.  Else there is no answer, and the user names a template with --chat.

    PYTHONPATH=tools python3 -c 'from pathlib import Path; from mlb import chat; \
        print(chat.recognise_beside(Path("models/smollm2-135m-instruct")))'
"""

from __future__ import annotations

import dataclasses
import difflib
import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mlb.chat_templates import NAMES, TEMPLATES, ChatTemplate, Thoughts, render
from mlb.checkpoint import read_json, read_text

if TYPE_CHECKING:
    from collections.abc import Mapping

RENDERER = Path(__file__).with_name("chat_render.py")
SECONDS = 30  # for all conversations; they take a fraction of one
MAX_TEMPLATE = 1 << 20
SPECIAL_TOKENS = ("bos_token", "eos_token", "unk_token", "pad_token", "sep_token", "cls_token")

Conversation = tuple[dict[str, str], ...]


@dataclasses.dataclass(frozen=True)
class Recognised:
    """The name of the template, or None and, if there is a template at all, why not."""

    name: str | None
    note: str = ""


@dataclasses.dataclass(frozen=True)
class _Rendered:
    """What a checkpoint's template made of CONVERSATIONS; None: it refused that one."""

    texts: tuple[str | None, ...]
    dated: bool


def _talk(*texts: str, system: str | None = None) -> Conversation:
    """User and assistant in turn, after the system text if there is one."""
    first = () if system is None else ({"role": "system", "content": system},)
    roles = ("user", "assistant")
    return (*first, *({"role": roles[i % 2], "content": t} for i, t in enumerate(texts)))


_WHITE = " \t\u00a0 padded \u2003\u3000\n"
_THOUGHT = "<think>\nLet me see.\n</think>\n\nFour."
CONVERSATIONS: tuple[Conversation, ...] = (
    _talk("Hi"),
    _talk("Hi", "Hello.", "Why?"),
    _talk(""),
    _talk(_WHITE),
    _talk("two\nlines\n\n"),
    _talk("What is it? /no_think"),
    _talk("Hi", " Hello. \n", _WHITE),
    _talk("Hi", "", "Why?"),
    _talk("a", "b", "c", "d", "e", "f", "g"),
    _talk("Two and two?", _THOUGHT, "And three?"),
    _talk("Two and two?", f"\n{_THOUGHT}\n ", "And three?", "Five.", "Thanks."),
    _talk(
        "\u00e9t\u00e9 \U0001f999 \u4f60\u597d", "\u0441\u043f\u0430\u0441\u0438\u0431\u043e", "ok"
    ),
    _talk("Hi", system="Be brief."),
    _talk("Hi", system=""),
    _talk("Hi", system=_WHITE),
    _talk("Hi", system="Be brief. /think"),
    _talk("", system="two\nlines\n"),
    _talk(_WHITE, "Hello.", "Why?", system="Be brief."),
    _talk("Two and two?", _THOUGHT, "And three?", system="Be brief."),
    _talk("Hi", "Hello.", "Why?", "So.", "Then?", system="  Be brief.  "),
    (*_talk("Hi"), *_talk("again")),
    (*_talk("Hi", "Hello."), *_talk("Why?", system="Be long.")),
)
_PLAIN = 12  # of these, the first without a system text: every template can say most of them


def recognise(template: str, tokens: Mapping[str, str]) -> Recognised:
    """Compare a Jinja template with ours; tokens: the text of "bos_token", "eos_token", ..."""
    found = _render_theirs(template, tokens)
    if isinstance(found, str):
        return Recognised(None, f"its chat template was not recognised: {found}{_remedy(None)}")
    for ours in TEMPLATES:
        if any(_equal(t, found) for t in _variants(ours)):
            return Recognised(ours.name)
    return Recognised(None, _explain(found))


def recognise_beside(directory: Path) -> Recognised:
    """The same for the template in a checkpoint's directory."""
    config = directory / "tokenizer_config.json"
    settings = read_json(config) if config.exists() else {}
    own_file = directory / "chat_template.jinja"
    if own_file.exists():
        template: object = read_text(own_file).decode(errors="replace")
    else:
        template = settings.get("chat_template")
    if isinstance(template, list):  # several with names
        named = {t.get("name"): t.get("template") for t in template if isinstance(t, dict)}
        template = named.get("default")
    if not isinstance(template, str):
        return Recognised(None)
    return recognise(template, _special_tokens(settings))


def _special_tokens(settings: Mapping[str, Any]) -> dict[str, str]:
    """The special tokens of a tokenizer_config.json, each a text or an object with a content."""
    tokens = {}
    for key in SPECIAL_TOKENS:
        value = settings.get(key)
        if isinstance(value, dict):
            value = value.get("content")
        if isinstance(value, str):
            tokens[key] = value
    return tokens


def _render_theirs(template: str, tokens: Mapping[str, str]) -> _Rendered | str:
    """Run the template in a process of its own; a text says why that failed."""
    if len(template) > MAX_TEMPLATE:
        return f"it has {len(template)} characters, at most {MAX_TEMPLATE} are read"
    request = {"template": template, "conversations": CONVERSATIONS, "tokens": dict(tokens)}
    try:
        done = subprocess.run(
            [sys.executable, str(RENDERER)],
            input=json.dumps(request).encode(),
            capture_output=True,
            timeout=SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"it does not end within {SECONDS} seconds"
    except OSError as e:
        return f"no process could be started for it: {e}"
    try:
        answer = json.loads(done.stdout)
    except ValueError:
        return f"running it ended with {done.returncode}"
    if "error" in answer:
        return str(answer["error"])
    return _Rendered(tuple(answer["texts"]), answer["dated"])


def _variants(ours: ChatTemplate) -> tuple[ChatTemplate, ...]:
    """A row, and the same with reasoning kept in the history.

    That has the same name: it matters only to models that reason, and their templates drop it.
    """
    return ours, dataclasses.replace(ours, thoughts=Thoughts.STAY)


def _equal(ours: ChatTemplate, theirs: _Rendered) -> bool:
    """Whether ours writes the same wherever theirs can say the conversation at all."""
    if sum(text is not None for text in theirs.texts[:_PLAIN]) < _PLAIN - 1:
        return False
    return all(
        text is None or text == render(ours, conversation)
        for conversation, text in zip(CONVERSATIONS, theirs.texts, strict=True)
    )


def _remedy(nearest: str | None) -> str:
    if nearest:
        return f"; --chat {nearest} uses the nearest all the same"
    return f"; --chat takes one of {', '.join(NAMES)}"


def _nearest(theirs: _Rendered) -> ChatTemplate | None:
    """The row that writes most like theirs, of those whose special tokens it writes.

    Conversations with a system text tell most; without one, templates have texts of their own.
    """
    written = [(c, t) for c, t in zip(CONVERSATIONS, theirs.texts, strict=True) if t]
    everything = "".join(text for _, text in written)
    told = [(c, t) for c, t in written if c[0]["role"] == "system"] or written

    def likeness(ours: ChatTemplate) -> float:
        pairs = [[(render(v, c) or "", t) for c, t in told] for v in _variants(ours)]
        return max(sum(_ratio(a, b) for a, b in texts) for texts in pairs)

    fitting = [t for t in TEMPLATES if all(s in everything for s in (*t.specials, *t.marks, t.end))]
    return max(fitting, key=likeness, default=None)


def _ratio(a: str, b: str) -> float:
    return difflib.SequenceMatcher(None, a, b, autojunk=False).ratio()


def _explain(theirs: _Rendered) -> str:
    ours = _nearest(theirs)
    date = ", and puts today's date into its text" if theirs.dated else ""
    if not ours:
        return f"its chat template is not one of ours{date}{_remedy(None)}"
    example = _difference(ours, theirs)
    return f"its chat template is none of ours{date}: {example}{_remedy(ours.name)}"


def _difference(ours: ChatTemplate, theirs: _Rendered) -> str:
    """Where the first conversation that they write differently parts."""
    for conversation, text in zip(CONVERSATIONS, theirs.texts, strict=True):
        own = render(ours, conversation)
        if text is None or text == own:
            continue
        if own is None:
            return f"{ours.name} cannot say all that it says"
        pairs = enumerate(zip(own, text, strict=False))
        at = next((i for i, (a, b) in pairs if a != b), min(len(own), len(text)))
        return f"it writes {_excerpt(text, at)} where {ours.name} writes {_excerpt(own, at)}"
    return f"it refuses conversations that {ours.name} can say"


def _excerpt(text: str, at: int) -> str:
    return ascii(text[at : at + 32]) if at < len(text) else "nothing"
