# SPDX-License-Identifier: MIT
"""Render a checkpoint's Jinja chat template, in a process of its own: the template is hostile.

    python3 tools/mlb/chat_render.py < request.json

The request has the template, conversations and special tokens ("bos_token" and the like); the
answer, on stdout, has one text per conversation, null where the template refuses it, or an
"error".  The environment is that of transformers' apply_chat_template; time is the caller's to
limit, memory and output are limited here.
"""

from __future__ import annotations

import datetime as dt
import importlib
import json
import sys
from typing import Any, NoReturn

OLDEST = (3, 1, 6)  # older sandboxes can be left by a hostile template
MAX_BYTES = 1 << 30  # of memory
MAX_TEXT = 1 << 16  # characters of one conversation; ours take 4000


class RenderError(Exception):
    """Nothing can be rendered, for a reason to show."""


def limit_memory() -> None:
    """Let this process fail instead of the machine, where the system has such limits."""
    try:
        resource = importlib.import_module("resource")
    except ImportError:
        return
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    most = MAX_BYTES if hard == resource.RLIM_INFINITY else min(MAX_BYTES, hard)
    resource.setrlimit(resource.RLIMIT_AS, (most, hard))


def load_jinja() -> Any:
    """Return the jinja2 module."""
    try:
        jinja2 = importlib.import_module("jinja2")
        for part in ("ext", "sandbox"):
            importlib.import_module(f"jinja2.{part}")
    except ImportError:
        raise RenderError("jinja2 is missing (pip install jinja2)") from None
    version = tuple(int(part) for part in jinja2.__version__.split(".")[:3] if part.isdigit())
    if version < OLDEST:
        raise RenderError(
            f"jinja2 {jinja2.__version__} is too old to run the templates of others: 3.1.6 or "
            "later is needed (pip install -U jinja2)"
        )
    return jinja2


def make_environment(jinja2: Any, dated: list[str]) -> Any:
    """Return the environment of apply_chat_template; `dated` gets a word for every date asked."""

    class Generation(jinja2.ext.Extension):  # type: ignore[misc]  # jinja2 is loaded by name
        """{% generation %} marks text for training; here it only is text."""

        tags = {"generation"}  # noqa: RUF012  (jinja2's own declaration)

        def parse(self, parser: Any) -> Any:
            next(parser.stream)
            return parser.parse_statements(["name:endgeneration"], drop_needle=True)

    def raise_exception(message: str) -> NoReturn:
        raise jinja2.exceptions.TemplateError(message)

    def tojson(x: Any, *, ensure_ascii: bool = False, **more: Any) -> str:
        return json.dumps(x, ensure_ascii=ensure_ascii, **more)

    def strftime_now(form: str) -> str:
        dated.append(form)
        return dt.datetime.now(tz=None).strftime(form)  # noqa: DTZ005  (as transformers)

    environment = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols]
    )
    environment.filters["tojson"] = tojson
    environment.globals["raise_exception"] = raise_exception
    environment.globals["strftime_now"] = strftime_now
    return environment


def render(template: Any, messages: Any, tokens: dict[str, str]) -> str | None:
    """Return the text of one conversation, None where the template refuses it."""
    text = ""
    try:
        for part in template.generate(messages=messages, add_generation_prompt=True, **tokens):
            text += part
            if len(text) > MAX_TEXT:
                raise RenderError("it writes without end")
    except (MemoryError, RecursionError):
        raise RenderError("it needs more memory than a template may") from None
    except RenderError:
        raise
    except Exception:  # noqa: BLE001  (whatever the template does wrong)
        return None
    return text


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """Return what a request gets."""
    dated: list[str] = []
    try:
        jinja2 = load_jinja()
        template = make_environment(jinja2, dated).from_string(request["template"])
        texts = [render(template, c, request["tokens"]) for c in request["conversations"]]
    except RenderError as e:
        return {"error": str(e)}
    except (MemoryError, RecursionError):
        return {"error": "it needs more memory than a template may"}
    except Exception as e:  # noqa: BLE001  (a syntax error, and what jinja2 makes of worse)
        return {"error": f"it is no valid template: {type(e).__name__}"}
    return {"texts": texts, "dated": bool(dated)}


def main() -> int:
    """Answer the request on stdin."""
    request = json.load(sys.stdin)
    limit_memory()
    json.dump(answer(request), sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main())
