# SPDX-License-Identifier: MIT
"""A service on 127.0.0.1 that fails on demand: the base of the stand-ins of GitHub and Zenodo.

A subclass answers requests from its state.  The base logs every request, and spoils answers as its
table of faults says: with another status, cut, late, or not at all although the state has changed.
"""

from __future__ import annotations

import dataclasses
import json
import re
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit

READ_SECONDS = 30  # a client that stops in the middle of a request is given up


@dataclasses.dataclass(frozen=True)
class Request:
    """What a client sent; `whole` is false if it broke off in its body."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]  # with small letters
    body: bytes
    whole: bool

    def json(self) -> Any:
        """Return the body, read as JSON."""
        return json.loads(self.body)


@dataclasses.dataclass(frozen=True)
class Answer:
    """What the service says."""

    status: int
    body: bytes = b""
    headers: dict[str, str] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass
class Fault:
    """One row of the table of faults: what happens to the next `times` requests that fit.

    status   this answer in place of the service's, nothing is applied
    broken   the same, and the service is left as by a body that broke off
    refuse   the connection is closed, nothing is applied
    lost     the service does what was asked, and the connection is closed without a word
    cut      the service does what was asked, and half of its answer arrives
    slow     the service does what was asked, some seconds late
    """

    method: str
    path: str  # a regular expression that must fit the whole path
    kind: str = "status"
    times: int = 1
    status: int = 503
    headers: dict[str, str] = dataclasses.field(default_factory=dict)
    body: bytes = b"<html>unavailable</html>"
    seconds: float = 0.0
    skips: int = 0  # requests that fit and are spared first

    def strikes(self, request: Request) -> bool:
        """Return whether this row is for a request, and count it."""
        if request.method != self.method or not re.fullmatch(self.path, request.path):
            return False
        if self.skips:
            self.skips -= 1
            return False
        self.times -= 1
        return self.times >= 0


@dataclasses.dataclass(frozen=True)
class Logged:
    """One line of the log."""

    method: str
    path: str
    status: int  # that was sent; 0 if nothing was
    headers: dict[str, str]


def as_json(data: Any, status: int = 200) -> Answer:
    """Return an answer that holds JSON."""
    kind = {"Content-Type": "application/json; charset=utf-8"}
    return Answer(status, json.dumps(data).encode(), kind)


class Server(ThreadingHTTPServer):
    """A server that takes it calmly when clients go away."""

    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Show errors, but not those of connections."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


class Service:
    """A service; subclasses say what it answers."""

    def __init__(self) -> None:
        self.log: list[Logged] = []
        self.faults: list[Fault] = []
        # Called when a request is "asked", and when it is "done" but not answered yet; the client
        # gets no answer if it returns true.
        self.watch: Callable[[Request, str], bool] = lambda _request, _when: False
        self.lock = threading.RLock()
        self.server = Server(("127.0.0.1", 0), self.handler())

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self.server.server_address[1])

    @property
    def url(self) -> str:
        """Where clients find it."""
        return f"http://127.0.0.1:{self.port}"

    def answer(self, request: Request) -> Answer:
        """Do what a request asks for; one at a time."""
        raise NotImplementedError

    def broken_off(self, request: Request) -> None:
        """Take note of a request whose body did not arrive to its end."""

    def changing(self) -> list[Logged]:
        """The requests that were to change something."""
        return [line for line in self.log if line.method not in ("GET", "HEAD")]

    @contextmanager
    def running(self) -> Iterator[None]:
        """Answer while the block runs."""
        poll = 0.01  # seconds until the end is noticed
        thread = threading.Thread(target=self.server.serve_forever, args=(poll,), daemon=True)
        thread.start()
        try:
            yield
        finally:
            self.server.shutdown()
            self.server.server_close()
            thread.join()

    def serve(self, request: Request) -> tuple[Answer | None, bool]:
        """Return the answer to send, or None for none, and whether to cut it."""
        with self.lock:
            if self.watch(request, "asked"):
                return None, False
            if not request.whole:
                self.broken_off(request)
                return None, False
            fault = next((fault for fault in self.faults if fault.strikes(request)), None)
            if fault:
                if fault.kind == "refuse":
                    return None, False
                if fault.kind == "broken":
                    self.broken_off(request)
                if fault.kind in ("status", "broken"):
                    return Answer(fault.status, fault.body, fault.headers), False
            answer: Answer | None = self.answer(request)
            if self.watch(request, "done") or (fault and fault.kind == "lost"):
                answer = None
        if fault and fault.kind == "slow":
            time.sleep(fault.seconds)
        return answer, bool(fault and fault.kind == "cut")

    def handler(service) -> type[BaseHTTPRequestHandler]:  # noqa: N805  (the handler has the self)
        """Return the class that handles connections."""

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            timeout = READ_SECONDS
            disable_nagle_algorithm = True

            def log_message(self, *_: object) -> None:
                """The log is the service's."""

            def read_request(self) -> Request:
                size = int(self.headers.get("Content-Length") or 0)
                try:
                    body = self.rfile.read(size)
                except OSError:
                    body = b""
                parts = urlsplit(self.path)
                headers = {name.lower(): value for name, value in self.headers.items()}
                return Request(
                    self.command,
                    parts.path,
                    dict(parse_qsl(parts.query)),
                    headers,
                    body,
                    whole=len(body) == size,
                )

            def handle_any(self) -> None:
                request = self.read_request()
                answer, cut = service.serve(request)
                status = answer.status if answer else 0
                line = Logged(request.method, request.path, status, request.headers)
                service.log.append(line)
                if answer is None:
                    self.close_connection = True
                    return
                self.send_response(answer.status)
                for name, value in answer.headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(answer.body)))
                self.end_headers()
                body = answer.body[: len(answer.body) // 2] if cut else answer.body
                self.close_connection = self.close_connection or cut
                if self.command != "HEAD":
                    self.wfile.write(body)

            do_GET = do_HEAD = do_POST = do_PATCH = do_DELETE = handle_any  # noqa: N815

        return Handler
