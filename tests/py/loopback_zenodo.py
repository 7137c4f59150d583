# SPDX-License-Identifier: MIT
"""Zenodo's search on 127.0.0.1: versions under a concept DOI, an index that lags, a rate limit."""

from __future__ import annotations

import dataclasses
import re
import time
from typing import Any

from loopback import Answer, Request, Service, as_json

API = "/api"
CONCEPT = "10.5281/zenodo.23880653"
REPOSITORY = "jonpark0/krafla"


@dataclasses.dataclass
class StoredRecord:
    """A version as Zenodo makes it of a release; `lag` searches do not see it yet."""

    number: int
    version: str
    title: str = ""
    related: str = ""
    concept: str = CONCEPT
    lag: int = 0

    @property
    def doi(self) -> str:
        """The version's own DOI."""
        return f"10.5281/zenodo.{self.number}"


class Zenodo(Service):
    """The public search of records."""

    def __init__(self) -> None:
        super().__init__()
        self.records: list[StoredRecord] = []
        self.searches = 0
        self.limit = 1000  # searches until the rate limit of a minute is reached

    @property
    def api(self) -> str:
        """What ZENODO_API_URL must say."""
        return self.url + API

    def archive(self, release: str, /, **changes: Any) -> StoredRecord:
        """Archive the release vX.Y.Z as Zenodo does by itself, and return the record."""
        made = StoredRecord(
            number=23880700 + len(self.records),
            version=f"v{release}",
            title="Krafla",  # of CITATION.cff, in place of the release's own
            related=f"https://github.com/{REPOSITORY}/tree/v{release}",
        )
        record = dataclasses.replace(made, **changes)
        self.records.append(record)
        return record

    def answer(self, request: Request) -> Answer:
        """Search; the API finds no record by the number of a concept."""
        if request.method != "GET" or request.path != f"{API}/records":
            return as_json({"status": 404, "message": "The persistent identifier is unknown."}, 404)
        if "python-requests" in request.headers.get("user-agent", "python-requests"):
            return Answer(403, b"<html>unusual traffic</html>", {"Content-Type": "text/html"})
        if self.searches >= self.limit:
            return self.limited()
        return self.search(request)

    def limited(self) -> Answer:
        """Refuse a search until the minute is over."""
        answer = as_json({"status": 429, "message": "30 per 1 minute"}, 429)
        now = f"{time.time():.0f}"
        answer.headers.update({"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": now})
        self.limit += 30
        return answer

    def search(self, request: Request) -> Answer:
        """Answer a page of the versions under a concept DOI, newest first."""
        self.searches += 1
        found = re.fullmatch(r'conceptdoi:"(10\.5281/zenodo\.\d+)"', request.query["q"])
        whole = request.query.get("all_versions") == "true"
        seen = [
            record
            for record in self.records[::-1]
            if found and whole and self.sees(record, found[1])
        ]
        size = int(request.query["size"])
        if size > 25:
            return as_json({"status": 400, "message": "Page size cannot be greater than 25."}, 400)
        start = (int(request.query.get("page", "1")) - 1) * size
        hits = [shown(record) for record in seen[start : start + size]]
        return as_json({"hits": {"hits": hits, "total": len(seen)}, "links": {}})

    def sees(self, record: StoredRecord, concept: str) -> bool:
        """Return whether the index has a record; each search brings it nearer."""
        if record.lag:
            record.lag -= 1
            return False
        # Like Zenodo's, the search is about text: what it lists need not be what was asked for.
        return record.concept == concept or record.concept.startswith(concept)


def shown(record: StoredRecord) -> dict[str, Any]:
    """Return a record in Zenodo's words."""
    return {
        "id": record.number,
        "recid": str(record.number),
        "doi": record.doi,
        "doi_url": f"https://doi.org/{record.doi}",
        "conceptdoi": record.concept,
        "conceptrecid": record.concept.rpartition(".")[2],
        "state": "done",
        "submitted": True,
        "metadata": {
            "title": record.title,
            "version": record.version,
            "publication_date": "2026-11-30",
            "related_identifiers": [
                {
                    "identifier": record.related,
                    "relation": "isSupplementTo",
                    "resource_type": "software",
                    "scheme": "url",
                }
            ],
            "relations": {"version": [{"index": 0, "is_last": True}]},
        },
    }
