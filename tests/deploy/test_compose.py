"""The compose file: its commands exist, its ports and mounts are those that they name."""

from __future__ import annotations

from typing import Any

import pytest
from deployment import COMPOSE, DEPLOY, check, compose, script_commands, texts

SERVICES: dict[str, Any] = compose()["services"]
OURS = [name for name, service in SERVICES.items() if service["image"] == "pool:local"]


def commands(name: str) -> list[list[str]]:
    """The commands that a service runs; compose writes `$` twice."""
    script = SERVICES[name]["command"][-1].replace("$$", "$")
    return list(script_commands(script))


@pytest.mark.parametrize("name", OURS)
def test_a_service_runs_commands_that_exist(name: str) -> None:
    """Each subcommand and each option is one that the program has."""
    assert commands(name)
    for words in commands(name):
        check(words)


def test_the_deployment_is_whole() -> None:
    """Brokers, topics, a steward, a witness and the read side."""
    assert {"topics", "steward", "witness", "views"} < set(SERVICES)
    assert sum(name.startswith("kafka-") for name in SERVICES) == 3


@pytest.mark.parametrize("name", ["steward", "witness", "views"])
def test_a_service_is_asked_for_its_health_where_it_serves(name: str) -> None:
    """The port in the command is the one that is probed, and the one that is let out."""
    (serving,) = [words for words in commands(name) if "--port" in words]
    port = serving[serving.index("--port") + 1]
    service = SERVICES[name]
    assert f"http://127.0.0.1:{port}/" in service["healthcheck"]["test"][-1]
    let_out = [*service.get("expose", ()), *service.get("ports", ())]
    assert [text.rpartition(":")[2] for text in let_out] == [port]


@pytest.mark.parametrize("name", ["steward", "witness", "views"])
def test_what_a_service_writes_is_on_a_volume(name: str) -> None:
    """Every absolute path that a command names is mounted, and the image lets its user write it."""
    image = (DEPLOY / "Dockerfile").read_text()
    mounts = [volume.rpartition(":")[2] for volume in SERVICES[name]["volumes"]]
    secrets = [f"/run/secrets/{secret}" for secret in SERVICES[name].get("secrets", ())]
    for words in commands(name):
        for path in (word for word in words if word.startswith("/")):
            under = "/" + path.split("/")[1]
            assert path in secrets or under in mounts, path
            assert path in secrets or f" {under}" in image


def test_the_named_volumes_and_secrets_are_those_that_are_used() -> None:
    """Neither more nor less; and no key is another's."""
    volumes = [
        volume.partition(":")[0]
        for name, service in SERVICES.items()
        for volume in service.get("volumes", ())
        if not volume.startswith("/") and name != "witness-init"
    ]
    assert sorted(volumes) == sorted(set(volumes)) == sorted(compose()["volumes"])
    secrets = {secret for service in SERVICES.values() for secret in service.get("secrets", ())}
    assert secrets == set(compose()["secrets"])


def test_a_witness_is_begun_by_hand_only() -> None:
    """Nothing that starts by itself runs `init`, and where it runs it takes no key that exists."""
    begin = SERVICES["witness-init"]
    assert begin["profiles"] == ["init"]
    assert "restart" not in begin
    assert begin["volumes"] == SERVICES["witness"]["volumes"]
    makers = [name for name in OURS if any("init" in words for words in commands(name))]
    assert makers == ["witness-init"]
    (init,), (run,) = commands("witness-init"), commands("witness")
    assert "--key-never-used" not in init
    for option in ("--key", "--state"):
        assert init[init.index(option) + 1] == run[run.index(option) + 1]


def test_topics_are_made_by_the_command_that_knows_their_settings() -> None:
    """Settings that were repeated in the file would drift from those that the doctor checks."""
    assert "pool.ledger" not in COMPOSE.read_text()
    assert "pool topics create" in "\n".join(texts(SERVICES["topics"]))


@pytest.mark.parametrize(
    "words",
    [
        "pool serve --nonsense",
        "pool serve --kafka",
        "pool serve --read-only=yes",
        "pool-witness run --kafka=x --key=k",
    ],
)
def test_the_check_of_commands_finds_what_is_wrong(words: str) -> None:
    """An option that is not there, a value that is missing or too much, one that is required."""
    with pytest.raises(AssertionError):
        check(words.split())
