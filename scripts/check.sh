#!/bin/sh
# Install what the tests need, then run everything that CI runs.  `scripts/check.sh lint types` runs only those steps.
set -eu
cd "$(dirname "$0")/.."
scripts/bootstrap.sh --for-check
PYTHONPATH=scripts exec .venv/bin/python -m krafla_release.check "$@"
