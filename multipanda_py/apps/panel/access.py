# SPDX-License-Identifier: Apache-2.0
"""What pages may change of the elements they are shown: values of their kind, and no more."""

from __future__ import annotations

import hmac
import http
import ipaddress
import logging
import math
import secrets
import socket
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

from viser._messages import Message
from websockets.asyncio import server
from websockets.exceptions import ConnectionClosed

_BYTES = 16
_FORBIDDEN = "open the address that the panel has printed\n"


class AccessToken:
    """Access token of one panel.

    Attributes:
        path: Path of the page, with the secret.
    """

    def __init__(self) -> None:
        self._value = secrets.token_urlsafe(_BYTES)
        self.path = f"/{self._value}/"

    def without(self, path: str) -> str | None:
        """Return a requested path without the secret; None if the secret is wrong or missing."""
        given, _, rest = path.partition("?")[0].lstrip("/").partition("/")
        is_right = hmac.compare_digest(given.encode(errors="replace"), self._value.encode())
        return f"/{rest}" if is_right else None

    def guard(self, answer: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
        """Return a handler of requests for pages and websockets that demands the secret."""

        def guarded(connection: Any, request: Any) -> Any:
            path = self.without(request.path)
            if path is None:
                return connection.respond(http.HTTPStatus.FORBIDDEN, _FORBIDDEN)
            return answer(connection, replace(request, path=path))

        return guarded


@contextmanager
def demanded(token: AccessToken) -> Iterator[None]:
    """Demand a secret from all connections to a server that is constructed within.

    viser listens from its construction on, and takes no handler of requests. Its own handler is
    therefore wrapped on its way to the library.
    """
    plain = server.serve

    def serve(*args: Any, process_request: Any, **options: Any) -> Any:
        return plain(*args, process_request=token.guard(process_request), **options)

    server.serve = serve
    try:
        yield
    finally:
        server.serve = plain


POLICY_VIOLATION = 1008
"""Close code of RFC 6455."""


def is_own_page(origin: str | None, host: str | None, bound_to: str) -> bool:
    """Return whether a connection may be let in.

    Args:
        origin: Where the page came from, as its browser says; None for what is no browser.
        host: Whom it has asked, as it says itself.
        bound_to: Address that the panel listens at.
    """
    if origin is None:
        return True
    try:
        page, asked = urlsplit(origin), urlsplit(f"//{host}")
        is_same = page.scheme in ("http", "https") and page.netloc == asked.netloc
        name = asked.hostname or ""
    except ValueError:  # nothing that a browser says
        return False
    # A name that somebody else owns may be made to lead here: only our own names count.
    if not is_same or not (_is_address(name) or name in _own_names(bound_to)):
        return False
    return not _is_loopback(bound_to) or _is_loopback(name)


def refuse_strangers(server: Any, bound_to: str) -> None:
    """Have a viser server close connections that do not come from its own page.

    viser has no public way to see a connection's headers, so that this reaches into the version
    that is pinned; where they are not found, the connection is closed.

    Args:
        server: A ``viser.ViserServer``, which listens already.
        bound_to: Address that it listens at.
    """
    sockets = server._websock_server

    async def look(client: Any) -> None:
        connection = sockets._live_connections.get(client.client_id)
        headers = connection.request.headers
        if is_own_page(headers.get("Origin"), headers.get("Host"), bound_to):
            return
        await connection.close(POLICY_VIOLATION, "this is not the panel's own page")
        with suppress(ConnectionClosed):
            async for _ in connection:  # what it has sent already: nobody else is to read it
                pass

    sockets.on_client_connect(look)
    sockets.disconnect_all_clients()  # who came before this was said; pages come back


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _is_loopback(name: str) -> bool:
    return name == "localhost" or (_is_address(name) and ipaddress.ip_address(name).is_loopback)


def _own_names(bound_to: str) -> set[str]:
    return {"localhost", bound_to, socket.gethostname().lower(), socket.getfqdn().lower()}


_UPDATE, _GIZMO, _SHARE = "GuiUpdateMessage", "TransformControlsUpdateMessage", "ShareUrl"
_log = logging.getLogger(__name__)
_said: ContextVar[Any] = ContextVar("value that a page has chosen")


def let_pages_change_values_only(server: Any) -> None:
    """Have a viser server drop what a page says of anything but the value of an element.

    viser sets whatever attribute a page names, also the list of what a button calls: one page
    could have taken the stop button from all others. A value of another kind than the element's,
    or a gizmo's place that is no numbers, ends in errors within viser, and what it cannot read in
    the end of that page's connection. What hands the page on
    through a machine of somebody else is not heard either. There is no public way, so that this
    reaches into the version that is pinned.

    Args:
        server: A ``viser.ViserServer``.
    """
    elements = server.gui._gui_input_handle_from_uuid
    heard = server._websock_server._incoming_handlers

    def is_value(message: Any) -> bool:
        if set(message.updates) != {"value"}:
            return False
        element = elements.get(message.uuid)  # viser drops what is of an element that is gone
        return element is None or _is_like(message.updates["value"], element.value)

    _drop_what_cannot_be_read(server._websock_server)
    for kind, handlers in heard.items():
        if kind.__name__ == _UPDATE:
            heard[kind] = [_if(is_value, handler) for handler in handlers]
        elif kind.__name__ == _GIZMO:
            heard[kind] = [_if(_is_place, handler) for handler in handlers]
        elif kind.__name__.startswith(_SHARE):
            heard[kind] = []


def value_of(element: Any) -> Any:
    """Return the value that a page has just set on an element, within its callback.

    The element has one value for all pages. Before the callback the panel may have set it back,
    for instance to the hold that the chosen controllet is about to replace.
    """
    value = element.value
    return value if (said := _said.get(None)) is None else type(value)(said)


def _drop_what_cannot_be_read(sockets: Any) -> None:
    """Have messages dropped that viser ends the connection of: of no type, or without a part."""

    async def guard(client: Any) -> None:
        connection = sockets._live_connections.get(client.client_id)
        receive, told = connection.recv, False

        async def readable() -> bytes:
            nonlocal told
            while True:
                data: bytes = await receive()
                try:
                    Message.deserialize(data)
                except Exception as error:  # whatever reading makes of what a page may send
                    if not told:
                        told = True
                        _log.warning(
                            "viewer %d: %.120r is not read: %s", client.client_id, data, error
                        )
                else:
                    return data

        connection.recv = readable

    sockets.on_client_connect(guard)


def _if(is_right: Callable[[Any], bool], handler: Callable[[int, Any], Awaitable[None]]) -> Any:
    told = set[int]()

    async def checked(viewer: int, message: Any) -> None:
        if is_right(message):
            if hasattr(message, "updates"):
                _said.set(message.updates["value"])
            await handler(viewer, message)
        elif viewer not in told:  # once: a page may say it a thousand times a second
            told.add(viewer)
            _log.warning("viewer %d: %.120r is not taken", viewer, message)

    return checked


def _is_like(value: Any, now: Any) -> bool:
    """Return whether viser can make a value of the kind that an element has now of it."""
    if isinstance(now, bool | str):
        return isinstance(value, type(now))
    if isinstance(now, int):
        return _is_number(value) and math.isfinite(value)
    return isinstance(now, float) and _is_number(value)  # of no other kind does the panel have any


def _is_place(message: Any) -> bool:
    return all(
        isinstance(numbers, list | tuple) and all(map(_is_number, numbers))
        for numbers in (message.position, message.wxyz)
    )


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
