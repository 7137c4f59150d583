# SPDX-License-Identifier: MIT
"""Talk to GitHub and Zenodo: one session that knows how they fail.

PYTHONPATH=scripts python3 -c 'from krafla_release import http; http.session().get("https://...")'

Reading is repeated on outages and broken connections.  What changes something is sent once: whether
it arrived is for the caller to look up before a second try.  Only what a rate limit refused was
certainly not done, and is sent again when the service says so.
"""

from __future__ import annotations

import os
import re
import time
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import requests
from urllib3 import Retry
from urllib3.exceptions import InvalidHeader

from krafla_release.project import (
    PreflightError,
    RemoteError,
    TryLaterError,
    VerificationError,
    facts,
    version,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

TIMEOUT = (10.0, 120.0)  # seconds to connect, and between two packets
TRIES = 6
OUTAGES = frozenset({408, 500, 502, 503, 504})
LATER = OUTAGES | {429}  # answers that another time may change
LONGEST_WAIT = 300.0  # seconds; a service that asks for more is asked again by the next run
CHUNK = 1 << 16
ANSWER_LIMIT = 16 << 20  # bytes of an answer that is no file
ADDRESS = re.compile(r"https?://[A-Za-z0-9.:\[\]-]+(/[A-Za-z0-9._~/-]*)?")  # paths are added to it
SAID = 300  # characters of an answer that a message shows


class BusyError(TryLaterError):
    """A service does not answer yet; it may have said in how many seconds it will."""

    def __init__(self, message: str, seconds: float) -> None:
        super().__init__(message)
        self.seconds = seconds


def asked_of(error: TryLaterError) -> float:
    """Return the seconds that the service behind an error asks to be left alone."""
    return error.seconds if isinstance(error, BusyError) else 0.0


def wait_after(error: TryLaterError, wait: float | None) -> None:
    """Wait before another try, longer if the service asks for it; raise what is for another run."""
    asked = asked_of(error)
    if wait is None or asked > LONGEST_WAIT:
        raise error
    print(f"  {error}", flush=True)
    time.sleep(max(wait, asked))


class Session(requests.Session):
    """A session whose every request has a timeout, and a second try where that is safe."""

    def __init__(self, pause: float = 1.0, tries: int = TRIES) -> None:
        super().__init__()
        self.pause, self.tries = pause, tries

    def request(
        self, method: str | bytes, url: str | bytes, *args: Any, **options: Any
    ) -> requests.Response:
        """Send a request; what cannot be sent or breaks is worth another try later."""
        options.setdefault("timeout", TIMEOUT)
        in_parts, options["stream"] = options.get("stream", False), True
        reads = method in ("GET", "HEAD")
        for wait in self.waits():
            try:
                answer = super().request(method, url, *args, **options)
                if not (in_parts and answer.ok):
                    load(answer)
            except requests.RequestException as error:
                if reads and wait is not None:
                    time.sleep(wait)
                    continue
                raise failure(f"{method!s} {url!s}", error) from None
            again = is_limit(answer) or (reads and answer.status_code in OUTAGES)
            asked = asked_wait(answer)
            if not again or wait is None or (asked or 0) > LONGEST_WAIT:
                return answer
            answer.close()
            time.sleep(wait if asked is None else asked)
        raise AssertionError  # the last wait is None

    def waits(self) -> list[float | None]:
        """Return the seconds to wait after each try; None after the last."""
        return [*(min(self.pause * 2**n, LONGEST_WAIT) for n in range(self.tries - 1)), None]

    def fetch(self, url: str, limit: int, **options: Any) -> bytes:
        """Return a body of at most `limit` bytes; a broken one is fetched again from its start."""
        for wait in self.waits():
            try:
                with self.get(url, stream=True, **options) as answer:
                    return bounded(check(answer), limit)
            except requests.RequestException as error:
                if wait is None:
                    raise failure(f"GET {url}", error) from None
                time.sleep(wait)
        raise AssertionError  # the last wait is None


def session(
    headers: Mapping[str, str] | None = None, pause: float = 1.0, tries: int = TRIES
) -> Session:
    """Return a session; `pause` seconds, doubled each time, lie between two tries."""
    made = Session(pause, tries)
    # The services ask for a name and a place to complain; Zenodo slows down the library's own.
    agent = f"krafla-release/{version()} (+https://github.com/{facts()['repository']})"
    made.headers.update({"User-Agent": agent, **(headers or {})})
    return made


def address(variable: str, default: str) -> str:
    """Return where a service is: what the environment says, or the service itself."""
    url = (os.environ.get(variable) or default).rstrip("/")
    try:
        parts = urlsplit(url)
        plain = parts.hostname and (parts.port is None or parts.port > 0)
    except ValueError:
        plain = False
    if not plain or not ADDRESS.fullmatch(url):  # what stands before an @ may be a password
        given = repr(url) if "@" not in url else "not one"
        raise PreflightError(f"{variable} is {given}, expected an address like {default}")
    return url


def bounded(answer: requests.Response, limit: int) -> bytes:
    """Return the body of an answer; one that is too long is not read to its end."""
    body = bytearray()
    for chunk in answer.iter_content(CHUNK):
        body += chunk
        if len(body) > limit:
            answer.close()
            raise VerificationError(f"{shown(answer.url)}: longer than {limit} bytes")
    return bytes(body)


def load(answer: requests.Response) -> None:
    """Read an answer's body into it, as requests does when it does not stream, up to a limit."""
    answer._content = bounded(answer, ANSWER_LIMIT)  # noqa: SLF001


def is_limit(answer: requests.Response) -> bool:
    """Return whether a rate limit refused the request; GitHub says so with 403 as well."""
    if answer.status_code == 403:
        left = answer.headers.get("X-RateLimit-Remaining", "")
        return "Retry-After" in answer.headers or left.strip() == "0"
    return answer.status_code == 429


def asked_wait(answer: requests.Response) -> float | None:
    """Return the seconds that a service asks to be left alone, if it does."""
    if given := answer.headers.get("Retry-After"):
        try:
            return Retry().parse_retry_after(given)
        except InvalidHeader:
            return None
    reset = answer.headers.get("X-RateLimit-Reset", "")
    if is_limit(answer) and re.fullmatch(r"\d{1,12}", reset):
        return max(int(reset) - time.time(), 0.0)
    return None


def shown(text: object) -> str:
    """Return an address, or a message with one, without the query: that may hold a signature."""
    return re.sub(r"\?[^\s'\"]*", "", str(text))


def failure(what: str, error: requests.RequestException) -> RemoteError | TryLaterError:
    """Return the error for a request that got no answer; a wrong address gets none ever."""
    kind = RemoteError if isinstance(error, ValueError) else TryLaterError
    # requests wraps urllib3's errors, and those name the connection before what went wrong.
    cause = getattr(error.args[0], "reason", error) if error.args else error
    return kind(f"{shown(what)}: {shown(str(cause).partition('): ')[2] or cause)}")


def check(answer: requests.Response) -> requests.Response:
    """Return an answer that is a success; others become errors that say what the service said."""
    if answer.ok:
        return answer
    method = answer.request.method
    what = f"{method} {shown(answer.url)}: {answer.status_code} {answer.reason}"
    said = "rate limit" if is_limit(answer) else " ".join(answer.text.split())[:SAID]
    what += f": {said}" if said else ""
    if not is_limit(answer) and answer.status_code not in LATER:
        raise RemoteError(what)
    seconds = asked_wait(answer) or 0.0
    until = f", again in {seconds / 60:.0f} minutes" if seconds > LONGEST_WAIT else ""
    raise BusyError(what + until, seconds)


def json_of(answer: requests.Response) -> Any:
    """Return the JSON of a success; a page in its place is an outage, whatever its status says."""
    check(answer)
    try:
        return answer.json()
    except (requests.JSONDecodeError, RecursionError):
        kind = answer.headers.get("Content-Type", "nothing")
        raise TryLaterError(f"{shown(answer.url)}: wanted JSON, got {kind}") from None
