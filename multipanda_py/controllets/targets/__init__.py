# SPDX-License-Identifier: Apache-2.0
"""Built-in target channels with their checks."""
