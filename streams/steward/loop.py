"""The steward of a partition: a session, and after any doubt another one.

What happens inside a session is `streams.steward.session`.

1. Trouble that says `retry` leaves the session alone; `reopen`, and whatever leaves an outcome
   unknown, drops writer and state: the next session learns from the ledger what became of it.
   `stop`, a broken ledger and a wrong key end the steward.
2. Waits double after each failure, up to a bound, and are jittered, so that many stewards do not
   come back at once. A step that worked resets them.
3. An event whose receipts no ledger can hold spoils the session too; the next one buries it.

Invariant: a session that raised is never asked anything again.
Source: architecture.md "One writer, exactly once" and "Failure, named".
"""

import asyncio
import random
from collections.abc import Callable, Sequence

from streams.logs.contract import Log
from streams.logs.embedded import clock_ms
from streams.logs.errors import LogTrouble, Remedy, Unavailable
from streams.steward.draft import Place, Unsealable
from streams.steward.keyring import Keyring
from streams.steward.observer import Observer
from streams.steward.pools import Partition
from streams.steward.session import Session
from streams.steward.settings import Settings
from streams.steward.snapshots import Snapshots


class Steward:
    """Decides one partition's events until it is told to stop.

    `snapshots` None: every start replays the whole ledger. `clock` (ms since the epoch) is for
    ticks only; no decision sees it.
    """

    def __init__(
        self,
        log: Log,
        partition: int,
        keyring: Keyring,
        *,
        settings: Settings | None = None,
        snapshots: Snapshots | None = None,
        observer: Observer | None = None,
        clock: Callable[[], int] = clock_ms,
    ) -> None:
        self.number = partition
        self._log = log
        self._keyring = keyring
        self._settings = settings or Settings()
        self._snapshots = snapshots
        self._observer = observer or Observer()
        self._clock = clock
        self._session: Session | None = None
        self._failures = 0
        self._unsealable: set[Place] = set()

    @property
    def partition(self) -> Partition | None:
        """What the running session holds, to be looked at between two steps; None without one."""
        return None if self._session is None else self._session.partition

    async def run(self, stopping: asyncio.Event) -> None:
        """Decide until `stopping` is set, then finish. Raises: LogTrouble, StewardStopped."""
        try:
            while not stopping.is_set():
                await self._attempt(self._settings.wait_ms, stopping)
                # A log that always has something at hand would never let anybody else run.
                await asyncio.sleep(0)
            await self._finish_or_leave()
        finally:
            await self.close()

    async def decide_all(self) -> None:
        """Decide everything that is in the inputs now, and return. Raises as `run`."""
        never = asyncio.Event()
        while await self._attempt(0, never):
            await asyncio.sleep(0)

    async def finish(self) -> None:
        """Publish the heads that are owed, write a snapshot. Raises: LogTrouble."""
        if self._session is not None:
            session = self._session
            self._session = None
            try:
                await session.finish()
            finally:
                await session.close()

    async def _finish_or_leave(self) -> None:
        """Finish; where another has taken over, or the log is away, there is nothing to finish."""
        try:
            await self.finish()
        except LogTrouble as trouble:
            if trouble.remedy is Remedy.STOP:
                raise
            self._observer.reopening(self.number, trouble, 0)

    async def close(self) -> None:
        """Let go of the partition as it is. Never raises; may be called twice."""
        if self._session is not None:
            session, self._session = self._session, None
            await session.close()

    async def _attempt(self, timeout_ms: int, stopping: asyncio.Event) -> bool:
        """One step, opening a session first if there is none. False if nothing was left to do."""
        try:
            if self._session is None:
                self._session = await self._open()
            waited = await self._session.step(timeout_ms=timeout_ms)
        except Unavailable as trouble:
            await self._pause(trouble, stopping)
            return True
        except Unsealable as error:
            self._unsealable.add(error.place)
            self._observer.reopening(self.number, error, 0)
            await self.close()
            return True
        except LogTrouble as trouble:
            await self.close()
            if trouble.remedy is Remedy.STOP:
                raise
            await self._pause(trouble, stopping)
            return True
        except BaseException:
            await self.close()
            raise
        self._failures = 0
        return waited

    async def _open(self) -> Session:
        session = await Session.open(
            self._log,
            self.number,
            keyring=self._keyring,
            settings=self._settings,
            snapshots=self._snapshots,
            observer=self._observer,
            unsealable=self._unsealable,
            clock=self._clock,
        )
        pools = session.partition.pools
        self._observer.opened(
            self.number, {name: pool.chain.length for name, pool in pools.items()}
        )
        return session

    async def _pause(self, trouble: LogTrouble, stopping: asyncio.Event) -> None:
        settings = self._settings
        longest_ms = min(settings.backoff_ms << self._failures, settings.backoff_ms_max)
        self._failures = min(self._failures + 1, 30)
        # Jitter only: which of two waits is longer decides nothing that is written.
        delay_ms = random.randint(longest_ms // 2, longest_ms)
        self._observer.reopening(self.number, trouble, delay_ms)
        try:
            async with asyncio.timeout(delay_ms / 1000):
                await stopping.wait()
        except TimeoutError:
            return


async def run_all(stewards: Sequence[Steward], stopping: asyncio.Event) -> None:
    """Run several partitions' stewards. If one stops for good the others finish, too.

    Raises what the first one raised.
    """

    async def run(steward: Steward) -> None:
        try:
            await steward.run(stopping)
        finally:
            stopping.set()

    results = await asyncio.gather(*(run(one) for one in stewards), return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result
