"""One Kafka version everywhere: what was tested is what is deployed."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from deployment import DEPLOY, ROOT, compose, defaulted, texts
from kafka_local.jars import KAFKA_VERSION

IMAGE = re.compile(r"\bapache/kafka:[\w.${}:-]+")


def test_every_kafka_image_is_the_version_that_the_tests_resolve() -> None:
    """Compose's brokers, whatever else in deploy/ names an image, and the tests' containers."""
    sys.path.insert(0, str(ROOT / "tests" / "kafka"))
    from brokers import DOCKER_IMAGE

    brokers = {text for text in texts(compose()) if text.startswith("apache/kafka:")}
    assert {defaulted(image) for image in brokers} == {DOCKER_IMAGE}
    assert f"apache/kafka:{KAFKA_VERSION}" == DOCKER_IMAGE
    for file in _files():
        for found in IMAGE.findall(file.read_text()):
            assert defaulted(found) == DOCKER_IMAGE, file


def _files() -> list[Path]:
    return [path for path in DEPLOY.rglob("*") if path.suffix in (".yaml", ".md", ".json")]
