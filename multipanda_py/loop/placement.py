# SPDX-License-Identifier: Apache-2.0
"""Where the loop runs: a process of its own, a thread, or the caller's hands."""

from __future__ import annotations

from collections.abc import Sequence

from multipanda_py.config.cell_file import CellConfig
from multipanda_py.config.instance_spec import InstanceSpec
from multipanda_py.loop.inline_runner import InlineRunner
from multipanda_py.loop.mailbox import Mailbox
from multipanda_py.loop.process_runner import ProcessRunner
from multipanda_py.loop.runner import Runner
from multipanda_py.loop.thread_runner import ThreadRunner


def make_runner(
    config: CellConfig,
    specs: Sequence[InstanceSpec],
    mailbox: Mailbox,
    inherited: Sequence[int] = (),
) -> Runner:
    """Return what runs the loop where the cell file places it; not started yet.

    Args:
        config: The cell.
        specs: Its instances.
        mailbox: The records shared with the loop.
        inherited: Descriptors that a process of the loop's own keeps open while it lives.
    """
    if config.cell.placement == "process":
        return ProcessRunner(config, specs, mailbox, inherited)
    kind = InlineRunner if config.cell.placement == "inline" else ThreadRunner
    return kind(config, specs, mailbox)
