# SPDX-License-Identifier: Apache-2.0
"""Client of a panel without a browser, with the protocol of viser."""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from urllib.parse import urlsplit

import msgspec
import numpy as np
import viser
import zstandard
from processes import poll, wait_until
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

CAMERA = {
    "type": "ViewerCameraMessage", "wxyz": (1.0, 0.0, 0.0, 0.0), "position": (2.0, 0.0, 1.0),
    "fov": 1.0, "near": 0.1, "far": 100.0, "image_height": 480, "image_width": 640,
    "look_at": (0.0, 0.0, 0.0), "up_direction": (0.0, 0.0, 1.0),
}  # fmt: skip


class PanelPage:
    """Connection of a page; ``origin`` is its origin, empty for a program."""

    def __init__(self, address, origin=None):
        page = urlsplit(address)
        self.socket = connect(
            f"ws://{page.netloc}{page.path.rstrip('/')}",
            subprotocols=[f"viser-v{viser.__version__}"], compression=None, max_size=None,
            origin=f"http://{page.netloc}" if origin is None else origin or None,
        )  # fmt: skip
        self.elements, self.nodes, self.meshes, self.received = {}, {}, {}, []
        self.close_code = None
        threading.Thread(target=self._receive, daemon=True).start()
        with suppress(ConnectionClosed):  # the panel may reject the connection
            self.send(**CAMERA)

    def _receive(self):
        with suppress(ConnectionClosed):
            for data in self.socket:
                inner, packed = (int.from_bytes(data[at : at + 8], "little") for at in (0, 8))
                text = zstandard.ZstdDecompressor().decompress(data[16 : 16 + packed], inner)
                window = msgspec.msgpack.decode(text)
                buffers, at = [], 16 + packed
                for length in window["binaryBufferLengths"]:
                    at += -at % 8
                    buffers.append(data[at : at + length])
                    at += length
                for message in window["messages"]:
                    self._apply(message, buffers)
        self.close_code = self.socket.close_code

    def _apply(self, message, buffers):
        kind = message["type"]
        self.received.append((kind, message.get("name", ""), time.monotonic()))
        if kind == "MeshMessage":
            vertices = message["props"]["vertices"]
            numbers = np.frombuffer(buffers[vertices["__binary_index"]], vertices["dtype"])
            self.meshes[message["name"]] = numbers.reshape(-1, 3)
        elif kind.startswith("Gui") and "props" in message:
            element = {"uuid": message["uuid"], "value": message.get("value"), **message["props"]}
            self.elements[message["uuid"]] = element
        elif kind == "GuiUpdateMessage" and message["uuid"] in self.elements:
            self.elements[message["uuid"]].update(message["updates"])
        elif kind == "GuiRemoveMessage":
            self.elements.pop(message["uuid"], None)
        elif kind in ("SetPositionMessage", "SetOrientationMessage"):
            node = self.nodes.setdefault(message["name"], {})
            node.update({key: message[key] for key in ("position", "wxyz") if key in message})

    def send(self, **message):
        self.socket.send(msgspec.msgpack.encode(message))

    def find(self, label, number=0):
        """Return the element with a label, or None."""
        found = [one for one in list(self.elements.values()) if one.get("label") == label]
        return found[number] if len(found) > number else None

    def use(self, label, value=True, number=0):
        """Press a button, or change an input."""
        uuid = self.find(label, number)["uuid"]
        self.send(type="GuiUpdateMessage", uuid=uuid, updates={"value": value})

    def drag(self, arm, position, wxyz=(1.0, 0.0, 0.0, 0.0), owner=""):
        self.send(
            type="TransformControlsUpdateMessage", name=f"/target/{arm}", owner=owner,
            position=position, wxyz=wxyz,
        )  # fmt: skip

    def grasp_gizmo(self, arm):
        self.send(type="TransformControlsDragStartMessage", name=f"/target/{arm}", owner="")

    def let_go(self, arm):
        self.send(type="TransformControlsDragEndMessage", name=f"/target/{arm}", owner="")

    def close(self):
        self.socket.close()


def until(condition, what, step=lambda: None):
    """Wait for a condition that depends on network messages, with ``step`` between checks."""

    def step_and_sleep():
        step()
        poll()

    wait_until(condition, 15.0, lambda: what, step_and_sleep)
