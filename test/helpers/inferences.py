# SPDX-License-Identifier: Apache-2.0
"""Answers of policies that run beside the test."""

from __future__ import annotations

from processes import wait_until


def awaited(inference):
    """Wait until a policy has answered, and return its answer."""
    answers = []

    def has_answered():
        answers.append(inference.receive(0.0))
        return answers[-1] is not None

    wait_until(has_answered)
    return answers[-1]
