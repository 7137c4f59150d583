#!/bin/sh
# From a fresh checkout to an answer of a real model, started from the packaged archive.
set -eu
cd "$(dirname "$0")/.."
scripts/bootstrap.sh
PYTHONPATH=scripts exec .venv/bin/python -m krafla_release.quickstart
