# SPDX-License-Identifier: Apache-2.0
"""Access control of the panel: secret URL, check of the HTTP header Origin, check of messages."""

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

_SECRET_LENGTH = 16  # Number of random bytes of the secret.
_FORBIDDEN = "open the address that the panel has printed\n"


class AccessToken:
    """Random secret in the URL of a panel, without which no page opens.

    Attributes:
        path: Path of the page, with the secret.
    """

    def __init__(self) -> None:
        self._value = secrets.token_urlsafe(_SECRET_LENGTH)
        self.path = f"/{self._value}/"

    def without(self, path: str) -> str | None:
        """Return a requested path without its secret; None if the secret is wrong or missing."""
        token, _, rest = path.partition("?")[0].lstrip("/").partition("/")
        is_right = hmac.compare_digest(token.encode(errors="replace"), self._value.encode())
        return f"/{rest}" if is_right else None

    def guard(self, answer: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
        """Return the handler ``answer`` with a check that rejects requests without the secret."""

        def guarded(connection: Any, request: Any) -> Any:
            path = self.without(request.path)
            if path is None:
                return connection.respond(http.HTTPStatus.FORBIDDEN, _FORBIDDEN)
            return answer(connection, replace(request, path=path))

        return guarded


@contextmanager
def require_token(token: AccessToken) -> Iterator[None]:
    """Require a secret for connections to a viser server that is constructed in this context."""
    # viser has no option for a request handler, so its handler is wrapped in `server.serve`.
    plain = server.serve

    def serve(*args: Any, process_request: Any, **options: Any) -> Any:
        return plain(*args, process_request=token.guard(process_request), **options)

    server.serve = serve
    try:
        yield
    finally:
        server.serve = plain


POLICY_VIOLATION = 1008
"""Websocket close code for a policy violation (RFC 6455)."""


def is_own_page(origin: str | None, host: str | None, bound_to: str) -> bool:
    """Return False if a connection comes from a browser that shows a page of another site.

    Args:
        origin: Header ``Origin`` of the request; None for a program that is no browser.
        host: Header ``Host`` of the request.
        bound_to: Address that the panel listens at.
    """
    if origin is None:
        return True
    try:
        page, host_url = urlsplit(origin), urlsplit(f"//{host}")
        is_same = page.scheme in ("http", "https") and page.netloc == host_url.netloc
        name = host_url.hostname or ""
    except ValueError:  # Browsers send only valid URLs.
        return False
    # Another site's host name can resolve to this address (DNS rebinding), so only names of this
    # machine are accepted.
    if not is_same or not (_is_address(name) or name in _own_names(bound_to)):
        return False
    return not _is_loopback(bound_to) or _is_loopback(name)


def close_foreign_connections(server: Any, bound_to: str) -> None:
    """Make a viser server close connections that come from pages of other sites.

    Args:
        server: A ``viser.ViserServer`` that already listens.
        bound_to: Address that the server listens at.
    """
    # viser has no public access to headers, so this uses private attributes of its pinned version.
    sockets = server._websock_server

    async def poll(client: Any) -> None:
        connection = sockets._live_connections.get(client.client_id)
        headers = connection.request.headers
        if is_own_page(headers.get("Origin"), headers.get("Host"), bound_to):
            return
        await connection.close(POLICY_VIOLATION, "not the page of this panel")
        with suppress(ConnectionClosed):
            async for _ in connection:  # Drops messages that have arrived already.
                pass

    sockets.on_client_connect(poll)
    sockets.disconnect_all_clients()  # Earlier pages reconnect and are then checked.


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
_chosen_value: ContextVar[Any] = ContextVar("value that a page has chosen")


def accept_values_only(server: Any) -> None:
    """Make a viser server accept only valid values of input elements from browser pages.

    A page could otherwise change any property of an element, such as disable the stop button of
    all pages. Requests to share the page are dropped too.
    """
    elements = server.gui._gui_input_handle_from_uuid
    received = server._websock_server._incoming_handlers

    def is_value(message: Any) -> bool:
        if set(message.updates) != {"value"}:
            return False
        element = elements.get(message.uuid)  # viser ignores messages for removed elements.
        return element is None or _is_convertible(message.updates["value"], element.value)

    _drop_unreadable_messages(server._websock_server)
    for kind, handlers in received.items():
        if kind.__name__ == _UPDATE:
            received[kind] = [_if(is_value, handler) for handler in handlers]
        elif kind.__name__ == _GIZMO:
            received[kind] = [_if(_is_position, handler) for handler in handlers]
        elif kind.__name__.startswith(_SHARE):
            received[kind] = []


def value_of(element: Any) -> Any:
    """Return the value that the browser has sent for an element; call only in its callback.

    ``element.value`` may already be a newer value that the panel has set.
    """
    value = element.value
    return value if (changed := _chosen_value.get(None)) is None else type(value)(changed)


def _drop_unreadable_messages(sockets: Any) -> None:
    # viser would end the connection at such a message.
    async def guard(client: Any) -> None:
        connection = sockets._live_connections.get(client.client_id)
        receive, is_reported = connection.recv, False

        async def readable() -> bytes:
            nonlocal is_reported
            while True:
                data: bytes = await receive()
                try:
                    Message.deserialize(data)
                except Exception as error:  # A page may send any bytes.
                    if not is_reported:
                        is_reported = True
                        _log.warning(
                            "viewer %d: dropped unreadable message %.120r: %s",
                            client.client_id,
                            data,
                            error,
                        )
                else:
                    return data

        connection.recv = readable

    sockets.on_client_connect(guard)


def _if(is_right: Callable[[Any], bool], handler: Callable[[int, Any], Awaitable[None]]) -> Any:
    is_reported = set[int]()

    async def checked(viewer: int, message: Any) -> None:
        if is_right(message):
            if hasattr(message, "updates"):
                _chosen_value.set(message.updates["value"])
            await handler(viewer, message)
        elif viewer not in is_reported:
            # Logged once per viewer, because a page may send a thousand messages per second.
            is_reported.add(viewer)
            _log.warning("viewer %d: rejected invalid message %.120r", viewer, message)

    return checked


def _is_convertible(value: Any, now: Any) -> bool:
    if isinstance(now, bool | str):
        return isinstance(value, type(now))
    if isinstance(now, int):
        return _is_number(value) and math.isfinite(value)
    # All other elements of the panel have float values.
    return isinstance(now, float) and _is_number(value)


def _is_position(message: Any) -> bool:
    return all(
        isinstance(numbers, list | tuple) and all(map(_is_number, numbers))
        for numbers in (message.position, message.wxyz)
    )


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
