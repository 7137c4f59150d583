# SPDX-License-Identifier: MIT
"""The client of GitHub and its session: what they send where, and what they believe.

.venv/bin/python -m pytest tests/py/test_github.py
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from krafla_release import github, http
from krafla_release.github import Client
from krafla_release.project import (
    PreflightError,
    RemoteError,
    TryLaterError,
    VerificationError,
)
from loopback import Fault
from loopback_github import API, HOME, OWNER_NAME, PUBLIC, STORAGE, UPLOADS, GitHub

COMMIT = "c" * 40
PAUSE = 0.001


@pytest.fixture
def server() -> Iterator[GitHub]:
    service = GitHub(COMMIT)
    with service.running():
        yield service


@pytest.fixture
def client(server: GitHub) -> Client:
    return Client(OWNER_NAME, "token", server.api, PAUSE)


def draft(client: Client) -> github.Release:
    return client.create_draft("v1.0.0", COMMIT, "title", "notes")


def test_a_draft_is_made_found_filled_and_published(client: Client, server: GitHub) -> None:
    assert client.find("v1.0.0") is None
    made = draft(client)
    assert client.find("v1.0.0") == made
    client.upload(made, "a.zip", b"data")
    client.publish(made)
    release = client.get(made.id)
    assert not release.draft
    assert [(asset.name, asset.size) for asset in release.assets] == [("a.zip", 4)]
    assert client.download_public(release.assets[0]) == b"data"
    assert server.tags == {"v1.0.0": COMMIT}


def test_the_token_is_sent_to_github_and_nowhere_else(client: Client, server: GitHub) -> None:
    asset = client.upload(draft(client), "a.zip", b"data")
    assert client.download(asset) == b"data"
    client.publish(client.releases()[0])
    client.download_public(asset)
    with_token = {line.path for line in server.log if "authorization" in line.headers}
    without = {line.path for line in server.log} - with_token
    assert without == {f"{STORAGE}/{asset.id}", f"{PUBLIC}/v1.0.0/a.zip"}


def test_a_netrc_file_does_not_replace_the_token(
    client: Client, server: GitHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login other password secret\n")
    monkeypatch.setenv("NETRC", str(netrc))
    client.releases()
    assert server.log[0].headers["authorization"] == "Bearer token"


def test_every_request_says_who_asks(client: Client, server: GitHub) -> None:
    client.releases()
    assert server.log[0].headers["user-agent"].startswith("krafla-release/")
    assert server.log[0].headers["x-github-api-version"] == github.API_VERSION


def test_pages_are_read_to_the_last(client: Client, server: GitHub) -> None:
    server.page_size = 2
    for number in range(5):
        client.create_draft(f"v1.0.{number}", COMMIT, "", "")
    assert len(client.releases()) == 5
    server.releases.clear()
    assert client.releases() == []


def test_a_list_without_end_is_given_up(
    client: Client, server: GitHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(github, "PAGES", 3)
    again = {"Link": f'<{server.api}>; rel="next"', "Content-Type": "application/json"}
    server.faults.append(Fault("GET", ".*", status=200, headers=again, body=b"[]", times=99))
    with pytest.raises(RemoteError, match="has no last page"):
        client.releases()
    assert len(server.log) == 3


def test_files_go_only_to_hosts_of_the_same_github(client: Client) -> None:
    made = draft(client)
    for url in ("http://evil.example/upload", "ftp://127.0.0.1/upload"):
        with pytest.raises(RemoteError, match="GitHub wants uploads at"):
            client.upload(release_with(made, url), "a.zip", b"")
    api = "https://api.github.com/repos/x/y"
    github.check_upload_url(api, "https://uploads.github.com/repos/x/y/releases/1/assets")
    with pytest.raises(RemoteError, match=r"is not github\.com"):
        github.check_upload_url(api, "https://github.com.evil.example/upload")
    with pytest.raises(RemoteError, match="GitHub wants uploads at"):
        github.check_upload_url(api, "http://uploads.github.com/not-encrypted")


def release_with(made: github.Release, upload_url: str) -> github.Release:
    fields = {name: getattr(made, name) for name in made.__dataclass_fields__}
    return github.Release(**{**fields, "upload_url": upload_url})


@pytest.mark.parametrize("name", ["../a", "a b", "", ".hidden", "ü.zip", "a/b", "a" * 201])
def test_names_that_github_would_change_are_not_sent(client: Client, name: str) -> None:
    with pytest.raises(VerificationError, match="would get another name"):
        client.upload(draft(client), name, b"data")


@pytest.mark.parametrize(
    "body",
    [
        b"[null]",
        b"[{}]",
        b'[{"id": "x"}]',
        b'[{"id": Infinity}]',
        b"{}",
        b"7",
        b"<html>",
        b"[" * 10,
        b"[" * 100_000,
    ],
    ids=["null", "empty", "text", "infinite", "object", "number", "page", "cut", "deep"],
)
def test_answers_of_another_form_are_an_outage(client: Client, server: GitHub, body: bytes) -> None:
    server.faults.append(Fault("GET", f"{HOME}/releases", status=200, body=body))
    with pytest.raises(TryLaterError):
        client.releases()


@pytest.mark.parametrize("body", [b"[]", b"{}", b'{"id": "x"}'])
def test_answers_of_another_form_to_an_upload_or_about_a_tag_are_an_outage(
    client: Client, server: GitHub, body: bytes
) -> None:
    made = draft(client)
    server.faults.append(Fault("POST", rf"{UPLOADS}/.*", status=201, body=body))
    with pytest.raises(TryLaterError, match="GitHub described"):
        client.upload(made, "a.zip", b"data")
    server.faults.append(Fault("GET", f"{HOME}/commits/.*", status=200, body=body))
    with pytest.raises(TryLaterError, match="GitHub described"):
        client.commit_of("tags/v1.0.0")


@pytest.mark.parametrize("text", ["\x1b[31m", "a\nb", "\ud800", "x" * 1001], ids=ascii)
def test_names_that_a_terminal_would_obey_are_not_shown(text: str) -> None:
    asset = {"id": 1, "name": "a", "size": 1, "state": "", "browser_download_url": ""}
    release = dict.fromkeys(["tag_name", "target_commitish", "body", "html_url", "upload_url"], "a")
    whole = {**release, "id": 1, "draft": True, "assets": [asset]}
    assert github.release_of(whole).assets[0].name == "a"
    for name in ("tag_name", "target_commitish", "html_url", "upload_url"):
        with pytest.raises(TryLaterError) as error:
            github.release_of({**whole, name: text})
        assert str(error.value).isprintable()
    for name in ("name", "browser_download_url"):
        with pytest.raises(TryLaterError, match="GitHub described a file"):
            github.release_of({**whole, "assets": [{**asset, name: text}]})


def test_a_digest_of_another_form_is_no_digest() -> None:
    asset: dict[str, Any] = {
        "id": 1,
        "name": "a",
        "size": 1,
        "state": "uploaded",
        "browser_download_url": "",
    }
    assert github.asset_of(asset | {"digest": None}).digest == ""
    assert github.asset_of(asset | {"digest": "md5:1"}).digest == ""
    assert github.asset_of(asset | {"digest": "sha256:" + "0" * 64}).digest == "0" * 64


def test_a_file_longer_than_it_should_be_is_not_read_to_its_end(client: Client) -> None:
    asset = client.upload(draft(client), "a.zip", b"0" * (1 << 20))
    with pytest.raises(VerificationError, match="longer than 10 bytes"):
        client.download(asset, limit=10)


def test_an_answer_that_is_no_file_is_not_read_without_end(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http, "ANSWER_LIMIT", 100)
    with pytest.raises(VerificationError, match="longer than 100 bytes"):
        draft(client)


def test_a_file_that_arrives_cut_is_fetched_again(client: Client, server: GitHub) -> None:
    asset = client.upload(draft(client), "a.zip", b"data")
    server.faults.append(Fault("GET", f"{STORAGE}/.*", "cut", times=2))
    assert client.download(asset) == b"data"


def test_a_change_is_sent_once_and_a_question_again(client: Client, server: GitHub) -> None:
    server.faults.append(Fault("GET", f"{HOME}/releases"))
    client.releases()
    assert len(server.log) == 2
    server.faults.append(Fault("POST", f"{HOME}/releases"))
    with pytest.raises(TryLaterError, match="503"):
        draft(client)
    assert len(server.changing()) == 1


def test_the_signature_of_a_storage_is_not_shown(client: Client, server: GitHub) -> None:
    asset = client.upload(draft(client), "a.zip", b"data")
    server.faults.append(Fault("GET", f"{STORAGE}/.*", status=403, body=b"", times=9))
    with pytest.raises(RemoteError) as error:
        client.download(asset)
    assert "/storage/" in str(error.value)
    assert "signature" not in str(error.value)
    assert "secret" not in http.shown("Max retries: /a?X-Signature=secret (Caused by")


def test_nobody_there_is_said_in_one_line() -> None:
    client = Client(OWNER_NAME, "token", "http://127.0.0.1:9", PAUSE, tries=2)
    with pytest.raises(TryLaterError) as error:
        client.releases()
    assert "\n" not in str(error.value)


def test_a_server_that_says_nothing_is_given_up(
    server: GitHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http, "TIMEOUT", (0.1, 0.1))
    server.faults.append(Fault("GET", ".*", "slow", seconds=0.5, times=9))
    begun = time.monotonic()
    with pytest.raises(TryLaterError, match="timed out"):
        Client(OWNER_NAME, "token", server.api, PAUSE, tries=2).releases()
    assert time.monotonic() - begun < 5


@pytest.mark.parametrize("given", ["soon", "-1", "1e9", "Wed, 21 Oct 2015 07:28:00 GMT"])
def test_a_strange_retry_after_does_no_harm(client: Client, server: GitHub, given: str) -> None:
    server.faults.append(Fault("GET", ".*", headers={"Retry-After": given}))
    assert client.releases() == []


def test_the_environment_chooses_server_repository_and_token(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("GITHUB_API_URL", "GITHUB_REPOSITORY", "GITHUB_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    assert github.from_environment().api == "https://api.github.com/repos/jonpark0/krafla"
    monkeypatch.setenv("GITHUB_API_URL", "http://127.0.0.1:1/api/v3/")
    monkeypatch.setenv("GITHUB_REPOSITORY", "fork/krafla")
    monkeypatch.setenv("GITHUB_TOKEN", " token\n")
    found = github.from_environment()
    assert (found.api, found.token) == ("http://127.0.0.1:1/api/v3/repos/fork/krafla", "token")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("GITHUB_API_URL", "api.github.com"),
        ("GITHUB_API_URL", "file:///etc/passwd"),
        ("GITHUB_API_URL", "http://[::1"),
        ("GITHUB_API_URL", "http://127.0.0.1:99999"),
        ("GITHUB_API_URL", "http://127.0.0.1/?query"),
        ("GITHUB_API_URL", "http://127.0.0.1/#part"),
        ("GITHUB_API_URL", "http://two words"),
        ("GITHUB_API_URL", "http://me:secret@127.0.0.1"),
        ("GITHUB_REPOSITORY", "krafla"),
        ("GITHUB_REPOSITORY", "a/b/c"),
        ("GITHUB_REPOSITORY", "a/../b"),
        ("GITHUB_REPOSITORY", "a/.."),
        ("GITHUB_REPOSITORY", "a/."),
        ("GITHUB_TOKEN", "to\nken"),
    ],
)
def test_an_environment_of_another_form_is_refused_without_the_token(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(PreflightError, match=name) as error:
        github.from_environment()
    assert name != "GITHUB_TOKEN" or "ken" not in str(error.value).replace("token", "")
    assert "secret" not in str(error.value)


def test_the_releases_can_be_listed(
    client: Client,
    server: GitHub,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    draft(client)
    monkeypatch.setenv("GITHUB_API_URL", f"{server.url}{API}")
    monkeypatch.setenv("GITHUB_REPOSITORY", OWNER_NAME)
    monkeypatch.setenv("GITHUB_TOKEN", "token")
    assert github.main([]) == 0
    assert capsys.readouterr().out.split()[:4] == ["v1.0.0", "draft", "0", "files"]
