"""Records on their way to the store: a thread saves them batch after batch, and the event loop goes on meanwhile.

The store saves all records that have piled up as one batch. The queue keeps a batch that cannot be saved, as on a full
disk, and tries it again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from edgefl.errors import RunError
from edgefl.server.events import Record
from edgefl.server.store import Store

RETRY_S = 1.0  # seconds between two attempts to save


class RecordQueue:
    """The records that are not saved yet, in the order in which they were added."""

    def __init__(self, store: Store, say: Callable[[str, str], None], saved: Callable[[Record], None]) -> None:
        """Make an empty queue. It needs a running event loop.

        say    takes a line for people, and its kind
        saved  called with each record once the record is durable, in the order of the records. It may add records
        """
        self._store, self._say, self._saved = store, say, saved
        self._records: asyncio.Queue[Record] = asyncio.Queue()

    def add(self, record: Record) -> None:
        """Have a record saved after the records before it."""
        self._records.put_nowait(record)

    async def keep_saving(self) -> None:
        """Save batch after batch, for ever."""
        with ThreadPoolExecutor(1, "store") as thread:
            while True:
                batch = [await self._records.get()]
                while not self._records.empty():
                    batch.append(self._records.get_nowait())
                await self._save(thread, batch)
                for record in batch:
                    self._saved(record)
                    self._records.task_done()

    async def wait(self) -> None:
        """Wait until every record is saved, those too that are added meanwhile."""
        await self._records.join()

    async def _save(self, thread: ThreadPoolExecutor, batch: list[Record]) -> None:
        """Save the batch, however long the disk refuses."""
        complained = False
        while True:
            try:
                await asyncio.get_running_loop().run_in_executor(thread, self._store.save, batch)
                break
            except RunError as error:
                if not complained:
                    self._say(f"cannot store: {error}; trying again every {RETRY_S:g} s", "storage")
                complained = True
                await asyncio.sleep(RETRY_S)
        if complained:
            self._say("stored; going on", "server")
