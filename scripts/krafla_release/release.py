# SPDX-License-Identifier: MIT
"""Release a version as one transaction: interrupted anywhere, the same command goes on from there.

    .venv/bin/invoke release --version 0.2.0 --dry-run    everything up to the plan; changes nothing
    .venv/bin/invoke release --version 0.2.0              all of it: files, draft, tag, DOI
    .venv/bin/invoke release --version 0.2.0 --resume     goes on with a draft that was left behind

The files and the journal go to dist/vX.Y.Z/.  What is on GitHub is looked up before each change and
after it; a published release is never changed.  GITHUB_TOKEN must be allowed to write releases, but
not for --dry-run.  Exit codes: 0 done, 1 a step failed, 2 usage, 3 not ready, 4 not what it must
be, 5 refused by GitHub, 75 later: run it again with --resume.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import dataclasses
import hashlib
import importlib.util
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from krafla_release import (
    assets,
    bump,
    checksums,
    github,
    http,
    notes,
    plan,
    preflight,
    rehearsal,
    site,
    versions,
    zenodo,
)
from krafla_release import journal as journals
from krafla_release.plan import Action, File, Wanted
from krafla_release.project import (
    ROOT,
    PreflightError,
    ReleaseError,
    TryLaterError,
    VerificationError,
    exit_code,
    output,
    write_atomically,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from krafla_release.github import Asset, Client, Release
    from krafla_release.journal import Entry, Journal
    from krafla_release.versions import Version

NOTES = "notes.md"
DOI_WAIT = 30 * zenodo.MINUTE  # then the workflow zenodo-doi, or --resume, goes on
DRY_TRIES = 2  # a machine without network must not wait long to be told so


@dataclasses.dataclass
class Line:
    """One run of the release line."""

    version: Version
    commit: str
    directory: Path
    journal: Journal
    client: Client
    dry_run: bool
    resume: bool
    pause: float
    inputs: str = ""  # digest of all that the local steps so far have depended on and made
    reachable: bool = True
    release: Release | None = None  # as last seen on GitHub
    doi: str = ""


@dataclasses.dataclass(frozen=True)
class Step:
    """One row of the table that looks at what is there, or changes something on GitHub."""

    name: str
    what: str
    work: Callable[[Line], None]


@dataclasses.dataclass(frozen=True)
class LocalStep:
    """One row of the table that makes files here, done once while inputs and files are the same."""

    name: str
    what: str
    make: Callable[[Path], list[str]]


# ---- on this machine ----------------------------------------------------------------------------


def looked_up(line: Line, step: LocalStep, before: str) -> tuple[str, Entry | None]:
    """Return the digest of a step's inputs, and its entry if it need not be done again."""
    inputs = journals.digest_of(step.name, line.commit, before)
    return inputs, line.journal.done(step.name, line.commit, inputs)


def work_locally(line: Line, step: LocalStep) -> None:
    """Do a step unless it was done already."""
    inputs, entry = looked_up(line, step, line.inputs)
    if entry:
        print(f"  done before; {len(entry.outputs)} files are still as it made them")
    else:
        names = step.make(line.directory)
        preflight.check_unchanged(line.commit, step.name)
        made = {name: checksums.digest_of(line.directory / name) for name in names}
        entry = line.journal.add(step.name, line.commit, inputs=inputs, outputs=made)
    line.inputs = journals.digest_of(inputs, entry.outputs)


def all_made(line: Line, tools: dict[str, str]) -> bool:
    """Return whether every step on a machine was done already, with these versions of tools."""
    before = journals.digest_of(tools)
    for step in local_steps(line.version):
        inputs, entry = looked_up(line, step, before)
        if not entry:
            return False
        before = journals.digest_of(inputs, entry.outputs)
    return True


def check_everything(line: Line) -> None:
    """Fail with all that stands in the way; take the tools' versions in as inputs."""
    zenodo.api_url()  # a wrong address is refused now, not when all is public
    faults = preflight.source_faults(line.version)
    other = line.journal.other_release(line.commit)
    if other:
        faults.append(
            f"{line.directory} belongs to {other.commit}, of which {other.step} {other.remote} was"
            " made: go on from that commit, or delete the draft and that directory"
        )
    before = line.journal.last("preflight", line.commit)
    settled = line.resume or bool(assets.missing_tools())
    if before and settled and all_made(line, before.facts):
        # These files were proven, and perhaps attested: other tools here do not make them anew.
        tools = before.facts
        faults += preflight.disk_faults(line.directory)
    else:
        tools = assets.tool_versions()
        faults += preflight.machine_faults(line.directory)
    if not line.dry_run and not line.client.token:
        faults.append("GITHUB_TOKEN is not set: it needs contents: write, or use --dry-run")
    preflight.check(faults)
    preflight.check(remote_faults(line))
    if not before or before.facts != tools:
        line.journal.add("preflight", line.commit, facts=tools)
    line.inputs = journals.digest_of(tools)


def remote_faults(line: Line) -> list[str]:
    """Return what stands in the way on GitHub; a dry run does without it."""
    try:
        return preflight.remote_faults(
            line.client, line.version, line.commit, dry_run=line.dry_run, resume=line.resume
        )
    except PreflightError:
        raise
    except ReleaseError as error:
        if not line.dry_run:
            raise
        line.reachable = False
        print(f"  could not ask GitHub; compared with local tags ({error})")
        return preflight.order_faults(line.version, preflight.local_versions())


def write_notes(version: Version) -> Callable[[Path], list[str]]:
    """Return the step that writes the text of the release page."""

    def work(directory: Path) -> list[str]:
        write_atomically(directory / NOTES, notes.release_notes(version).encode())
        return [NOTES]

    return work


# ---- the engine: look, compare, change one thing, look again ------------------------------------


def wanted(line: Line) -> Wanted:
    """Return the release as it should be, from files that were verified just now."""
    sums = checksums.verify(line.directory)
    sums[checksums.FILE_NAME] = checksums.digest_of(line.directory / checksums.FILE_NAME)
    if list(sums) != assets.expected():
        raise VerificationError(
            f"{line.directory / checksums.FILE_NAME} lists {', '.join(sums)}; "
            f"a release has {', '.join(assets.expected())}"
        )
    files = [
        File(name, (line.directory / name).stat().st_size, digest) for name, digest in sums.items()
    ]
    return Wanted(
        tag=line.version.tag,
        commit=line.commit,
        title=notes.title(line.version),
        body=(line.directory / NOTES).read_text(),
        files=tuple(files),
    )


def observe(line: Line) -> Release | None:
    """Return the release as it is on GitHub now."""
    if line.release:
        line.release = line.client.get(line.release.id)
    else:
        line.release = line.client.find(line.version.tag)
    return line.release


def missing(line: Line, target: Wanted) -> list[Action]:
    """Return what is still to be done on GitHub."""
    return plan.actions(target, observe(line), line.client.digest)


def converge(line: Line, *kinds: str) -> None:
    """Do what is missing of some kinds, one after the other, looking again after each.

    A change that fails may have been made all the same: only what is missing afterwards is tried
    again, after a while.
    """
    target = wanted(line)
    waits = line.client.session.waits()
    tried = collections.Counter[Action]()
    while True:
        action = next((one for one in missing(line, target) if one.kind in kinds), None)
        if action is None:
            return
        if tried[action] == len(waits):
            raise TryLaterError(f"GitHub does not show that it did {action.kind} {action.what}")
        wait = waits[tried[action]]
        tried[action] += 1
        print(f"  {action.kind} {action.what}: {action.why}", flush=True)
        try:
            remote = apply(line, target, action)
        except TryLaterError as error:
            http.wait_after(error, wait)
            print("  looking whether it was done", flush=True)
        else:
            what = {"what": action.what}
            line.journal.add(action.kind, line.commit, facts=what, remote=str(remote))


def apply(line: Line, target: Wanted, action: Action) -> int:
    """Make one change and return the id of what was changed."""
    if action.kind == plan.DRAFT:
        line.release = line.client.create_draft(
            target.tag, target.commit, target.title, target.body
        )
        return line.release.id
    assert line.release
    if action.kind == plan.DELETE:
        line.client.delete_asset(action.asset)
        return action.asset
    if action.kind == plan.UPLOAD:
        data = (line.directory / action.what).read_bytes()
        file = target.file(action.what)
        check_bytes(file, data, str(line.directory / action.what))
        return line.client.upload(line.release, action.what, data).id
    if action.kind == plan.NOTES:
        return line.client.edit(line.release, target.body).id
    assert action.kind == plan.PUBLISH
    return line.client.publish(line.release).id


def check_bytes(file: File | None, data: bytes, where: str) -> None:
    """Fail unless bytes are those of a file of the release."""
    if file is None or hashlib.sha256(data).hexdigest() != file.digest:
        raise VerificationError(f"{where} is not the file that {checksums.FILE_NAME} lists")


def verify(line: Line, download: Callable[[Asset, int], bytes]) -> None:
    """Download every file and compare it with SHA256SUMS."""
    target, release = wanted(line), observe(line)
    there = {asset.name: asset for asset in release.assets} if release else {}
    for file in target.files:
        if file.name not in there:
            raise VerificationError(f"{line.version.tag} on GitHub has no {file.name}")
        data = download(there[file.name], file.size)
        check_bytes(file, data, f"{file.name} as GitHub returns it")
    print(f"  {len(target.files)} files came back as they were sent")


# ---- on GitHub and Zenodo -----------------------------------------------------------------------


def show_plan(line: Line) -> None:
    """Show what would be done on GitHub, and write it down for other programs."""
    target = wanted(line)
    found = observe(line) if line.reachable else None
    todo = plan.actions(target, found, line.client.digest)
    todo.append(plan.Action(plan.DOI, target.tag, "awaited from Zenodo, added to the notes"))
    write_atomically(
        line.directory / plan.FILE_NAME,
        plan.as_json(target, line.client.repository, todo).encode(),
    )
    print(f"{target.tag} of {line.client.repository} at {line.commit}")
    print(
        "".join(f"  {file.digest}  {file.size:>9}  {file.name}\n" for file in target.files), end=""
    )
    print(plan.table(todo), end="")
    if line.dry_run:
        print(f"dry run: nothing was changed; the files are in {line.directory}")


def draft(line: Line) -> None:
    """Find the draft or make one, with the notes as they should be."""
    converge(line, plan.DRAFT, plan.NOTES)


def upload(line: Line) -> None:
    """Upload what the draft lacks, by digest; delete what must not be there."""
    converge(line, plan.DELETE, plan.UPLOAD)


def verify_draft(line: Line) -> None:
    """Download the files of the draft before anybody else can."""
    release = observe(line)
    if release and not release.draft:
        print("  published already")
        return
    verify(line, line.client.download)


def publish(line: Line) -> None:
    """Publish, which creates the tag; then see what everybody sees now."""
    converge(line, plan.PUBLISH)
    tagged = line.client.commit_of(f"tags/{line.version.tag}")
    if tagged is None:
        raise TryLaterError(f"GitHub does not show the tag {line.version.tag} yet")
    if tagged != line.commit:
        raise VerificationError(f"{line.version.tag} is the tag of {tagged}, not of {line.commit}")
    verify(line, line.client.download_public)


def await_doi(line: Line) -> None:
    """Wait until Zenodo has archived the release."""
    doi = zenodo.wait(
        line.version,
        http.session(pause=line.pause),
        sleep=lambda seconds: time.sleep(seconds * line.pause),
        longest=DOI_WAIT,
    )
    if not doi:
        raise zenodo.pending(line.version)
    line.doi = doi
    print(f"  {doi}")


def complete_notes(line: Line) -> None:
    """Add the DOI to the notes; a failure in between is looked at again, like all changes."""
    for wait in line.client.session.waits():
        try:
            if zenodo.add(line.client, line.version, line.doi):
                line.journal.add("doi", line.commit, remote=line.doi)
            return
        except TryLaterError as error:
            http.wait_after(error, wait)


def docs_page(line: Line) -> None:
    """See that the site's changelog page is this version's; build the site if that can be."""
    stale = bump.problems(line.version)
    if stale:
        raise VerificationError(", ".join(stale))
    if importlib.util.find_spec("mkdocs"):
        site.build()
    else:
        print("  not built here: mkdocs is not installed")


def local_steps(version: Version) -> list[LocalStep]:
    """Return the steps that make files, in order."""
    return [
        LocalStep("build", "the programs of every archive", assets.build),
        LocalStep("audit", "no program holds what it must not", assets.audit),
        LocalStep("package", "archives, wheels, Debian packages, install.sh", assets.package),
        LocalStep("contract", "names, members and modes are the agreed ones", assets.check),
        LocalStep("smoke", "every packed file is installed and run", assets.prove),
        LocalStep("sums", "bill of materials and SHA256SUMS", assets.seal),
        LocalStep("notes", "the release page, from CHANGELOG.md", write_notes(version)),
    ]


def steps(version: Version, *, dry_run: bool) -> list[Step | LocalStep]:
    """Return the release line, in order; a dry run ends with the plan."""
    until_plan: list[Step | LocalStep] = [
        Step("preflight", "sources, tools and GitHub are ready", check_everything),
        *local_steps(version),
        Step("plan", "what is missing on GitHub", show_plan),
    ]
    if dry_run:
        return until_plan
    return [
        *until_plan,
        Step("draft", "found or made", draft),
        Step("upload", "the missing files, by digest", upload),
        Step("verify", "downloaded again and compared", verify_draft),
        Step("publish", "the release and its tag", publish),
        Step("doi", "awaited from Zenodo", await_doi),
        Step("complete", "the DOI in the notes", complete_notes),
        Step("docs", "the site has this version's changelog page", docs_page),
    ]


def run(line: Line) -> None:
    """Go through the table."""
    table = steps(line.version, dry_run=line.dry_run)
    for number, step in enumerate(table, 1):
        print(f"[{number}/{len(table)}] {step.name}: {step.what}", flush=True)
        begun = time.monotonic()
        try:
            if isinstance(step, LocalStep):
                work_locally(line, step)
            else:
                step.work(line)
        except ReleaseError as error:
            line.journal.add(step.name, line.commit, outcome=f"failed: {error}")
            raise
        seconds = time.monotonic() - begun
        if seconds >= 1.0:
            print(f"  {step.name} took {seconds:.0f} s", flush=True)


# ---- the command --------------------------------------------------------------------------------


def agreed(question: str) -> bool:
    """Return whether a person at the terminal says yes; its end says nothing."""
    try:
        return input(question).strip().lower() in ("y", "yes")
    except EOFError:
        print()
        return False


def offer(version: Version, planned: Sequence[bump.Change]) -> None:
    """Show the bump that is missing, and write it if a person at a terminal says yes."""
    print("".join(change.diff() for change in planned), end="")
    print(f"the sources are not those of {version}: the diff above makes them so")
    if not sys.stdin.isatty():
        how = f".venv/bin/python -m krafla_release.bump --version {version} --write"
        raise PreflightError(f"nobody is there to say yes; to write it: PYTHONPATH=scripts {how}")
    if not agreed("write it? [y/N] "):
        raise PreflightError("nothing is written")
    bump.write(planned)
    print(f"written: {', '.join(str(change.path) for change in planned)}")
    print(f'next: git commit --all --message "Krafla {version}", and merge it as a pull request;')
    print("then the workflow auto-release does the rest, or the same command here")


def release(args: argparse.Namespace, pause: float) -> int:
    """Release, rehearse or offer, and return the exit code."""
    version = versions.parse(args.version)
    directory = args.dist or ROOT / "dist" / version.tag
    planned = bump.changes(version)
    if planned and args.dry_run:
        return rehearsal.rehearse(version, directory)
    if planned:
        offer(version, planned)
        return 0
    tries = DRY_TRIES if args.dry_run else http.TRIES
    client = github.from_environment(pause, tries)
    os.environ.pop("GITHUB_TOKEN", None)  # what is built and run from here on does not need it
    with contextlib.closing(journals.Journal(directory)) as journal:
        line = Line(
            version=version,
            commit=output("git", "rev-parse", "HEAD"),
            directory=directory,
            journal=journal,
            client=client,
            dry_run=args.dry_run,
            resume=args.resume,
            pause=pause,
        )
        run(line)
        if line.release and not args.dry_run:
            print(f"done: {line.release.page}")
    return 0


def main(argv: Sequence[str] | None = None, pause: float = 1.0) -> int:
    """Release a version; `pause` is the unit of all waiting."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--version", required=True, metavar="X.Y.Z", help="what to release")
    parser.add_argument("--dry-run", action="store_true", help="end with the plan, change nothing")
    parser.add_argument("--resume", action="store_true", help="go on with the draft that is there")
    parser.add_argument("--dist", type=Path, help="where the files go (default: dist/vX.Y.Z)")
    args = parser.parse_args(argv)
    code = 0

    def work() -> None:
        nonlocal code
        try:
            code = release(args, pause)
        except KeyboardInterrupt:
            how = "" if args.dry_run else " with --resume"
            print(f"\nthe same command{how} goes on from here", flush=True)
            raise

    return exit_code(work) or code


if __name__ == "__main__":
    sys.exit(main())
