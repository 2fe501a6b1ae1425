# SPDX-License-Identifier: Apache-2.0
"""Bounded reading of files."""

from __future__ import annotations
