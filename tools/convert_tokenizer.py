# SPDX-License-Identifier: MIT
"""Convert a Hugging Face tokenizer.json to an .mlt file.

    python3 tools/convert_tokenizer.py ./SmolLM2-135M-Instruct/tokenizer.json smollm2.mlt

tokenizer_config.json, generation_config.json, config.json and chat_template.jinja beside it, where
they exist, give the BOS and EOS and the chat template; --chat names the template instead.  A
tokenizer that the runtime would encode differently is refused, by the name of what it does not
know.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from mlb import chat_templates, tokenizer
from mlb.checkpoint import CheckpointError
from mlb.envelope import FormatError, one_line, write_failure

if TYPE_CHECKING:
    from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """Convert one tokenizer; 0: written, 1: refused or failed, 2: wrong usage, 130: Ctrl-C."""
    summary = __doc__.splitlines()[0]
    parser = argparse.ArgumentParser(prog="convert_tokenizer.py", description=summary)
    parser.add_argument("source", type=Path, metavar="tokenizer.json")
    parser.add_argument("output", type=Path, metavar="OUT.mlt")
    parser.add_argument(
        "--chat",
        choices=chat_templates.NAMES,
        metavar="NAME",
        help=f"chat template to record: {', '.join(chat_templates.NAMES)}",
    )
    args = parser.parse_args(argv)
    try:
        result = tokenizer.read(args.source, args.chat)
        tokenizer.write(args.output, result)
    except tokenizer.TokenizerError as e:
        print(f"error: {one_line(f'{args.source}: {e}')}", file=sys.stderr)
        return 1
    except (CheckpointError, FormatError) as e:
        print(f"error: {e}", file=sys.stderr)
        return 1
    except OSError as e:
        print(f"error: {write_failure(args.output, e)}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted: nothing was written", file=sys.stderr)
        return 130
    for warning in result.warnings:
        print(f"warning: {one_line(f'{args.source}: {warning}')}", file=sys.stderr)
    print(f"{args.output}: {result.summary()}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
