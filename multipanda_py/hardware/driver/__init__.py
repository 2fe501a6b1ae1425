# SPDX-License-Identifier: Apache-2.0
"""Processes that stand between the loop and a real arm: memory, watch, link, last bound."""
