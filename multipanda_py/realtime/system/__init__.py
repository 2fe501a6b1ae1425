# SPDX-License-Identifier: Apache-2.0
"""The computer: real-time treatment, child processes, locks, and what ``doctor`` asks of it."""
