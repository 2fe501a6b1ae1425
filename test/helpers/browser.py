# SPDX-License-Identifier: Apache-2.0
"""Headless Chromium, controlled by its DevTools protocol."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from pathlib import Path
from urllib.request import urlopen

from processes import poll, wait_until
from websockets.sync.client import connect

PROGRAM = os.environ.get("MULTIPANDA_CHROMIUM") or shutil.which("chromium")
"""Path of Chromium, or None."""
ANSWER_TIMEOUT = 90.0
OPTIONS = (
    "--headless", "--no-sandbox", "--no-first-run", "--disable-quic", "--disable-sync",
    "--disable-background-networking", "--disable-component-update", "--use-gl=angle",
    "--use-angle=swiftshader", "--enable-unsafe-swiftshader", "--remote-debugging-port=0",
)  # fmt: skip


class Browser:
    """Browser with one page, and actions of a user.

    ``meanwhile`` is called repeatedly during waits for an answer.
    """

    def __init__(self, folder, address, size, meanwhile):
        self._meanwhile, self._number = meanwhile, 0
        self._process = subprocess.Popen(
            [PROGRAM, *OPTIONS, f"--user-data-dir={folder}",
             f"--window-size={size[0]},{size[1]}", address],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
        port_file = Path(folder) / "DevToolsActivePort"
        self.until(port_file.exists, "start of the browser")
        self.until(lambda: "\n" in port_file.read_text(), "port of DevTools")
        tabs = f"http://127.0.0.1:{port_file.read_text().splitlines()[0]}/json"
        tab = next(one for one in json.load(urlopen(tabs)) if one["type"] == "page")
        self._socket = connect(tab["webSocketDebuggerUrl"], max_size=None)
        width, height = size
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width, height=height, deviceScaleFactor=1, mobile=False,
        )  # fmt: skip

    def until(self, condition, what):
        def step():
            self._meanwhile()
            poll()

        wait_until(condition, 20.0, lambda: what, step)

    def call(self, method, **params):
        self._number += 1
        self._socket.send(json.dumps({"id": self._number, "method": method, "params": params}))
        end = time.monotonic() + ANSWER_TIMEOUT
        while time.monotonic() < end:
            self._meanwhile()
            try:
                answer = json.loads(self._socket.recv(timeout=0.01))
            except TimeoutError:
                continue
            if answer.get("id") == self._number:
                return answer["result"]
        raise AssertionError(f"{method}: no answer after {ANSWER_TIMEOUT:g} s")

    def ask(self, script):
        """Return the value of a line of JavaScript in the page."""
        found = self.call("Runtime.evaluate", expression=script, returnByValue=True)
        return found["result"].get("value")

    def click(self, text, kind="button"):
        """Wait for an element with a text or value, and click on it."""
        script = (
            f"(() => {{ const one = [...document.querySelectorAll({kind!r})].find("
            f"e => (e.innerText || e.value || '').trim() === {text!r});"
            "if (one) one.click(); return Boolean(one); })()"
        )
        self.until(lambda: self.ask(script), f"element {text}")

    def mouse(self, kind, x, y, held=0):
        button = "none" if kind == "mouseMoved" and not held else "left"
        self.call(
            "Input.dispatchMouseEvent", type=kind, x=x, y=y, button=button, buttons=held,
            clickCount=0 if kind == "mouseMoved" else 1,
        )  # fmt: skip

    def close(self):
        self._socket.close()
        self._process.terminate()
        self._process.wait(10.0)
