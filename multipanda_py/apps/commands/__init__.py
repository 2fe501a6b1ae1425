# SPDX-License-Identifier: Apache-2.0
"""Commands of ``multipanda``.

A module of one command has ``SUMMARY``, ``add_arguments(parser)`` and ``run(options)``, which
returns the exit code. A module of several commands has a table ``COMMANDS`` of :class:`.Verb`, by
name. :mod:`multipanda_py.apps.cli` lists the commands and their modules.
"""
