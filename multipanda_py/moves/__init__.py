# SPDX-License-Identifier: Apache-2.0
"""Motions of one arm or several to places, that touch nothing: path, timing, check."""
