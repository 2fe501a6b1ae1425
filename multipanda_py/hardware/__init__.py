# SPDX-License-Identifier: Apache-2.0
"""Hardware backends and their drivers; a backend is found by the name of its module."""
