"""One decided day, made once, for all tests of the read side."""

import asyncio
from pathlib import Path

import pytest
from views_support import day, decide

from streams.logs.embedded import EmbeddedLog


@pytest.fixture(scope="session")
def day_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An embedded log that holds the demo's day, decided. Not to be written to."""
    directory = tmp_path_factory.mktemp("day") / "data"

    async def make() -> None:
        log = EmbeddedLog(directory)
        await decide(log, day())
        await log.close()

    asyncio.run(make())
    return directory
