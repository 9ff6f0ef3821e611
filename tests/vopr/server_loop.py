"""asyncio's event loop over the schedule: the part of it that the server uses. One loop is one life of the server."""

from __future__ import annotations

import asyncio
from asyncio.events import _set_running_loop
from collections.abc import Callable, Coroutine
from typing import Any

from tests.vopr.network import ServerTransport, ServerWire
from tests.vopr.process import KilledError, Process


class ServerLoop(asyncio.AbstractEventLoop):
    """The loop of a process. Work for other threads is done at once, after the seconds that the disk takes.

    failed  is given an exception of a callback, which asyncio would write to a log
    began   the tasks that are not done
    """

    def __init__(self, process: Process, failed: Callable[[BaseException], None]) -> None:
        self._process, self._schedule, self._failed = process, process.schedule, failed
        self._stream = process.schedule.stream(f"loop {process.name}")
        self._on_signal: Callable[[], object] = lambda: None
        self._is_interrupted = False
        self.began: list[asyncio.Task[object]] = []

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return self._process.is_alive

    def is_closed(self) -> bool:
        return not self._process.is_alive

    def time(self) -> float:
        return self._schedule.now

    def call_soon(self, callback: Any, *args: Any, context: Any = None) -> asyncio.Handle:
        handle = asyncio.Handle(callback, args, self, context)
        self._schedule.after(0.0, lambda: self._run(handle), self._process)
        return handle

    def call_at(self, when: float, callback: Any, *args: Any, context: Any = None) -> asyncio.TimerHandle:
        handle = asyncio.TimerHandle(when, callback, args, self, context)
        self._schedule.at(when, lambda: self._run(handle), self._process)
        return handle

    def call_later(self, delay: float, callback: Any, *args: Any, context: Any = None) -> asyncio.TimerHandle:
        return self.call_at(self.time() + delay, callback, *args, context=context)

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """Nothing follows: the schedule passes over a cancelled handle."""

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(self, coro: Coroutine[Any, Any, Any], **options: Any) -> asyncio.Task[Any]:
        task = asyncio.Task(coro, loop=self, **options)
        self.began[:] = [*(each for each in self.began if not each.done()), task]
        return task

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:  # type: ignore[override]
        future = self.create_future()
        delay = self._stream.random() * self._process.disk.writing_s

        def work() -> None:
            if executor is None:  # live.json is for observers, and nothing follows from it
                future.set_result(None)
                return
            try:
                future.set_result(func(*args))
            except KilledError:
                pass
            except Exception as error:
                future.set_exception(error)

        self._schedule.after(delay, work, self._process)
        return future

    def add_signal_handler(self, sig: int, callback: Any, *args: Any) -> None:
        self._on_signal = lambda: callback(*args)

    def interrupt(self) -> None:
        """Send the signal SIGTERM."""
        self._is_interrupted = True
        self.call_soon(self._on_signal)

    def add_reader(self, fd: Any, callback: Any, *args: Any) -> None:
        fd.is_watched(lambda: self.call_soon(callback, *args))

    def remove_reader(self, fd: Any) -> bool:  # type: ignore[override]
        fd.is_watched(None)
        return True

    async def connect_accepted_socket(self, protocol_factory: Any, sock: Any, **options: Any) -> Any:  # type: ignore[override]
        wire: ServerWire = sock
        protocol = protocol_factory()
        transport = ServerTransport(wire, self, protocol)
        protocol.connection_made(transport)
        wire.attach(transport)
        return transport, protocol

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if self._process.is_alive and not isinstance(error, KilledError):
            self._failed(error or RuntimeError(context["message"]))

    def _run(self, handle: asyncio.Handle) -> None:
        if handle.cancelled():
            return
        _set_running_loop(self)
        try:
            handle._run()
        except KeyboardInterrupt:
            if not self._is_interrupted:
                raise
        finally:
            _set_running_loop(None)
