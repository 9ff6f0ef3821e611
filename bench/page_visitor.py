"""python -m bench.page_visitor URL: a visitor who reads a page as a browser does, and its metrics every 5 s."""

from __future__ import annotations

import json
import os
import sys
import time
from urllib.request import urlopen

SCRAPE_S = 5.0


def main() -> int:
    os.nice(19)  # a browser is on another machine
    url, scraped_at = sys.argv[1], 0.0
    with urlopen(f"{url}state.json") as answer:
        state = json.load(answer)
    with urlopen(f"{url}events?after={state['event']}") as events:
        for line in events:
            if line.startswith(b"data: "):
                json.loads(line[6:])
            if time.monotonic() - scraped_at > SCRAPE_S:
                scraped_at = time.monotonic()
                with urlopen(f"{url}metrics") as answer:
                    answer.read()
    return 0


if __name__ == "__main__":
    sys.exit(main())
