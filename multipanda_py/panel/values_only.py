# SPDX-License-Identifier: Apache-2.0
"""What pages may change of the elements they are shown: values of their kind, and no more."""

from __future__ import annotations

import logging
import math
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from typing import Any

from viser._messages import Message

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
