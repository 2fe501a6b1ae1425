# SPDX-License-Identifier: Apache-2.0
"""What a source answers, as far as it is what a source may answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, get_args

import numpy as np

from multipanda_py.exceptions import TargetRejected
from multipanda_py.pose import Pose
from multipanda_py.teleoperation.source import GripperWish, HandCommand


def checked(answer: Any, arms: Sequence[str]) -> dict[str, HandCommand]:
    """Return what is asked of arms; one whose command is none has a problem instead.

    Args:
        answer: Of a source that others have written.
        arms: Those of the source.

    Raises:
        TargetRejected: If it is no mapping, or speaks of arms that are not the source's.
    """
    if not isinstance(answer, Mapping):
        raise TargetRejected(f"got {answer!r:.80}, allowed commands by arm")
    if unknown := [arm for arm in answer if arm not in arms]:
        raise TargetRejected(f"got a command for {unknown[0]!r:.80}, allowed {', '.join(arms)}")
    return {arm: _command(command) for arm, command in answer.items()}


def _command(command: Any) -> HandCommand:
    if not isinstance(command, HandCommand):
        return HandCommand(problem=f"got {command!r:.80}, allowed a HandCommand")
    wishes = get_args(GripperWish)
    rules = (
        ("is_engaged", isinstance(command.is_engaged, bool | np.bool_), "True or False"),
        ("pose", command.pose is None or isinstance(command.pose, Pose), "a Pose or None"),
        ("frame", isinstance(command.frame, str), "a name"),
        ("gripper", command.gripper in wishes, "'', 'open' or 'close'"),
        ("problem", isinstance(command.problem, str), "a sentence"),
    )
    for name, is_right, allowed in rules:
        if not is_right:
            got = getattr(command, name)
            return HandCommand(problem=f"{name}: got {got!r:.80}, allowed {allowed}")
    return command
