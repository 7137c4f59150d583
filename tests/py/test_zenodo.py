# SPDX-License-Identifier: MIT
"""The DOI of a release, found and written by the real clients on loopback services.

.venv/bin/python -m pytest tests/py/test_zenodo.py
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import pytest

from krafla_release import github, http, notes, versions, zenodo
from krafla_release.project import RemoteError, TryLaterError, VerificationError, exit_code, facts
from loopback import Answer, Fault, Request, as_json
from loopback_github import OWNER_NAME, GitHub, StoredRelease
from loopback_zenodo import API, CONCEPT, REPOSITORY, Zenodo

RECORDS = f"{API}/records"
V = versions.parse("0.2.0")
NOTES = "### Added\n\n- Everything.\n"


@pytest.fixture
def archive(monkeypatch: pytest.MonkeyPatch) -> Iterator[Zenodo]:
    """Return a loopback Zenodo that the client is pointed at."""
    service = Zenodo()
    monkeypatch.setenv("ZENODO_API_URL", service.api)
    with service.running():
        yield service


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[GitHub]:
    """Return a loopback GitHub with the release v0.2.0."""
    service = GitHub()
    release = StoredRelease(1, "v0.2.0", "c" * 40, "Krafla v0.2.0", NOTES, draft=False)
    service.releases.append(release)
    monkeypatch.setenv("GITHUB_API_URL", service.api)
    monkeypatch.setenv("GITHUB_REPOSITORY", OWNER_NAME)
    monkeypatch.setenv("GITHUB_TOKEN", "token")
    with service.running():
        yield service


def found(version: versions.Version = V) -> str | None:
    """Return what the real client finds, without its long pauses."""
    return zenodo.version_doi(version, http.session(pause=0.01, tries=3))


def run(*words: str) -> int:
    """Run the command line without its long pauses."""
    return zenodo.main(["--version", "0.2.0", *words], pause=0.01, tries=3)


def test_the_stand_in_has_the_names_of_the_project() -> None:
    assert (facts()["concept_doi"], facts()["repository"]) == (CONCEPT, REPOSITORY)


def test_the_version_doi_is_found_among_other_versions(archive: Zenodo) -> None:
    archive.archive("0.1.0")
    wanted = archive.archive("0.2.0")
    archive.archive("0.2.1")
    assert found() == wanted.doi


def test_a_version_beyond_the_first_page_is_found(archive: Zenodo) -> None:
    wanted = archive.archive("0.2.0")
    for number in range(60):
        archive.archive(f"0.3.{number}")
    assert found() == wanted.doi
    assert len(archive.log) == 3


def test_what_is_not_archived_is_pending(archive: Zenodo) -> None:
    assert found() is None
    archive.archive("0.1.0")
    assert found() is None


def test_an_index_that_lags_is_pending_until_it_knows(archive: Zenodo) -> None:
    wanted = archive.archive("0.2.0", lag=2)
    assert [found(), found(), found()] == [None, None, wanted.doi]


def test_a_longer_version_is_another_one(archive: Zenodo) -> None:
    archive.archive("0.2.0", version="", title="Krafla v0.2.01", related="")
    archive.archive(
        "0.2.0", version="10.2.0", title="Krafla v0.2.0.1", related=f"{REPOSITORY}/v0.2.0"
    )
    archive.archive(
        "0.2.0", version="2", title="Krafla v0.2.0-rc1", related="https://x/tree/v0.2.0"
    )
    assert found() is None


@pytest.mark.parametrize(
    "sign",
    [
        {"related": f"http://GitHub.com/{REPOSITORY}/tree/v0.2.0", "version": "x", "title": "x"},
        {"related": "", "version": "v0.2.0", "title": "x"},
        {"related": "", "version": "0.2.0", "title": "x"},
        {"related": "", "version": "", "title": "Krafla v0.2.0."},
    ],
    ids=["related", "version-with-v", "version", "title"],
)
def test_each_sign_alone_is_enough(archive: Zenodo, sign: dict[str, str]) -> None:
    wanted = archive.archive("0.2.0", **sign)
    archive.archive("0.1.0")
    assert found() == wanted.doi


def test_the_link_to_the_tag_wins_over_a_version_that_lies(archive: Zenodo) -> None:
    archive.archive("0.1.0", version="v0.2.0")
    wanted = archive.archive("0.2.0", version="v0.1.0")
    archive.archive("0.1.1", title="after v0.2.0")
    assert found() == wanted.doi


def test_two_records_of_one_version_are_refused(archive: Zenodo) -> None:
    dois = [archive.archive("0.2.0").doi, archive.archive("0.2.0").doi]
    with pytest.raises(VerificationError, match=" and ".join(dois)):
        found()


def test_a_record_of_another_concept_is_not_taken(archive: Zenodo) -> None:
    archive.archive("0.2.0", concept=f"{CONCEPT}9")
    assert found() is None


def test_the_concept_doi_is_never_the_version_doi(archive: Zenodo) -> None:
    archive.archive("0.2.0").number = int(CONCEPT.rpartition(".")[2])
    assert found() is None
    with pytest.raises(VerificationError):
        notes.with_doi("", CONCEPT)


@pytest.mark.parametrize(
    "doi", [None, 5, "10.1234/zenodo.1", "10.5281/zenodo.1x", "", "10.5281/zenodo.1\n"]
)
def test_what_is_no_doi_of_zenodo_is_not_taken(doi: object) -> None:
    hit = {"conceptdoi": CONCEPT, "doi": doi, "metadata": {"version": "v0.2.0"}}
    assert zenodo.record_of(hit) is None


@pytest.mark.parametrize("related", [None, 5, "text", {"identifier": "x"}, [5]])
def test_odd_related_identifiers_are_none(related: object) -> None:
    metadata = {"version": "v0.2.0", "related_identifiers": related}
    hit = {"conceptdoi": CONCEPT, "doi": "10.5281/zenodo.1", "metadata": metadata}
    record = zenodo.record_of(hit)
    assert record
    assert record.related == ()


@pytest.mark.parametrize(
    "fault",
    [
        Fault("GET", RECORDS, times=2),
        Fault("GET", RECORDS, "refuse"),
        Fault("GET", RECORDS, "cut"),
        Fault("GET", RECORDS, status=429, headers={"Retry-After": "0"}),
        Fault("GET", RECORDS, "slow", seconds=0.2),
    ],
    ids=["503", "refused", "cut", "429", "slow"],
)
def test_a_passing_fault_is_overcome(archive: Zenodo, fault: Fault) -> None:
    wanted = archive.archive("0.2.0")
    archive.faults.append(fault)
    assert found() == wanted.doi


def test_the_rate_limit_of_searches_is_waited_for(archive: Zenodo) -> None:
    wanted = archive.archive("0.2.0")
    archive.limit = 0
    assert found() == wanted.doi
    assert [line.status for line in archive.log] == [429, 200]


def test_a_long_rate_limit_is_for_later(archive: Zenodo) -> None:
    archive.faults.append(Fault("GET", RECORDS, status=429, headers={"Retry-After": "3600"}))
    with pytest.raises(TryLaterError, match="rate limit, again in 60 minutes"):
        found()


@pytest.mark.parametrize(
    "body",
    [
        b"<html>we are sorry</html>",
        b"[]",
        b'{"hits": {"total": "many", "hits": []}}',
        b'{"hits": {"total": Infinity, "hits": []}}',
        b'{"hits": {"total": 1, "hits": {}}}',
        b"[" * 100_000,
        b"\xff",
    ],
    ids=["page", "list", "total", "infinite", "hits", "deep", "bytes"],
)
def test_a_success_that_holds_no_records_is_an_outage(archive: Zenodo, body: bytes) -> None:
    archive.faults.append(Fault("GET", RECORDS, status=200, body=body))
    with pytest.raises(TryLaterError, match="no list of records"):
        found()


@pytest.mark.parametrize("hit", [None, [], {"doi": 1}, {"conceptdoi": CONCEPT, "doi": CONCEPT}])
def test_odd_records_are_passed_over(
    archive: Zenodo, hit: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    def answer(_: Request) -> Answer:
        return as_json({"hits": {"total": 1, "hits": [hit]}})

    monkeypatch.setattr(archive, "answer", answer)
    assert found() is None


def test_an_endless_list_is_refused(archive: Zenodo, monkeypatch: pytest.MonkeyPatch) -> None:
    def answer(_: Request) -> Answer:
        return as_json({"hits": {"total": 1 << 40, "hits": [{}]}})

    monkeypatch.setattr(archive, "answer", answer)
    with pytest.raises(RemoteError, match="more than 40 versions"):
        found()
    assert len(archive.log) == zenodo.PAGES


def test_the_user_agent_names_the_project(archive: Zenodo) -> None:
    found()
    assert archive.log[0].headers["user-agent"].startswith("krafla-release/")
    assert f"+https://github.com/{REPOSITORY}" in archive.log[0].headers["user-agent"]


def test_waiting_asks_more_and_more_rarely(
    archive: Zenodo, capsys: pytest.CaptureFixture[str]
) -> None:
    wanted = archive.archive("0.2.0", lag=6)
    archive.faults.append(Fault("GET", RECORDS, times=2))
    pauses: list[float] = []
    session = http.session(pause=0.01, tries=1)
    assert zenodo.wait(V, session, sleep=pauses.append) == wanted.doi
    assert [pause / zenodo.MINUTE for pause in pauses] == [1, 2, 4, 8, 15, 15, 15, 15]
    lines = capsys.readouterr().out.splitlines()
    assert "503" in lines[0]
    assert lines[-1] == "Zenodo, v0.2.0: not archived yet; asking again in 15 min"


def test_waiting_ends_at_its_bound(archive: Zenodo) -> None:
    pauses: list[float] = []
    assert zenodo.wait(V, sleep=pauses.append) is None
    assert sum(pauses) <= zenodo.LONGEST < sum(pauses) + zenodo.PAUSES[-1]
    assert len(archive.log) == len(pauses) + 1


def test_waiting_leaves_zenodo_alone_for_as_long_as_it_asks(archive: Zenodo) -> None:
    wanted = archive.archive("0.2.0")
    archive.faults.append(Fault("GET", RECORDS, status=429, headers={"Retry-After": "3600"}))
    pauses: list[float] = []
    assert zenodo.wait(V, sleep=pauses.append) == wanted.doi
    assert pauses == [3600]
    archive.faults.append(Fault("GET", RECORDS, status=429, headers={"Retry-After": "9999"}))
    assert zenodo.wait(V, sleep=pauses.append) is None
    assert len(archive.log) == 3


def test_ctrl_c_ends_the_waiting_and_leaves_nothing(
    archive: Zenodo, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(_: float) -> None:
        raise KeyboardInterrupt

    assert exit_code(lambda: zenodo.wait(V, sleep=interrupted)) == 130
    assert capsys.readouterr().err == "error: interrupted\n"
    wanted = archive.archive("0.2.0")
    assert zenodo.wait(V, sleep=interrupted) == wanted.doi


def test_an_error_that_stays_ends_the_waiting(archive: Zenodo) -> None:
    archive.archive("0.2.0")
    archive.archive("0.2.0")
    pauses: list[float] = []
    with pytest.raises(VerificationError):
        zenodo.wait(V, sleep=pauses.append)
    assert pauses == []


def test_the_doi_is_added_once(
    archive: Zenodo, hub: GitHub, capsys: pytest.CaptureFixture[str]
) -> None:
    doi = archive.archive("0.2.0").doi
    assert run() == 0
    assert hub.releases[0].body == notes.with_doi(NOTES, doi)
    assert f"https://doi.org/{doi}" in hub.releases[0].body
    assert len(hub.changing()) == 1
    assert run() == 0
    assert len(hub.changing()) == 1
    assert "already, nothing to do" in capsys.readouterr().out


def test_a_dry_run_changes_nothing_and_needs_no_token(
    archive: Zenodo, hub: GitHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive.archive("0.2.0")
    monkeypatch.delenv("GITHUB_TOKEN")
    assert run("--dry-run") == 0
    assert (hub.changing(), hub.releases[0].body) == ([], NOTES)


def test_pending_is_75_and_says_what_to_do(
    archive: Zenodo, hub: GitHub, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run() == 75
    assert "then run invoke zenodo-doi --version 0.2.0" in capsys.readouterr().err
    assert hub.changing() == []
    assert len(archive.log) == 1


def test_a_lost_answer_of_the_change_is_looked_up(archive: Zenodo, hub: GitHub) -> None:
    archive.archive("0.2.0")
    hub.faults.append(Fault("PATCH", ".*", "lost"))
    assert run() == 0
    assert len(hub.changing()) == 1


def test_a_change_that_was_not_made_is_for_later(archive: Zenodo, hub: GitHub) -> None:
    archive.archive("0.2.0")
    hub.faults.append(Fault("PATCH", ".*"))
    assert run() == 75
    assert hub.releases[0].body == NOTES
    assert run() == 0


def test_notes_that_somebody_changed_meanwhile_are_noticed(archive: Zenodo, hub: GitHub) -> None:
    archive.archive("0.2.0")

    def also_edit(request: Request, when: str) -> bool:
        if request.method == "PATCH" and when == "done":
            hub.releases[0].body = "mine"
        return False

    hub.watch = also_edit
    assert run() == 75
    hub.watch = lambda _request, _when: False
    assert run() == 0
    assert hub.releases[0].body.startswith("mine\n\n<!-- doi:start -->")


def test_notes_that_come_back_with_other_line_ends_are_those_that_were_written(
    archive: Zenodo, hub: GitHub
) -> None:
    archive.archive("0.2.0")

    def as_a_browser(request: Request, when: str) -> bool:
        if request.method == "PATCH" and when == "done":
            hub.releases[0].body = hub.releases[0].body.replace("\n", "\r\n")
        return False

    hub.watch = as_a_browser
    assert run() == 0
    assert len(hub.changing()) == 1


def test_notes_edited_in_a_browser_are_not_edited_again(archive: Zenodo, hub: GitHub) -> None:
    doi = archive.archive("0.2.0").doi
    hub.releases[0].body = notes.with_doi(NOTES, doi).replace("\n", "\r\n")
    assert run() == 0
    assert hub.changing() == []


def test_an_expired_token_is_refused_in_one_line(
    archive: Zenodo, hub: GitHub, capsys: pytest.CaptureFixture[str]
) -> None:
    archive.archive("0.2.0")
    hub.tokens["token"] = 0
    assert run() == 5
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "GITHUB_TOKEN" in said


@pytest.mark.parametrize("draft", [True, False], ids=["draft", "none"])
def test_what_is_not_published_gets_no_doi(archive: Zenodo, hub: GitHub, *, draft: bool) -> None:
    archive.archive("0.2.0")
    hub.releases = [StoredRelease(1, "v0.2.0", "c" * 40, "", NOTES)] if draft else []
    assert run() == 3
    assert (archive.log, hub.changing()) == ([], [])


@pytest.mark.parametrize("url", ["zenodo.org/api", "ftp://zenodo.org", "https://"])
def test_a_strange_address_is_refused(
    hub: GitHub, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ZENODO_API_URL", url)
    assert run() == 3
    assert hub.changing() == []


def test_the_real_addresses_are_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ZENODO_API_URL", raising=False)
    assert zenodo.api_url() == "https://zenodo.org/api"
    assert github.API_URL == "https://api.github.com"


def test_a_version_is_checked_before_anybody_is_asked(capsys: pytest.CaptureFixture[str]) -> None:
    assert zenodo.main(["--version", "v0.2.0"]) == 2
    assert "want X.Y.Z" in capsys.readouterr().err


def test_without_a_version_the_newest_published_one_is_meant(
    archive: Zenodo, hub: GitHub, capsys: pytest.CaptureFixture[str]
) -> None:
    older = dataclasses.replace(hub.releases[0], id=2, tag="v0.1.9")
    draft = dataclasses.replace(hub.releases[0], id=3, tag="v0.3.0", draft=True)
    hub.releases += [older, draft]
    doi = archive.archive("0.2.0").doi
    assert zenodo.main([], pause=0.01, tries=3) == 0
    assert doi in hub.releases[0].body
    hub.releases[:] = [draft]
    assert zenodo.main([], pause=0.01, tries=3) == 0
    assert "has published no version yet" in capsys.readouterr().out
