# SPDX-License-Identifier: Apache-2.0
"""Clients of a node: remote cells, heartbeats, target publishers."""
