"""How long a client may keep the server waiting: time-outs that uvicorn does not have."""

from __future__ import annotations

import asyncio

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol


class ImpatientProtocol(HttpToolsProtocol):
    """Drops a client that is silent for uvicorn's ``timeout_keep_alive`` when it is its turn.

    That is: to send the head of a request, whole, also the first one of a connection, and to take
    what is written to it. (That of the body is the application's to limit.) An idle connection is
    cut off, as closing it would wait for a client that does not read.
    """

    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begins to wait for a head."""
        super().connection_made(transport)
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """Ends all waiting."""
        self._wait_no_more()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Waits for the rest of a head that was only begun."""
        super().data_received(data)
        if self._timer is None and (self.cycle is None or self.cycle.response_complete):
            self._wait()

    def on_headers_complete(self) -> None:
        """The head is here."""
        self._wait_no_more()
        super().on_headers_complete()

    def on_response_complete(self) -> None:
        """Waits for a client to take the answer after which its connection is closed."""
        super().on_response_complete()
        if self.transport.is_closing():
            self._wait()

    def pause_writing(self) -> None:
        """The client reads more slowly than is written."""
        super().pause_writing()
        self._wait()

    def resume_writing(self) -> None:
        """The client has read."""
        super().resume_writing()
        self._wait_no_more()

    def timeout_keep_alive_handler(self) -> None:
        """Cuts an idle connection off."""
        self.transport.abort()

    def _wait(self) -> None:
        self._wait_no_more()
        self._timer = self.loop.call_later(self.timeout_keep_alive, self.transport.abort)

    def _wait_no_more(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
