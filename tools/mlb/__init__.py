# SPDX-License-Identifier: MIT
"""Krafla's file formats, quantization and checkpoint readers, in Python with numpy only.

PYTHONPATH=tools python3 -c "import mlb; print(mlb.VERSION)"
"""

import importlib.util
import sys

if importlib.util.find_spec("numpy") is None:
    sys.exit("error: numpy is missing: apt-get install python3-numpy, or pip install numpy")

VERSION = "0.1.0"  # the same as ML_VERSION in runtime/core/ml.h; a test compares them
