# SPDX-License-Identifier: MIT
"""Talk to GitHub and Zenodo: one session that knows how they fail.

PYTHONPATH=scripts python3 -c 'from krafla_release import http; http.session().get("https://...")'

Reading is repeated by urllib3 on 429 and 5xx and on broken connections, as Retry-After asks.  What
changes something is sent once: whether it arrived is for the caller to look up before a second try.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import requests
from requests.adapters import HTTPAdapter
from urllib3 import Retry

from krafla_release.project import RemoteError, TryLaterError, facts, version

if TYPE_CHECKING:
    from collections.abc import Mapping

TIMEOUT = (10.0, 120.0)  # seconds to connect, and between two packets
TRIES = 6
LATER = frozenset({408, 429, 500, 502, 503, 504})  # answers that another time may change
LONGEST_WAIT = 300.0  # seconds; a service that asks for more is asked again by the next run


class Session(requests.Session):
    """A session whose every request has a timeout."""

    def request(self, *args: Any, **kwargs: Any) -> requests.Response:
        """Send a request; a connection that cannot be made or breaks is worth another try later."""
        kwargs.setdefault("timeout", TIMEOUT)
        try:
            return super().request(*args, **kwargs)
        except requests.RequestException as error:
            raise TryLaterError(f"{args[1]}: {error}") from error


def session(headers: Mapping[str, str] | None = None, pause: float = 1.0) -> Session:
    """Return a session; `pause` seconds, doubled each time, lie between two tries."""
    retry = Retry(
        total=TRIES,
        backoff_factor=pause,
        backoff_max=LONGEST_WAIT,
        status_forcelist=LATER,
        allowed_methods={"GET", "HEAD"},
        respect_retry_after_header=True,
        raise_on_status=False,
    )
    made = Session()
    # The services ask for a name and a place to complain; Zenodo slows down the library's own.
    agent = f"krafla-release/{version()} (+https://github.com/{facts()['repository']})"
    made.headers.update({"User-Agent": agent, **(headers or {})})
    made.trust_env = True
    for scheme in ("https://", "http://"):
        made.mount(scheme, HTTPAdapter(max_retries=retry))
    return made


def check(answer: requests.Response) -> requests.Response:
    """Return an answer that is a success; others become errors that say what the service said."""
    if answer.ok:
        return answer
    what = f"{answer.request.method} {answer.url}: {answer.status_code} {answer.reason}"
    said = " ".join(answer.text.split())[:300]
    kind = TryLaterError if answer.status_code in LATER else RemoteError
    raise kind(f"{what}: {said}" if said else what)


def json_of(answer: requests.Response) -> Any:
    """Return the JSON of a success; a page in its place is an outage, whatever its status says."""
    check(answer)
    try:
        return answer.json()
    except requests.JSONDecodeError:
        kind = answer.headers.get("Content-Type", "nothing")
        raise TryLaterError(f"{answer.url}: wanted JSON, got {kind}") from None
