# SPDX-License-Identifier: Apache-2.0
"""Marks that skip tests without a package or a second core."""

from __future__ import annotations

import os
from importlib.util import find_spec

import pytest


def _needs(module: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(find_spec(module) is None, reason=f"{module} is not installed")


needs_rclpy, needs_pylibfranka = _needs("rclpy"), _needs("pylibfranka")
needs_two_cores = pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="only one core")
