# SPDX-License-Identifier: Apache-2.0
"""Commands of ``multipanda``.

A module of one command has ``SUMMARY``, ``add_arguments(parser)`` and ``run(options)``, which
returns the exit code. A module of several commands has ``COMMANDS``, a dictionary of
:class:`.Verb`.
"""
