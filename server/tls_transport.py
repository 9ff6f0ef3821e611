"""TLS between a socket's transport and a Peer, for thousands of connections that are idle most of the time.

The TLS of asyncio keeps a buffer of 256 KiB for each connection. OpenSSL's memory BIOs never shrink, so data pass
through them in steps of STEP bytes. OpenSSL releases its record buffers when they are empty, as Python asks it to. A
connection that has said nothing has no session at all. The context is made in trust/tls.py.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from contextlib import suppress
from typing import Any, cast

STEP = 4096  # bytes. A BIO holds at most so many, and the frame of a record


class TlsTransport(asyncio.Protocol):
    """The server's side of one TLS connection: a protocol to the socket's transport, a transport to `inner`.

    inner   gets connection_made with this object once the handshake is done, and connection_lost in any case
    failed  is called with the reason if the peer does not speak TLS with us, just before the connection is aborted
    """

    def __init__(
        self, context: ssl.SSLContext, inner: asyncio.Protocol, patience_s: float, failed: Callable[[str], None]
    ) -> None:
        self._context, self._inner, self._patience_s, self._failed = context, inner, patience_s, failed
        self._session: ssl.SSLObject | None = None
        self._is_secure = False
        self._error: ssl.SSLError | None = None  # error that ended the connection
        self._timer: asyncio.TimerHandle | None = None

    # Calls from asyncio.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._raw = cast(asyncio.Transport, transport)
        self._timer = asyncio.get_running_loop().call_later(self._patience_s, self._too_slow)

    def data_received(self, data: bytes) -> None:
        if self._session is None:
            self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
            self._session = self._context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        for start in range(0, len(data), STEP):
            self._incoming.write(data[start : start + STEP])
            self._take(self._session)
            if self._raw.is_closing():
                return

    def pause_writing(self) -> None:
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        self._inner.resume_writing()

    def connection_lost(self, error: Exception | None) -> None:
        self._forget_timer()
        inner, self._inner, self._session = self._inner, asyncio.Protocol(), None  # breaks a cycle
        self._incoming = self._outgoing = ssl.MemoryBIO()
        inner.connection_lost(self._error or error)

    # Calls from the Peer.

    def write(self, data: bytes) -> None:
        assert self._session is not None
        pieces = []
        for start in range(0, len(data), STEP):
            self._session.write(data[start : start + STEP])
            pieces.append(self._outgoing.read())
        self._raw.write(b"".join(pieces))

    def close(self) -> None:
        """Say that this was all, and close once everything is sent."""
        if self._session is not None and self._is_secure and not self._raw.is_closing():
            with suppress(ssl.SSLError):  # unwrap also wants the peer to close, for which we do not wait
                self._session.unwrap()
            self._flush()
        self._raw.close()

    def abort(self) -> None:
        self._raw.abort()

    def is_closing(self) -> bool:
        return self._raw.is_closing()

    def get_write_buffer_size(self) -> int:
        return self._raw.get_write_buffer_size()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._raw.get_extra_info(name, default)

    # The session.

    def _take(self, session: ssl.SSLObject) -> None:
        """Go on with the bytes that have arrived, up to where more are needed."""
        try:
            if not self._is_secure:
                session.do_handshake()
                self._flush()
                self._become_secure()
            while not self._raw.is_closing():
                data = session.read(STEP)
                if not data:
                    self.close()
                    return
                self._inner.data_received(data)
        except ssl.SSLWantReadError:
            self._flush()
        except ssl.SSLError as error:
            self._error = error
            self._fail(str(error.reason or error))

    def _become_secure(self) -> None:
        self._is_secure = True
        self._forget_timer()
        self._inner.connection_made(cast(asyncio.Transport, self))

    def _flush(self) -> None:
        if not self._raw.is_closing() and (data := self._outgoing.read()):
            self._raw.write(data)

    def _fail(self, why: str) -> None:
        if not self._is_secure:
            self._failed(why)
        self._raw.abort()

    def _too_slow(self) -> None:
        self._fail(f"the handshake is not complete after {self._patience_s:g} s")

    def _forget_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
