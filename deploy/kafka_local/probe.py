"""Ask a broker, in its own protocol, whether it is ready for transactions.

Not here: starting it (`node`). Only the four requests that readiness needs are spoken, in versions
that every Kafka 4.x serves, so that this works before any Python client is installed.

1. Metadata names the live brokers and a controller.
2. FindCoordinator and InitProducerId make the broker create its transaction topic with all its
   replicas, and answer only once that one has a leader: a listening port says much less.
"""

import socket
import struct
import time
from dataclasses import dataclass

CONNECT_SECONDS_MAX = 2.0
PAUSE_SECONDS = 0.1
RESPONSE_BYTES_MAX = 1 << 20
METADATA, FIND_COORDINATOR, INIT_PRODUCER_ID = (3, 4), (10, 1), (22, 0)
PROBE_ID = "kafka-local.probe"


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """What one broker says of its cluster: `(number, port)` of the live ones, the controller."""

    brokers: frozenset[tuple[int, int]]
    controller: int


class _Reader:
    """Reads Kafka's primitive types one after the other."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def number(self, code: str) -> int:
        (value,) = struct.unpack_from(">" + code, self._data, self._at)
        self._at += struct.calcsize(">" + code)
        return int(value)

    def text(self) -> str:
        length = max(0, self.number("h"))
        self._at += length
        return self._data[self._at - length : self._at].decode()


def _text(value: str) -> bytes:
    return struct.pack(">h", len(value)) + value.encode()


def _exchange(port: int, api: tuple[int, int], body: bytes) -> _Reader:
    """One request and its response. Raises OSError or struct.error when there is no good answer."""
    request = struct.pack(">hhi", *api, 1) + _text("kafka-local") + body
    with socket.create_connection(("127.0.0.1", port), CONNECT_SECONDS_MAX) as connection:
        connection.settimeout(CONNECT_SECONDS_MAX)
        connection.sendall(struct.pack(">i", len(request)) + request)
        with connection.makefile("rb") as stream:
            (length,) = struct.unpack(">i", stream.read(4))
            reader = _Reader(stream.read(min(length, RESPONSE_BYTES_MAX)))
    reader.number("i")
    return reader


def look(port: int) -> View:
    """The cluster as the broker at `port` sees it."""
    reader = _exchange(port, METADATA, struct.pack(">i?", 0, False))
    reader.number("i")
    brokers = set()
    for _ in range(reader.number("i")):
        number = reader.number("i")
        reader.text()
        brokers.add((number, reader.number("i")))
        reader.text()
    reader.text()
    return View(brokers=frozenset(brokers), controller=reader.number("i"))


def transactions_work(port: int) -> bool:
    """Whether the cluster hands out a transactional producer id."""
    reader = _exchange(port, FIND_COORDINATOR, _text(PROBE_ID) + struct.pack(">b", 1))
    reader.number("i")
    if reader.number("h") != 0:
        return False
    reader.text()
    reader.number("i")
    reader.text()
    body = _text(PROBE_ID) + struct.pack(">i", 1000)
    reader = _exchange(reader.number("i"), INIT_PRODUCER_ID, body)
    reader.number("i")
    return reader.number("h") == 0


def wait_ready(port: int, numbers: set[int], *, seconds_max: float) -> bool:
    """Wait until the broker at `port` sees all `numbers` live and serves transactions."""
    deadline = time.monotonic() + seconds_max
    while time.monotonic() < deadline:
        try:
            view = look(port)
            seen = {number for number, _ in view.brokers}
            if view.controller >= 0 and numbers <= seen and transactions_work(port):
                return True
        except (OSError, struct.error):
            pass
        time.sleep(PAUSE_SECONDS)
    return False
