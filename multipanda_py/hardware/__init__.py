# SPDX-License-Identifier: Apache-2.0
"""Backends of real arms with their drivers, and the mock backend."""
