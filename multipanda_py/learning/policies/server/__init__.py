# SPDX-License-Identifier: Apache-2.0
"""Programs that run in other Python environments than this package."""
