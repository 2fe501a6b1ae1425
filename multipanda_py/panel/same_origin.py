# SPDX-License-Identifier: Apache-2.0
"""Whether what connects to a panel is the panel's own page.

Browsers let every page of every site open a websocket to this machine, and only say where that
page came from. Without a look at it, any site that is open in another tab could move the arms.
"""

from __future__ import annotations

import ipaddress
import socket
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

from websockets.exceptions import ConnectionClosed

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
