# SPDX-License-Identifier: Apache-2.0
"""Folders and files of the repository."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CONFIG = ROOT / "config"
DUAL_SIM = CONFIG / "dual_sim.yaml"
"""Cell file of two simulated arms."""
BENCHMARKS = ROOT / "benchmarks"
BENCH_ARM = ROOT / "examples" / "bench_arm" / "bench_arm.urdf"
"""URDF of the example arm."""
