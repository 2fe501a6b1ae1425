# SPDX-License-Identifier: Apache-2.0
"""What pages may change of the elements that they are shown: values, and nothing else."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

_UPDATE, _SHARE = "GuiUpdateMessage", "ShareUrl"


def let_pages_change_values_only(server: Any) -> None:
    """Have a viser server drop what a page says of anything but the value of an element.

    viser sets whatever attribute a page names, also the list of what a button calls: one page
    could have taken the stop button from all others. What hands the page on through a machine
    of somebody else is not heard either. There is no public way, so that this reaches into the
    version that is pinned.

    Args:
        server: A ``viser.ViserServer``.
    """
    heard = server._websock_server._incoming_handlers
    for kind, handlers in heard.items():
        if kind.__name__ == _UPDATE:
            heard[kind] = [_of_values(handler) for handler in handlers]
        elif kind.__name__.startswith(_SHARE):
            heard[kind] = []


def _of_values(handler: Callable[[int, Any], Awaitable[None]]) -> Callable[..., Any]:
    async def checked(viewer: int, message: Any) -> None:
        if set(message.updates) == {"value"}:
            await handler(viewer, message)

    return checked
