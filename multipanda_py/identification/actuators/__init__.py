# SPDX-License-Identifier: Apache-2.0
"""Identification and validation of elastic joints."""
