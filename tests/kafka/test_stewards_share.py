"""Stewards share the partitions of a deployment; who joins gets some, who dies leaves his."""

import asyncio
import signal
import time
import uuid
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from chaos_support import Deployment, StewardProcess
from support import QUICK

from schemas.keys import SeedSigner
from streams.logs.errors import Missing
from streams.logs.kafka_options import Connection
from streams.steward import Keyring
from streams.steward.running import run_on_kafka

PARTITIONS = 6


@pytest.fixture
async def deployment(broker: str, tmp_path: Path) -> AsyncIterator[Deployment]:
    """Six partitions on the session's broker."""
    prefix = f"t{uuid.uuid4().hex[:10]}."
    connection = Connection(bootstrap=broker, prefix=prefix, tuning=QUICK)
    made = Deployment(connection, tmp_path, partitions=PARTITIONS)
    yield made
    await made.close()


async def shares(stewards: list[StewardProcess], expected: list[int]) -> None:
    """Wait until the stewards that decided something in the last second share like that."""
    try:
        async with asyncio.timeout(40):
            while sorted(len(recent(one)) for one in stewards) != expected:
                await asyncio.sleep(0.2)
    except TimeoutError:
        told = {one.name: sorted(recent(one)) for one in stewards}
        raise AssertionError(f"{told}, not {expected}") from None


def recent(steward: StewardProcess) -> set[int]:
    """The partitions in which a steward appended among its last lines, if it still does."""
    lines = [line for line in steward.told() if line["what"] in ("appended", "opened")]
    newest = lines[-1]["at"] if lines else 0
    if newest < time.time() - 2:
        return set()
    return {line["partition"] for line in lines if line["at"] > newest - 1.5}


async def test_three_share_six(deployment: Deployment) -> None:
    """Two have three each, a third joins and all have two, one is killed and two have three."""
    await deployment.open()
    stewards = [deployment.steward("one"), deployment.steward("two")]
    await shares(stewards, [3, 3])
    stewards.append(deployment.steward("three"))
    await shares(stewards, [2, 2, 2])
    stewards.pop(0).send(signal.SIGKILL)
    await shares(stewards, [3, 3])
    stewards.pop(0).send(signal.SIGTERM)
    await shares(stewards, [6])
    await deployment.verify()


async def test_a_partition_that_is_not_there_is_named(deployment: Deployment) -> None:
    """Fixed partitions are checked before anything is opened."""
    await deployment.open()
    keyring = Keyring([SeedSigner(bytes(32))])
    with pytest.raises(Missing, match="no partition 6"):
        await run_on_kafka(deployment.connection, keyring, asyncio.Event(), partitions=[0, 6])
