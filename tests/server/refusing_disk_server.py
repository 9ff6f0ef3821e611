"""`edgefl serve` on a disk that refuses records of traffic: for tests of the end of a run of two rounds.

The disk takes each record at the second attempt. With the argument `last` before those of edgefl, it never takes the
last record of the run.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Sequence

from edgefl.cli import cli
from edgefl.errors import RunError
from edgefl.server import event_loop, record_queue
from edgefl.server.events import Record, Traffic
from edgefl.server.store import Store

REFUSED = "run.db: no space left on device"
RECORDS = 4  # of traffic in a run of two rounds: one when a round is closed, one when it is evaluated


def refusing(
    save: Callable[[Store, Sequence[Record]], None], never_takes_last: bool
) -> Callable[[Store, Sequence[Record]], None]:
    """Return the function `save` of a store that refuses the first attempt, and all attempts of the last record."""
    attempts: Counter[Traffic] = Counter()

    def second(store: Store, records: Sequence[Record]) -> None:
        for record in records:
            if isinstance(record, Traffic):
                attempts[record] += 1
                if attempts[record] == 1 or (never_takes_last and len(attempts) == RECORDS):
                    raise RunError(REFUSED)
        save(store, records)

    return second


if __name__ == "__main__":
    never = sys.argv[1] == "last"
    if never:
        del sys.argv[1]
        event_loop.LAST_SAVE_S = 0.2
    record_queue.RETRY_S = 0.3  # devices have left the server long before
    Store.save = refusing(Store.save, never)
    sys.exit(cli.main())
