# SPDX-License-Identifier: MIT
"""Build, test, package, prove and publish Krafla; tasks.py and noxfile.py are its front ends.

    PYTHONPATH=scripts python3 -m krafla_release.package --help

The modules in the order in which a commit becomes a release:

    table     project, versions, archives: what is published, of which version, what goes in
    build     build; doctor says what this machine lacks
    test      testing, kernels, emulated (x86 and ARM), windows (wine), cmake; lint; check runs all
    audit     audit, instructions: what no program may have
    package   package (packed), wheel, deb (manual), installer, container; repro builds them again
    smoke     smoke, wheel_smoke (sysroot): each packed file installed and run
    plan      assets, checksums, sbom, changelog, notes, citation, preflight, plan
    publish   release drives all of it (journal, rehearsal) over github (http); bump, due before it
    verify    zenodo: the DOI; site, docs_*: pages, tables and commands of the docs

Nothing here lists instruction sets (runtime/kernels/isas.txt does) or archives (packaging/ does).
"""
