# SPDX-License-Identifier: Apache-2.0
"""Clients of a running node: remote cells, heartbeats, target publishers, stream converters."""
