#!/bin/sh
cd "$(dirname "$0")/.." && PYTHONPATH=scripts exec .venv/bin/python -m krafla_release.smoke "$@"
