# SPDX-License-Identifier: Apache-2.0
"""The cell file: what may stand in it, its rules, and what it describes."""
