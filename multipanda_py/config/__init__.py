# SPDX-License-Identifier: Apache-2.0
"""Cell file: its sections, its checks, and the descriptions of arms and objects made from it."""

from __future__ import annotations
