# SPDX-License-Identifier: Apache-2.0
"""Answers of asynchronous policies."""

from __future__ import annotations

from processes import wait_until


def awaited(inference):
    """Wait for the answer of a policy and return it."""
    answers = []

    def has_answered():
        answers.append(inference.receive(0.0))
        return answers[-1] is not None

    wait_until(has_answered)
    return answers[-1]
