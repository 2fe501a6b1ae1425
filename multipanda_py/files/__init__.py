# SPDX-License-Identifier: Apache-2.0
"""Bounded reading of files."""
