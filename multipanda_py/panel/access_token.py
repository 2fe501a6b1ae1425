# SPDX-License-Identifier: Apache-2.0
"""Secret in the address of a panel.

The origin tells the page of another site from the panel's own, but only a browser states it: any
program of any user of the machine could connect and move the arms. The secret is the first part
of the path. viser's page connects to the path that it was opened by, so that it keeps the secret.
"""

from __future__ import annotations

import hmac
import http
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from websockets.asyncio import server

_BYTES = 16
_FORBIDDEN = "open the address that the panel has printed\n"


class AccessToken:
    """Secret of one panel.

    Attributes:
        path: Path of the page.
    """

    def __init__(self) -> None:
        self._value = secrets.token_urlsafe(_BYTES)
        self.path = f"/{self._value}/"

    def without(self, path: str) -> str | None:
        """Return a requested path without the secret, or None if the secret is not in it."""
        given, _, rest = path.partition("?")[0].lstrip("/").partition("/")
        is_right = hmac.compare_digest(given.encode(), self._value.encode())
        return f"/{rest}" if is_right else None

    def guard(self, answer: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
        """Return what answers requests, pages and websockets alike, if they have the secret."""

        def guarded(connection: Any, request: Any) -> Any:
            path = self.without(request.path)
            if path is None:
                return connection.respond(http.HTTPStatus.FORBIDDEN, _FORBIDDEN)
            return answer(connection, replace(request, path=path))

        return guarded


@contextmanager
def demanded(token: AccessToken) -> Iterator[None]:
    """Demand a secret from all who connect to a server that is made within.

    viser begins to listen as it is made, and takes no function that judges requests: its own one
    is wrapped on its way to the library.
    """
    plain = server.serve

    def serve(*args: Any, process_request: Any, **options: Any) -> Any:
        return plain(*args, process_request=token.guard(process_request), **options)

    server.serve = serve
    try:
        yield
    finally:
        server.serve = plain
