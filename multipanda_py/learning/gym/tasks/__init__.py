# SPDX-License-Identifier: Apache-2.0
"""Tasks that come along, one file each."""
