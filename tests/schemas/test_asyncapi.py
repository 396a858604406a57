"""The AsyncAPI document: well-formed, closed, every reference resolves, and it says what is so.

Not here: the grammar itself (`test_cddl*`); whether a broker has these settings (`pool doctor`).

1. The document is YAML without duplicate keys and without references to other files.
2. Each object has the members that AsyncAPI 3.1 and the Kafka bindings 0.5.0 know, and no other.
3. Each payload's grammar compiles beside `schemas/cddl`, and takes the message's examples.
4. Topics, sizes and headers are those of the code.

Source: AsyncAPI 3.1.0; AsyncAPI Kafka bindings 0.5.0; architecture.md "Topics".
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from cddl_verifier import Validator

from streams import topics
from streams.logs import contract
from tests.schemas.cddl_support import CDDL, encoded

PATH = CDDL.parent / "asyncapi.yaml"


class _UniqueKeys(yaml.SafeLoader):
    """Refuses a key that is given twice, where plain YAML loading keeps the last."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        pairs = [self.construct_object(key, deep=True) for key, _ in node.value]
        if len(set(pairs)) != len(pairs):
            raise yaml.YAMLError(f"a key is given twice: {node.start_mark}")
        return super().construct_mapping(node, deep=deep)


DOCUMENT: dict[str, Any] = yaml.load(PATH.read_text("utf-8"), Loader=_UniqueKeys)
MESSAGES: dict[str, dict[str, Any]] = DOCUMENT["components"]["messages"]

# Object -> members it must have, members it may have.
MEMBERS = {
    "document": (
        {"asyncapi", "info", "channels", "operations", "components"},
        {"id", "defaultContentType", "servers"},
    ),
    "info": ({"title", "version"}, {"description", "license"}),
    "server": ({"host", "protocol"}, {"description", "variables"}),
    "channel": ({"address", "messages"}, {"title", "description", "bindings"}),
    "operation": ({"action", "channel"}, {"summary", "bindings", "messages"}),
    "message": (
        {"name", "title", "contentType", "headers", "payload", "bindings"},
        {"examples"},
    ),
    "components": (
        {"messages"},
        {"schemas", "messageBindings", "operationBindings", "channelBindings"},
    ),
}
BINDING_MEMBERS = {
    "messageBindings": {"key", "bindingVersion"},
    "operationBindings": {"groupId", "bindingVersion"},
    "channelBindings": {"partitions", "replicas", "topicConfiguration", "bindingVersion"},
}


def objects() -> Iterator[tuple[str, dict[str, Any]]]:
    """Every object of the document whose members are fixed, with its kind."""
    yield "document", DOCUMENT
    yield "info", DOCUMENT["info"]
    yield "components", DOCUMENT["components"]
    for kind in ("server", "channel", "operation"):
        for value in DOCUMENT[f"{kind}s"].values():
            yield kind, value
    for value in MESSAGES.values():
        yield "message", value


def references(value: Any) -> Iterator[str]:
    """Every `$ref` below a value."""
    if isinstance(value, dict):
        if "$ref" in value:
            yield value["$ref"]
        for member in value.values():
            yield from references(member)
    elif isinstance(value, list):
        for member in value:
            yield from references(member)


def resolved(value: dict[str, Any]) -> dict[str, Any]:
    """The object itself, or what it refers to in this document."""
    while "$ref" in value:
        found: Any = DOCUMENT
        assert value["$ref"].startswith("#/")
        for step in value["$ref"][2:].split("/"):
            found = found[step]
        value = found
    return value


def grammar_of(message: dict[str, Any]) -> Validator:
    """The payload's grammar, its import found in `schemas/cddl`."""
    return Validator(
        message["payload"]["schema"],
        module_path=[CDDL],
        strict_modules=True,
        bundled_modules=False,
    )


def test_the_document_is_of_the_stated_version() -> None:
    """AsyncAPI 3.1.0, and the profile's licence."""
    assert DOCUMENT["asyncapi"] == "3.1.0"
    assert DOCUMENT["info"]["license"]["name"] == "Apache-2.0"


def test_each_object_has_the_members_it_may_have() -> None:
    """A misspelt member would be ignored by tools: it is an error here."""
    for kind, value in objects():
        needed, allowed = MEMBERS[kind]
        assert needed <= value.keys() <= needed | allowed, (kind, value.keys())
    for kind, members in BINDING_MEMBERS.items():
        for binding in DOCUMENT["components"][kind].values():
            assert binding.keys() == {"kafka"}
            assert binding["kafka"].keys() <= members
            assert binding["kafka"]["bindingVersion"] == "0.5.0"


def test_every_reference_resolves_within_the_document() -> None:
    """References to other files would break where the document is published alone."""
    found = set(references(DOCUMENT))
    assert found
    for reference in found:
        assert resolved({"$ref": reference})


def test_everything_defined_is_used() -> None:
    """A message in no channel, or a channel in no operation, describes nothing."""
    found = set(references(DOCUMENT))
    for kind, members in DOCUMENT["components"].items():
        for name in members:
            assert f"#/components/{kind}/{name}" in found, name
    for name in DOCUMENT["channels"]:
        assert f"#/channels/{name}" in found, name


def test_operations_name_a_channel_and_its_direction() -> None:
    """Inputs are received; what stewards and witnesses write is sent, by one operation each."""
    sent = []
    for operation in DOCUMENT["operations"].values():
        assert operation["action"] in ("send", "receive")
        address = resolved(operation["channel"])["address"]
        assert operation["action"] == "receive" or address not in topics.INPUT_TOPICS
        sent += [address] if operation["action"] == "send" else []
    assert sorted(sent) == sorted({*topics.WRITER_TOPICS, topics.WITNESS})


def test_the_channels_are_the_topics() -> None:
    """All seven, by the names that the code uses."""
    addresses = [channel["address"] for channel in DOCUMENT["channels"].values()]
    assert sorted(addresses) == sorted(topics.ALL_TOPICS)


@pytest.mark.parametrize("name", DOCUMENT["channels"])
def test_a_topic_keeps_what_it_is_given(name: str) -> None:
    """Nothing is compacted, expired or lost; a tenant cannot choose an event's time."""
    channel = DOCUMENT["channels"][name]
    settings = resolved(channel["bindings"])["kafka"]["topicConfiguration"]
    assert settings["cleanup.policy"] == ["delete"]
    assert settings["retention.ms"] == -1
    assert settings["min.insync.replicas"] == 2
    assert settings["unclean.leader.election.enable"] is False
    given = settings.get("message.timestamp.type")
    assert (given == "LogAppendTime") == (channel["address"] in topics.INPUT_TOPICS)


def test_topics_hold_the_largest_record_that_the_code_writes() -> None:
    """`max.message.bytes` is the contract's bound with its overhead."""
    bindings = DOCUMENT["components"]["channelBindings"]
    sizes = {
        name: it["kafka"]["topicConfiguration"]["max.message.bytes"]
        for name, it in bindings.items()
    }
    assert sizes == {
        "input": contract.MAX_EVENT_BYTES + contract.RECORD_OVERHEAD_BYTES,
        "output": contract.MAX_RECORD_BYTES + contract.RECORD_OVERHEAD_BYTES,
    }


def test_the_dead_letter_headers_are_the_steward_s() -> None:
    """What the code writes beside a record set aside is what the document names."""
    headers = resolved(MESSAGES["deadLetter"]["headers"])
    written = {
        contract.DEAD_REASON,
        contract.DEAD_DETAIL,
        contract.DEAD_TOPIC,
        contract.DEAD_PARTITION,
        contract.DEAD_OFFSET,
        contract.DEAD_TIMESTAMP,
    }
    assert set(headers["required"]) == written
    assert headers["properties"].keys() == written | {contract.CONTENT_TYPE_HEADER}
    assert headers["properties"][contract.DEAD_TOPIC]["enum"] == list(topics.INPUT_TOPICS)


@pytest.mark.parametrize("name", MESSAGES)
def test_a_message_states_how_it_is_written(name: str) -> None:
    """Content types are the contract's, the key is the pool's id, the grammar compiles."""
    message = MESSAGES[name]
    assert message["name"] == name
    known = (contract.CONTENT_CBOR, contract.CONTENT_JSON, contract.CONTENT_COSE)
    assert "key" in resolved(message["bindings"])["kafka"]
    if name == "deadLetter":
        assert message["payload"]["contentMediaType"] == message["contentType"]
        return
    assert message["contentType"] in known
    assert message["payload"]["schemaFormat"] == "application/cddl"
    assert grammar_of(message).default_root_type == "payload"


EXAMPLES = [
    pytest.param(message, example["payload"], id=f"{name}-{example['name']}")
    for name, message in MESSAGES.items()
    for example in message.get("examples", [])
]


@pytest.mark.parametrize(("message", "payload"), EXAMPLES)
def test_an_example_is_what_its_grammar_takes(
    message: dict[str, Any], payload: dict[str, Any]
) -> None:
    """Each example is in its message's grammar, and not in that of another input topic."""
    given = payload if message["contentType"] == contract.CONTENT_JSON else encoded(payload)
    for other in MESSAGES.values():
        if other["contentType"] == message["contentType"]:
            assert grammar_of(other).validate(given).valid == (other is message)
