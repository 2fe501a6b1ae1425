# SPDX-License-Identifier: Apache-2.0
"""Argument types of the commands, which reject values that cannot be measured."""

from __future__ import annotations

import argparse
import math


def count(text: str) -> int:
    """Parse a whole number from 1."""
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"got {text!r}, allowed a whole number from 1")
    return int(text)


def count_or_none(text: str) -> int:
    """Parse a whole number from 0."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"got {text!r}, allowed a whole number from 0")
    return int(text)


def duration(text: str) -> float:
    """Parse a duration above 0."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0.0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"got {text!r}, allowed a number above 0")
    return value
