"""A client made from an OpenAPI document alone: one method an operation, every answer checked.

It knows nothing of this project: paths, parameters, bodies, statuses, media types and schemas are
what the document says, and an answer that the document does not describe is an error.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import jsonschema_rs
from aiohttp import ClientSession
from yarl import URL


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """An answer that the document describes. `value`: JSON, or the body's bytes."""

    status: int
    value: Any
    headers: Mapping[str, str]


class Document:
    """An OpenAPI 3.1 document."""

    def __init__(self, whole: dict[str, Any]) -> None:
        self.whole = whole
        self.operations = {
            operation["operationId"]: (method, path, operation)
            for path, item in whole["paths"].items()
            for method, operation in item.items()
        }

    def client(self, http: ClientSession, headers: Mapping[str, str]) -> Client:
        """A client of a server that the document describes."""
        return Client(self, http, headers)

    def resolved(self, thing: dict[str, Any]) -> dict[str, Any]:
        """What a reference leads to."""
        while "$ref" in thing:
            place: Any = self.whole
            for name in thing["$ref"].removeprefix("#/").split("/"):
                place = place[name]
            thing = place
        return thing

    def check(self, schema: dict[str, Any], value: Any) -> None:
        """Raises ValidationError where the value is not as the schema says."""
        whole = {"components": self.whole["components"], **schema}
        jsonschema_rs.Draft202012Validator(whole).validate(value)


class Client:
    """Methods by `operationId`; parameters by their names, `body` for the body."""

    def __init__(self, document: Document, http: ClientSession, headers: Mapping[str, str]) -> None:
        self._document = document
        self._http = http
        self._headers = dict(headers)

    def __getattr__(self, name: str) -> Callable[..., Awaitable[Answered]]:
        if name not in self._document.operations:
            raise AttributeError(name)
        return lambda **given: self.call(name, **given)

    async def call(self, name: str, /, *, body: Any = None, **given: Any) -> Answered:
        """Ask, and hold the answer to the document."""
        method, path, operation = self._document.operations[name]
        headers, query = dict(self._headers), {}
        for one in map(self._document.resolved, operation.get("parameters", ())):
            if one["name"] not in given:
                assert not one["required"], f"{name} needs {one['name']}"
                continue
            value = given.pop(one["name"])
            self._document.check(one["schema"], value)
            if one["in"] == "path":
                path = path.replace(f"{{{one['name']}}}", quote(str(value), safe=""))
            elif one["in"] == "query":
                query[one["name"]] = str(value)
            else:
                headers[one["name"]] = str(value)
        assert not given, f"{name} has no {', '.join(given)}"
        data = None
        if body is not None:
            content = operation["requestBody"]["content"]["application/json"]
            self._document.check(content["schema"], body)
            data, headers["Content-Type"] = json.dumps(body), "application/json"
        url = URL(path, encoded=True).with_query(query)
        async with self._http.request(method, url, headers=headers, data=data) as answer:
            raw = await answer.read()
            return self._judged(name, operation, answer, raw)

    def _judged(self, name: str, operation: dict[str, Any], answer: Any, raw: bytes) -> Answered:
        status = str(answer.status)
        assert status in operation["responses"], f"{name}: {status} is not described"
        described = self._document.resolved(operation["responses"][status])
        content = described.get("content", {})
        assert answer.content_type in content, f"{name}: {answer.content_type}"
        value: Any = raw
        if answer.content_type == "application/json":
            value = json.loads(raw)
            self._document.check(content["application/json"]["schema"], value)
        return Answered(status=answer.status, value=value, headers=answer.headers)
