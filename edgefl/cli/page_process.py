"""The process of `edgefl serve --page`, which runs beside the server and takes no time of the server's process.

The page's process ends whenever the server's process ends, because its standard input is a pipe that only the server
holds. If the page's process ends before, the run goes on and the log says so.
"""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from edgefl.cli.page_options import PageRequest
from edgefl.system.log_lines import Alert


@contextmanager
def page_beside(
    run: Path, asked: PageRequest, token: Path | None, flags: list[str], say: Callable[[str], None]
) -> Iterator[None]:
    """Show the page for the length of the with block. `flags` are the options of the log."""
    listener = asked.address.sockets[0]
    port = listener.getsockname()[1]
    named = {"--token": token, "--tls-cert": asked.tls_cert, "--tls-key": asked.tls_key}
    command = [sys.executable, "-m", "edgefl", "page", str(run), "--listen", f"{asked.address.host}:{port}"]
    command += [part for name, value in named.items() if value is not None for part in (name, str(value))]
    command += ["--insecure", "--until-input-ends", "--descriptor", str(listener.fileno()), *flags]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, pass_fds=[listener.fileno()], start_new_session=True, stdout=subprocess.DEVNULL
    )
    asked.close()
    is_wanted = True

    def look() -> None:
        code = process.wait()
        if is_wanted:
            say(Alert(f"the page has ended with exit code {code}; the run goes on; see it with `edgefl page {run}`"))

    threading.Thread(target=look, name="page", daemon=True).start()
    try:
        yield
    finally:
        is_wanted = False
        assert process.stdin is not None
        process.stdin.close()
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            process.kill()
