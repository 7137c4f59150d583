# SPDX-License-Identifier: MIT
"""Build, test, package and prove Krafla's releases; tasks.py and noxfile.py are its front ends.

    PYTHONPATH=scripts python3 -m krafla_release.package

Nothing here lists instruction sets (runtime/kernels/isas.txt does) or archives (packaging/ does).
"""
