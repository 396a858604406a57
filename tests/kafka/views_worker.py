"""A read-side worker process for the tests: Faust, its tables, and HTTP, on a port given.

`python views_worker.py JSON`: `bootstrap`, `prefix`, `tuning`, `datadir`, `port`, `group`.
Prints one JSON line when it serves. `GET /rows` gives every row of its tables, for comparison.
"""

from __future__ import annotations

import asyncio
import json
import logging
import signal
import sys
from pathlib import Path

from aiohttp import web

from streams.logs.kafka import KafkaLog
from streams.logs.kafka_options import Connection, Tuning
from streams.views.access import Access
from streams.views.peers import peers
from streams.views.place import Place
from streams.views.readside import ReadSide
from streams.views.web import make_app, served
from streams.views.worker import Worker


async def main(given: dict[str, object]) -> None:
    """Serve until SIGTERM."""
    stopping = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopping.set)
    tuning = Tuning(**given["tuning"])  # type: ignore[arg-type]
    connection = Connection(
        bootstrap=str(given["bootstrap"]), prefix=str(given["prefix"]), tuning=tuning
    )
    log = KafkaLog(connection)
    side = ReadSide(log)
    url = f"http://127.0.0.1:{given['port']}"
    place = Place(datadir=Path(str(given["datadir"])), url=url, group=str(given["group"]))
    worker = Worker(connection, place, side, await log.partitions())

    async def rows(request: web.Request) -> web.Response:
        found = {
            name: {key: data.hex() for key, data in table.items()}
            for name, table in side.tables.items()
        }
        return web.json_response({"owned": sorted(worker.owned), "rows": found})

    async with worker.running(), peers(worker, url) as others:
        app = make_app(
            side, Access(None, per_second=100_000, burst=100_000), log=log,
            beyond=[others.pass_on],
        )  # fmt: skip
        app.router.add_get("/rows", rows)
        async with served(app, host="127.0.0.1", port=int(str(given["port"]))):
            while not worker.is_ready:
                await asyncio.sleep(0.05)
            print(json.dumps({"owned": sorted(worker.owned)}), flush=True)
            failed = asyncio.ensure_future(worker.failed())
            stopped = asyncio.ensure_future(stopping.wait())
            await asyncio.wait({failed, stopped}, return_when=asyncio.FIRST_COMPLETED)
            stopped.cancel()
            failed.cancel()
    await log.close()


if __name__ == "__main__":
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr)
    asyncio.run(main(json.loads(sys.argv[1])))
