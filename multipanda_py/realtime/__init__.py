# SPDX-License-Identifier: Apache-2.0
"""The real-time side: one cycle, its process, its mailbox, its safety."""
