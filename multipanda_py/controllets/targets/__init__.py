# SPDX-License-Identifier: Apache-2.0
"""Built-in channels: one declaration with its check a file."""
