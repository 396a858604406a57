"""Inputs are taken in the order of their publication, whoever looked when."""

import asyncio
import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from streams import topics
from streams.logs.contract import Outgoing, Record
from streams.logs.embedded import EmbeddedLog
from streams.steward.intake import Intake

STEPS = st.lists(
    st.one_of(
        st.lists(st.sampled_from(topics.INPUT_TOPICS), min_size=1, max_size=8),
        st.integers(min_value=1, max_value=9),
    ),
    max_size=12,
)


@settings(max_examples=25, deadline=None)
@given(steps=STEPS, fetch_records=st.integers(min_value=1, max_value=4))
def test_the_order_of_publication_whenever_somebody_looks(
    steps: list[list[str] | int], fetch_records: int
) -> None:
    """Publishing and taking in any mixture, however little is read ahead, keeps the order."""
    with tempfile.TemporaryDirectory() as directory:
        asyncio.run(published_and_taken(Path(directory), steps, fetch_records))


async def published_and_taken(
    directory: Path, steps: list[list[str] | int], fetch_records: int
) -> None:
    """A step publishes to topics, or takes so many records; at the end the rest is taken."""
    log = EmbeddedLog(directory)
    start = dict.fromkeys(topics.INPUT_TOPICS, 0)
    intake = Intake(log, 0, start, fetch_records=fetch_records)
    published: list[bytes] = []
    taken: list[Record] = []
    for step in [*steps, 10_000]:
        if isinstance(step, int):
            taken += await take(intake, step)
            continue
        values = [b"%d" % (len(published) + number) for number in range(len(step))]
        published += values
        await log.publish(
            [
                Outgoing(topic=topic, key=b"p", value=value)
                for topic, value in zip(step, values, strict=True)
            ]
        )
    assert [record.value for record in taken] == published
    await log.close()


async def take(intake: Intake, count: int) -> list[Record]:
    """At most `count` records."""
    taken: list[Record] = []
    while len(taken) < count and (intake.peek() or await intake.fill(timeout_ms=0)):
        record = intake.peek()
        if record is not None:
            intake.take(record)
            taken.append(record)
    return taken
