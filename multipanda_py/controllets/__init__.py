# SPDX-License-Identifier: Apache-2.0
"""Built-in controllets, one per file.

``type: joint_impedance`` in a cell file selects ``JointImpedance`` in ``joint_impedance.py``.
"""
