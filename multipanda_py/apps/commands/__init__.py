# SPDX-License-Identifier: Apache-2.0
"""Commands of ``multipanda``, one file each.

A command is a module with ``SUMMARY``, ``add_arguments(parser)`` and ``run(options)``, which
returns the exit code. Command and file have the same name, and :mod:`multipanda_py.apps.cli`
lists them.
"""
